"""How each launcher starts a job on all nodes of a site, as it is typed on the login node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import join, quote

from tests.lab.harness.host import SHARED
from tests.launchers.harness.site import Site

Launcher = Callable[[Site, int, Sequence[str]], list[str]]
MPIRUN, HYDRA = "mpirun.openmpi", "mpiexec.hydra"
PORT = "29500"
OUT, ERR = f"{SHARED}/job.out", f"{SHARED}/job.err"
"""What a job told that nobody waits for at a terminal."""


def srun(site: Site, nproc: int, command: Sequence[str]) -> list[str]:
    """SLURM, ``nproc`` tasks on each node."""
    return ["srun", f"-N{len(site.nodes)}", f"--ntasks-per-node={nproc}", *command]


def sbatch(site: Site, nproc: int, command: Sequence[str]) -> list[str]:
    """A batch script of SLURM, whose one step is the job; what it told goes to files, as always."""
    size = [f"-N{len(site.nodes)}", f"--ntasks-per-node={nproc}"]
    job = [
        "sbatch",
        "--wait",
        "--quiet",
        *size,
        f"--output={OUT}",
        f"--error={ERR}",
        "--wrap",
        join(["srun", *command]),
    ]
    return ["sh", "-c", f"{join(job)}; status=$?; cat {OUT}; cat {ERR} >&2; exit $status"]


def mpirun(site: Site, nproc: int, command: Sequence[str]) -> list[str]:
    """Open MPI, by ssh. The master is node 0, as everybody sets it who trains with it."""
    hosts = ",".join(f"{name}:{nproc}" for name in site.names)
    master = ["-x", f"MASTER_ADDR={site.names[0]}"]
    # Without a terminal of its own, and on the network of the lab alone.
    return [MPIRUN, "--allow-run-as-root", "--mca", "btl_tcp_if_include", "eth0", "--host", hosts, *master, *command]


def hydra(site: Site, nproc: int, command: Sequence[str]) -> list[str]:
    """MPICH's (and Intel's) mpiexec, by ssh."""
    hosts, count = ",".join(site.names), str(nproc * len(site.nodes))
    master = ["-genv", "MASTER_ADDR", site.names[0]]
    return [HYDRA, "-launcher", "ssh", "-hosts", hosts, "-ppn", str(nproc), "-n", count, *master, *command]


def torchrun(site: Site, nproc: int, command: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """torchrun on every node, over ssh. ``command`` begins with how a job is started, then Python and its module;
    ``before``: what starts the agent itself."""
    job, python, *rest = command
    count = ["--nnodes", str(len(site.nodes)), "--nproc-per-node", str(nproc), "--node-rank", "{rank}"]
    agent = [job, *before, python, "-m", "torch.distributed.run", *count, "--master-addr", site.names[0]]
    return by_ssh(site, [*agent, *rest])


def plain(site: Site, nproc: int, command: Sequence[str]) -> list[str]:
    """No launcher: the same line typed on every node, but for the node's number."""
    count = ["--nnodes", str(len(site.nodes)), "--nproc-per-node", str(nproc), "--node-rank", "{rank}"]
    return by_ssh(site, [*command, *count, "--master-addr", site.names[0], "--master-port", PORT])


def accelerate(site: Site, nproc: int, command: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """accelerate launch on every node, over ssh; for several processes it is torchrun's agent."""
    job, python, flag, module, *rest = command
    nodes = len(site.nodes)
    machines = ["--num_machines", str(nodes), "--machine_rank", "{rank}", "--main_process_ip", site.names[0]]
    count = ["--multi_gpu", "--num_processes", str(nproc * nodes), *machines, "--main_process_port", PORT]
    agent = [job, *before, python, "-m", "accelerate.commands.launch", *count]
    return by_ssh(site, [*agent, flag, module, *rest])


def by_ssh(site: Site, command: Sequence[str]) -> list[str]:
    """A loop over ssh, the same command everywhere; {rank} in it is the node's number. Its status is the last bad one,
    and what each told comes in one piece."""
    commands = {name: join(command).replace("{rank}", str(rank)) for rank, name in enumerate(site.names)}
    lines = [f'ssh {name} {quote(told)} </dev/null >{OUT}-{name} & all="$all $!"' for name, told in commands.items()]
    ends = ["for one in $all; do wait $one || status=$?; done", *(f"cat {OUT}-{name}" for name in site.names)]
    return ["sh", "-c", "\n".join([*lines, *ends, "exit ${status:-0}"])]
