"""Containers that do not start, and those that do after all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged, roots

CHECK = "launch/container-not-started"
REFUSED = "docker: Error response from daemon: pull access denied for me/train, repository does not exist.\n"
PULL = (
    '  Warning  Failed   5m  kubelet  Failed to pull image "reg/train:v1": desc = i/o timeout\n'
    "  Warning  Failed   5m  kubelet  Error: ErrImagePull\n"
)
STARTED = "  Normal   Started  4m  kubelet  Started container pytorch\n"
STEPS = "step 1 loss 2.31\nstep 2 loss 2.21\nstep 3 loss 2.11\nTraining finished\n"
HEALTHY = {
    "another image was taken": REFUSED + STEPS,
    "pulled at the second try": PULL + STARTED,
    "not on this host yet": "Unable to find image 'reg/train:v1' locally\nStatus: Downloaded newer image\n" + STEPS,
    "a folder that is left out": "WARNING: skipping mount of /data: no such file or directory\n" + STEPS,
}


@pytest.mark.parametrize("text", HEALTHY.values(), ids=HEALTHY)
def test_where_it_ran_after_all_nothing_failed(tmp_path: Path, text: str) -> None:
    found = judged(tmp_path, text)
    assert (found.findings, found.candidates) == ((), ())
    assert found.verdict in ("pass", "warn")  # the latter where the log says nothing of an end


def test_what_is_refused_again_is_only_a_candidate(tmp_path: Path) -> None:
    found = judged(tmp_path, PULL)
    assert found.verdict == "incomplete" and CHECK in [one.check for one in found.candidates]


def test_a_runtime_of_the_host_is_no_program_of_the_image(tmp_path: Path) -> None:
    said = 'docker: OCI runtime create failed: exec: "{}": executable file not found in $PATH\n'
    assert roots(tmp_path, said.format("torchrun")) == [(CHECK, ())]
    assert roots(tmp_path, said.format("nvidia-container-runtime")) == [("gpu/none-visible", ())]


def test_why_enroot_did_not_start_it_is_the_reason(tmp_path: Path) -> None:
    said = "slurmstepd: error: pyxis: "
    text = (
        f"{said}child 1234 failed with error code: 1\n{said}failed to create container filesystem\n"
        f"{said}printing enroot log file:\n{said}    [ERROR] No such file or directory: /lustre/img/torch.sqsh\n"
        f"{said}couldn't start container\n"
        "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1\n"
    )
    assert roots(tmp_path, text) == [(CHECK, ())]
