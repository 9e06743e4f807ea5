"""gpu/busy: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import DeviceProcess
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one, several, visible

CHECK = "gpu/busy"

OTHER = (DeviceProcess(4242, "python", "eve", 1 << 30),)
OURS = (DeviceProcess(4242, "distdoctor:gpu", "eve", 1 << 29),)
MPS = (DeviceProcess(4242, "nvidia-cuda-mps", "root", 1 << 26),)
WITHOUT_UUID = {"visible": tuple(visible(n, uuid="", computed="") for n in range(8))}
"""As torch before 2.4 shows what a mask has left of the devices."""
UNTRIED = {2: {"computed": ""}}
REFUSED = {2: {"computed": "", "error": "CUDA error: all CUDA-capable devices are busy or unavailable"}}

ROWS = [
    Row("prohibited", lambda: one(devices={2: {"compute_mode": "prohibited"}}, gpus=REFUSED), ("host0",)),
    Row(
        "exclusive, and taken",
        lambda: one(devices={2: {"compute_mode": "exclusive-process", "processes": OTHER}}, gpus=UNTRIED),
        ("host0",),
    ),
    Row("torch says so", lambda: one(gpus=REFUSED), ("host0",)),
]

LOOK_ALIKES = [
    LookAlike(
        "exclusive, for the server that lets all others in",
        lambda: one(devices={2: {"compute_mode": "exclusive-process", "processes": MPS}}, gpus=UNTRIED),
    ),
    LookAlike(
        "taken, and perhaps none of the job's",
        lambda: one(
            count=16, devices={15: {"compute_mode": "exclusive-process", "processes": OTHER}}, torch=WITHOUT_UUID
        ),
    ),
    LookAlike("torch says so of one that no rank takes", lambda: several({"gpus": {5: REFUSED[2]}})),
    LookAlike("exclusive, and free", lambda: one(devices={2: {"compute_mode": "exclusive-process"}})),
    LookAlike(
        "exclusive, and ours is on it",
        lambda: one(devices={2: {"compute_mode": "exclusive-process", "processes": OURS}}, gpus=UNTRIED),
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
