"""environment/rendezvous-backend-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import StoreOnOtherPort
from tests.checks.row import BOTH, Facts, LookAlike, Row, found, left_alone
from tests.facts_builder import PORT, healthy, judged, outside, with_network, with_plan

CHECK = "environment/rendezvous-backend-mismatch"


def rendezvous(*backends: str) -> Facts:
    """Nodes of one job, each started with that rendezvous backend; an id belongs to c10d, as usual."""
    facts = healthy(len(backends))
    return tuple(
        with_plan(one, rdzv_backend=backend, run_id="none" if backend == "static" else "job7")
        for one, backend in zip(facts, backends, strict=True)
    )


def found_alone() -> Facts:
    """host1 alone, with c10d, which found node 0's static store on another port."""
    a, b = rendezvous("static", "c10d")
    b = with_network(
        outside(with_plan(b, master_port=29400)), elsewhere=StoreOnOtherPort("10.77.0.10", PORT, "host0", a.plan)
    )
    return (b,)


ROWS = [
    Row("c10d and static", lambda: rendezvous("static", "c10d"), BOTH, blame="one-of", together=True),
    Row("seen by one alone", found_alone, ("host1", "host0"), blame="one-of"),
    Row("static and 2 c10d", lambda: rendezvous("static", "c10d", "c10d"), ("host0",), together=True),
]

LOOK_ALIKES = [LookAlike("c10d everywhere", lambda: rendezvous("c10d", "c10d", "c10d"))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_rendezvous_is_made_alike_in_both_directions() -> None:
    """With everything that torchrun needs for it: the endpoint and the id, or the address and a free node rank."""
    a, b = rendezvous("static", "c10d")
    found = next(f for f in judged(a, b).roots if f.check == CHECK)
    to_static, to_c10d = found.fixes
    assert (to_static.nodes, to_static.option, to_c10d.nodes, to_c10d.option) == (("host1",), 1, ("host0",), 2)
    assert to_static.flags["--node-rank"] == "1" and to_static.flags["--rdzv-backend"] is None
    assert to_c10d.flags["--rdzv-endpoint"] == "10.77.0.10:29500" and to_c10d.flags["--rdzv-id"] == "job7"
    assert to_c10d.flags["--master-addr"] is None
    b = replace(b, variables={"PET_RDZV_BACKEND": "c10d"})
    found = next(f for f in judged(a, b).roots if f.check == CHECK)
    assert found.fixes[0].env == {"PET_RDZV_BACKEND": None} and "--rdzv-backend" not in found.fixes[0].flags
