"""gpu/none-visible: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import DriverFile
from tests.checks.row import BOTH, LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one, several
from tests.facts_builder import healthy, with_plan

CHECK = "gpu/none-visible"

NONE = {"visible": (), "reason": "No CUDA GPUs are available"}
CPU_BUILD = {"visible": (), "reason": "this torch is a CPU build", "architectures": (), "library": None}
NOTHING = {"source": "", "module": None, "library": None, "files": (), "devices": (), "cuda": None}

ROWS = [
    Row("a CPU build", lambda: one("auto", torch=CPU_BUILD, cuda=None), ("host0",), severity="warn"),
    Row("no driver", lambda: one(driver=NOTHING, torch=NONE), ("host0",)),
    Row("none at all", lambda: one(driver={**NOTHING, "on_bus": 0}, torch=NONE), ("host0",)),
    Row(
        "a container without them",
        lambda: one(driver={"files": (), "devices": (), "source": ""}, torch=NONE),
        ("host0",),
    ),
    Row(
        "not for this user",
        lambda: one(driver={"unusable": (DriverFile("/dev/nvidia0", "EACCES"),)}, torch=NONE),
        ("host0",),
    ),
    Row("nobody knows why", lambda: one(torch=NONE), ("host0",)),
    Row(
        "one of two, and no backend is named",
        lambda: several({}, {"torch": CPU_BUILD, "driver": {**NOTHING, "on_bus": 0}, "cuda": None}, backend="auto"),
        ("host1",),
        severity="warn",
        together=True,
    ),
    Row("on several", lambda: tuple(with_plan(one, backend="nccl") for one in healthy(2)), BOTH, together=True),
]

LOOK_ALIKES = [
    LookAlike("one of two, for a job of gloo", lambda: several({}, {"torch": NONE, "driver": NOTHING}, backend="gloo")),
    LookAlike("a job on processors beside them", lambda: one("gloo", torch=NONE)),
    LookAlike(
        "a machine without any", lambda: one("auto", driver={**NOTHING, "on_bus": 0}, torch=CPU_BUILD, cuda=None)
    ),
    LookAlike(
        "a container that was given none", lambda: one("auto", driver={**NOTHING, "module": "550.1.2"}, torch=NONE)
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
