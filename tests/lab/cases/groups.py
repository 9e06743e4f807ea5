"""The table: groups beside the default one, those of a job's device mesh and extra ones; healthy shapes."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases.common import BOTH
from tests.lab.cases.healthy import all_hosts, open_firewall
from tests.lab.faults import together
from tests.lab.faults.host import port_range, process_limit
from tests.lab.faults.launch import flag, shell
from tests.lab.faults.links import cut_in_switch, dropped_in_switch, switch_repaired
from tests.lab.faults.packet_filter import nft
from tests.lab.harness.case import Case, patient
from tests.lab.harness.launch import Fault
from tests.lab.harness.shape import Shape

MESH, GROUPS = ("--mesh", "dp=2,tp=2"), ("--groups", "4")
FAILED, MISMATCH = "collective/group-failed", "environment/mesh-mismatch"
NEW = "ether type ip tcp flags & (syn | ack) == syn tcp dport 30000-65535"
"""New connections to ports that nobody chose, which is all but those to MASTER_PORT."""


def mesh(text: str | None, *hosts: int) -> Fault:
    """The hosts start with this mesh."""
    return flag("--mesh", text, *hosts)


CASES = [
    *patient(
        Case("a mesh of 8 ranks for 4", mesh("dp=2,tp=4", 0, 1), MISMATCH, BOTH, options=(1, 2), torch="at once"),
        Case("a mesh of 2 ranks for 4", mesh("dp=1,tp=2", 0, 1), MISMATCH, BOTH, "warn", torch="never"),
        Case("the dimensions of one of 3 are swapped", together(mesh("dp=3,tp=2", 0, 1), mesh("tp=3,dp=2", 2)), MISMATCH, ["host2"], hosts=3, torch="never"),
        Case("one of 3 has another number of groups", together(flag("--groups", "2", 0, 1), flag("--groups", "3", 2)), MISMATCH, ["host2"], hosts=3, torch="never"),
        Case("the check of node 1 has no mesh", mesh("dp=2,tp=2", 0), MISMATCH, ["host1"], "warn", torch="never (trains)"),
        Case("48 open files, and 4 groups", shell("ulimit -S -n 48", 1), "host/open-files-limit", ["host1"], flags=GROUPS, torch="at once, on one node"),
        Case("36 processes and threads, and 4 groups", process_limit(36, 1), "host/thread-limit", ["host1"], flags=GROUPS, by_hand=process_limit(4000, 1), torch="at once, on one node"),
        Case("12 ports, and 4 groups", port_range(40000, 40011, 1), "host/ports-exhaustible", ["host1"], flags=GROUPS, torch="at once, on one node"),
        Case("one pair of 3 is cut in the switch, and shares a group", cut_in_switch((1,), (2,)), "mesh/peer-ports-blocked", ["host1", "host2"], blame="one-of", hosts=3, by_hand=switch_repaired, flags=("--mesh", "dp=3,tp=2")),
        Case("node 0 lets in 14 connections, and drops those of further groups", nft(0, 'iifname "lo" accept', "tcp flags & (syn | ack) == syn ct count over 14 drop"), "network/connection-limit", ["host0"], flags=GROUPS, within=40, torch="never"),
        Case("the switch drops the new connections of a second group", dropped_in_switch(f"{NEW} limit rate over 1/hour burst 14 packets"), FAILED, BOTH, blame="one-of", flags=GROUPS, within=40, by_hand=switch_repaired, torch="never"),
        Case("the switch drops those of the first group across nodes", dropped_in_switch(f"{NEW} limit rate over 1/hour burst 9 packets"), FAILED, BOTH, blame="one-of", flags=("--mesh", "dp=2,tp=2"), within=40, by_hand=switch_repaired, torch="never"),
    ),
]  # fmt: skip

SHAPES = [
    Shape("a mesh", nproc=4, flags=("--wait", "30", "--mesh", "dp=2,tp=4")),
    Shape("a mesh and further groups, 3 nodes", 3, flags=("--wait", "30", "--mesh", "pp=3,dp=1,tp=2", "--groups", "2")),
    Shape("a mesh, RANK by hand", style="rank", flags=("--wait", "30", "--mesh", "dp=2", "--groups", "1")),
    Shape("a mesh, torchrun, TORCH_DISTRIBUTED_DEBUG=DETAIL", style="torchrun", setup=all_hosts("TORCH_DISTRIBUTED_DEBUG", "DETAIL"), flags=("--wait", "30", "--mesh", "dp=2,tp=2")),
    Shape("groups, 256 open files, firewalls that let the peers in", setup=together(shell("ulimit -S -n 256", 0, 1), open_firewall(0, "{host1}"), open_firewall(1, "{host0}")), flags=("--wait", "30", "--groups", "6")),
]  # fmt: skip
