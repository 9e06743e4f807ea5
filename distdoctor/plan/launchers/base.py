"""What a launcher tells a process that it starts as one of several. Each launcher has a module with ``detect(env)``."""

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
    """A value of the plan that stands in no variable of its own, and what it was made from."""

    value: int | str
    source: str


@dataclass(frozen=True)
class Launched:
    """This process is one of several that a launcher has started."""

    launcher: str
    variables: Mapping[str, tuple[str, ...]]
    """Where it puts each field of the plan; the first variable that is set counts."""
    found: Mapping[str, DerivedValue] = field(default_factory=dict)
    """Fields of the plan that no variable of those says."""
    required: tuple[str, ...] = LAUNCH_VARIABLES
    """The variables without which the job would not start."""
    roster: tuple[str, ...] = ()
    """The names of the nodes, in the order of their ranks; empty where that is not told."""
    tasks: tuple[int, ...] = ()
    """How many processes each of them has."""
    nodes_even: bool = True
    """Each node has as many processes as this one."""
    task: str = ""
    """The variable that numbers the processes whose output it makes one; empty where each has its own."""
    per_node: bool = False
    """It starts one process on each node, none for each rank."""
    rank0_unknown: str = ""
    """Where it does not tell who is rank 0: how the user can, in words."""
    everywhere: str = ""
    """What has to stand before the command, where nobody starts it on the nodes of the job but this one."""
    note: str = ""
    """What a reader of the report should know of it."""
    agent_store: bool = False
    """torchrun's agent hosts the store, the ranks are its clients."""
    run_id: str = "none"
    restart: int = 0
    """How often the ranks have been started again."""
    spawned: bool = False
    """A process of a launcher has started it, and not the launcher itself."""

    @property
    def first(self) -> str:
        """Return where its first process is; empty where it only guesses that, as by the host that it was started
        on."""
        found = self.found.get("master_addr")
        return str(found.value) if found is not None and self.roster else ""


# Launchers that number the ranks they start in variables of their own: mpirun, mpiexec, jsrun.


@dataclass(frozen=True)
class RankVariables:
    """The four variables of such a launcher: each rank's number and how many there are, in all and on its node."""

    rank: str
    size: str
    local_rank: str
    local_size: str
    with_variable: str
    """How its command hands on a variable: ``mpirun -x {}={}``."""

    def one_of_several(self, env: Mapping[str, str]) -> bool:
        """Return whether this process is one of several that it started."""
        return self.rank in env and self.size in env and number_of(env[self.size]) != 1

    def on_one_node(self, env: Mapping[str, str]) -> bool:
        """Return whether all of them are on this node."""
        return env.get(self.local_size) == env[self.size]

    def placed(self, env: Mapping[str, str]) -> dict[str, DerivedValue]:
        """The port of the job, and where the ranks meet if all of them are on this node."""
        found = dict(job_port(env))
        if self.on_one_node(env):
            found["nnodes"] = DerivedValue(1, self.local_size)
            found["master_addr"] = DerivedValue("127.0.0.1", self.local_size)
        return found

    def launched(self, name: str, found: Mapping[str, DerivedValue], roster: Sequence[str] = ()) -> Launched:
        """Return what it tells. The variables of torch, where they are set, count before its own."""
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
            found,
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
        """The start of a command that says where rank 0 is."""
        return self.with_variable.format(MASTER_ADDR.variables[0], host)


# Ranks whose variables were set by hand, by a script or by a launcher that has no module of its own (env://).


LAUNCHER = "env"
"""Whoever set the variables."""
VARIABLES = {setting.name: setting.variables for setting in (RANK, WORLD_SIZE, LOCAL_RANK, NPROC_PER_NODE)} | {
    # What torchrun's agent calls its node comes before what a script does.
    NODE_RANK.name: NODE_RANK.variables[::-1]
}


def detect_environment(env: Mapping[str, str]) -> Launched | None:
    """One rank, if any of the four variables is set that init_process_group() needs."""
    return job_environment(env, LAUNCHER) if any(name in env for name in LAUNCH_VARIABLES) else None


def job_environment(env: Mapping[str, str], launcher: str) -> Launched:
    """Return what the variables say. PyTorch reads the agent's whoever set them (torch/distributed/rendezvous.py)."""
    restart = env.get(RESTART_COUNT, "")
    return Launched(
        launcher,
        VARIABLES,
        agent_store=env.get(AGENT_STORE) == "True",
        run_id=env.get(RUN_ID, "none"),
        restart=int(restart) if re.fullmatch(r"\d{1,9}", restart) else 0,
    )


# A file that a variable of the launcher names: whatever it is, it is not waited for.


def text_of(path: str, most: int) -> str:
    """At most so many bytes of it, as text; empty where it is no regular file, or cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)  # a FIFO without a writer
        with open(descriptor, "rb") as file:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return file.read(most).decode("utf-8", "replace") if regular else ""
    except (OSError, ValueError):
        return ""


# The job that a scheduler has given these processes: its nodes, and a port that all of them find by themselves.
#
# For launchers that tell neither. Ports: as Lightning takes them for SLURM and LSF (slurm.py and lsf.py in
# lightning/fabric/plugins/environments), so that the port tried is the one that such a job will use; the others
# likewise,
# all below Linux's ephemeral ports.


MAX_BYTES = 1 << 20
PORTS = (
    # variable of the job's number, first port, how many
    (SLURM_JOB, 15_000, 10_000),
    (LSF_JOB, 10_000, 1_000),
    (PBS_JOB, 10_000, 10_000),
    ("JOB_ID", 10_000, 10_000),
    ("OAR_JOB_ID", 10_000, 10_000),
)
PBS_FILE, SGE_FILE, LSF_FILE, LSF_HOSTS = "PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_RANKFILE", "LSB_MCPU_HOSTS"
OAR_FILE = "OAR_NODEFILE"
AZURE = "AZ_BATCH_MASTER_NODE"
"""Azure Batch, and Azure ML below it: ADDRESS:PORT of the node that mpirun runs on, and no list of the nodes."""


def job_port(env: Mapping[str, str]) -> dict[str, DerivedValue]:
    """``master_port`` by the job's number; empty where there is no job."""
    for name, first, count in PORTS:
        # PBS has 123.server and 123[7].server; SGE's variable has a name that others may use, its file has not.
        number = number_of(env.get(name, "").partition(".")[0].partition("[")[0])
        if number is not None and (name != "JOB_ID" or SGE_FILE in env):
            return {"master_port": DerivedValue(first + number % count, name)}
    return {}


def job_slots(env: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The nodes of the job, one for each slot where that is told, and what says so; empty where nothing does."""
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
    """The nodes of the job, each once, and what says so."""
    names, source = job_slots(env)
    return tuple(dict.fromkeys(names)), source


def job_first_node(env: Mapping[str, str]) -> DerivedValue | None:
    """Return where a launcher in the job places its first process, unless it is told otherwise."""
    names, source = job_nodes(env)
    address = env.get(AZURE, "").rpartition(":")[0]
    return DerivedValue(names[0], source) if names else DerivedValue(address, AZURE) if address else None


def unread_note(env: Mapping[str, str]) -> str:
    """Return what is to be said where the scheduler's list of the job's nodes is named and cannot be read, as in a
    container that does not have its folder; empty where it can, or there is none."""
    name = next((one for one in (PBS_FILE, OAR_FILE, LSF_FILE, SGE_FILE) if env.get(one)), None)
    if name is None or job_nodes(env)[0]:
        return ""
    return (
        f"the list of the job's nodes cannot be read here ({name}={env[name]}), as in a container that does not have "
        "the folder: this machine alone was checked; if the job has more, hand the file on"
    )


def _lines(env: Mapping[str, str], name: str) -> list[str]:
    return [line for line in text_of(env.get(name, ""), MAX_BYTES).splitlines() if line.strip()]


def job_is_alone(scheduler: str, count: int, line: str) -> str:
    """Return what is told where a check would be of one machine of a job that has several."""
    return (
        f"this {scheduler} job has {count} nodes, and the check was started on one: type `{line}` (or add --standalone "
        "for this machine alone)"
    )
