"""The table: one line per case, in a file for the stage of the check that must be named, or for where it comes from."""

from __future__ import annotations

from tests.lab.cases import (
    barrier,
    collective,
    engines,
    environment,
    gloo,
    groups,
    host,
    mesh,
    network,
    reported,
    store,
)
from tests.lab.harness.case import Case

ALL_CASES: list[Case] = [
    *environment.CASES,
    *host.CASES,
    *network.CASES,
    *store.CASES,
    *mesh.CASES,
    *gloo.CASES,
    *barrier.CASES,
    *collective.CASES,
    *groups.CASES,
    *engines.CASES,
    *reported.CASES,
]
"""The whole table, in the order of the ladder."""
