"""environment/mesh-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.device_mesh import parse_mesh
from tests.checks.row import BOTH, THREE, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.facts_builder import healthy, with_plan

CHECK = "environment/mesh-mismatch"


def meshes(*texts: str, nproc: int = 2, groups: tuple[int, ...] = ()) -> Facts:
    """Nodes of that many ranks, each with its mesh; empty for none."""
    nodes = healthy(len(texts), nproc=nproc)
    counts = groups or (0,) * len(texts)
    return tuple(
        with_plan(one, mesh=parse_mesh(text) or (), groups=count)
        for one, text, count in zip(nodes, texts, counts, strict=True)
    )


def experts(*orders: str) -> Facts:
    """Nodes of one mesh, each with the groups that its engine's line makes of it."""
    nodes = meshes(*["dp=2,tp=2"] * len(orders))
    return tuple(with_plan(one, mesh_order=tuple(order.split())) for one, order in zip(nodes, orders, strict=True))


EP, DENSE = "tp dp ep=dp+tp", "tp dp"
ROWS = [
    Row("no expert parallelism on one of 2", lambda: experts(EP, DENSE), BOTH, blame="one-of", together=True),
    Row("8 ranks of 4", lambda: meshes("dp=2,tp=4", "dp=2,tp=4"), BOTH, together=True),
    Row("2 ranks of 4", lambda: meshes("tp=2", "tp=2"), BOTH, "warn", together=True),
    Row("swapped on one of 3", lambda: meshes("dp=3,tp=2", "dp=3,tp=2", "tp=3,dp=2"), ("host2",), together=True),
    Row("swapped on one of 2", lambda: meshes("dp=2,tp=2", "tp=2,dp=2"), BOTH, blame="one-of", together=True),
    Row("more groups on one of 3", lambda: meshes("", "", "", groups=(2, 2, 3)), ("host2",), together=True),
    Row("none on one", lambda: meshes("dp=2,tp=2", ""), ("host1",), "warn", together=True),
]
LOOK_ALIKES = [
    LookAlike("it fits", lambda: meshes("dp=2,tp=2", "dp=2,tp=2")),
    LookAlike("one dimension of all ranks, and one of one", lambda: meshes("dp=6,tp=1", "dp=6,tp=1", "dp=6,tp=1")),
    LookAlike("the same groups of experts", lambda: experts(EP, EP)),
    LookAlike("only extra groups", lambda: meshes("", "", groups=(3, 3))),
]
CURES = [
    Cure(
        "the outer dimension",
        lambda: meshes("dp=2,tp=4", "dp=2,tp=4"),
        on_each(BOTH, {"flags": {"--mesh": "dp=1,tp=4"}}),
    ),
    Cure(
        "the inner one is too large",
        lambda: meshes("dp=1,tp=3", "dp=1,tp=3", "dp=1,tp=3", nproc=4)[:3],
        on_each(THREE, {"flags": {"--mesh": "dp=4,tp=3"}}),
    ),
    Cure(
        "no outer dimension fits",
        lambda: meshes("dp=2,tp=8", "dp=2,tp=8", nproc=6),
        on_each(BOTH, {"flags": {"--nproc-per-node": "8"}}),
        only=True,
    ),
    Cure("as the others", lambda: meshes("dp=2,tp=2", ""), {"host1": {"flags": {"--mesh": "dp=2,tp=2"}}}, only=True),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
