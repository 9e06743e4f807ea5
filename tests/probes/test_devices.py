"""Counting GPUs without torch: device nodes under CUDA's mask."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.probes.devices import count_cpus, count_gpus


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
        ("none", 0),
    ],
)
def test_count_gpus(tmp_path: Path, mask: str | None, expected: int) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert count_gpus({} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}, tmp_path) == expected


def test_no_driver_no_gpu(tmp_path: Path) -> None:
    assert count_gpus({"CUDA_VISIBLE_DEVICES": "0,1"}, tmp_path) == 0


def test_count_cpus() -> None:
    assert count_cpus() >= 1
