"""The table, live: named exactly, in time, and cured by the printed fix.

Here one case for each way of starting and each mechanism, that is for each thing done to a host which other facts
show. All of them with ``-m scoreboard`` or in ``make scoreboard``; tests/recorded/ judges each from its recorded
facts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.cases import ALL_CASES
from tests.lab.harness.case import Case
from tests.lab.harness.examine import check_case, unfit

LIVE = {
    "127.0.1.1 on both, under torchrun": "names; started by torchrun",
    "PET_NNODES is no number": "started by variables of torchrun",
    "two rank 1 of 3": "started once per rank",
    "node 1 is not started, ranks unset": "who does not come, and ranks that node 0 gives",
    "two: the ids differ, a misspelled variable": "torchrun's c10d rendezvous, and variables",
    "a web server holds the port": "what holds a port",
    "two: a stale init file, little shared memory": "an init file on a shared file system, and /dev/shm",
    "two: node 2 of 3 is isolated, few open files": "nftables on the way in and out, and limits of the shell",
    "the master's port is rejected by iptables": "iptables",
    "a strict rp_filter, and another way back": "routes, and settings of the kernel",
    "one pair of 3 is cut in the switch": "what no host can see in its own settings",
    "large packets vanish": "packets that are lost by their size",
    "one of 2 damages data": "packets that are changed",
    "one of 3 sends slowly": "a link that is shaped",
    "a rank is stopped": "a process that is stopped",
    "a whole node is killed": "a doctor that is killed",
    "torch missing on node 1": "what is installed",
    "a privileged port": "a user who is not root",
    "a mesh of 8 ranks for 4": "the flags of a mesh",
    "the switch drops the new connections of a second group": "groups beside the default one",
    "the master's name comes after 4 s": "what changes while the doctor waits",
}
"""What each of them stands for, by name."""


def rows() -> Iterator[object]:
    """Every case; those that are only run when all are asked for are marked ``scoreboard``."""
    for case in ALL_CASES:
        yield pytest.param(case, id=case.name, marks=[] if case.name in LIVE else [pytest.mark.scoreboard])


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("case", list(rows()))
def test_fault(case: Case) -> None:
    if reason := unfit(case.needs):
        pytest.skip(reason)
    assert check_case(case) == []
