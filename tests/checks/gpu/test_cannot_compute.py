"""gpu/cannot-compute: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each, root
from tests.clusters.gpu_nodes import one, several
from tests.facts_builder import with_variables

CHECK = "gpu/cannot-compute"

CUBLAS = "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
NO_CUBLAS = {n: {"computed": "", "error": CUBLAS} for n in range(8)}
LAUNCH = {"computed": "", "error": "CUDA error: unspecified launch failure"}
GONE = {"computed": "", "uuid": "", "capability": "", "error": "Invalid device id"}
ECC = {"computed": "", "error": "CUDA error: uncorrectable ECC error encountered"}
PATH = "LD_LIBRARY_PATH"


def ended_the_try() -> Facts:
    """Device 0 never came to an end."""
    begun = "a product of matrices was begun: no answer from the driver within 30 s"
    return one(gpus={n: {"computed": "", "error": "" if n else begun} for n in range(8)})


ROWS = [
    Row("no cuBLAS", lambda: one(gpus=NO_CUBLAS), ("host0",)),
    Row("one of eight", lambda: one(gpus={3: LAUNCH}), ("host0",)),
    Row("one that CUDA does not know", lambda: one(gpus={7: GONE}), ("host0",)),
    Row("one that ended the try, the others not tried", ended_the_try, ("host0",)),
    Row("one that no rank takes", lambda: several({"gpus": {5: LAUNCH}}), ("host0",), severity="warn"),
]

LOOK_ALIKES = [
    LookAlike("a job without GPUs", lambda: one("gloo", gpus=NO_CUBLAS)),
    LookAlike("its memory is broken", lambda: one(gpus={3: ECC}), instead="gpu/hardware"),
    LookAlike("nothing was tried", lambda: one(gpus={n: {"computed": ""} for n in range(8)})),
]

CURES = [
    Cure(
        "another cuBLAS in the way",
        lambda: tuple(with_variables(node, **{PATH: "/opt/cuda-11.7/lib64"}) for node in one(gpus=NO_CUBLAS)),
        on_each(("host0",), {"env": {PATH: None}}),
    ),
    Cure(
        "what has nothing of CUDA's stays",
        lambda: tuple(
            with_variables(node, **{PATH: "/opt/mpi/lib:/usr/local/cuda/lib64:/opt/amazon/efa/lib"})
            for node in one(gpus=NO_CUBLAS)
        ),
        on_each(("host0",), {"env": {PATH: "/opt/mpi/lib:/opt/amazon/efa/lib"}}),
    ),
    Cure(
        "nothing of CUDA's is on it",
        lambda: tuple(with_variables(node, **{PATH: "/opt/mpi/lib"}) for node in one(gpus=NO_CUBLAS)),
        on_each(("host0",), {"commands": ("python -m torch.utils.collect_env",)}),
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_of_the_devices_that_were_not_tried_nothing_is_said() -> None:
    assert "but device 0 cannot compute" in root(*ended_the_try()).summary
