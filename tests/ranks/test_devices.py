"""The devices of a rank's process, as torch tells them: a stand-in for torch.cuda raises what the real one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distdoctor.ranks.devices import reason
from tests.helpers.namespaces import ROOT
from tests.helpers.standin_nvml import COMPILER

STANDIN = Path(__file__).parents[1] / "helpers/standin_cuda"
LOOK = "import json; from distdoctor.ranks.devices import visible; print(json.dumps(visible(None, compute=True)))"
SMALL = "from distdoctor.ranks import devices; devices.TIMED_SIDE, devices.TIMED_SECONDS = 4, 0; "
ASKED = "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() "
ASKED += "that might have already set an error? Error 802: system not yet initialized"


def seen(**env: str) -> dict[str, Any]:
    """Return what a process sees of the stand-in's devices."""
    path = f"{STANDIN}:{ROOT}"
    given = {**os.environ, "PYTHONPATH": path, "STANDIN_GPUS": "3", "STANDIN_NODE": "n", **env}
    run = subprocess.run([sys.executable, "-c", LOOK], env=given, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (ASKED, "Error 802: system not yet initialized"),
        (f"{ASKED}\n  at ::init (x.cpp:1)", "Error 802: system not yet initialized"),
        ("No CUDA GPUs are available", "No CUDA GPUs are available"),
        ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from",
         "Found no NVIDIA driver on your system"),
    ],
)  # fmt: skip
def test_why_there_is_none(text: str, kept: str) -> None:
    assert reason(text) == kept


def test_a_device_that_does_not_answer_hides_no_other() -> None:
    devices = seen(STANDIN_SICK="1=gone")["visible"]
    assert [device.get("computed") for device in devices] == ["right", None, "right"]
    assert devices[1] == {"index": 1, "name": "", "error": "Invalid device id"}


def test_how_fast_each_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "LOOK", LOOK.replace("import json;", "import json; " + SMALL))
    devices = seen(STANDIN_MS="0.4 0.4 1.6")["visible"]
    assert [(device["computed"], device["speed"]) for device in devices] == [
        *[("right", 20000.0)] * 2,
        ("right", 5000.0),
    ]
    assert [device["speed"] for device in seen()["visible"]] == [None] * 3  # a build without timers


@pytest.mark.scoreboard
def test_what_cuda_says_is_kept() -> None:
    found = seen(STANDIN_CUDA=ASKED)
    assert (found["visible"], found["reason"]) == ([], "Error 802: system not yet initialized")
    assert found["started"] >= 0


def test_whether_cuda_makes_memory_pools_of_a_device(tmp_path: Path) -> None:
    """A library in the place of libcuda.so.1: device 0 has them, 1 has not, of 2 it does not say."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    source = tmp_path / "cuda.c"
    source.write_text(
        "int cuDeviceGet(int *device, int index) { *device = index; return index > 2; }\n"
        "int cuDeviceGetAttribute(int *found, int what, int device) {"
        " *found = what == 115 && device == 0; return device > 1; }\n"
    )
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", source], check=True)
    code = "from distdoctor.ranks.devices import memory_pools; print([memory_pools(n) for n in range(4)])"
    for folder, said in ((tmp_path, "[True, False, None, None]"), (tmp_path / "none", "[None, None, None, None]")):
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(folder)}
        run = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True, check=True)
        assert run.stdout.strip() == said
