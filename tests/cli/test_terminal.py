"""Tests of whose terminal it is: a person's, or a launcher's that copies what it is written."""

from __future__ import annotations

import os

import pytest

from distdoctor import streams

LAUNCHED = ("SLURM_STEP_ID", "SLURM_PTY_PORT", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID", "NO_COLOR")


@pytest.mark.parametrize(
    ("env", "person"),
    [
        ({}, True),
        ({"OMPI_COMM_WORLD_RANK": "0"}, False),
        ({"MPI_LOCALRANKID": "0"}, False),
        ({"SLURM_STEP_ID": "0"}, False),
        ({"SLURM_STEP_ID": "0", "SLURM_PTY_PORT": "4711"}, True),
        ({"SLURM_JOB_ID": "12"}, True),
    ],
)
def test_a_launcher_s_terminal_gets_no_colour(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], person: bool
) -> None:
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    ours, theirs = os.openpty()
    with open(theirs, "w") as stream:
        assert (streams.is_terminal(stream), streams.wants_colour(stream)) == (person, person)
    os.close(ours)
