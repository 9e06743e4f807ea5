"""The table, stage store: who meets at the store."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases.common import BOTH, LOOPBACK
from tests.lab.faults import nothing, together
from tests.lab.faults.host import FOREIGN_STORE, port_held
from tests.lab.faults.installed import other_protocol, usual_installation
from tests.lab.faults.launch import not_started, start_all, variable
from tests.lab.faults.names import own_name_at
from tests.lab.faults.packet_filter import forwarded_into_silence
from tests.lab.faults.processes import killed_doctor
from tests.lab.harness.case import NODES_MISSING, Case, Root, patient

TOKEN = variable("DISTDOCTOR_TOKEN", "0123456789abcdef", 0)

CASES = [
    Case("another job's store holds the port", port_held(0, FOREIGN_STORE), "store/foreign-store", ["host0"]),
    Case("node 1 is not started", not_started(1), NODES_MISSING, ["node1"], curable=True, by_hand=start_all),
    Case("node 0 is not started", not_started(0), NODES_MISSING, ["host0"], curable=True, by_hand=start_all),
    Case("node 2 of 3 is not started", not_started(2), NODES_MISSING, ["node2"], hosts=3, curable=True, by_hand=start_all),
    Case("node 1 is not started, ranks unset", not_started(1), NODES_MISSING, ["node1"], style="unset", curable=True, by_hand=start_all),
    Case("rank 1 is not started", not_started(1), NODES_MISSING, ["node1"], style="rank", curable=True, by_hand=start_all),
    *patient(
        Case("what answers for the master is silent", forwarded_into_silence(1, 0), "store/silent", ["host0"], curable=True, live=False, torch="never"),
        Case("a whole node is killed", killed_doctor(1), "store/node-lost", ["host1"], by_hand=nothing, killed=["host1"], within=15, torch="at once, no cause"),
        Case("two: 127.0.1.1, and node 2 of 3 is not started", together(own_name_at("127.0.1.1", 0, 1), not_started(2)), "store/nodes-missing", ["node2"], hosts=3, curable=True, by_hand=start_all, also=[Root(LOOPBACK, BOTH)]),
        Case("a token on node 0 alone", TOKEN, "store/token-mismatch", ["host1"], wait=7),
        Case("a token on node 1 alone", variable("DISTDOCTOR_TOKEN", "0123456789abcdef", 1), "store/token-mismatch", ["host1"], wait=7),
        Case("a distdoctor that speaks otherwise on node 1", other_protocol(1), "store/protocol-mismatch", BOTH, blame="one-of", by_hand=usual_installation, wait=7, torch="never (trains)"),
    ),
]  # fmt: skip
