"""How each launcher starts a job on all nodes of a site, as it is typed on the login node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import join, quote

from tests.launchers.harness.site import Site

Launcher = Callable[[Site, int, Sequence[str]], list[str]]
MPIRUN, HYDRA = "mpirun.openmpi", "mpiexec.hydra"


def srun(site: Site, nproc: int, command: Sequence[str]) -> list[str]:
    """SLURM, ``nproc`` tasks on each node."""
    return ["srun", f"-N{len(site.nodes)}", f"--ntasks-per-node={nproc}", *command]


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


def torchrun(site: Site, nproc: int, command: Sequence[str]) -> list[str]:
    """torchrun on every node, over ssh. ``command`` begins with how a job is started, then Python and its module."""
    job, python, *rest = command
    count = ["--nnodes", str(len(site.nodes)), "--nproc-per-node", str(nproc), "--node-rank", "{rank}"]
    agent = [job, python, "-m", "torch.distributed.run", *count, "--master-addr", site.names[0]]
    return by_ssh(site, [*agent, *rest])


def by_ssh(site: Site, command: Sequence[str]) -> list[str]:
    """A loop over ssh, the same command everywhere; {rank} in it is the node's number."""
    commands = {name: join(command).replace("{rank}", str(rank)) for rank, name in enumerate(site.names)}
    lines = [f"ssh {name} {quote(told)} </dev/null &" for name, told in commands.items()]
    return ["sh", "-c", "\n".join([*lines, "wait"])]
