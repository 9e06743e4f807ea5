"""Tests of who of several processes tells what all of them know."""

from __future__ import annotations

import pytest

from distdoctor.plan.launchers.ancestry import speaks
from tests.plan.recorded import env_of

STEP = "SLURM_STEP_ID=0 SLURM_PROCID="
AGENT = "TORCHELASTIC_RUN_ID=a RANK=2 LOCAL_RANK="


@pytest.mark.parametrize(
    ("env", "speaking"),
    [
        ("", True),
        ("RANK=1 LOCAL_RANK=1", True),
        (STEP + "0", True),
        (STEP + "1", False),
        ("SLURM_PROCID=1", True),
        ("OMPI_COMM_WORLD_RANK=0", True),
        ("OMPI_COMM_WORLD_RANK=3", False),
        # under mpirun in a SLURM job all ranks have this SLURM_PROCID
        (STEP + "0 OMPI_COMM_WORLD_RANK=3", False),
        ("PMI_RANK=1 MPI_LOCALRANKID=1", False),
        ("PMI_RANK=1 FLUX_TASK_RANK=1 FLUX_TASK_LOCAL_ID=1", False),
        ("MV2_COMM_WORLD_RANK=1", False),
        ("HOROVOD_RANK=1", False),
        ("PMI_RANK=1", True),
        (AGENT + "0", True),
        (AGENT + "1", False),
        (AGENT + "0 " + STEP + "1", False),
        (AGENT + "0 " + STEP + "0", False),
        ("TORCHELASTIC_RUN_ID=a RANK=0 LOCAL_RANK=0 " + STEP + "2", True),
    ],
)
def test_the_first_speaks(env: str, speaking: bool) -> None:
    assert speaks(env_of(env)) is speaking


def test_where_the_variables_were_lost_those_above_count() -> None:
    assert speaks({}, lambda: env_of(STEP + "0")) and not speaks({}, lambda: env_of(STEP + "1"))
    assert speaks(env_of("OMPI_COMM_WORLD_RANK=0"), lambda: env_of(STEP + "1")), "its own count"
