"""PBS, LSF and SGE: tasks where the scheduler starts them, and the batch script that starts nothing on the other nodes.

Variables: pbsdsh(1), qsub(1); lightning/fabric/plugins/environments/lsf.py; sge_pe(5).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Event, Timer

import pytest

from distdoctor.model.errors import UsageError
from tests.plan.recorded import env_of, plan_in, values

SHAPE = ("started", "launcher", "rank", "world_size", "local_rank", "nnodes", "master_addr", "master_port")
JSRUN = env_of("JSM_NAMESPACE_RANK=3 JSM_NAMESPACE_SIZE=4 JSM_NAMESPACE_LOCAL_RANK=1 LSB_JOBID=123456")
RANKED = env_of("RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=n0 MASTER_PORT=29500")


def file(folder: Path, *lines: str) -> str:
    path = folder / "hosts"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def pbs(folder: Path, task: int, number: int, *hosts: str) -> dict[str, str]:
    told = env_of(f"PBS_TASKNUM={task} PBS_NODENUM={number} PBS_VNODENUM={number} PBS_JOBID=412.head")
    return told | {"PBS_NODEFILE": file(folder, *hosts)}


def test_pbsdsh(tmp_path: Path) -> None:
    plan = plan_in(pbs(tmp_path, 3, 1, "n0", "n1", "n2"))
    assert values(plan, *SHAPE) == ("rank", "PBS", 1, 3, 0, 3, "n0", 10412)


def test_pbsdsh_with_several_processes_on_a_host_is_not_guessed(tmp_path: Path) -> None:
    env = pbs(tmp_path, 3, 1, "n0", "n0", "n1", "n1")
    with pytest.raises(UsageError, match=r"pbsdsh does not tell .* `mpirun distdoctor check`"):
        plan_in(env)
    assert plan_in(env | RANKED).launcher == "env"


def test_jsrun(tmp_path: Path) -> None:
    env = JSRUN | {"LSB_DJOB_RANKFILE": file(tmp_path, "launch", "n0", "n0", "n1", "n1")}
    plan = plan_in(env | env_of("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4"))
    assert values(plan, *SHAPE) == ("rank", "LSF (jsrun)", 3, 4, 1, None, "n0", 10456)
    for unknown in (JSRUN, JSRUN | {"LSB_DJOB_RANKFILE": file(tmp_path, "launch")}):
        with pytest.raises(UsageError, match="jsrun -E MASTER_ADDR=HOST"):
            plan_in(unknown)


def test_mpirun_in_a_job_takes_its_first_host(tmp_path: Path) -> None:
    hydra = env_of("MPI_LOCALNRANKS=1 MPI_LOCALRANKID=0 PMI_RANK=1 PMI_SIZE=2 JOB_ID=77")
    plan = plan_in(hydra | {"PE_HOSTFILE": file(tmp_path, "n0 1 all.q@n0 UNDEFINED", "n1 1 all.q@n1 UNDEFINED")})
    assert values(plan, *SHAPE) == ("rank", "hydra", 1, 2, 0, None, "n0", 10077)


@pytest.mark.parametrize("scheduler", ["PBS", "LSF", "SGE", "SGE, no file", "OAR", "PJM"])
def test_a_batch_script_of_several_nodes_is_refused(tmp_path: Path, scheduler: str) -> None:
    env = {
        "PBS": pbs(tmp_path, 1, 0, "n0", "n0", "n1"),
        "LSF": {"LSB_JOBID": "5", "LSB_MCPU_HOSTS": "n0 2 n1 2"},
        "SGE": {"PE_HOSTFILE": file(tmp_path, "n0 2 all.q@n0 UNDEFINED", "n1 2 all.q@n1 UNDEFINED")},
        "SGE, no file": env_of("JOB_ID=7 NHOSTS=2 NSLOTS=16 PE_HOSTFILE=/gone"),
        "PJM": env_of("PJM_JOBID=7 PJM_NODE=2"),
        "OAR": {"OAR_JOB_ID": "5", "OAR_NODEFILE": file(tmp_path, "n0", "n0", "n1")},
    }[scheduler]
    name = scheduler.partition(",")[0]
    with pytest.raises(UsageError, match=rf"this {name} job has 2 nodes, .* `mpi\w+ .*distdoctor check`"):
        plan_in(env)
    assert plan_in(env, standalone=True).nnodes == 1
    assert plan_in(env, nnodes="2", master_addr="n0", node_rank=0).nnodes == 2
    assert plan_in(env | RANKED).launcher == "env"


def test_a_file_that_is_none_is_not_waited_for(tmp_path: Path) -> None:
    fifo, waited = str(tmp_path / "fifo"), Event()
    os.mkfifo(fifo)

    def let_go() -> None:
        waited.set()
        with suppress(OSError):  # nobody waits
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))

    timer = Timer(20.0, let_go)
    timer.start()
    try:
        assert values(plan_in({"PBS_NODEFILE": fifo}), "nnodes", "launcher") == (1, "")
        assert not waited.is_set()
    finally:
        timer.cancel()
        timer.join()


@pytest.mark.parametrize("name", ["PBS_NODEFILE", "OAR_NODEFILE", "LSB_DJOB_RANKFILE", "PE_HOSTFILE"])
def test_a_list_of_nodes_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    """As in a container that does not have the scheduler's folder."""
    assert f"cannot be read here ({name}=/gone)" in plan_in({name: "/gone"}).note
    assert plan_in({name: file(tmp_path, "n0", "n0")}).note == plan_in({name: "/gone"}, standalone=True).note == ""


def test_a_job_of_one_node_is_one_machine(tmp_path: Path) -> None:
    for env in (pbs(tmp_path, 1, 0, "n0", "n0"), {"LSB_MCPU_HOSTS": "n0 8"}, {"PBS_NODEFILE": "/gone"}):
        assert values(plan_in(env), "started", "nnodes", "launcher") == ("node", 1, "")
