"""The table, continued: who takes part that was not planned, or without what the others share."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases import Case
from tests.lab.faults import flag, variable

TOKEN = variable("DISTDOCTOR_TOKEN", "0123456789abcdef", 0)
TRUST = [
    Case("3 nodes started with --nnodes 2", flag("--nnodes", "2", 0, 1, 2), "environment/too-many-nodes", ["host1", "host2"], blame="one-of", style="unset", hosts=3, options=(2,)),
    Case("a token on node 0 alone", TOKEN, "store/token-mismatch", ["host1"], by_hand=variable("DISTDOCTOR_TOKEN", "0123456789abcdef", 1), wait=7),
    Case("a token on node 1 alone", variable("DISTDOCTOR_TOKEN", "0123456789abcdef", 1), "store/token-mismatch", ["host1"], options=(2,), wait=7),
]  # fmt: skip
