"""Plan of a node whose ranks distdoctor starts itself: from torchrun's flags and its variables for them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import (
    LOCAL_ADDR,
    MASTER_ADDR,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RDZV_CONF,
    RDZV_ENDPOINT,
    RDZV_ID,
    STANDALONE,
)
from distdoctor.model.launch_variables import SLURM_JOB
from distdoctor.model.plan import DEFAULT_PORT, DEFAULT_RANKS_WITHOUT_GPU, Plan
from distdoctor.plan.launchers import mpi, schedulers
from distdoctor.plan.launchers.base import DerivedValue, Launched
from distdoctor.plan.master_address import (
    in_own_place,
    is_available,
    is_host,
    join_timeout,
    master_from_launcher,
    meets_in_file,
    rdzv_backend,
    read_master,
    takes_own_place,
)
from distdoctor.plan.syntax import number_of, whole_number
from distdoctor.plan.torchrun import note_refused
from distdoctor.plan.values import Values

_MOST_NODES = 1_000_000
Count = Callable[[], int]


def plan_of_node(
    values: Values, backend: str, count_gpus: Count, count_cpus: Count, launched: Launched | None = None
) -> Plan:
    """Return the plan without its sources and problems, which are noted in ``values``. Raise UsageError.

    ``launched``: a launcher has started one such process on each node.
    """
    derived = launched.found if launched is not None else {}
    nnodes = _nnodes(values, launched)
    nproc = _ranks(values, count_gpus, count_cpus, derived.get("nproc_per_node"))
    standalone = _standalone(values, nnodes)
    backend_of_rendezvous = "c10d" if standalone else rdzv_backend(values)
    own_place = bool(standalone) or takes_own_place(values, alone=nnodes == 1)
    values = in_own_place(values) if own_place else values
    flags = values.flags
    node_rank = _node_rank(values, nnodes, derived.get("node_rank"))
    _refuse_other_backends(values, nnodes)
    named = (None, None) if own_place else read_master(values, alone=nnodes == 1)
    if launched is not None:
        named = master_from_launcher(values, launched, *named)
    note_refused(values, nnodes, "c10d" if own_place else backend_of_rendezvous, own_place=own_place)
    task = number_of(values.env.get(launched.task)) if launched is not None else None
    if standalone:
        named = "127.0.0.1", 0
        values.sources.update(master_addr=standalone, master_port="any free port")
    place = _rendezvous(values, nnodes, node_rank, named, backend_of_rendezvous)
    return Plan(
        started="node",
        nnodes=nnodes,
        min_nodes=_min_nodes(values),
        nproc_per_node=nproc,
        node_rank=0 if nnodes == 1 else place.node_rank,
        world_size=nnodes * nproc,
        master_addr=place.address,
        master_port=place.port,
        backend=backend,
        announce=place.announce,
        run_id=flags.rdzv_id or values.env.get(RDZV_ID.pet) or "none",
        rdzv_backend=backend_of_rendezvous,
        local_addr=_local_addr(values),
        is_host=is_host(values),
        join_timeout=join_timeout(values),
        init_method=flags.init_method,
        launcher=launched.launcher if launched is not None else "",
        task=task,
        first=launched.first if launched is not None and task == 1 else "",
        everywhere=launched.everywhere if launched is not None and nnodes > 1 else "",
        note=launched.note if launched is not None else "",
        roster=_roster(launched, place.node_rank) if nnodes > 1 else (),
    )


@dataclass(frozen=True)
class _Rendezvous:
    """Address and port of the rendezvous, and this node's rank."""

    address: str | None
    port: int
    node_rank: int | None
    announce: bool = False
    """True if it is node 0 by default, and prints the line for the others."""


def _rendezvous(
    values: Values, nnodes: int, node_rank: int | None, named: tuple[str | None, int | None], backend: str
) -> _Rendezvous:
    """Return the rendezvous for the address and port that are ``named``; ``backend`` is its kind. Raise UsageError."""
    sources, (address, port) = values.sources, named
    announce = False
    if address is None and not any(
        p.variable in (*MASTER_ADDR.all_variables, *RDZV_ENDPOINT.all_variables) for p in values.problems
    ):
        if nnodes == 1:
            address = "127.0.0.1"
            sources["master_addr"] = "default"
        elif node_rank:
            raise UsageError(
                f"node {node_rank} needs to know node 0: add {MASTER_ADDR.flag} ADDRESS (node 0 prints the whole line)"
            )
        else:
            announce, node_rank = True, 0
            sources["node_rank"] = "no master known"
    elif backend == "c10d" and nnodes > 1 and node_rank is not None:
        # c10d assigns the node ranks itself, whatever is set: the node with the endpoint hosts it.
        node_rank, sources["node_rank"] = None, "assigned at the meeting"
    if port is None:
        # torchrun takes a free port for one node alone (since torch 2.13's run.py; before, 29500): none is planned.
        alone = nnodes == 1 and sources.get("master_addr") == "default"
        port = 0 if alone else DEFAULT_PORT
        sources.setdefault("master_port", "any free port" if alone else "default")
    return _Rendezvous(address, port, node_rank, announce)


def once_on_each_node(launched: Launched, env: Mapping[str, str]) -> Launched:
    """Return the launcher as it starts one process on each node, which is to start its ranks.

    Raise UsageError if it has started several on a node.
    """
    if launched.per_node:
        return launched

    def number(name: str) -> DerivedValue | None:
        source = next(
            (variable for variable in launched.variables[name][::-1] if number_of(env.get(variable)) is not None), None
        )
        return launched.found.get(name) if source is None else DerivedValue(int(env[source]), source)

    here = number("nproc_per_node")
    if (here is not None and here.value != 1) or any(count != 1 for count in launched.tasks):
        raise UsageError(
            f"{launched.launcher} started several processes on a node, and with a node's flags ({NNODES.flag}, "
            f"{NPROC_PER_NODE.flag}, {NODE_RANK.flag}) one starts its ranks: give --ntasks-per-node=1 (srun) or -N 1 "
            "(mpirun), or none of these flags"
        )
    derived = {name: value for name, value in launched.found.items() if name != "nproc_per_node"}
    for name, value in (("nnodes", number("world_size")), ("node_rank", number("rank"))):
        if value is not None:
            derived[name] = value
    return replace(launched, found=derived, per_node=True)


def _roster(launched: Launched | None, node_rank: int | None) -> tuple[str, ...]:
    """Return the names of the nodes if this is node 0, or the batch script, which runs on the first of them."""
    first = launched is not None and (node_rank == 0 or (node_rank is None and bool(launched.everywhere)))
    return launched.roster if launched is not None and first else ()


def _refuse_other_backends(values: Values, nnodes: int) -> None:
    """Raise UsageError if torchrun's agents join by a backend that only they can use."""
    if nnodes > 1 and meets_in_file(values):
        raise UsageError(
            f"torchrun's nodes would meet in a file ({RDZV_CONF.flag} store_type=file), which is not tried here: check "
            f"them with {RDZV_ENDPOINT.flag} HOST:PORT in its place, and the file's folder with --shared FOLDER"
        )
    kind = rdzv_backend(values)
    if kind in ("static", "c10d") or values.flags.init_method or not is_available(kind):
        return
    raise UsageError(
        f"torchrun's nodes would meet by its {kind} rendezvous, which is not tried here: torchrun itself does it, with "
        "the check as what it starts (`torchrun ... -m distdoctor check`)"
    )


def _standalone(values: Values, nnodes: int) -> str:
    """Return the source that says that this node is alone; empty without one.

    It contradicts more than one node: a variable is noted as a problem. Raise UsageError for the flag.
    """
    given = values.flags.standalone
    text = values.env.get(STANDALONE.pet)
    if not given and not number_of(text):
        return ""
    if nnodes == 1:
        return STANDALONE.flag if given else STANDALONE.pet
    why = f"is for one node, and there are to be {nnodes}"
    if given:
        raise UsageError(f"{STANDALONE.flag} {why}")
    if all(problem.variable != STANDALONE.pet for problem in values.problems):
        values.problem(STANDALONE.pet, why, unset=True)
    return ""


def _nnodes(values: Values, launched: Launched | None) -> int:
    known = launched.found.get("nnodes") if launched is not None else None
    number = _given_nnodes(values, known)
    if launched is not None and known is not None and number != known.value:
        raise UsageError(
            f"{values.sources['nnodes']} {number}, and {launched.launcher} started this on {known.value} nodes: leave "
            f"{NNODES.flag} out, or start it on as many"
        )
    return number


def _given_nnodes(values: Values, derived: DerivedValue | None) -> int:
    text, source = values.given(NNODES, values.flags.nnodes)
    if text is None and derived is not None:
        values.sources["nnodes"] = derived.source
        return int(derived.value)
    if text is None:
        values.sources["nnodes"] = "default"
        return 1
    values.sources["nnodes"] = source
    if (limits := _range(text)) and 1 <= limits[0] <= limits[-1] <= _MOST_NODES:
        return limits[-1]
    values.bad(source, text, "is not a number of nodes (N, or MIN:MAX)")
    return 1


def _local_addr(values: Values) -> str:
    text, source = values.given(LOCAL_ADDR, values.flags.local_addr)
    if text:
        values.sources["local_addr"] = source
    return (text or "").strip()


def _min_nodes(values: Values) -> int | None:
    """Return MIN of MIN:MAX, which asks for an elastic job; distdoctor checks the largest one that could be."""
    limits = _range(values.given(NNODES, values.flags.nnodes)[0] or "")
    return limits[0] if len(limits) == 2 and 1 <= limits[0] <= limits[1] <= _MOST_NODES else None


def _range(text: str) -> list[int]:
    """Return N, or MIN and MAX, as torchrun reads it (run.py, parse_min_max_nnodes); empty if it is neither."""
    numbers = [whole_number(part) for part in text.split(":")]
    return [number for number in numbers if number is not None] if len(numbers) < 3 and None not in numbers else []


def _ranks(values: Values, count_gpus: Count, count_cpus: Count, derived: DerivedValue | None) -> int:
    text, source = values.given(NPROC_PER_NODE, values.flags.nproc_per_node, plain=True)
    if source in NPROC_PER_NODE.variables and not number_of(text):
        text = None  # torchrun does not read it: it is left over
    if text is None and derived is not None:
        values.sources["nproc_per_node"] = derived.source
        return int(derived.value)
    if text is None:
        gpus = count_gpus()
        values.sources["nproc_per_node"] = "visible GPUs" if gpus else "default"
        return gpus or DEFAULT_RANKS_WITHOUT_GPU
    values.sources["nproc_per_node"] = source
    text = text.strip()
    if text == "cpu":
        return count_cpus()
    if text in ("gpu", "auto"):
        gpus = count_gpus()
        if gpus == 0 and text == "gpu":
            values.bad(source, text, "asks for GPUs, and no GPU is visible on this node")
            return DEFAULT_RANKS_WITHOUT_GPU
        return gpus or count_cpus()
    if (number := whole_number(text)) is not None and 1 <= number <= 100_000:
        return number
    values.bad(source, text, "is not a number of ranks (N, auto, cpu or gpu)")
    return DEFAULT_RANKS_WITHOUT_GPU


def _node_rank(values: Values, nnodes: int, derived: DerivedValue | None) -> int | None:
    given = values.flags.node_rank
    # c10d assigns the node ranks itself, whatever is set.
    ignored = rdzv_backend(values) == "c10d" or takes_own_place(values, alone=nnodes == 1)
    if given is not None and (0 <= given < nnodes or not ignored):
        values.sources["node_rank"] = NODE_RANK.flag
        if not 0 <= given < nnodes:
            raise UsageError(
                f"{NODE_RANK.flag} {given}: with {NNODES.flag} {nnodes} "
                + (f"node ranks go from 0 to {nnodes - 1}" if nnodes > 1 else "the only node rank is 0")
            )
        return given
    # torchrun does not read the plain ones: left over from another launcher, they say nothing of one node.
    for name in NODE_RANK.all_variables if nnodes > 1 else (NODE_RANK.pet,):
        if name in values.env:
            value = number_of(values.env[name]) if ignored else values.number("node_rank", name, low=0)
            if ignored and (value is None or not 0 <= value < nnodes):
                continue
            if value is not None and value >= nnodes:
                values.problem(name, f"node ranks go from 0 to {nnodes - 1} with {nnodes} nodes")
                return None
            return value
    if derived is not None and not ignored:
        values.sources["node_rank"] = derived.source
        return int(derived.value)
    values.sources["node_rank"] = "assigned at the meeting" if nnodes > 1 else "default"
    return None


# Contradiction of a job line with its launcher: more nodes than that started, or has. The job would hang.


_ALLOCATED = "SLURM_JOB_NUM_NODES"
_MORE_JOBS = ("SLURM_ARRAY_JOB_ID", "SLURM_HET_SIZE")
"""Variables of jobs that nodes of other allocations may join."""


@dataclass(frozen=True)
class Started:
    """Most nodes that can join, and what started them."""

    nodes: int
    who: str
    what: str = "nodes"
    more: str = ""
    """Instruction to start more of them."""


def contradiction(flags: Sequence[str], before: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the line with the number of nodes that will never join, and the fix; empty without a contradiction.

    ``flags``: flags of the check with the job's plan; ``before``: srun or mpirun with its options if the line begins
    with it.
    """
    given = next((flag.partition("=")[2] for flag in flags if flag.startswith(f"{NNODES.flag}=")), "")
    least, most = (number_of(part) for part in (given.partition(":")[0], given.rpartition(":")[2]))
    if least is None or most is None or most < 2:
        return ""
    started = _started(before, env)
    if started is not None and started.nodes < least:
        missing, nodes = least - started.nodes, started.nodes
        will = f"{missing} node{'s' if missing > 1 else ''} will never join"
        fix = f"--nnodes {nodes}" if nodes > 1 else "--standalone in place of --nnodes"
        return (
            f"{started.who} {nodes} {started.what}; --nnodes is {given}: {will}. "
            f"Fix: start the job with {fix}, or {started.more.format(least)}"
        )
    return _too_many_agents(most, given, env)


def _started(before: Sequence[str], env: Mapping[str, str]) -> Started | None:
    for name, ranks, more in (
        ("mpirun", mpi.OPENMPI_RANKS, "start {} processes: mpirun -np {} -N 1"),
        ("mpiexec", mpi.HYDRA_RANKS, "start {} processes: mpiexec -n {} -ppn 1"),
    ):
        if (
            not before
            and ranks.one_of_several(env)
            and ranks.local_rank in env
            and (size := number_of(env[ranks.size]))
        ):
            return Started(size, f"{name} started", "processes", more.replace("{}", "{0}"))
    if any(name in env for name in _MORE_JOBS) or (before and os.path.basename(before[0]) != "srun"):
        return None
    allocated = number_of(env.get(_ALLOCATED))
    tasks = number_of(env.get(schedulers.SLURM_NTASKS)) if schedulers.in_slurm_step(env) and not before else None
    asked = _requested_nodes(before) if before and SLURM_JOB not in env else None
    most = max(filter(None, (allocated, tasks, asked)), default=0)
    if most < 2:  # a job of one node may be one of several that join
        return None
    who = "SLURM started" if tasks or asked else "SLURM allocated"
    return Started(most, who, "nodes", "ask SLURM for {0} nodes: -N{0}")


def _requested_nodes(before: Sequence[str]) -> int | None:
    """Return the most nodes that srun's own options ask for."""
    text = " ".join(before[1:])
    match = re.search(r"(?:^|\s)(?:-N\s*|--nodes[=\s])(?:\d+-)?(\d+)(?:\s|$)", text)
    return int(match[1]) if match else None


def _too_many_agents(most: int, given: str, env: Mapping[str, str]) -> str:
    """Return the text for a srun that started more torchruns on a node than the job has nodes; else empty."""
    tasks = number_of(env.get(schedulers.SLURM_NTASKS)) if schedulers.in_slurm_step(env) else None
    nodes = number_of(env.get(NNODES.slurm or ""))
    if tasks is None or nodes is None or tasks <= most or tasks <= nodes:
        return ""
    return (
        f"SLURM started {tasks} tasks on {nodes} nodes, each with a torchrun of its own; --nnodes is {given}: "
        f"{tasks - most} of them will never join. Fix: give srun --ntasks-per-node=1 (torchrun starts the ranks of its "
        "node by --nproc-per-node)"
    )
