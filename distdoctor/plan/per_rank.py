"""Plan of a process that a launcher started as one rank: from the rank's variables."""

from __future__ import annotations

from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import INIT_METHOD, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
from distdoctor.model.plan import DEFAULT_PORT, Plan, PlanProblem
from distdoctor.plan.launchers.base import Launched
from distdoctor.plan.master_address import master_from_launcher, read_master
from distdoctor.plan.syntax import number_of
from distdoctor.plan.values import Values


def plan_of_rank(values: Values, launched: Launched, backend: str) -> Plan:
    """Return the plan without its sources and problems, which are noted in ``values``. Raise UsageError."""
    where = launched.variables
    for name in launched.required:
        if name not in values.env and not _given_by_flag(values, name):
            values.problems.append(PlanProblem(name, None, "not set"))
    world = values.number_found("world_size", where["world_size"], launched.found, low=1)
    rank = values.first_number("rank", where["rank"], low=0)
    if rank is not None and world is not None and rank >= world:
        values.problem(values.sources["rank"], f"must be below {values.sources['world_size']}, which is {world}")
        rank = None
    local_world = values.number_found("nproc_per_node", where["nproc_per_node"], launched.found, low=1)
    local_rank = _local_rank(values, launched, local_world)
    # torch itself reads none of these: a text that is no number does no harm.
    variable = next((name for name in where["node_rank"] if number_of(values.env.get(name)) is not None), None)
    node_rank = values.number("node_rank", variable, low=0) if variable is not None else None
    master_addr, master_port = read_master(values, alone=world == 1, pet=False)
    master_addr, master_port = master_from_launcher(values, launched, master_addr, master_port)
    in_file = (values.flags.init_method or "").startswith("file://")
    if in_file:  # the ranks read neither of them: a bad value disturbs this check alone
        unread = (*MASTER_ADDR.variables, *MASTER_PORT.variables)
        values.problems[:] = [problem for problem in values.problems if problem.variable not in unread]
    if in_file and master_addr is None and world != 1 and not values.problems:
        raise UsageError(
            f"ranks that meet in a file ({INIT_METHOD.flag} file://) are told of no address, and their check needs "
            f"one: give every rank {MASTER_ADDR.flag} HOST, where HOST is the node of rank 0"
        )
    nnodes = values.number_found("nnodes", (), launched.found, low=1)
    if nnodes is None and launched.nodes_even and world is not None and local_world is not None:
        nnodes = -(-world // local_world)
    task = number_of(values.env.get(launched.task))
    return Plan(
        started="rank",
        nnodes=nnodes,
        nproc_per_node=local_world,
        node_rank=node_rank,
        rank=rank,
        local_rank=local_rank,
        world_size=world,
        master_addr=master_addr,
        master_port=DEFAULT_PORT if master_port is None else master_port,
        backend=backend,
        agent_store=launched.agent_store,
        run_id=launched.run_id,
        init_method=values.flags.init_method,
        restart=launched.restart,
        launcher=launched.launcher,
        task=task,
        first=launched.first if task == 1 else "",
        note=launched.note,
        roster=launched.roster if rank == 0 else (),
        tasks=launched.tasks if rank == 0 else (),
    )


def _local_rank(values: Values, launched: Launched, local_world: int | None) -> int | None:
    """Return the rank on its node, of ``local_world``; None without a valid value."""
    local_rank = values.number_found("local_rank", launched.variables["local_rank"], launched.found, low=0)
    if local_rank is None and values.flags.local_rank is not None:
        local_rank = values.flags.local_rank
        values.sources["local_rank"] = LOCAL_RANK.flag
    if local_rank is not None and local_world is not None and local_rank >= local_world:
        name, size = launched.variables["local_rank"][0], values.sources["nproc_per_node"]
        values.problem(name, f"must be below {size}, which is {local_world}")
        return None
    return local_rank


def _given_by_flag(values: Values, variable: str) -> bool:
    flags = values.flags
    without = flags.init_method is not None and not flags.init_method.startswith("env://")  # it reads neither
    if variable in MASTER_ADDR.variables:
        return bool(flags.master_addr or flags.rdzv_endpoint) or without
    if variable in MASTER_PORT.variables:
        return bool(flags.master_port or flags.rdzv_endpoint) or without
    return False
