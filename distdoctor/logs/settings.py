"""NCCL's own report with NCCL_DEBUG=INFO (versions, interfaces, transports) by speaker, and port states from ibstat."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from distdoctor.knowledge.settings import must_be_alike, setting_effect
from distdoctor.model.facts.logs import LineOrigin

LITERALS = (
    "NCCL version ",
    "NCCL INFO Using network ",
    "NCCL INFO NET/IB : Using ",
    "NCCL INFO NET/Socket : Using ",
    "NCCL INFO Bootstrap : Using ",
    "NCCL INFO cudaDriverVersion ",
    " set by environment to ",
    "NCCL_IB_HCA set ",
    " via P2P/",
    " via SHM/",
    " via NET/",
)
_SAID = (
    ("NCCL version", re.compile(r"NCCL version (?P<value>\d[\w.+-]{1,40})")),
    ("network", re.compile(r"NCCL INFO Using network (?P<value>[\w /.-]{1,40})")),
    ("InfiniBand", re.compile(r"NCCL INFO NET/IB : Using (?P<value>[^;]{1,120})")),
    ("interface", re.compile(r"NCCL INFO (?:NET/Socket|Bootstrap) : Using (?:\[0\])?(?P<value>[\w.@-]{1,20}):")),
    ("CUDA driver", re.compile(r"NCCL INFO cudaDriverVersion (?P<value>\d{1,8})")),
    ("variable", re.compile(r"(?P<value>NCCL_\w{1,40} set(?: by environment)? to \S{1,60})")),
    (
        "transport",
        re.compile(r" via (?P<value>(?:P2P|SHM|NET)/[\w/.()-]{1,40}?)(?:/\d{1,3})?(?:/(?:Shared|comm)\S*)?(?:\s|$)"),
    ),
)
_ALONE = re.compile(r"(?:lo|docker\d*|br-\w+|virbr\d*|veth\w*|cni\d*|flannel\S*|tailscale\d*|tun\d*)")
"""Interfaces that reach only this host, or a private network."""
_VARIABLE = re.compile(r"(?P<name>NCCL_\w+) set by environment to (?P<value>\S+)")
SHOWN = 4
"""Values of one kind that are printed."""
MOST = 4096
"""Speakers of one value that are kept."""


class Settings:
    """Reported values by kind."""

    def __init__(self) -> None:
        self._speakers: dict[str, dict[str, set[str]]] = {}

    def take(self, who: LineOrigin, text: str) -> None:
        """Take a line, if NCCL reports a setting in it."""
        if "NCCL" not in text:
            return
        for kind, pattern in _SAID:
            found = pattern.search(text)
            if found is None:
                continue
            values = self._speakers.setdefault(kind, {})
            speakers = values.setdefault(found["value"].strip(), set()) if len(values) < MOST else set()
            if len(speakers) < MOST:
                speakers.add(f"rank {who.rank}" if who.rank is not None else who.host or "")

    def values_by_kind(self) -> dict[str, str]:
        """Return the values of each kind; different values come with their speakers."""
        return {kind: "; ".join(_values(values)) for kind, values in self._speakers.items()}

    def compared(self) -> list[str]:
        """Return differences that can make a job fail: versions or networks that differ, or one that only one host
        has."""
        shown, found = self.values_by_kind(), []
        # torch prints the version alone, NCCL adds that of CUDA (2.28.9+cuda13.0).
        if len({value.partition("+")[0] for value in self._speakers.get("NCCL version", ())}) > 1:
            found.append(f"settings: the ranks have different versions of NCCL: {shown['NCCL version']}")
        networks = list(self._speakers.get("network", {}).values())
        if len(networks) > 1 and all(networks) and not any(a & b for a, b in combinations(networks, 2)):
            found.append(f"settings: the ranks' NCCL took different networks: {shown['network']}")
        interfaces = self._speakers.get("interface", {})
        alone = [name for name in interfaces if _ALONE.fullmatch(name)]
        if alone and (len(interfaces) > len(alone) or not {*alone} <= {"lo"}):
            found.append(f"settings: NCCL uses {', '.join(alone)}; interfaces: {shown['interface']}")
        unlike = list(self._unlike())
        if unlike:
            found.append(f"settings: the ranks' NCCL is set differently: {'; '.join(unlike)}")
        return found

    def _unlike(self) -> Iterator[str]:
        """Yield the variables that must agree and do not, among speakers that also report their network.

        Such speakers are past the place where NCCL lists its settings.
        """
        everyone = set[str]().union(*self._speakers.get("network", {}).values())
        apart: dict[str, dict[str, str]] = {}
        for value, speakers in self._speakers.get("variable", {}).items():
            if (found := _VARIABLE.match(value)) is not None and must_be_alike(found["name"], nccl=True, gloo=False):
                apart.setdefault(found["name"], {}).update(dict.fromkeys(speakers, found["value"].rstrip(".")))
        for name, values in apart.items():
            of_ranks = {who.startswith("rank ") for who in {*everyone, *values}}  # a speaker may be both
            if len({setting_effect(name, values.get(who), len(everyone)) for who in everyone}) < 2 or len(of_ranks) > 1:
                continue
            by_value: dict[str, set[str]] = {}
            for who in everyone:
                by_value.setdefault(values.get(who, "not set"), set()).add(who)
            yield f"{name}: {'; '.join(_values(dict(sorted(by_value.items()))))}"


def _values(values: dict[str, set[str]]) -> Iterator[str]:
    for value, speakers in list(values.items())[:SHOWN]:
        known = sorted(filter(None, speakers), key=lambda name: (len(name), name))
        more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        yield f"{value} ({', '.join(known[:SHOWN])}{more})" if known and len(values) > 1 else value
    if len(values) > SHOWN:
        yield f"and {len(values) - SHOWN} more"


# States of RDMA ports, as ``ibstat`` or ``ibv_devinfo`` reported them: ports that are active on all hosts but one.


MAX_PORT_BYTES = 1 << 20
PORT_HEAD = re.compile(rb"(?:[A-Za-z][\w.-]{0,63}: )?(?:CA '[^'\n]{1,64}'\s|hca_id:\s)")
"""Beginning of such a file (infiniband-diags' ibstat.c, rdma-core's devinfo.c), also as pdsh passes it on."""
ACTIVE = "active"
_LINE = re.compile(
    r"(?:(?P<host>[A-Za-z][\w.-]{0,63}): )?\s{0,40}(?:CA '(?P<ca>[^']{1,64})'|hca_id:\s{1,20}(?P<hca>\S{1,64})"
    r"|Port (?P<port>\d{1,3}):|port:\s{1,20}(?P<number>\d{1,3})"
    r"|State: (?P<state>\w{1,20})|state:\s{1,20}PORT_(?P<port_state>\w{1,20}) \(\d\))\s*"
)


class Ports:
    """State of each port of each host."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, str]] = {}
        """By port (``mlx5_0 port 1``), its state on each host."""

    def take(self, data: bytes, host: str | None) -> None:
        """Take the content of a file.

        ``host`` is used where the lines name none. Without any host the file is ignored.
        """
        at: dict[str, list[str]] = {}
        for line in data.decode(errors="replace").splitlines():
            found = _LINE.fullmatch(line)
            name = (found["host"] or host) if found else None
            if found is None or name is None:
                continue
            if adapter := found["ca"] or found["hca"]:
                at[name] = [adapter, "1"]
            elif name in at and (port := found["port"] or found["number"]):
                at[name][1] = port
            elif name in at and (state := found["state"] or found["port_state"]):
                self._states.setdefault(" port ".join(at[name]), {}).setdefault(name, state.lower())

    def compared(self) -> list[str]:
        """Return a line per host about a port that is inactive there and active on all other hosts."""
        lines = []
        for port, states in self._states.items():
            without = [host for host, state in states.items() if state != ACTIVE]
            if len(without) == 1 < len(states):
                lines.append(f"ports: {without[0]}: {port} is {states[without[0]]}, on the other hosts {ACTIVE}")
        return lines
