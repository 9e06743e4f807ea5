"""Schedulers: SLURM, PBS, LSF, SGE, OAR and PJM, and processes outside of what they start on all nodes.

SLURM: the tasks of a step (srun), a prolog, and a shell or batch script of several nodes. srun(1), OUTPUT ENVIRONMENT
VARIABLES; measured with 22.05. The variables of the job (SLURM_JOB_NODELIST, SLURM_NTASKS) are not those of a step
inside it. In a heterogeneous step the ranks, nodes and tasks are those of all components.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import LOCAL_RANK, MASTER_ADDR, NODE_RANK, NPROC_PER_NODE, RANK, WORLD_SIZE
from distdoctor.model.launch_variables import JSRUN, SLURM_JOB, SLURM_LISTS, SLURM_NODE, SLURM_STEP, SLURM_TERMINAL
from distdoctor.plan.launchers import base
from distdoctor.plan.launchers.base import DerivedValue, Launched, LauncherRanks, text_of
from distdoctor.plan.syntax import MAX_NODES, expand, number_of, repeated

SLURM_NAME = "SLURM"
SLURM_NTASKS = WORLD_SIZE.slurm
HOSTFILE = "SLURM_HOSTFILE"
STARTED_FROM = "SLURM_LAUNCH_NODE_IPADDR"
"""Address of the host that srun was typed on."""


def in_slurm_step(env: Mapping[str, str]) -> bool:
    """Return whether this is a task of a step, or was started by one."""
    return RANK.slurm in env and SLURM_STEP in env


def detect_slurm(env: Mapping[str, str]) -> Launched | None:
    """Detect one task of a step of several. Raise UsageError if that is a shell, or rank 0's node is unknown."""
    if not in_slurm_step(env):
        return None
    tasks = number_of(env.get(SLURM_NTASKS))
    if tasks == 1:
        return None
    if SLURM_TERMINAL in env:
        raise UsageError(
            f"srun --pty started {tasks or 'several'} tasks, and only the first has this terminal: in this shell type "
            "`srun --overlap distdoctor check`, or start it without --pty"
        )
    nodes, per_node = expand(env.get(MASTER_ADDR.slurm, "")), repeated(env.get(NPROC_PER_NODE.slurm, ""))
    if len(nodes) != len(per_node) or sum(per_node) != tasks:
        nodes = per_node = ()
    here = number_of(env.get(NODE_RANK.slurm))
    ports = _port(env)
    if per_node and here is not None and here < len(per_node):
        ports["nproc_per_node"] = DerivedValue(per_node[here], NPROC_PER_NODE.slurm)
        ports["nnodes"] = DerivedValue(len(per_node), MASTER_ADDR.slurm)
    first = _rank0(env, nodes)
    if first is not None:
        ports["master_addr"] = first
    return Launched(
        SLURM_NAME,
        {
            "rank": (*RANK.variables, RANK.slurm),
            "world_size": (*WORLD_SIZE.variables, SLURM_NTASKS),
            "local_rank": (*LOCAL_RANK.variables, LOCAL_RANK.slurm),
            "nproc_per_node": NPROC_PER_NODE.variables,
            "node_rank": (NODE_RANK.slurm,),
        },
        ports,
        (),
        nodes,
        per_node,
        task=RANK.slurm,
        rank0_unknown=(
            f"srun -m arbitrary does not tell the tasks on which node task 0 is: name it, "
            f"`{MASTER_ADDR.variables[0]}=HOST srun -m arbitrary ... distdoctor check`"
        ),
    )


def in_slurm_prolog(env: Mapping[str, str]) -> Launched | None:
    """Detect a Prolog: once on each node of the job, before its tasks. It knows its node's name and all of them."""
    if RANK.slurm in env or SLURM_NODE not in env or SLURM_JOB not in env:
        return None
    source = next((name for name in SLURM_LISTS if env.get(name)), None)
    nodes = expand(env[source]) if source else ()
    if source is None or env[SLURM_NODE] not in nodes or len(nodes) < 2:
        return None
    derived = {
        "nnodes": DerivedValue(len(nodes), source),
        "node_rank": DerivedValue(nodes.index(env[SLURM_NODE]), SLURM_NODE),
        "master_addr": DerivedValue(nodes[0], source),
        **base.job_port(env),
    }
    return Launched("SLURM's prolog", {}, derived, (), nodes, per_node=True)


def refuse_outside_slurm_step(env: Mapping[str, str]) -> None:
    """Raise UsageError in a batch script or a shell of a job of several nodes, which starts nothing on the others."""
    parts = number_of(env.get("SLURM_HET_SIZE")) or 1
    number = number_of(env.get("SLURM_JOB_NUM_NODES"))
    if number and 1 < parts <= MAX_NODES:  # it is the first component's, and srun would start nothing on others
        lists = (expand(env.get(f"SLURM_JOB_NODELIST_HET_GROUP_{part}", "")) for part in range(parts))
        number = len({name for nodes in lists for name in nodes}) or parts
    step = SLURM_STEP in env and SLURM_TERMINAL not in env
    if SLURM_JOB not in env or number is None or number < 2 or step or RANK.variables[0] in env:
        return
    what = "a shell" if SLURM_STEP in env or RANK.slurm not in env else "the batch script"
    flags = ("--overlap " if SLURM_STEP in env else "") + (f"--het-group=0-{parts - 1} " if parts > 1 else "")
    line = f"srun {flags}distdoctor check"
    raise UsageError(
        f"this is {what} of SLURM job {env[SLURM_JOB]}, which has {number} nodes, and would check one machine: "
        f"type `{line}` "
        "(or add --standalone for this machine alone)"
    )


def in_slurm_batch(env: Mapping[str, str]) -> Launched | None:
    """Detect a batch script, or a shell, in which a node's flags were typed: they start nothing on the job's other
    nodes."""
    if SLURM_JOB not in env or SLURM_STEP in env:
        return None
    source = next((name for name in SLURM_LISTS if env.get(name)), None)
    nodes = expand(env[source]) if source else ()
    if len(nodes) < 2:
        return None
    roster = nodes if env.get(SLURM_NODE) == nodes[0] else ()
    return Launched("", {}, {}, (), roster, per_node=True, everywhere="srun --ntasks-per-node=1")


def _port(env: Mapping[str, str]) -> dict[str, DerivedValue]:
    """Return the job's port; a later step has another one, so that a check beside the job (srun --overlap) disturbs
    nobody."""
    ports = base.job_port(env)
    step = number_of(env.get(SLURM_STEP))
    if ports and step:
        first, count = next((first, count) for name, first, count in base.PORTS if name == SLURM_JOB)
        number = (int(ports["master_port"].value) - first + step) % count
        return {"master_port": DerivedValue(first + number, f"{SLURM_JOB} and {SLURM_STEP}")}
    return ports


def _rank0(env: Mapping[str, str], nodes: tuple[str, ...]) -> DerivedValue | None:
    """Return the node of task 0: the first, but for -m arbitrary, where it is that of the first line of the host
    file."""
    if not env.get("SLURM_DISTRIBUTION", "").startswith("arbitrary"):
        return DerivedValue(nodes[0], MASTER_ADDR.slurm) if nodes else None
    if "0" in env.get("SLURM_GTIDS", "").split(",") and SLURM_NODE in env:
        return DerivedValue(env[SLURM_NODE], "SLURM_GTIDS")
    first = text_of(env.get(HOSTFILE, ""), 1024).partition("\n")[0].strip()
    if first in nodes:
        return DerivedValue(first, HOSTFILE)
    others = [name for name in nodes if name != env.get(SLURM_NODE)]
    return DerivedValue(others[0], "SLURM_GTIDS") if len(others) == 1 else None


# PBS: the processes of pbsdsh, and a batch script without it (pbsdsh(1), qsub(1), ENVIRONMENT VARIABLES).
#
# pbsdsh starts one process per line of PBS_NODEFILE, numbered by PBS_VNODENUM; with -u one per host, and no variable
# distinguishes the two. The batch script itself is task 1.


_TASK, _NUMBERS = "PBS_TASKNUM", ("PBS_VNODENUM", "PBS_NODENUM")


def detect_pbs(env: Mapping[str, str]) -> Launched | None:
    """Detect one of pbsdsh's processes. Raise UsageError if its number among them is unknown."""
    number = next((name for name in _NUMBERS if number_of(env.get(name)) is not None), None)
    if number is None or number_of(env.get(_TASK)) in (None, 1):
        return None
    hosts, source = base.job_slots(env)
    place = int(env[number])
    if source != base.PBS_FILE or len({*hosts}) != len(hosts) or place >= len(hosts):
        if RANK.variables[0] in env:
            return None
        raise UsageError(
            "pbsdsh does not tell its processes how many there are: give each RANK, WORLD_SIZE and "
            f"{MASTER_ADDR.variables[0]}, or start it with mpirun: `mpirun distdoctor check`"
        )
    if len(hosts) == 1:
        return None
    derived = {
        "world_size": DerivedValue(len(hosts), source),
        "nproc_per_node": DerivedValue(1, source),
        "nnodes": DerivedValue(len(hosts), source),
        "local_rank": DerivedValue(0, source),
        "master_addr": DerivedValue(hosts[0], source),
        **base.job_port(env),
    }
    return Launched(
        "PBS",
        {
            "rank": (*RANK.variables, number),
            "world_size": WORLD_SIZE.variables,
            "local_rank": LOCAL_RANK.variables,
            "nproc_per_node": NPROC_PER_NODE.variables,
            "node_rank": (number,),
        },
        derived,
        (),
        hosts,
        (1,) * len(hosts),
        task=number,
    )


def refuse_outside_pbs(env: Mapping[str, str]) -> None:
    """Raise UsageError in a batch script of several nodes, which starts nothing on the others."""
    names, source = base.job_nodes(env)
    if RANK.variables[0] not in env and source == base.PBS_FILE and len(names) > 1:
        raise UsageError(base.job_is_alone("PBS", len(names), "mpirun distdoctor check"))


# LSF: the tasks of jsrun, and a batch script without it (lightning/fabric/plugins/environments/lsf.py).


LSF_RANKS = LauncherRanks(*JSRUN, "jsrun -E {}={}")


def detect_lsf(env: Mapping[str, str]) -> Launched | None:
    """Detect one task of several. Rank 0 is on the first host of the job."""
    if not LSF_RANKS.one_of_several(env):
        return None
    derived = dict(base.job_port(env))
    names, source = base.job_nodes(env)
    if source != base.LSF_FILE or not names:
        return LSF_RANKS.launched("LSF (jsrun)", derived)
    derived["master_addr"] = DerivedValue(names[0], source)
    return LSF_RANKS.launched("LSF (jsrun)", derived, names)


def refuse_outside_lsf(env: Mapping[str, str]) -> None:
    """Raise UsageError in a batch script of several hosts, which starts nothing on the others."""
    names, source = base.job_nodes(env)
    if RANK.variables[0] not in env and source in (base.LSF_FILE, base.LSF_HOSTS) and len(names) > 1:
        raise UsageError(base.job_is_alone("LSF", len(names), "mpirun distdoctor check"))


# SGE: it starts the batch script and leaves the ranks to mpirun. PE_HOSTFILE has the hosts (sge_pe(5)), and NHOSTS
# their number if the file cannot be read, as in a container or below `qrsh -inherit` (qsub(1), ENVIRONMENTAL
# VARIABLES).


_HOSTS, _SLOTS = "NHOSTS", "NSLOTS"


def refuse_outside_sge(env: Mapping[str, str]) -> None:
    """Raise UsageError in a batch script of several hosts, which starts nothing on the others."""
    names, source = base.job_nodes(env)
    count = len(names) if names else number_of(env.get(_HOSTS)) or 0
    if RANK.variables[0] not in env and source == base.SGE_FILE and count > 1 and (names or _SLOTS in env):
        raise UsageError(base.job_is_alone("SGE", count, "mpirun distdoctor check"))


# OAR: it starts the batch script on the first node; OAR_NODEFILE has a line for each core (oarsub(1), oarsh(1)).


def refuse_outside_oar(env: Mapping[str, str]) -> None:
    """Raise UsageError in a batch script of several nodes, which starts nothing on the others."""
    names, source = base.job_nodes(env)
    if RANK.variables[0] not in env and source == base.OAR_FILE and len(names) > 1:
        line = f"mpirun --mca plm_rsh_agent oarsh -machinefile ${base.OAR_FILE} distdoctor check"
        raise UsageError(base.job_is_alone("OAR", len(names), line))


# PJM, the scheduler of Fujitsu's machines: it starts the job script on one node and leaves the ranks to mpiexec.
#
# Variables are those that public job scripts of such machines read; its mpiexec sets those of Open MPI.


_JOB, _NODES = "PJM_JOBID", "PJM_NODE"


def refuse_outside_pjm(env: Mapping[str, str]) -> None:
    """Raise UsageError in a job script of several nodes, which starts nothing on the others."""
    count = number_of(env.get(_NODES)) or 0
    if RANK.variables[0] not in env and _JOB in env and count > 1:
        raise UsageError(base.job_is_alone("PJM", count, "mpiexec distdoctor check"))
