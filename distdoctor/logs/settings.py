"""What NCCL says of itself with NCCL_DEBUG=INFO, and torch: versions, interfaces, transports, by who said it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from distdoctor.knowledge.settings import must_be_alike, setting_effect
from distdoctor.model.facts.logs import Who

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
"""Interfaces behind which there is only this host, or a network of its own."""
_VARIABLE = re.compile(r"(?P<name>NCCL_\w+) set by environment to (?P<value>\S+)")
SHOWN = 4
"""Values of one kind that are told."""
MOST = 4096
"""Speakers of one value that are remembered."""


class Settings:
    """What was said, by kind and value."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, set[str]]] = {}

    def take(self, who: Who, text: str) -> None:
        """A line, where it is one of them."""
        if "NCCL" not in text:
            return
        for kind, pattern in _SAID:
            found = pattern.search(text)
            if found is None:
                continue
            values = self._said.setdefault(kind, {})
            speakers = values.setdefault(found["value"].strip(), set()) if len(values) < MOST else set()
            if len(speakers) < MOST:
                speakers.add(f"rank {who.rank}" if who.rank is not None else who.host or "")

    def told(self) -> dict[str, str]:
        """Each kind with its values; where there are several, with who said which."""
        return {kind: "; ".join(_values(values)) for kind, values in self._said.items()}

    def compared(self) -> list[str]:
        """Return what of it may be why a job failed: versions or networks that differ, one that there is on one host
        only."""
        told, found = self.told(), []
        # torch tells the version alone, where NCCL adds that of CUDA (2.28.9+cuda13.0).
        if len({value.partition("+")[0] for value in self._said.get("NCCL version", ())}) > 1:
            found.append(f"settings: the ranks have different versions of NCCL: {told['NCCL version']}")
        networks = list(self._said.get("network", {}).values())
        if len(networks) > 1 and all(networks) and not any(a & b for a, b in combinations(networks, 2)):
            found.append(f"settings: the ranks' NCCL took different networks: {told['network']}")
        interfaces = self._said.get("interface", {})
        alone = [name for name in interfaces if _ALONE.fullmatch(name)]
        if alone and (len(interfaces) > len(alone) or not {*alone} <= {"lo"}):
            found.append(f"settings: NCCL uses {', '.join(alone)}; interfaces: {told['interface']}")
        unlike = list(self._unlike())
        if unlike:
            found.append(f"settings: the ranks' NCCL is set differently: {'; '.join(unlike)}")
        return found

    def _unlike(self) -> Iterator[str]:
        """The variables that must be alike and are not, among those who also say which network NCCL took: they are past
        the place where NCCL tells what is set."""
        everyone = set[str]().union(*self._said.get("network", {}).values())
        apart: dict[str, dict[str, str]] = {}
        for value, speakers in self._said.get("variable", {}).items():
            if (found := _VARIABLE.match(value)) is not None and must_be_alike(found["name"], nccl=True, gloo=False):
                apart.setdefault(found["name"], {}).update(dict.fromkeys(speakers, found["value"].rstrip(".")))
        for name, values in apart.items():
            of_ranks = {who.startswith("rank ") for who in {*everyone, *values}}  # a host's line may be a rank's, too
            if len({setting_effect(name, values.get(who), len(everyone)) for who in everyone}) < 2 or len(of_ranks) > 1:
                continue
            said: dict[str, set[str]] = {}
            for who in everyone:
                said.setdefault(values.get(who, "not set"), set()).add(who)
            yield f"{name}: {'; '.join(_values(dict(sorted(said.items()))))}"


def _values(values: dict[str, set[str]]) -> Iterator[str]:
    for value, speakers in list(values.items())[:SHOWN]:
        known = sorted(filter(None, speakers), key=lambda name: (len(name), name))
        more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        yield f"{value} ({', '.join(known[:SHOWN])}{more})" if known and len(values) > 1 else value
    if len(values) > SHOWN:
        yield f"and {len(values) - SHOWN} more"


# What ``ibstat`` or ``ibv_devinfo`` wrote on the hosts of a job: ports that are active on all of them but one.


MAX_PORT_BYTES = 1 << 20
PORT_HEAD = re.compile(rb"(?:[A-Za-z][\w.-]{0,63}: )?(?:CA '[^'\n]{1,64}'\s|hca_id:\s)")
"""How such a file begins (infiniband-diags' ibstat.c, rdma-core's devinfo.c), also as pdsh hands it on."""
ACTIVE = "active"
_LINE = re.compile(
    r"(?:(?P<host>[A-Za-z][\w.-]{0,63}): )?\s{0,40}(?:CA '(?P<ca>[^']{1,64})'|hca_id:\s{1,20}(?P<hca>\S{1,64})"
    r"|Port (?P<port>\d{1,3}):|port:\s{1,20}(?P<number>\d{1,3})"
    r"|State: (?P<state>\w{1,20})|state:\s{1,20}PORT_(?P<port_state>\w{1,20}) \(\d\))\s*"
)


class Ports:
    """The state of each port of each host."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, str]] = {}
        """Of each port, ``mlx5_0 port 1``, its state on each host."""

    def take(self, data: bytes, host: str | None) -> None:
        """What a file holds; ``host``, whose it is where its lines do not say so. Of nobody's it says nothing here."""
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
        """A line for each host with a port that is active on all others, and not there."""
        lines = []
        for port, states in self._states.items():
            without = [host for host, state in states.items() if state != ACTIVE]
            if len(without) == 1 < len(states):
                lines.append(f"ports: {without[0]}: {port} is {states[without[0]]}, on the other hosts {ACTIVE}")
        return lines
