"""gpu/none-visible: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import AmdFacts, Device, DriverFile, NodeFacts
from tests.checks.row import BOTH, LookAlike, Row, found, left_alone, root
from tests.clusters.gpu_nodes import one, several
from tests.facts_builder import healthy, with_identity, with_plan, with_variables

CHECK = "gpu/none-visible"

NONE = {"visible": (), "reason": "No CUDA GPUs are available"}
CPU_BUILD = {"visible": (), "reason": "this torch is a CPU build", "architectures": (), "library": None}
NOTHING = {"source": "", "module": None, "library": None, "files": (), "devices": (), "cuda": None}

NO_LIBCUDA = "libcuda.so.1: cannot open shared object file: No such file or directory"
NO_HIP = {"visible": (), "reason": "No HIP GPUs are available", "library": None}
CLOSED = (DriverFile("/dev/kfd", "EACCES"), DriverFile("/dev/dri/renderD128", "EACCES"))


def of_amd(
    *unusable: DriverFile, backend: str = "nccl", devices: int = 8, torch: dict[str, Any] | None = None
) -> tuple[NodeFacts, ...]:
    """A node of AMD's GPUs, and a torch that is built for ROCm."""
    (facts,) = one(backend, driver=NOTHING, torch=torch or NO_HIP, cuda=None)
    cards = tuple(Device(number) for number in range(devices - len(unusable)))
    return (replace(facts, driver=None, amd=AmdFacts(devices, unusable, cards)),)


ROWS = [
    Row("AMD's, not for this user", lambda: of_amd(*CLOSED), ("host0",)),
    Row("AMD's, and no backend is named", lambda: of_amd(*CLOSED, backend="auto"), ("host0",), severity="warn"),
    Row("AMD's, of which none is given", lambda: of_amd(CLOSED[1], devices=1), ("host0",)),
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
    Row("no libcuda", lambda: one(driver={"no_libcuda": NO_LIBCUDA}, torch=NONE), ("host0",)),
    Row(
        "MIG, of which none is given", lambda: one(devices={n: {"mig": True} for n in range(8)}, torch=NONE), ("host0",)
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
    LookAlike("AMD's, beside a CPU build", lambda: of_amd(*CLOSED, backend="auto", torch=CPU_BUILD)),
    LookAlike("AMD's, on a display alone", lambda: of_amd(backend="auto", devices=1)),
    LookAlike("one of two, for a job of gloo", lambda: several({}, {"torch": NONE, "driver": NOTHING}, backend="gloo")),
    LookAlike("a job on processors beside them", lambda: one("gloo", torch=NONE)),
    LookAlike(
        "a machine without any", lambda: one("auto", driver={**NOTHING, "on_bus": 0}, torch=CPU_BUILD, cuda=None)
    ),
    LookAlike(
        "a container that was given none", lambda: one("auto", driver={**NOTHING, "module": "550.1.2"}, torch=NONE)
    ),
]


def test_the_service_that_shares_gpus_is_named() -> None:
    words = "Error 805: MPS client failed to connect to the MPS control daemon or the MPS server"
    told = root(*one(torch={"visible": (), "reason": words}))
    assert "(MPS)" in told.summary and "CUDA_MPS_PIPE_DIRECTORY" in told.fixes[0].text
    assert any(words in line for line in told.evidence)


def test_the_rung_is_named() -> None:
    assert "NVIDIA_DRIVER_CAPABILITIES" in root(*one(driver={"no_libcuda": NO_LIBCUDA}, torch=NONE)).fixes[0].text
    taken = {"unusable": (DriverFile("/dev/nvidiactl", "EPERM"),)}
    assert "daemon-reload" in root(*one(driver=taken, torch=NONE)).fixes[0].text
    assert "MIG" in root(*one(devices={n: {"mig": True} for n in range(8)}, torch=NONE)).summary


def test_a_torch_for_gpus_of_another_make_is_named() -> None:
    (for_cuda,) = of_amd(torch={"visible": (), "reason": "Found no NVIDIA driver on your system"})
    told = root(with_identity(for_cuda, cuda="12.8"))
    assert "built for CUDA 12.8, but the GPUs are from AMD" in told.summary and "for ROCm" in told.fixes[0].text
    told = root(*one(torch={**NO_HIP, "architectures": ("gfx942",)}, cuda=None))
    assert "built for ROCm, but the GPUs are from NVIDIA" in told.summary and "for CUDA" in told.fixes[0].text


def test_what_is_closed_to_rocm_is_named() -> None:
    finding = root(*of_amd(*CLOSED))
    assert "the user cannot open /dev/kfd (EACCES)" in finding.summary
    assert "render" in finding.fixes[0].text
    part = root(*of_amd(CLOSED[1]))  # a device that is another's, and why torch sees none is not known
    assert "renderD128" not in part.summary


test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_what_keeps_them_out_of_a_container_is_named() -> None:
    (facts,) = one(driver={"files": (), "devices": (), "source": ""}, torch=NONE)
    found = root(with_variables(facts, NVIDIA_VISIBLE_DEVICES="void"))
    assert found.id == CHECK and "NVIDIA_VISIBLE_DEVICES=void" in found.summary
