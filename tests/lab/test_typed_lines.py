"""The README's two lines, typed on two hosts as they stand; then with each of the commonest mistakes in them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from tests.lab.faults.packet_filter import nft
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import Process
from tests.lab.harness.launch import DISTDOCTOR, Fault, Launch
from tests.lab.harness.runner import JSON, _parsed

pytestmark = pytest.mark.timeout(200)

FIRST, SECOND = "--nnodes 2", "--nnodes 2 --master-addr 10.77.0.10"
"""The README's: the first node's, and the other one's."""
WAIT = ("--wait", "10")
TOKEN = "0123456789abcdef"
MISSING = "store/nodes-missing"


@dataclass(frozen=True)
class Typed:
    """Two lines, each on its host, what is wrong with them, and what each side must name."""

    name: str
    lines: tuple[str, str]
    roots: tuple[str, str]
    """The only root of severity fail on each side; empty: it passes."""
    says: tuple[str, str] = ("", "")
    """Words of the finding, its evidence or its fixes, or of the notes."""
    hosts: tuple[int, int] = (0, 1)
    token: tuple[str, str] = ("", "")
    before: Fault | None = None
    delay: float = 0.0
    """Seconds between the two."""
    further: bool = True
    """It is run with the scoreboard alone."""
    statuses: tuple[int, int] = field(default=(1, 1))


MISTAKES = [
    Typed("none", (FIRST, SECOND), ("", ""), statuses=(0, 0), further=False),
    Typed("node 1 is typed first", (SECOND, FIRST), ("", ""), hosts=(1, 0), delay=4, statuses=(0, 0)),
    Typed(
        "an address that no host has",
        (FIRST, "--nnodes 2 --master-addr 10.77.0.99"),
        (MISSING, "network/master-unreachable"),
        ("no other check reached 10.77.0.10:29500", "No host has the address 10.77.0.99"),
        statuses=(3, 1),
    ),
    Typed(
        "the second host's own address",
        (FIRST, "--nnodes 2 --master-addr 10.77.0.11"),
        (MISSING, MISSING),
        ("no other check reached 10.77.0.10:29500", "If node1 is node 0, run this on host1 with its address"),
        statuses=(3, 3),
    ),
    Typed(
        "the first line on both hosts",
        (FIRST, FIRST),
        (MISSING, MISSING),
        ("If node1 is node 0, run this on host0", "If node1 is node 0, run this on host1"),
        statuses=(3, 3),
    ),
    Typed(
        "another port",
        (FIRST, f"{SECOND} --master-port 29501"),
        ("environment/master-mismatch", "environment/master-mismatch"),
        ("10.77.0.10 port 29501 on host1", "port 29501 of host0, which has it on 29500"),
    ),
    Typed(
        "a name with a letter wrong",
        (FIRST, "--nnodes 2 --master-addr hsot0"),
        (MISSING, "network/master-unresolvable"),
        ("no other check reached 10.77.0.10:29500", "host1 cannot resolve MASTER_ADDR hsot0"),
        statuses=(3, 1),
    ),
    Typed(
        "both in terminals of one host",
        (FIRST, SECOND),
        ("", ""),
        ("on one host", "on one host"),
        hosts=(0, 0),
        statuses=(0, 0),
        further=False,
    ),
    Typed(
        "a token on node 0 alone",
        (FIRST, SECOND),
        ("store/token-mismatch", "store/token-mismatch"),
        ("host1 (10.77.0.11) called without the token", "host1 has no DISTDOCTOR_TOKEN"),
        token=(TOKEN, ""),
        statuses=(3, 3),
        further=False,
    ),
    Typed(
        "a token on node 1 alone",
        (FIRST, SECOND),
        ("store/token-mismatch", "store/token-mismatch"),
        ("host1 (10.77.0.11) called with a token", "host0 has none"),
        token=("", TOKEN),
        statuses=(3, 3),
    ),
    Typed(
        "one node rank twice",
        (f"{SECOND} --node-rank 0", f"{SECOND} --node-rank 0"),
        ("environment/duplicate-node-rank", "environment/duplicate-node-rank"),
        ("the same node rank, 0", "the same node rank, 0"),
    ),
    Typed(
        "another --nnodes",
        (FIRST, "--nnodes 3 --master-addr 10.77.0.10"),
        ("environment/world-size-mismatch", "environment/world-size-mismatch"),
        ("2 on host0; 3 on host1", "2 on host0; 3 on host1"),
    ),
    Typed(
        "another backend",
        (FIRST, f"{SECOND} --backend nccl"),
        ("environment/backend-not-built", "environment/backend-not-built"),
        ("host1 is built without nccl", "backend nccl on host1"),
    ),
    Typed(
        "a firewall on node 0",
        (FIRST, SECOND),
        ("network/port-filtered", "network/port-filtered"),
        ("tcp dport 29500 drop", "accept TCP port 29500"),
        before=nft(0, 'iifname "lo" accept', "tcp dport 29500 drop"),
    ),
]


def typed(case: Typed) -> list[tuple[int, JSON]]:
    """Type both lines, and return how each ended and its report."""
    with Cluster(2) as cluster:
        if case.before is not None:
            case.before(Launch(cluster))
        processes: list[Process] = []
        for line, host, token in zip(case.lines, case.hosts, case.token, strict=True):
            if processes:
                time.sleep(case.delay)
            env = {"DISTDOCTOR_TOKEN": token} if token else {}
            wait = () if case.name == "none" else WAIT
            processes.append(cluster[host].popen([*DISTDOCTOR, "check", *line.split(), "--json", *wait], env=env))
        ended = [process.communicate(timeout=120)[0] for process in processes]
        return [(process.returncode, _parsed(out) or {}) for process, out in zip(processes, ended, strict=True)]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[pytest.mark.scoreboard] * case.further) for case in MISTAKES]
)
def test_both_sides_name_the_mistake(case: Typed) -> None:
    for (status, report), root, says, expected in zip(typed(case), case.roots, case.says, case.statuses, strict=True):
        roots = {f["check"] for f in report["findings"] if f["because_of"] is None and f["severity"] == "fail"}
        assert (status, roots) == (expected, {root} if root else set()), report["findings"]
        assert says in str(report["findings"]) + str(report["notes"])
