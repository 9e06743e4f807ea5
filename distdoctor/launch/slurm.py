"""SLURM: the tasks of a step (srun), a prolog, and what is no step at all though the job has several nodes.

srun(1), OUTPUT ENVIRONMENT VARIABLES; measured with 22.05. The variables of the job (SLURM_JOB_NODELIST, SLURM_NTASKS)
are not those of a step inside it. In a heterogeneous step the ranks, nodes and tasks are those of all components.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch import jobs
from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import MAX_NODES, expand, number_of, repeated
from distdoctor.launch.plain_file import text_of
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import LOCAL_RANK, MASTER_ADDR, NODE_RANK, NPROC_PER_NODE, RANK, WORLD_SIZE
from distdoctor.model.launch_variables import SLURM_JOB, SLURM_LISTS, SLURM_NODE, SLURM_STEP, SLURM_TERMINAL

NAME = "SLURM"
TASKS = WORLD_SIZE.slurm
HOSTFILE = "SLURM_HOSTFILE"
STARTED_FROM = "SLURM_LAUNCH_NODE_IPADDR"
"""The address of the host that srun was typed on."""


def in_step(env: Mapping[str, str]) -> bool:
    """Whether this is a task of a step, or was started by one."""
    return RANK.slurm in env and SLURM_STEP in env


def detect(env: Mapping[str, str]) -> Launched | None:
    """One task of a step of several. Raises UsageError where that is a shell, or rank 0's node cannot be told."""
    if not in_step(env):
        return None
    tasks = number_of(env.get(TASKS))
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
    found = _port(env)
    if per_node and here is not None and here < len(per_node):
        found["nproc_per_node"] = Found(per_node[here], NPROC_PER_NODE.slurm)
        found["nnodes"] = Found(len(per_node), MASTER_ADDR.slurm)
    first = _rank0(env, nodes)
    if first is not None:
        found["master_addr"] = first
    return Launched(
        NAME,
        {
            "rank": (*RANK.variables, RANK.slurm),
            "world_size": (*WORLD_SIZE.variables, TASKS),
            "local_rank": (*LOCAL_RANK.variables, LOCAL_RANK.slurm),
            "nproc_per_node": NPROC_PER_NODE.variables,
            "node_rank": (NODE_RANK.slurm,),
        },
        found,
        (),
        nodes,
        per_node,
        task=RANK.slurm,
        rank0_unknown=(
            f"srun -m arbitrary does not tell the tasks on which node task 0 is: name it, "
            f"`{MASTER_ADDR.variables[0]}=HOST srun -m arbitrary ... distdoctor check`"
        ),
    )


def prolog(env: Mapping[str, str]) -> Launched | None:
    """A Prolog: once on each node of the job, before its tasks. It knows its node's name and all of them."""
    if RANK.slurm in env or SLURM_NODE not in env or SLURM_JOB not in env:
        return None
    source = next((name for name in SLURM_LISTS if env.get(name)), None)
    nodes = expand(env[source]) if source else ()
    if source is None or env[SLURM_NODE] not in nodes or len(nodes) < 2:
        return None
    found = {
        "nnodes": Found(len(nodes), source),
        "node_rank": Found(nodes.index(env[SLURM_NODE]), SLURM_NODE),
        "master_addr": Found(nodes[0], source),
        **jobs.port(env),
    }
    return Launched("SLURM's prolog", {}, found, (), nodes, per_node=True)


def refuse_outside_step(env: Mapping[str, str]) -> None:
    """Raises UsageError in a batch script or a shell of a job of several nodes, which starts nothing on the others."""
    parts = number_of(env.get("SLURM_HET_SIZE")) or 1
    number = number_of(env.get("SLURM_JOB_NUM_NODES"))
    if number and 1 < parts <= MAX_NODES:  # it is that of the first component, and srun would start nothing on others
        lists = (expand(env.get(f"SLURM_JOB_NODELIST_HET_GROUP_{part}", "")) for part in range(parts))
        number = len({name for nodes in lists for name in nodes}) or parts
    step = SLURM_STEP in env and SLURM_TERMINAL not in env
    if SLURM_JOB not in env or number is None or number < 2 or step or RANK.variables[0] in env:
        return
    what = "a shell" if SLURM_STEP in env or RANK.slurm not in env else "the batch script"
    flags = ("--overlap " if SLURM_STEP in env else "") + (f"--het-group=0-{parts - 1} " if parts > 1 else "")
    line = f"srun {flags}distdoctor check"
    raise UsageError(
        f"this is {what} of SLURM job {env[SLURM_JOB]}, which has {number} nodes, and would check one machine: type `{line}` "
        "(or add --standalone for this machine alone)"
    )


def batch(env: Mapping[str, str]) -> Launched | None:
    """A batch script, or a shell, in which a node's flags were typed: they start nothing on the job's other nodes."""
    if SLURM_JOB not in env or SLURM_STEP in env:
        return None
    source = next((name for name in SLURM_LISTS if env.get(name)), None)
    nodes = expand(env[source]) if source else ()
    if len(nodes) < 2:
        return None
    roster = nodes if env.get(SLURM_NODE) == nodes[0] else ()
    return Launched("", {}, {}, (), roster, per_node=True, everywhere="srun --ntasks-per-node=1")


def _port(env: Mapping[str, str]) -> dict[str, Found]:
    """The job's port; that of a later step is another one, so that a check beside the job (srun --overlap) is in
    nobody's way."""
    found = jobs.port(env)
    step = number_of(env.get(SLURM_STEP))
    if found and step:
        first, count = next((first, count) for name, first, count in jobs.PORTS if name == SLURM_JOB)
        number = (int(found["master_port"].value) - first + step) % count
        return {"master_port": Found(first + number, f"{SLURM_JOB} and {SLURM_STEP}")}
    return found


def _rank0(env: Mapping[str, str], nodes: tuple[str, ...]) -> Found | None:
    """The node of task 0: the first, but for -m arbitrary, where it is that of the first line of the host file."""
    if not env.get("SLURM_DISTRIBUTION", "").startswith("arbitrary"):
        return Found(nodes[0], MASTER_ADDR.slurm) if nodes else None
    if "0" in env.get("SLURM_GTIDS", "").split(",") and SLURM_NODE in env:
        return Found(env[SLURM_NODE], "SLURM_GTIDS")
    first = text_of(env.get(HOSTFILE, ""), 1024).partition("\n")[0].strip()
    if first in nodes:
        return Found(first, HOSTFILE)
    others = [name for name in nodes if name != env.get(SLURM_NODE)]
    return Found(others[0], "SLURM_GTIDS") if len(others) == 1 else None
