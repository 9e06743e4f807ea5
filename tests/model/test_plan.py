"""The process groups that a plan's --backend stands for, compared with what torch makes of the same words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from distdoctor.model.plan import Plan


@pytest.mark.parametrize(
    ("backend", "gpus", "expected"),
    [
        ("auto", False, ("gloo",)),
        ("auto", True, ("gloo", "nccl")),
        ("gloo", True, ("gloo",)),
        ("nccl", False, ("nccl",)),
        ("cpu:gloo,cuda:nccl", True, ("gloo", "nccl")),
        ("cuda:nccl,cpu:gloo", False, ("nccl", "gloo")),
        ("cpu:gloo,cuda:gloo", True, ("gloo",)),
        ("cuda:nccl", True, ("nccl",)),
        ("mpi", False, ("mpi",)),
    ],
)
def test_the_groups_of_a_backend(backend: str, gpus: bool, expected: tuple[str, ...]) -> None:
    assert Plan(backend=backend).backends(gpus) == expected


@pytest.mark.parametrize(
    ("backend", "planned"),
    [("auto", True), ("gloo", True), ("nccl", False), ("cpu:gloo,cuda:nccl", True), ("cuda:nccl", False)],
)
def test_whether_gloo_is_planned(backend: str, planned: bool) -> None:
    assert Plan(backend=backend).gloo_planned is planned


def test_torch_reads_the_same_words_the_same_way() -> None:
    """BackendConfig is what init_process_group() makes of its ``backend``; one process asks torch for all of them."""
    words = ("gloo", "cpu:gloo,cuda:nccl", "cpu:gloo,cuda:gloo")
    code = (
        "from torch.distributed.distributed_c10d import Backend, BackendConfig\n"
        f"for word in {words!r}:\n"
        "    names = BackendConfig(Backend(word)).get_device_backend_map()\n"
        "    print(*sorted({str(names[d]) for d in ('cpu', 'cuda')}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert [tuple(line.split()) for line in done.stdout.splitlines()] == [
        tuple(sorted(Plan(backend=word).backends(gpus=True))) for word in words
    ]
