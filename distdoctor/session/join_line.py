"""Node 0 of a run whose master nobody named: the address it takes, and the line for the other nodes."""

from __future__ import annotations

import shlex
import socket
from dataclasses import replace

from distdoctor.launch import horovod, hydra, mvapich, openmpi
from distdoctor.model.addresses import endpoint, parse_address
from distdoctor.model.errors import PlanError, UsageError
from distdoctor.model.launch_settings import (
    BACKEND,
    INIT_METHOD,
    MASTER_ADDR,
    MASTER_PORT,
    NNODES,
    NPROC_PER_NODE,
    RDZV_BACKEND,
    RDZV_ENDPOINT,
    RDZV_ID,
)
from distdoctor.model.plan import Plan
from distdoctor.model.shared_token import VARIABLE
from distdoctor.probes import interfaces
from distdoctor.session.options import Options


def with_master(options: Options) -> Options:
    """Node 0 of a run whose master nobody named: pick the address that the others can reach."""
    plan = options.plan
    _insist_on_rank0(plan)
    if not plan.announce:
        return options
    choice = interfaces.reachable_address(interfaces.interfaces())
    if choice is None or choice.address is None:
        raise UsageError("this host has no address that another host could reach; name one with " + MASTER_ADDR.flag)
    sources = {**plan.sources, "master_addr": f"{choice.reason}, {choice.interface}"}
    plan = replace(plan, master_addr=choice.address, sources=sources)
    if plan.launcher:  # it starts the others, and tells them where node 0 is: nobody has to be told here
        return replace(options, plan=replace(plan, announce=False))
    return replace(options, plan=plan)


def _insist_on_rank0(plan: Plan) -> None:
    """Raises PlanError in a rank 0 that is not where its MPI launcher was started, which no variable can tell."""
    launchers = {
        openmpi.NAME: openmpi.RANKS,
        hydra.NAME: hydra.RANKS,
        mvapich.NAME: mvapich.RANKS,
        horovod.NAME: horovod.RANKS,
    }
    address, source = plan.master_addr, plan.sources.get("master_addr", "")
    named = source in MASTER_ADDR.all_variables or source.startswith("--")
    if plan.launcher not in launchers or plan.rank != 0 or plan.nnodes == 1 or named or address is None:
        return
    host = socket.gethostname()
    literal = parse_address(address) is not None
    here = {held for one in interfaces.interfaces() for held in one.addresses} if literal else {host.partition(".")[0]}
    if (address if literal else address.partition(".")[0]) not in here:
        line = launchers[plan.launcher].with_host(host)
        raise PlanError(
            f"rank 0 is on {host}, and not on {address}, which {source} makes the first: `{line} ... distdoctor check`"
        )


def line_for_others(options: Options) -> str:
    """Return the line to run on each of the other nodes, after the user's token where this run has one."""
    plan = options.plan
    words = [*options.command, NNODES.flag, str(plan.nnodes)]
    if plan.sources.get("nproc_per_node", "default") not in ("default", "visible GPUs"):
        words += [NPROC_PER_NODE.flag, str(plan.nproc_per_node)]
    if plan.rdzv_backend == "c10d":  # torchrun reads no --master-addr then
        words += [RDZV_ENDPOINT.flag, endpoint(str(plan.master_addr), plan.master_port)]
    else:
        words += [MASTER_ADDR.flag, str(plan.master_addr), MASTER_PORT.flag, str(plan.master_port)]
    for setting, value, usual in (
        (BACKEND, plan.backend, "auto"),
        (RDZV_BACKEND, plan.rdzv_backend, "static"),
        (RDZV_ID, plan.run_id, "none"),
        (INIT_METHOD, plan.init_method, None),
    ):
        if value != usual:
            words += [setting.flag, str(value)]
    words += [word for path in options.shared for word in ("--shared", path)]
    secret = f"{VARIABLE}={shlex.quote(options.token)} " if options.token else ""
    return secret + shlex.join(words)
