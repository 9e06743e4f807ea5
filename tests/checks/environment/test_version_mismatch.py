"""environment/version-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.gpus import gpus
from tests.facts_builder import healthy, with_identity

CHECK = "environment/version-mismatch"


def other_version() -> Facts:
    a, b, c = healthy(3)
    return a, b, replace(c, identity=replace(c.identity, distdoctor="0.0.9"))


def versions(**changes: str) -> Facts:
    a, b, c = gpus(3)
    return a, b, with_identity(c, **changes)


def of_before() -> Facts:
    a, b, c = (with_identity(one, nccl="2.21.5") for one in gpus(3))
    return a, b, with_identity(c, nccl="2.20.5")


def packages(*nodes: dict[str, str]) -> Facts:
    return tuple(with_identity(one, packages=its) for one, its in zip(healthy(3), nodes, strict=True))


def others(name: str, usual: str, other: str) -> Facts:
    return packages({name: usual}, {name: usual}, {name: other})


ROWS = [
    Row("another engine", lambda: others("vllm", "0.11.0", "0.10.2"), ("host2",), "warn", together=True),
    Row("another libfabric", lambda: others("efa-installer", "1.43.2", "1.30.0"), ("host2",), "warn", together=True),
    Row("another version", other_version, ("host2",), "warn", together=True),
    Row("another torch", lambda: versions(torch="2.6.0"), ("host2",), "warn", together=True),
    Row("another build", lambda: versions(torch="2.6.0+cu124", cuda="12.4", nccl="2.21.5"), ("host2",), together=True),
    Row("another NCCL", lambda: versions(nccl="2.26.2"), ("host2",), together=True),
    Row("that does not compare them", of_before, ("host2",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("a version that is not known on one", lambda: versions(torch="")),
    LookAlike("a package that one node does not have", lambda: packages({"ray": "2.49.2"}, {"ray": "2.49.2"}, {})),
    LookAlike(
        "a second NCCL wheel that is not the loaded one",
        lambda: packages({"nvidia-nccl-cu12": "2.27.3"}, {"nvidia-nccl-cu12": "2.27.5"}, {}),
    ),
]

CURES = [
    Cure(
        "the torch of the others",
        lambda: versions(torch="2.6.0", executable="/opt/py/bin/python3"),
        {"host2": {"commands": ("/opt/py/bin/python3 -m pip install torch==2.13.0",)}},
    ),
    Cure(
        "the torch of the others, which is an image's",
        lambda: tuple(with_identity(one, torch="2.7.0a0+ecf3bae40a.nv25.2") for one in versions()[:2]) + versions()[2:],
        {"host2": {}},
    ),
    Cure(
        "the engine of the others",
        lambda: others("vllm", "0.11.0", "0.10.2"),
        {"host2": {"commands": ("python3 -m pip install vllm==0.11.0",)}},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
