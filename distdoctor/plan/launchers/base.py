"""Variables of a launcher for a process that it starts as one of several. Each launcher has a ``detect_...(env)``."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from distdoctor.model.launch_settings import (
    LAUNCH_VARIABLES,
    LOCAL_RANK,
    MASTER_ADDR,
    NODE_RANK,
    NPROC_PER_NODE,
    RANK,
    WORLD_SIZE,
)
from distdoctor.model.launch_variables import (
    AGENT_STORE,
    LSF_JOB,
    PBS_JOB,
    RESTART_COUNT,
    RUN_ID,
    SLURM_JOB,
    SLURM_LISTS,
)
from distdoctor.plan.syntax import expand, number_of


@dataclass(frozen=True)
class DerivedValue:
    """Value of the plan that is in no variable of its own, and its source."""

    value: int | str
    source: str


@dataclass(frozen=True)
class Launched:
    """Launcher of this process, which is one of several, and its variables."""

    launcher: str
    variables: Mapping[str, tuple[str, ...]]
    """Field of the plan -> variables; the first that is set counts."""
    found: Mapping[str, DerivedValue] = field(default_factory=dict)
    """Fields of the plan that none of these variables has."""
    required: tuple[str, ...] = LAUNCH_VARIABLES
    """Variables without which the job would not start."""
    roster: tuple[str, ...] = ()
    """Names of the nodes, in the order of their ranks; empty if unknown."""
    tasks: tuple[int, ...] = ()
    """Number of processes on each of them."""
    nodes_even: bool = True
    """True if each node has as many processes as this one."""
    task: str = ""
    """Variable that numbers the processes that share one output; empty if each has its own."""
    per_node: bool = False
    """True if it starts one process on each node, none for each rank."""
    rank0_unknown: str = ""
    """Instruction for the user to name rank 0's node, if the launcher does not."""
    everywhere: str = ""
    """Command prefix that starts the command on all nodes of the job, if it runs on this one only."""
    note: str = ""
    """Note for the reader of the report."""
    agent_store: bool = False
    """True if torchrun's agent hosts the store, and the ranks are its clients."""
    run_id: str = "none"
    restart: int = 0
    """Number of restarts of the ranks."""
    spawned: bool = False
    """True if a process of the launcher started this one, not the launcher itself."""

    @property
    def first(self) -> str:
        """Return the host of its first process; empty if that is only a guess, such as the host that it was started
        on."""
        master = self.found.get("master_addr")
        return str(master.value) if master is not None and self.roster else ""


# Launchers that number the ranks they start in variables of their own: mpirun, mpiexec, jsrun.


@dataclass(frozen=True)
class LauncherRanks:
    """Variables of such a launcher: each rank's number and the number of ranks, in all and on its node."""

    rank: str
    size: str
    local_rank: str
    local_size: str
    with_variable: str
    """Argument by which its command passes a variable: ``mpirun -x {}={}``."""

    def one_of_several(self, env: Mapping[str, str]) -> bool:
        """Return whether this process is one of several that it started."""
        return self.rank in env and self.size in env and number_of(env[self.size]) != 1

    def on_one_node(self, env: Mapping[str, str]) -> bool:
        """Return whether all of them are on this node."""
        return env.get(self.local_size) == env[self.size]

    def placed(self, env: Mapping[str, str]) -> dict[str, DerivedValue]:
        """Return the port of the job, and the master's address if all ranks are on this node."""
        placed = dict(job_port(env))
        if self.on_one_node(env):
            placed["nnodes"] = DerivedValue(1, self.local_size)
            placed["master_addr"] = DerivedValue("127.0.0.1", self.local_size)
        return placed

    def launched(self, name: str, placed: Mapping[str, DerivedValue], roster: Sequence[str] = ()) -> Launched:
        """Return the launcher with its variables. The variables of torch count before its own."""
        command = next(word for word in self.with_variable.split() if "{" not in word)
        return Launched(
            name,
            {
                "rank": (*RANK.variables, self.rank),
                "world_size": (*WORLD_SIZE.variables, self.size),
                "local_rank": (*LOCAL_RANK.variables, self.local_rank),
                "nproc_per_node": (*NPROC_PER_NODE.variables, self.local_size),
                "node_rank": (),
            },
            placed,
            (),
            tuple(roster),
            nodes_even=False,
            task=self.rank,
            rank0_unknown=(
                f"{command} does not tell the ranks where rank 0 is: add its host, "
                f"`{self.with_host('HOST')} ... distdoctor check`"
            ),
        )

    def with_host(self, host: str) -> str:
        """Return the start of a command that names rank 0's host."""
        return self.with_variable.format(MASTER_ADDR.variables[0], host)


# Ranks whose variables were set by hand, by a script or by an unknown launcher (env://).


LAUNCHER = "env"
"""Name for whatever set the variables."""
VARIABLES = {setting.name: setting.variables for setting in (RANK, WORLD_SIZE, LOCAL_RANK, NPROC_PER_NODE)} | {
    # The name of torchrun's agent for its node counts before that of a script.
    NODE_RANK.name: NODE_RANK.variables[::-1]
}


def detect_environment(env: Mapping[str, str]) -> Launched | None:
    """Detect one rank, by any of the four variables that init_process_group() needs."""
    return job_environment(env, LAUNCHER) if any(name in env for name in LAUNCH_VARIABLES) else None


def job_environment(env: Mapping[str, str], launcher: str) -> Launched:
    """Return the launch by its variables. PyTorch reads the agent's whoever set them
    (torch/distributed/rendezvous.py)."""
    restart = env.get(RESTART_COUNT, "")
    return Launched(
        launcher,
        VARIABLES,
        agent_store=env.get(AGENT_STORE) == "True",
        run_id=env.get(RUN_ID, "none"),
        restart=int(restart) if re.fullmatch(r"\d{1,9}", restart) else 0,
    )


# A file named by a variable of the launcher: whatever it is, it must not block.


def text_of(path: str, most: int) -> str:
    """Return at most ``most`` bytes of it as text; empty if it is no regular file, or unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)  # does not wait for a FIFO's writer
        with open(descriptor, "rb") as file:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return file.read(most).decode("utf-8", "replace") if regular else ""
    except (OSError, ValueError):
        return ""


# Job of a scheduler: its nodes, and a port that each of its processes derives by itself.
#
# For launchers that set neither. Ports are those that Lightning takes for SLURM and LSF (slurm.py and lsf.py in
# lightning/fabric/plugins/environments), so that the port tried is the one that such a job will use; the others
# likewise, all below Linux's ephemeral ports.


MAX_BYTES = 1 << 20
PORTS = (
    # variable of the job's number, first port, number of ports
    (SLURM_JOB, 15_000, 10_000),
    (LSF_JOB, 10_000, 1_000),
    (PBS_JOB, 10_000, 10_000),
    ("JOB_ID", 10_000, 10_000),
    ("OAR_JOB_ID", 10_000, 10_000),
)
PBS_FILE, SGE_FILE, LSF_FILE, LSF_HOSTS = "PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_RANKFILE", "LSB_MCPU_HOSTS"
OAR_FILE = "OAR_NODEFILE"
AZURE = "AZ_BATCH_MASTER_NODE"
"""Azure Batch, and Azure ML below it: ADDRESS:PORT of the node that mpirun runs on, without a list of the nodes."""


def job_port(env: Mapping[str, str]) -> dict[str, DerivedValue]:
    """Return ``master_port`` by the job's number; empty without a job."""
    for name, first, count in PORTS:
        # PBS has 123.server and 123[7].server; others may use the name of SGE's variable, but not that of its file.
        number = number_of(env.get(name, "").partition(".")[0].partition("[")[0])
        if number is not None and (name != "JOB_ID" or SGE_FILE in env):
            return {"master_port": DerivedValue(first + number % count, name)}
    return {}


def job_slots(env: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Return the nodes of the job, one for each slot if known, and their source; empty without one."""
    for name in SLURM_LISTS:
        if nodes := expand(env.get(name, "")):
            return nodes, name
    for name in (PBS_FILE, OAR_FILE):
        if lines := _lines(env, name):
            return tuple(line.split()[0] for line in lines), name
    if lines := _lines(env, LSF_FILE):
        return tuple(line.split()[0] for line in lines[1:]), LSF_FILE  # the first is where the job was launched
    words = env.get(LSF_HOSTS, "").split()
    if words and len(words) % 2 == 0:
        return tuple(words[::2]), LSF_HOSTS
    return tuple(line.split()[0] for line in _lines(env, SGE_FILE)), SGE_FILE


def job_nodes(env: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Return the distinct nodes of the job, and their source."""
    names, source = job_slots(env)
    return tuple(dict.fromkeys(names)), source


def job_first_node(env: Mapping[str, str]) -> DerivedValue | None:
    """Return the node on which a launcher in the job places its first process by default."""
    names, source = job_nodes(env)
    address = env.get(AZURE, "").rpartition(":")[0]
    return DerivedValue(names[0], source) if names else DerivedValue(address, AZURE) if address else None


def unread_note(env: Mapping[str, str]) -> str:
    """Return the note that the scheduler's list of nodes cannot be read, as in a container without its folder; else
    empty."""
    name = next((variable for variable in (PBS_FILE, OAR_FILE, LSF_FILE, SGE_FILE) if env.get(variable)), None)
    if name is None or job_nodes(env)[0]:
        return ""
    return (
        f"the list of the job's nodes cannot be read here ({name}={env[name]}), as in a container that does not have "
        "the folder: this machine alone was checked; if the job has more, hand the file on"
    )


def _lines(env: Mapping[str, str], name: str) -> list[str]:
    return [line for line in text_of(env.get(name, ""), MAX_BYTES).splitlines() if line.strip()]


def job_is_alone(scheduler: str, count: int, line: str) -> str:
    """Return the text for a check of one machine of a job that has several."""
    return (
        f"this {scheduler} job has {count} nodes, and the check was started on one: type `{line}` (or add --standalone "
        "for this machine alone)"
    )
