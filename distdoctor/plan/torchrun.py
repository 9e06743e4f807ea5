"""torchrun's options, as its parser reads them (torch/distributed/run.py, get_args_parser, 2.2 to 2.13).

It is argparse: ``-`` and ``_`` are alike in the names that have both, a long name may be shortened as far as it is
unique, and the words behind the script belong to that.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from distdoctor.model.launch_settings import (
    LOCAL_ADDR,
    MASTER_ADDR,
    MASTER_PORT,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RDZV_BACKEND,
    RDZV_CONF,
    RDZV_ENDPOINT,
    RDZV_ID,
    STANDALONE,
    Setting,
)
from distdoctor.plan.master_address import is_available, meets_in_file
from distdoctor.plan.values import Values

_SWITCH_FLAGS = (
    "--module",
    "--no-python",
    "--run-path",
    STANDALONE.flag,
    "--virtual-local-rank",
    "--help",
    "--use-env",
)
_OF_ITS_RANKS = (
    "--max-restarts", "--monitor-interval", "--start-method", "--event-log-handler", "--role", "--log-dir",
    "--redirects", "--tee", "--local-ranks-filter", "--duplicate-stdout-filters", "--duplicate-stderr-filters",
    "--logs-specs", "--numa-binding", "--signals-to-handle", "--shutdown-timeout",
)  # fmt: skip
"""Options with a value for the ranks that torchrun has started: the rendezvous does not depend on them."""
_VALUED = (
    NNODES.flag, NPROC_PER_NODE.flag, RDZV_BACKEND.flag, RDZV_ENDPOINT.flag, RDZV_ID.flag, RDZV_CONF.flag,
    NODE_RANK.flag, MASTER_ADDR.flag, MASTER_PORT.flag, LOCAL_ADDR.flag, *_OF_ITS_RANKS,
)  # fmt: skip
_READ_SETTINGS = ("is_host", "join_timeout", "store_type")
"""Rendezvous settings on which a check depends."""
_SHORT = {"m": "--module", "h": "--help", "r": "--redirects", "t": "--tee"}
_DEVICES = ("gpu", "cpu", "auto")
_ALL = (*_SWITCH_FLAGS, *_VALUED)


def torchrun_options(words: Sequence[str]) -> dict[str, str]:
    """Return the options by their names with ``-``, with an empty text for a switch. The words from the script on are
    left out."""
    given: dict[str, str] = {}
    left = [*words]
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        if not word.startswith("--"):
            _short(word[1:], left, given)
            continue
        name, equals, value = word.partition("=")
        known = _known(name.replace("_", "-"))
        if known is None:
            continue
        if known in _VALUED and not equals:
            value = left.pop(0) if left else ""
        given[known] = value
    return given


def without_rank_options(words: Sequence[str]) -> list[str]:
    """Return the words of a check without torchrun's options on which none of its stages depends."""
    kept: list[str] = []
    left = [*words]
    while left:
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        if name not in _OF_ITS_RANKS:
            kept.append(word)
        elif not equals:
            del left[:1]
    return kept


def torchrun_flags(given: Mapping[str, str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the flags of a check with the plan of an agent with these options, in this environment.

    torchrun's defaults are spelled out: a check has others. Raise ValueError for an unknown rendezvous.
    """

    def value(setting: Setting) -> str:
        return given.get(setting.flag) or env.get(setting.pet) or ""

    flags: list[str] = []

    def add(setting: Setting, text: str) -> None:
        flags.append(f"{setting.flag}={text}")

    nodes = value(NNODES) or "1"
    ranks = value(NPROC_PER_NODE) or "1"
    add(NNODES, nodes)
    add(NPROC_PER_NODE, ranks if ranks.isdecimal() or ranks in _DEVICES else "auto")
    if STANDALONE.flag in given:
        return (*flags, STANDALONE.flag)
    backend = value(RDZV_BACKEND) or "static"
    if backend not in ("static", "c10d"):
        raise ValueError(f"the rendezvous {backend} is not one that can be checked (static, c10d)")
    for setting in (RDZV_BACKEND, RDZV_ENDPOINT, RDZV_ID, LOCAL_ADDR, MASTER_PORT):
        if given.get(setting.flag):
            add(setting, given[setting.flag])
    if any(name in given.get(RDZV_CONF.flag, "") for name in _READ_SETTINGS):
        add(RDZV_CONF, given[RDZV_CONF.flag])
    alone = nodes.rpartition(":")[2] == "1"
    if backend == "static" and not value(RDZV_ENDPOINT) and (given.get(MASTER_ADDR.flag) or not alone):
        add(MASTER_ADDR, value(MASTER_ADDR) or "127.0.0.1")
    if backend == "c10d" and not alone and not value(RDZV_ENDPOINT) and "store_type" not in value(RDZV_CONF):
        add(RDZV_ENDPOINT, "localhost:29400")  # c10d_rendezvous_backend.py and utils.py, parse_rendezvous_endpoint()
    if backend == "static" and not alone:
        add(NODE_RANK, value(NODE_RANK) or "0")
    return tuple(flags)


def _known(name: str) -> str | None:
    matching = [option for option in _ALL if option.startswith(name)]
    return name if name in _ALL else matching[0] if len(matching) == 1 else None


def _short(letters: str, left: list[str], given: dict[str, str]) -> None:
    """Take letters behind one dash: those with a value take the rest, else the next word."""
    while letters:
        name, letters = _SHORT.get(letters[0]), letters[1:]
        if name in _VALUED:
            given[name] = letters.removeprefix("=") or (left.pop(0) if left else "")
            return
        if name is not None:
            given[name] = ""


# Settings that end torchrun's agent before it joins another, although no other part of the plan depends on them.
#
# torch/distributed/run.py takes each flag from a variable, too (argparse_util.py: ``PET_`` and the name of the flag),
# and turns the text of all of them into numbers and switches, also of what is empty; elastic/rendezvous (utils.py,
# api.py, dynamic_rendezvous.py, c10d_rendezvous_backend.py) does so with the settings in --rdzv-conf;
# elastic/multiprocessing creates a folder that is called like the rendezvous id. Each was tried with torch 2.13.


_SWITCH_VARIABLES = (STANDALONE.pet, "PET_MODULE", "PET_NO_PYTHON", "PET_RUN_PATH", "PET_VIRTUAL_LOCAL_RANK")
_FILE_NAME_BYTES = 255 - len("_12345678")
"""Limit of the rendezvous id: tempfile.mkdtemp() appends these characters to it in the name of a folder."""
_NO_FOLDERS = ("/proc/", "/sys/")
"""Folders in which only the kernel creates folders, although root may write to existing ones by their modes."""
_STREAMS = re.compile(r"[0123]|(\d:[0123],)*\d:[0123]")
"""Pattern of elastic/multiprocessing/api.py, Std.from_str()."""
_HANDLERS = ("null", "console", "dynamic_rendezvous")
"""Names in elastic/events/handlers.py."""
_TIMEOUTS = ("join_timeout", "last_call_timeout", "close_timeout", "heartbeat_timeout", "read_timeout")
_ALIVE = ("keep_alive_interval", "keep_alive_max_attempt")
"""Settings with which, at 0, the nodes take each other for gone as they join, and wait for ever."""
_ARGUMENTS = ("backend", "endpoint", "run_id", "min_nodes", "max_nodes", "local_addr")
"""Arguments that torchrun passes to RendezvousParameters() beside the settings, which then have it twice."""
_READ_BYTES = 1 << 20
"""Bytes read of a file of a rendezvous: new values are appended, the first names stand at its start."""
_FALSE = ("0", "false", "f", "no", "n")
_TRUTHS = ("1", "true", "t", "yes", "y", *_FALSE)


def note_refused(values: Values, nnodes: int, backend: str, *, own_place: bool = False) -> None:
    """Note what torchrun would refuse, or what keeps its agents from joining each other. Raise UsageError for a flag.

    ``own_place``: the only node joins itself, by the rendezvous ``backend``.
    """
    if values.flags.init_method is not None:
        return  # a script that starts its ranks itself
    for name, accepts, why in (
        *(
            (setting.pet, None, "is empty, which torchrun takes for the value")
            for setting in _never_empty(values, backend)
        ),
        (MASTER_PORT.pet, _whole, "is not a whole number, which torchrun wants of it with any rendezvous"),
        (NODE_RANK.pet, _whole, "is not a whole number, which torchrun wants of it with any rendezvous"),
        ("PET_MAX_RESTARTS", _count, "is not a number of restarts (0 or more)"),
        ("PET_SHUTDOWN_TIMEOUT", _count, "is not a whole number of seconds"),
        ("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _whole, "is not a whole number of seconds"),
        ("PET_MONITOR_INTERVAL", _interval, "is not a number of seconds above 0"),
        *((name, _whole, "is not 0 or 1, which torchrun wants of a switch") for name in _SWITCH_VARIABLES),
        ("PET_REDIRECTS", _STREAMS.fullmatch, "does not say which streams (0 to 3, or 0:1,1:2 for some ranks)"),
        ("PET_TEE", _STREAMS.fullmatch, "does not say which streams (0 to 3, or 0:1,1:2 for some ranks)"),
        ("PET_LOCAL_RANKS_FILTER", _ranks, "is not a list of local ranks (0,1)"),
        (
            "PET_EVENT_LOG_HANDLER",
            _HANDLERS.__contains__,
            f"is no handler that torchrun knows ({', '.join(_HANDLERS)})",
        ),
        ("PET_SIGNALS_TO_HANDLE", _can_be_handled, "names a signal that no process can handle"),
        ("PET_LOG_DIR", _can_be_made, "is no folder, and none can be made there"),
        ("PYTHON_EXEC", shutil.which, "is no program that is found here, and torchrun starts the ranks with it"),
    ):
        text = values.env.get(name)
        known = any(problem.variable == name for problem in values.problems)
        if text is not None and not known and not (text if accepts is None else accepts(text)):
            values.problem(name, why, unset=name != NNODES.pet)
    timer = values.env.get("TORCHELASTIC_TIMER_FILE")
    if timer and values.env.get("TORCHELASTIC_ENABLE_FILE_TIMER") == "1" and not os.path.isdir(os.path.dirname(timer)):
        values.problem("TORCHELASTIC_TIMER_FILE", "is in a folder that is not there", unset=True)
    _log_level(values)
    _rendezvous_id(values, nnodes)
    if meets_in_file(values):
        _file(values)
    text, source = values.given(RDZV_CONF, values.flags.rdzv_conf)
    for part, why in _refused_settings(text or "", backend, own_place):
        values.bad(source, part, why)
    if backend in ("etcd", "etcd-v2") and not is_available(backend):
        _, source = values.given(RDZV_BACKEND, values.flags.rdzv_backend)
        values.bad(source, backend, "is a rendezvous for which the package python-etcd is missing here")


def _never_empty(values: Values, backend: str) -> Iterator[Setting]:
    """Yield the settings without a flag for which torchrun has no use of an empty text."""
    static = backend == "static" and not values.given(RDZV_ENDPOINT, values.flags.rdzv_endpoint)[0]
    settings = (NNODES, NPROC_PER_NODE, RDZV_BACKEND, *((MASTER_ADDR,) if static else ()))
    return (setting for setting in settings if getattr(values.flags, setting.name) is None)


def _file(values: Values) -> None:
    """Note a used file of a file rendezvous. A named one is kept, and a run that ended well is closed in it."""
    path, source = values.given(RDZV_ENDPOINT, values.flags.rdzv_endpoint)
    if not path:
        return  # torchrun creates one
    run = (values.env.get(RDZV_ID.pet) if values.flags.rdzv_id is None else values.flags.rdzv_id) or "none"
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(path if os.path.lexists(path) else folder, os.W_OK) or os.path.isdir(path):
        values.bad(source, path, "is no file that can be written, in which torchrun's agents would meet")
        return
    with suppress(OSError), open(path, "rb") as file:
        key = f"/torch.rendezvous.{run}".encode(errors="surrogateescape")
        if struct.pack("=I", len(key)) + key in file.read(_READ_BYTES):  # as FileStore.cpp writes it
            why = f"has an earlier run {run} in it, which torchrun takes for this one: remove it, or give another id"
            values.bad(source, path, why)


def _log_level(values: Values) -> None:
    """Note a bad LOGLEVEL: elastic/utils/logging.py passes it to Logger.setLevel(), which knows names in capitals
    only."""
    text = values.env.get("LOGLEVEL")
    if text is None:
        return
    import logging  # slow to load, and few have a LOGLEVEL

    if isinstance(logging.getLevelName(text), int):
        return
    meant = text.strip().upper()
    if not isinstance(logging.getLevelName(meant), int):
        meant = ""
    why = "is no level that torchrun knows (DEBUG, INFO, WARNING, ...)"
    values.problem("LOGLEVEL", why, meant or None, unset=not meant)


def _rendezvous_id(values: Values, nnodes: int) -> None:
    text = values.env.get(RDZV_ID.pet) if values.flags.rdzv_id is None else values.flags.rdzv_id
    source = RDZV_ID.pet if values.flags.rdzv_id is None else RDZV_ID.flag
    if text == "" and nnodes > 1:
        values.bad(source, text, "is empty: each node's torchrun makes an id up, and they never meet", unset=True)
    elif text and values.env.get("PET_LOG_DIR") != "/dev/null":
        if "/" in text and not text.startswith(".") and not os.path.isdir(os.path.dirname(text)):
            values.bad(source, text, "has a / in it, and torchrun makes a folder of that name")
        elif len(text.encode(errors="surrogateescape")) > _FILE_NAME_BYTES:
            values.bad(
                source, text, f"is longer than {_FILE_NAME_BYTES} bytes, and torchrun makes a folder of that name"
            )


def _refused_settings(text: str, backend: str, own_place: bool) -> Iterator[tuple[str, str]]:
    """Yield (part, why) of the settings in --rdzv-conf. An unknown setting may be a secret, and is not repeated."""
    settings: dict[str, str] = {}
    for number, part in enumerate(text.split(",") if text.strip() else (), start=1):
        key, _, value = (word.strip() for word in part.partition("="))
        if not key or not value:
            yield key if key in ("timeout", "is_host", *_TIMEOUTS, *_ALIVE) else f"part {number}", "is not KEY=VALUE"
        settings[key] = value
    for key, value in settings.items():
        shown = f"{key}={value}"
        if not value:
            continue
        if key in _ARGUMENTS:
            yield key, "is a setting that torchrun takes from a flag of its own, and refuses here"
        elif key == "timeout" and backend == "static" and not _whole(value):
            yield shown, "is not a whole number of seconds"
        elif backend != "c10d":
            continue
        elif key in (*_TIMEOUTS, *_ALIVE) and (not _whole(value) or int(value) <= 0):
            yield shown, "is not a whole number above 0"
        elif key == "is_host" and value.lower() not in _TRUTHS:
            yield shown, "is neither true nor false"
        elif key == "is_host" and own_place and value.lower() in _FALSE:
            yield shown, "keeps the only node from hosting the store, and it waits for another one to do so"
        elif key == "store_type" and value.lower() not in ("tcp", "file"):
            yield shown, "is no kind of store for a rendezvous (tcp or file)"


def _accepted(convert: Callable[[str], object]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            convert(text)
        except ValueError:
            return False
        return True

    return accepts


_whole, _seconds = _accepted(int), _accepted(float)


def _interval(text: str) -> bool:
    return _seconds(text) and float(text) > 0


def _count(text: str) -> bool:
    return _whole(text) and int(text) >= 0


def _can_be_handled(text: str) -> bool:
    return not {"SIGKILL", "SIGSTOP"} & {name.strip() for name in text.split(",")}


def _can_be_made(text: str) -> bool:
    """Return whether the folder exists and is writable, or can be created (empty: a temporary one)."""
    path = os.path.realpath(text)
    if f"{path}/".startswith(_NO_FOLDERS):
        return False
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return text == "/dev/null" or (os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK))


def _ranks(text: str) -> bool:
    return not text or all(map(_whole, text.split(",")))
