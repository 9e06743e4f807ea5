"""environment/nccl-library-shadowed: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NcclLibrary, TorchFailure
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.torch_import import NO_CUDA, torch_fails

CHECK = "environment/nccl-library-shadowed"
FAILURE = TorchFailure(
    "ImportError",
    "/site/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
    found="/site/torch",
    looked=True,
    version="2.9.0+cu126",
)
BY_PATH = NcclLibrary("/opt/nccl/lib/libnccl.so.2", "LD_LIBRARY_PATH", "/opt/hpcx/lib")
CU12, CU13 = NcclLibrary("nvidia-nccl-cu12 2.21.5"), NcclLibrary("nvidia-nccl-cu13 2.28.3")
INSTALL = (
    "/opt/py/bin/python3 -m pip install --force-reinstall torch==2.9.0+cu126 --index-url https://download.pytorch.org/"
)


def with_libraries(*libraries: NcclLibrary) -> Facts:
    return torch_fails(replace(FAILURE, nccl=libraries))


ROWS = [
    Row("by LD_LIBRARY_PATH", lambda: with_libraries(BY_PATH, CU12), ("host1",), together=True),
    Row("on node 0", lambda: torch_fails(replace(FAILURE, nccl=(BY_PATH,)), which=0), ("host0",)),
    Row("two packages", lambda: with_libraries(CU12, CU13), ("host1",), together=True),
    Row("by whatever else", with_libraries, ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("another library is missing", lambda: torch_fails(NO_CUDA), "environment/torch-broken"),
    LookAlike(
        "a symbol of another library",
        lambda: torch_fails(replace(FAILURE, text="libtorch_cuda.so: undefined symbol: cudaLaunch, after nccl")),
        "environment/torch-broken",
    ),
]

CURES = [
    Cure(
        "out of LD_LIBRARY_PATH",
        lambda: with_libraries(BY_PATH, CU12),
        {"host1": {"env": {"LD_LIBRARY_PATH": "/opt/hpcx/lib"}}},
    ),
    Cure(
        "preloaded alone",
        lambda: with_libraries(NcclLibrary("/opt/libnccl.so.2", "LD_PRELOAD")),
        {"host1": {"env": {"LD_PRELOAD": None}}},
    ),
    Cure(
        "one package",
        lambda: with_libraries(CU12, CU13),
        {
            "host1": {
                "commands": (
                    "/opt/py/bin/python3 -m pip uninstall -y nvidia-nccl-cu12 nvidia-nccl-cu13",
                    f"{INSTALL}whl/cu126",
                )
            }
        },
    ),
    Cure("installed again", with_libraries, {"host1": {"commands": (f"{INSTALL}whl/cu126",)}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
