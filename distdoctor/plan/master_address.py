"""Address, port and rendezvous kind of node 0, in the order in which torchrun takes them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from importlib.util import find_spec

from distdoctor.model.addresses import is_ipv6, parse_address
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import (
    INIT_METHOD,
    MASTER_ADDR,
    MASTER_PORT,
    NODE_RANK,
    RDZV_BACKEND,
    RDZV_CONF,
    RDZV_ENDPOINT,
    RDZV_ID,
    STANDALONE,
)
from distdoctor.model.plan import RDZV_BACKENDS
from distdoctor.plan.launchers.base import Launched
from distdoctor.plan.syntax import address_problem, split_endpoint, whole_number
from distdoctor.plan.values import Flags, Values

DEFAULT_C10D_PORT = 29400
_OWN_PLACE_SINCE = (2, 13)
_OF_RENDEZVOUS = (MASTER_ADDR, MASTER_PORT, RDZV_ENDPOINT, RDZV_ID, NODE_RANK)
_NUMBERS = (MASTER_PORT, NODE_RANK)
_TRUE, _FALSE = ("1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")


def read_master(values: Values, *, alone: bool, pet: bool = True) -> tuple[str | None, int | None]:
    """Return the master's address and port. Raise UsageError for impossible ones.

    ``alone``: no other node has to know the port, so that it may be 0 for any. ``pet``: PET_* count; variables of
    torchrun's ranks count later.
    """
    values = replace(values, flags=_with_init_method(values.flags))
    flags, lowest = values.flags, 0 if alone and not (pet and _passed_to_ranks(values)) else 1
    endpoint, source = values.given(RDZV_ENDPOINT, values.flags.rdzv_endpoint, pet=pet)
    if pet and meets_in_file(values):
        return None, None
    if endpoint:  # it wins, whatever else names the master (torch/distributed/run.py, get_rdzv_endpoint)
        return _endpoint(values, source, endpoint, lowest)
    if pet and alone and rdzv_backend(values) == "c10d":
        values.sources["master_port"] = "default of c10d"
        return None, DEFAULT_C10D_PORT
    if flags.master_port is not None and not lowest <= flags.master_port <= 65535:
        raise UsageError(f"{MASTER_PORT.flag} {flags.master_port} is not a port that all ranks know: 1 to 65535")
    # One node alone needs nobody at MASTER_ADDR: torchrun takes its own host and a free port.
    address, source = values.given(MASTER_ADDR, values.flags.master_addr, pet=pet, plain=not (pet and alone))
    if address is not None:
        if pet and not alone and rdzv_backend(values) == "c10d":
            instead = f"name node 0 with {RDZV_ENDPOINT.flag} {address}:PORT, or take the static rendezvous"
            if flags.rdzv_backend:
                raise UsageError(f"torchrun reads no {source} with {RDZV_BACKEND.flag} c10d: {instead}")
            # A variable may be left over: only the other nodes' values can show it.
            values.bad(RDZV_BACKEND.pet, "c10d", f"makes torchrun read no {source}: {instead}")
        values.sources["master_addr"] = source
        if source not in MASTER_ADDR.variables:
            address = _as_torchrun(values, source, address)
        address = values.address(source, address)
    return address, _master_port(values, lowest, pet=pet, named_by_flags=source not in MASTER_ADDR.variables)


def _master_port(values: Values, lowest: int, *, pet: bool, named_by_flags: bool) -> int | None:
    """Return the port of the master, and note its source."""
    port = values.flags.master_port
    if port is not None:
        values.sources["master_port"] = MASTER_PORT.flag
    else:
        # torchrun reads no MASTER_PORT: if its own flags name the master, the variable is left over from the shell.
        names = (*([MASTER_PORT.pet] if pet else []), *(() if pet and named_by_flags else MASTER_PORT.variables))
        name = next((name for name in names if name in values.env), None)
        port = values.number("master_port", name, low=lowest, high=65535) if name is not None else None
    if port == 0:
        values.sources["master_port"] = "any free port"
    return port


def takes_own_place(values: Values, *, alone: bool) -> bool:
    """Return whether torchrun ignores a single node's rank and MASTER_ADDR and takes a free port of its own: without an
    endpoint and a port (torch/distributed/run.py, ``run``, since 2.13)."""
    rendezvous_given = (
        values.given(RDZV_ENDPOINT, values.flags.rdzv_endpoint)[0]
        or values.given(MASTER_PORT, values.flags.master_port)[0] is not None
        or values.flags.init_method
    )
    backend = values.env.get(RDZV_BACKEND.pet) if values.flags.rdzv_backend is None else values.flags.rdzv_backend
    if not alone or rendezvous_given or backend not in (None, "static"):
        return False
    from importlib.metadata import PackageNotFoundError, version  # here: start-up is light

    try:
        major, minor, *_ = map(int, re.findall(r"\d+", version("torch")))
    except (PackageNotFoundError, ValueError):
        return False
    return (major, minor) >= _OWN_PLACE_SINCE


def in_own_place(values: Values) -> Values:
    """Return ``values`` without all settings of a rendezvous with others, which torchrun sets itself for one node alone
    (torch/distributed/run.py, ``run``), except texts that its parser does not take for a number."""
    ours = Flags(rdzv_backend="c10d")
    kept = {setting.name: getattr(ours, setting.name) for setting in (*_OF_RENDEZVOUS, RDZV_BACKEND)}
    dropped = {
        setting.pet
        for setting in _OF_RENDEZVOUS
        if setting not in _NUMBERS or whole_number(values.env.get(setting.pet, "")) is not None
    }
    return replace(
        values,
        flags=replace(values.flags, **kept),
        env={name: text for name, text in values.env.items() if name not in dropped},
    )


def _passed_to_ranks(values: Values) -> bool:
    """Return whether torchrun passes its ranks the port as it was given, as the static rendezvous does: with 0 they
    wait until their timeout (torch 2.13)."""
    alone = values.flags.standalone or values.env.get(STANDALONE.pet) == "1"
    return values.flags.init_method is None and not alone and rdzv_backend(values) == "static"


def master_from_launcher(
    values: Values, launched: Launched, address: str | None, port: int | None
) -> tuple[str | None, int | None]:
    """Return address and port with the launcher's values in place of missing ones. Raise UsageError if they stay
    unknown."""
    named = (*MASTER_ADDR.all_variables, *RDZV_ENDPOINT.all_variables)
    if address is None and not any(problem.variable in named for problem in values.problems):
        derived = launched.found.get("master_addr")
        if derived is not None:
            address, values.sources["master_addr"] = str(derived.value), derived.source
        elif launched.rank0_unknown:
            raise UsageError(launched.rank0_unknown)
    if port is None and (derived := launched.found.get("master_port")):
        port, values.sources["master_port"] = int(derived.value), derived.source
    return address, port


def rdzv_backend(values: Values) -> str:
    """Return the kind of rendezvous. Raise UsageError for a flag that names none."""
    name, source = values.given(RDZV_BACKEND, values.flags.rdzv_backend)
    if name is None:
        return "static"
    values.sources["rdzv_backend"] = source
    if name not in RDZV_BACKENDS and name not in _others():
        why = f"is no rendezvous backend that torchrun knows here ({', '.join(RDZV_BACKENDS)})"
        if all(problem.variable != source for problem in values.problems):
            values.bad(source, name, why)
    return name


def is_available(backend: str) -> bool:
    """Return whether torchrun has this rendezvous backend here: the etcd ones need the package python-etcd."""
    if backend in ("static", "c10d"):
        return True
    return find_spec("etcd") is not None if backend in RDZV_BACKENDS else backend in _others()


def _others() -> Collection[str]:
    """Return the installed backends (torch/distributed/elastic/rendezvous/registry.py reads this group of entry
    points)."""
    from importlib.metadata import entry_points  # here: start-up is light

    return entry_points(group="torchrun.handlers").names


def is_host(values: Values) -> bool | None:
    """Return ``is_host`` of the rendezvous settings (RendezvousParameters.get_as_bool); None if unset."""
    value, source = _setting(values, "is_host")
    if value is None:
        return None
    values.sources["is_host"] = source
    return True if value in _TRUE else False if value in _FALSE else None


def join_timeout(values: Values) -> int | None:
    """Return ``join_timeout`` of the c10d rendezvous settings in seconds; None if unset or no number."""
    seconds = whole_number(_setting(values, "join_timeout")[0] or "") if rdzv_backend(values) == "c10d" else None
    return seconds if seconds is not None and 0 < seconds < 10**9 else None


def meets_in_file(values: Values) -> bool:
    """Return whether torchrun's agents join in a file, whose path is the endpoint (c10d_rendezvous_backend.py,
    create_backend)."""
    return rdzv_backend(values) == "c10d" and _setting(values, "store_type")[0] == "file"


def _setting(values: Values, name: str) -> tuple[str | None, str]:
    """Return the rendezvous setting ``name`` in small letters, and the flag or variable that has it."""
    text, source = values.given(RDZV_CONF, values.flags.rdzv_conf)
    parts = (part.partition("=") for part in (text or "").split(","))
    return next((value.strip().lower() for key, _, value in parts if key.strip() == name), None), source


def _as_torchrun(values: Values, source: str, text: str) -> str:
    """Return the address and port as torchrun splits them (rendezvous/utils.py, parse_rendezvous_endpoint)."""
    text = text.lstrip()
    if text.startswith("[") and text.endswith("]") and is_ipv6(text[1:-1]):
        text = text[1:-1]  # as run.py's help asks for; without brackets it works as well
    _refuse_zone(values, source, text)
    return text


def _refuse_zone(values: Values, source: str, address: str) -> None:
    if "%" in address and is_ipv6(address) and values.flags.init_method is None:
        values.bad(source, address, "has a zone, which torchrun takes for no address: name one of another scope")


def _endpoint(values: Values, source: str, text: str, lowest: int) -> tuple[str | None, int | None]:
    """Return the address and the port of a rendezvous endpoint; c10d has a default port."""
    text = text.strip()  # as torchrun does, static or not (parse_rendezvous_endpoint)
    address, port = split_endpoint(text)
    before, _, behind = text.rpartition(":")
    with_port = is_ipv6(before) and re.fullmatch(r"\d{4,5}", behind) is not None  # what torchrun takes for the port
    if with_port:
        address, port = before, int(behind)
    values.sources["master_addr"] = values.sources["master_port"] = source
    _refuse_zone(values, source, address)
    if re.search(r":0*\d{6,}$", text):
        values.bad(source, text, "has a port of more than five digits")
    named = re.fullmatch(r"([^:/\[\]]+):([^:/\[\]]*)", text)
    if named and not named[2].isdecimal() and address_problem(named[1])[0] is None:
        # "The port number of the rendezvous endpoint ... must be an integer"
        values.bad(source, text, "has no port behind its colon (HOST:PORT)")
        return values.address(source, named[1]), None
    if parse_address(address) is not None and ":" in address and not (with_port or text.startswith("[")):
        # rendezvous/utils.py takes the text behind the last colon for the port.
        values.bad(source, text, f"is an IPv6 address without brackets ([{address}]:PORT)")
        return None, None
    if port is not None and not lowest <= port <= 65535:
        values.bad(source, text, f"{port} is not a port that all ranks know: 1 to 65535")
        port = None
    elif port is None and rdzv_backend(values) == "c10d":
        port, values.sources["master_port"] = DEFAULT_C10D_PORT, "default of c10d"
    elif port is None and rdzv_backend(values) == "static" and address_problem(address)[0] is None:
        # static_tcp_rendezvous.py: "Port is absent in endpoint"
        values.bad(source, text, "names no port, and the static rendezvous needs one (HOST:PORT)")
    if port == 0:
        values.sources["master_port"] = "any free port"
    return values.address(source, address), port


def _with_init_method(flags: Flags) -> Flags:
    """Return the flags, with the master that a ``tcp://`` init method names. Raise UsageError for one that is none."""
    method = flags.init_method
    if method is None or method.startswith("env://"):
        return flags
    if method.startswith("file:///") and len(method) > len("file:///"):
        return flags
    tcp = re.fullmatch(r"tcp://(\[[^\]]+\]|[^:/\[\]]+):(\d+)(?:[/?].*)?", method)
    if tcp is None:
        bare = re.fullmatch(r"tcp://([^\[\]/?]+):(\d+)((?:[/?].*)?)", method)
        ipv6 = bare is not None and parse_address(bare[1]) is not None
        more = f": an IPv6 address stands in brackets, tcp://[{bare[1]}]:{bare[2]}{bare[3]}" if bare and ipv6 else ""
        raise UsageError(f"{INIT_METHOD.flag} {method!r} is not env://, tcp://HOST:PORT or file:///PATH{more}")
    if flags.master_addr is not None or flags.rdzv_endpoint is not None:
        others = f"{MASTER_ADDR.flag} and {RDZV_ENDPOINT.flag}"
        raise UsageError(f"{INIT_METHOD.flag} tcp:// names the master itself: leave {others} out")
    return replace(flags, master_addr=tcp[1].strip("[]"), master_port=int(tcp[2]))
