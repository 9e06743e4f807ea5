"""gpu/arch-not-in-build: what it finds, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one, several
from tests.logs.judging import TRACEBACK, judged

CHECK = "gpu/arch-not-in-build"

NEWER = {
    n: {"capability": "12.0", "computed": "", "error": "CUDA error: no kernel image is available"} for n in range(8)
}
UNTRIED = {n: {"computed": ""} for n in range(8)}
OLDER = {n: {"capability": "7.0", "computed": ""} for n in range(8)}

HIP = {n: {"capability": "10.3", "computed": "", "error": "HIP error: invalid device function"} for n in range(8)}


def of_blackwell(capability: str, *architectures: str) -> Facts:
    """GPUs on which nothing was tried, and what the build has code for."""
    untried = {n: {"capability": capability, "computed": ""} for n in range(8)}
    return one(gpus=untried, torch={"architectures": architectures})


ROWS = [
    Row("of AMD", lambda: one(gpus=HIP, torch={"architectures": ("gfx90a", "gfx942")}), ("host0",)),
    Row("newer than the build", lambda: one(gpus=NEWER, torch={"architectures": ("sm_80", "sm_90a")}), ("host0",)),
    Row("PTX of one architecture alone", lambda: of_blackwell("10.0", "sm_80", "compute_90a"), ("host0",)),
    Row("of another generation's family", lambda: of_blackwell("12.0", "sm_100f", "compute_100f"), ("host0",)),
    Row("dropped", lambda: one(gpus=OLDER), ("host0",)),
    Row(
        "a newer step of its generation",
        lambda: one(
            gpus={n: {"capability": "8.6", "computed": ""} for n in range(8)}, torch={"architectures": ("sm_89",)}
        ),
        ("host0",),
    ),
]

LOOK_ALIKES = [
    LookAlike("its own", lambda: one(gpus=UNTRIED)),
    LookAlike(
        "an older step of its generation",
        lambda: one(gpus={n: {"capability": "8.6", "computed": ""} for n in range(8)}),
    ),
    LookAlike("of its generation's family", lambda: of_blackwell("10.3", "sm_90", "sm_100f")),
    LookAlike("by PTX", lambda: one(gpus={n: {"capability": "10.0", "computed": ""} for n in range(8)})),
    LookAlike(
        "ROCm",
        lambda: one(
            gpus={n: {"capability": "9.4", "computed": "", "error": "HIP error: invalid argument"} for n in range(8)},
            torch={"architectures": ("gfx90a", "gfx942")},
        ),
        instead="gpu/cannot-compute",
    ),
    LookAlike("a display's, that no rank takes", lambda: several({"gpus": {5: NEWER[5]}})),
    LookAlike("it computes all the same", lambda: one(torch={"architectures": ("sm_75",)})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_an_extension_may_be_what_lacks_the_code(tmp_path: Path) -> None:
    """torch had it, and causal_conv1d, whose kernel it was, had not: CUDA's words are the same."""
    last = "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"
    text = TRACEBACK.format(who="", source="causal_conv1d_cuda.causal_conv1d_fwd(", error=last)
    finding = judged(tmp_path, text).findings[0]
    assert (finding.check, finding.title) == (
        CHECK,
        "torch, or an extension that the traceback names, has no code for this GPU",
    )
    assert "TORCH_CUDA_ARCH_LIST" in finding.fixes[0].text
