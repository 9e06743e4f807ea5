"""mpirun and mpiexec: the plan of each rank. Environments of Open MPI 4.1.4 and MPICH's hydra 4.0.2."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distdoctor.model.errors import UsageError
from tests.plan.recorded import env_of, plan_in, values, without

OPEN_MPI = env_of(
    "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 OMPI_COMM_WORLD_RANK=3 "
    "OMPI_COMM_WORLD_SIZE=4 OMPI_MCA_orte_hnp_uri=802947072.0;tcp://10.91.0.10:53493;tcp6://[fd00::2]:54585 "
    "OMPI_MCA_orte_num_nodes=2 PMIX_RANK=3 PMIX_HOSTNAME=host1"
)
HYDRA = env_of("MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_FD=8 PMI_RANK=3 PMI_SIZE=4")
MVAPICH = env_of("MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2")
FLUX = env_of("FLUX_TASK_RANK=3 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_SIZE=4 FLUX_JOB_NNODES=2 PMI_RANK=3 PMI_SIZE=4 PMI_FD=5")
PALS = env_of("PALS_RANKID=3 PALS_LOCAL_RANKID=1 PMI_RANK=3 PMI_SIZE=4 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2")
PALS_ALONE = env_of("PALS_RANKID=3 PALS_SIZE=4 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 PMIX_RANK=3")
PRTERUN = env_of("PMIX_NAMESPACE=prterun-a-7@1 PMIX_RANK=2 PRTE_LAUNCHED=1")
SHAPE = ("rank", "world_size", "local_rank", "nproc_per_node", "nnodes", "master_addr", "master_port")


@pytest.mark.parametrize(
    ("env", "launcher", "shape"),
    [
        (OPEN_MPI, "Open MPI", (3, 4, 1, 2, 2, "10.91.0.10", 29500)),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, "Open MPI", (3, 4, 1, 4, 1, "127.0.0.1", 29500)),
        (OPEN_MPI | {"MASTER_ADDR": "host0"}, "Open MPI", (3, 4, 1, 2, 2, "host0", 29500)),
        # in a SLURM job: mpirun starts its daemons with srun, and all ranks of a node have SLURM_PROCID 0
        (
            OPEN_MPI | env_of("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=12"),
            "Open MPI",
            (3, 4, 1, 2, 2, "10.91.0.10", 15012),
        ),
        # from a shell of salloc on the login node, whose address mpirun tells
        (OPEN_MPI | env_of("SLURM_JOB_ID=12 SLURM_JOB_NODELIST=sn[3-4]"), "Open MPI", (3, 4, 1, 2, 2, "sn3", 15012)),
        # 5.x has no OMPI_MCA_orte_*
        (
            without(OPEN_MPI, "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_num_nodes")
            | env_of("SLURM_JOB_ID=12 SLURM_JOB_NODELIST=sn[3-4]"),
            "Open MPI",
            (3, 4, 1, 2, None, "sn3", 15012),
        ),
        # Azure ML
        (
            without(OPEN_MPI, "OMPI_MCA_orte_hnp_uri") | {"AZ_BATCH_MASTER_NODE": "10.0.0.4:6000"},
            "Open MPI",
            (3, 4, 1, 2, 2, "10.0.0.4", 29500),
        ),
        (HYDRA | {"MASTER_ADDR": "host0"}, "hydra", (3, 4, 1, 2, None, "host0", 29500)),
        (HYDRA | {"MPI_LOCALNRANKS": "4"}, "hydra", (3, 4, 1, 4, 1, "127.0.0.1", 29500)),
        (MVAPICH | {"MASTER_ADDR": "host0"}, "MVAPICH2", (3, 4, 1, 2, None, "host0", 29500)),
        (MVAPICH | {"MV2_COMM_WORLD_LOCAL_SIZE": "4"}, "MVAPICH2", (3, 4, 1, 4, 1, "127.0.0.1", 29500)),
        (FLUX | {"MASTER_ADDR": "host0"}, "Flux", (3, 4, 1, None, 2, "host0", 29500)),
        # with -o pmi=none
        (without(FLUX, "PMI_RANK", "PMI_SIZE") | {"MASTER_ADDR": "a"}, "Flux", (3, 4, 1, None, 2, "a", 29500)),
        (FLUX | {"FLUX_JOB_NNODES": "1"}, "Flux", (3, 4, 1, None, 1, "127.0.0.1", 29500)),
        (PALS | {"MASTER_ADDR": "host0"}, "Cray PALS", (3, 4, 1, 2, None, "host0", 29500)),
        (PALS_ALONE | {"MASTER_ADDR": "host0"}, "Cray PALS", (3, 4, 1, 2, None, "host0", 29500)),
        (env_of("PMI_RANK=1 PMI_SIZE=2 MASTER_ADDR=host0"), "PMI", (1, 2, None, None, None, "host0", 29500)),
    ],
)
def test_a_rank(env: dict[str, str], launcher: str, shape: tuple[Any, ...]) -> None:
    plan = plan_in(env)
    assert (plan.started, plan.launcher, values(plan, *SHAPE), plan.problems) == ("rank", launcher, shape, ())
    assert plan.task == plan.rank


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (without(OPEN_MPI, "OMPI_MCA_orte_hnp_uri"), "mpirun -x MASTER_ADDR=HOST"),
        (HYDRA, "mpiexec -genv MASTER_ADDR HOST"),
        (FLUX, "flux run --env=MASTER_ADDR=HOST"),
        (PALS, "mpiexec --env MASTER_ADDR=HOST"),
        (MVAPICH, r"mpirun_rsh \.\.\. MASTER_ADDR=HOST"),
    ],
)
def test_where_rank_0_is_not_told_it_is_asked_for(env: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        plan_in(env)


@pytest.mark.parametrize("env", [OPEN_MPI, HYDRA | {"MASTER_ADDR": "host0"}])
def test_a_rank_on_each_node_starts_the_others_where_a_flag_says_so(env: dict[str, str]) -> None:
    alone = {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "MPI_LOCALNRANKS": "1"}
    plan = plan_in(env | {name: size for name, size in alone.items() if name in env}, nproc_per_node="8")
    assert values(plan, "started", "nnodes", "nproc_per_node", "node_rank") == ("node", 4, 8, 3)
    with pytest.raises(UsageError, match=r"-N 1 \(mpirun\)"):
        plan_in(env, nproc_per_node="8")


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (PRTERUN, r"prterun, or .* started this as number 2 \(PMIX_RANK\), and does not tell .* how many there are"),
        (env_of("ALPS_APP_PE=3"), r"aprun started this as number 3 \(ALPS_APP_PE\)"),
    ],
)
def test_a_number_without_a_count_is_refused(env: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        plan_in(env)
    assert plan_in(env, standalone=True).nnodes == 1
    assert plan_in(env | env_of("RANK=2 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=29500")).rank == 2


def test_in_a_shell_of_flux_it_is_said_that_this_machine_is_one_of_its_instance() -> None:
    assert "`flux run -N M distdoctor check`" in plan_in({"FLUX_URI": "local:///run/flux/local"}).note
    assert plan_in(FLUX | {"FLUX_URI": "local:///run/flux/local", "MASTER_ADDR": "a"}).note == ""


@pytest.mark.parametrize(
    "env",
    [
        OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1"},
        HYDRA | {"PMI_SIZE": "1"},
        env_of("SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=7 PMIX_RANK=0"),
    ],
)
def test_one_rank_is_one_machine(env: dict[str, str]) -> None:
    assert values(plan_in(env), "started", "nnodes", "launcher") == ("node", 1, "")


def test_the_host_of_mpiexec_is_that_of_its_proxy(tmp_path: Path) -> None:
    """hydra's proxy starts a shell, and that a rank: the proxy was told where mpiexec is."""
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.symlink_to("/bin/bash")
    code = "import os; from distdoctor.plan.launchers.mpi import _mpiexec; print(_mpiexec(os.getppid()))"
    rank = shlex.join(["sh", "-c", shlex.join([sys.executable, "-c", code]) + "; true"])
    words = [str(proxy), "-c", f"{rank}; true", "--control-port", "host0:33525"]
    assert "value='host0'" in subprocess.check_output(words, text=True, timeout=60)
