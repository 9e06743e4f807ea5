"""The job that a scheduler has given these processes: its nodes, and a port that all of them find by themselves.

For launchers that tell neither. Ports: as Lightning takes them for SLURM and LSF (slurm.py and lsf.py in
lightning/fabric/plugins/environments), so that the port tried is the one that such a job will use; the others likewise,
all below Linux's ephemeral ports.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch.launched import Found
from distdoctor.launch.nodes import expand, number_of
from distdoctor.launch.plain_file import text_of
from distdoctor.model.launch_variables import LSF_JOB, PBS_JOB, SLURM_JOB, SLURM_LISTS

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


def port(env: Mapping[str, str]) -> dict[str, Found]:
    """``master_port`` by the job's number; empty where there is no job."""
    for name, first, count in PORTS:
        # PBS has 123.server and 123[7].server; SGE's variable has a name that others may use, its file has not.
        number = number_of(env.get(name, "").partition(".")[0].partition("[")[0])
        if number is not None and (name != "JOB_ID" or SGE_FILE in env):
            return {"master_port": Found(first + number % count, name)}
    return {}


def slots(env: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
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


def nodes(env: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The nodes of the job, each once, and what says so."""
    names, source = slots(env)
    return tuple(dict.fromkeys(names)), source


def first_node(env: Mapping[str, str]) -> Found | None:
    """Where a launcher in the job places its first process, unless it is told otherwise."""
    names, source = nodes(env)
    address = env.get(AZURE, "").rpartition(":")[0]
    return Found(names[0], source) if names else Found(address, AZURE) if address else None


def unread_note(env: Mapping[str, str]) -> str:
    """What is to be said where the scheduler's list of the job's nodes is named and cannot be read, as in a container
    that does not have its folder; empty where it can, or there is none."""
    name = next((one for one in (PBS_FILE, OAR_FILE, LSF_FILE, SGE_FILE) if env.get(one)), None)
    if name is None or nodes(env)[0]:
        return ""
    return (
        f"the list of the job's nodes cannot be read here ({name}={env[name]}), as in a container that does not have "
        "the folder: this machine alone was checked; if the job has more, hand the file on"
    )


def _lines(env: Mapping[str, str], name: str) -> list[str]:
    return [line for line in text_of(env.get(name, ""), MAX_BYTES).splitlines() if line.strip()]


def alone(scheduler: str, count: int, line: str) -> str:
    """What is told where a check would be of one machine of a job that has several."""
    return (
        f"this {scheduler} job has {count} nodes, and the check was started on one: type `{line}` (or add --standalone "
        "for this machine alone)"
    )
