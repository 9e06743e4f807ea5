"""Counting GPUs without torch: device nodes under CUDA's mask."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.probes.gpu.devices import count_cpus, count_gpus
from tests.probes.test_amd import lay_out


def lay(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, 4),
        ("", 0),
        ("0,1", 2),
        ("3", 1),
        ("0, 2", 2),
        ("0,9,1", 1),
        ("-1", 0),
        ("1,1", 0),
        ("1,01", 0),
        ("GPU-8f2a,GPU-77aa", 2),
        ("MIG-1234", 1),
        ("MIG-1234,MIG-5678", 1),
        ("none", 0),
    ],
)
def test_count_gpus(tmp_path: Path, mask: str | None, expected: int) -> None:
    lay(tmp_path, *(f"dev/{name}" for name in ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "null")))
    assert count_gpus({} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}, tmp_path) == expected


def test_cut_up_all_of_them(tmp_path: Path) -> None:
    lay(tmp_path, "dev/nvidia0", "dev/nvidia1", "proc/driver/nvidia/capabilities/gpu0/mig/gi1/access")
    assert count_gpus({}, tmp_path) == 2
    lay(tmp_path, "proc/driver/nvidia/capabilities/gpu1/mig/gi1/access")
    assert count_gpus({}, tmp_path) == 1


@pytest.mark.parametrize(
    ("files", "count"),
    [(("dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"), 1), (("dev/dxg",), 0), (("dev/nvhost-gpu",), 1), (("dev/null",), 0)],
)
def test_one_that_is_not_called_nvidia0(tmp_path: Path, files: tuple[str, ...], count: int) -> None:
    lay(tmp_path, *files)
    assert count_gpus({}, tmp_path) == count
    assert count_gpus({"CUDA_VISIBLE_DEVICES": "-1"}, tmp_path) == 0


@pytest.mark.parametrize(
    ("env", "count"),
    [
        ({}, 2),
        ({"HIP_VISIBLE_DEVICES": "1"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "1"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, 0),
    ],
)
def test_of_amd(tmp_path: Path, env: dict[str, str], count: int) -> None:
    lay_out(tmp_path, "kfd", "dri/renderD128", "dri/renderD136")
    assert count_gpus(env, tmp_path) == count


def test_of_amd_one_is_anothers(tmp_path: Path) -> None:
    lay_out(tmp_path, "kfd", "dri/renderD128")
    assert count_gpus({}, tmp_path) == 1
    (tmp_path / "dev/kfd").unlink()
    assert count_gpus({}, tmp_path) == 0


def test_no_driver_no_gpu(tmp_path: Path) -> None:
    assert count_gpus({"CUDA_VISIBLE_DEVICES": "0,1"}, tmp_path) == 0


def test_count_cpus() -> None:
    assert count_cpus() >= 1
