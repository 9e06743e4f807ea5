"""What ``ibstat`` or ``ibv_devinfo`` wrote on the hosts of a job: ports that are active on all of them but one."""

from __future__ import annotations

import re

MAX_BYTES = 1 << 20
HEAD = re.compile(rb"(?:[A-Za-z][\w.-]{0,63}: )?(?:CA '[^'\n]{1,64}'\s|hca_id:\s)")
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
