"""host/clock-skew: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Account
from tests.checks.row import BOTH, Facts, LookAlike, Row, found, left_alone
from tests.facts_builder import healthy, judged, with_host, with_mesh, with_plan

CHECK = "host/clock-skew"


def clocks(*offsets: float, backend: str = "static") -> Facts:
    """Nodes whose clocks are so many seconds ahead of node 0's."""
    a, *rest = healthy(len(offsets) + 1)
    rest = [with_mesh(one, clock_offset=-ahead, clock_error=0.01) for one, ahead in zip(rest, offsets, strict=True)]
    return tuple(with_plan(one, rdzv_backend=backend) for one in (a, *rest))


ROWS = [
    Row("a minute ahead", lambda: clocks(60.0), BOTH, "warn", "one-of", together=True),
    Row("a minute ahead, c10d", lambda: clocks(60.0, backend="c10d"), BOTH, blame="one-of", together=True),
    Row("one of three behind", lambda: clocks(-20.0, 0.1), ("host1",), "warn", together=True),
    Row("node 0 of three behind", lambda: clocks(20.0, 20.2), ("host0",), "warn", together=True),
]

LOOK_ALIKES = [LookAlike("clocks a little apart", lambda: clocks(1.5, -2.0))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_without_systemd_no_command_of_its_own_is_told() -> None:
    """timedatectl is of no use in a container, whose clock is its machine's."""
    nodes = (
        with_host(node, account=Account(systemd=booted))
        for node, booted in zip(clocks(60.0), (True, False), strict=True)
    )
    (finding,) = (finding for finding in judged(*nodes).findings if finding.check == CHECK)
    told = {fix.nodes: fix.commands for fix in finding.fixes if fix.option == 1}
    assert told == {("host0",): ("timedatectl set-ntp true",), ("host1",): ()}
