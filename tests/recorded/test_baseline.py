"""--baseline on the recorded healthy runs: one value of one node is changed at a time, and told of by itself or not."""

from __future__ import annotations

import copy
import gzip
import ipaddress
import json
from collections.abc import Iterator
from typing import Any

import pytest

from distdoctor.model.cluster import build
from distdoctor.model.facts import BadFacts, NodeFacts, decode
from distdoctor.session.baseline import changes
from tests.lab.harness.recording import RECORDED

RUNS = (
    "1-node", "172-16-12", "2-nodes", "3-nodes", "a-token-everywhere", "bonds-and-vlans", "different-numbers-of-ranks",
    "docker0-beside-eth0", "firewalls-that-let-the-peers-in", "gloo-on-a-second-network",
)  # fmt: skip
Place = tuple[str | int, ...]
TOLD = {
    "executable", "python", "torch", "torch_path", "user", "open_files", "open_files_hard", "locked_memory",
    "processes", "processes_hard", "size", "backend", "nnodes", "nproc_per_node", "rdzv_backend",
}  # fmt: skip
"""Names of values that are the same from run to run unless somebody changes them."""


def values(of: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    if isinstance(of, dict | list):
        for key, one in of.items() if isinstance(of, dict) else enumerate(of):
            yield from values(one, (*place, key))
    else:
        yield place, of


def another(value: Any) -> Any:
    """Another value of the kind; None where there is none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 3 + 7
    try:
        return str(ipaddress.ip_address(value) + (1 << 24)) if value else None
    except ValueError:
        return f"{value}-x"


def put(into: Any, place: Place, value: Any) -> None:
    for key in place[:-1]:
        into = into[key]
    into[place[-1]] = value


@pytest.mark.parametrize("run", RUNS)
def test_one_value_changed(run: str) -> None:
    recorded = json.loads(gzip.decompress((RECORDED / "healthy" / f"{run}.json.gz").read_bytes()))["facts"]
    before = tuple(decode(json.dumps(facts).encode(), NodeFacts) for facts in recorded)
    assert changes(build(before).nodes, before) == ()
    wrong, seen = [], set()
    for place, value in values(recorded[0]):
        if (new := another(value)) is None:
            continue
        changed = copy.deepcopy(recorded[0])
        put(changed, place, new)
        try:
            told = changes(build((decode(json.dumps(changed).encode(), NodeFacts), *before[1:])).nodes, before)
        except BadFacts:  # only certain words are taken there
            continue
        renamed = place[:2] == ("host", "interfaces") and place[-1] == "name"  # one is gone, another is new
        lasts = place[-1] in TOLD and place[0] in ("identity", "host", "plan") and "sources" not in place
        if len(told) > 1 + renamed or (lasts and not told):
            wrong.append((place, value, new, told))
        seen |= {place[-1]} if told else set()
    assert wrong == []
    assert {"torch", "mtu", "open_files", "backend"} <= seen
