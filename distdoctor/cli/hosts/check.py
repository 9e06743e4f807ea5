"""``distdoctor check --hosts``: the check of many hosts in a remote run, with one verdict."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from distdoctor import __version__, interrupts
from distdoctor.cli.check import WAIT_SECONDS, CheckCommand, printable_flags
from distdoctor.cli.hosts import orchestrate
from distdoctor.cli.hosts.progress import Progress
from distdoctor.cli.output import Telling
from distdoctor.cli.program import require_one_of
from distdoctor.model.addresses import is_loopback
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import LOCAL_RANK, MASTER_ADDR, NNODES, NODE_RANK, RDZV_ENDPOINT, STANDALONE
from distdoctor.model.plan import Plan
from distdoctor.model.report import Report, ReportNode
from distdoctor.model.stages import STAGES
from distdoctor.remote import transports
from distdoctor.render.exit_status import INCOMPLETE, OK

if TYPE_CHECKING:
    from distdoctor.judge.catalog import Check
    from distdoctor.model.facts import HostCall, NodeFacts
    from distdoctor.remote.connection import HostConnection
    from distdoctor.remote.transports import HostTarget

MARGIN_SECONDS = 30.0
"""Seconds beside --wait and --timeout, to connect to the hosts and back."""
_TAKEN = (NNODES, NODE_RANK, RDZV_ENDPOINT, STANDALONE, LOCAL_RANK)
"""Settings that the named hosts determine; of Ray's nodes the first says how many."""


def check_hosts(command: CheckCommand) -> int:
    """Check, print the report, and return the exit status. Raises UsageError."""
    telling, began = Telling.from_flags(command.report), time.time()
    flag, targets = orchestrate.targets_of(command.where, command.launch, command.how)
    orders = _orders(command, flag, targets)
    command.check_times()
    require_one_of("--until", command.how.until, STAGES)
    if command.how.dry_run:
        raise UsageError("--dry-run tells of one node: start it there, without what names the hosts")
    if command.how.baseline is not None:
        raise UsageError("--baseline goes with a check that is started on each node, or with diagnose")
    judging = functools.cache(command.judging)
    if command.report.checks or command.report.ignore:  # their errors are reported before anything is started
        judging()
    place = orchestrate.folder(command.how.save)
    observer = command.observer(Plan())
    wait = command.how.wait or WAIT_SECONDS
    # With settings of this machine the job differs from the one that a host could prepare before it has its order.
    ahead = [replace(target, until="" if orders[0]["env"] else command.how.until) for target in targets]
    statuses: list[int] = []

    def print_report(lines: Sequence[HostConnection], calls: Sequence[HostCall]) -> None:
        observer.close()
        facts = orchestrate.facts_of(lines)
        report = _report(facts, *judging(), calls)
        if interrupts.pending() is not None:
            from distdoctor.session.interruption import certain_report

            report = certain_report(report, facts)
        started = datetime.fromtimestamp(began, tz=timezone.utc).isoformat(timespec="seconds")
        report = orchestrate.after_signal(replace(report, seconds=round(time.time() - began, 3), started_at=started))
        unsaved = orchestrate.keep(place, facts)
        report = replace(report, notes=(*report.notes, *((unsaved,) if unsaved else ())))
        telling.show(report, command.given())
        status = telling.status(report, interrupts.pending())
        statuses.append(INCOMPLETE if status == OK and unsaved else status)

    try:
        orchestrate.carry_out(
            ahead,
            orders,
            Progress(observer, [target.host.name for target in targets]),
            setup=command.where.setup,
            wait=wait,
            limit=wait + command.how.timeout + MARGIN_SECONDS,
            meanwhile=lambda: _get_ready(judging),
            on_results=print_report,
        )
    finally:
        observer.close()
    return statuses[0]


def _orders(command: CheckCommand, flag: str, targets: Sequence[HostTarget]) -> list[dict[str, Any]]:
    """Return the order of each host. Raises UsageError if the flags make no plan."""
    from distdoctor.plan.resolve import resolve

    for setting in _TAKEN[flag == orchestrate.RAY :]:
        if getattr(command.launch, setting.name) not in (None, False):
            raise UsageError(f"{setting.flag} does not go with {flag}, which says who the nodes are: leave it out")
    launch = printable_flags(command.launch)
    master = launch.master_addr or (_master(flag, targets[0]) if len(targets) > 1 else None)
    common = replace(launch, nnodes=str(len(targets)), master_addr=master)
    how = {**asdict(command.how), "save": None, "token": command.token()}
    del how["baseline"], how["per_gpu"], how["placement_group"]
    words = command.line.sent if command.line is not None else []
    orders = []
    for rank, target in enumerate(targets):
        slots = str(target.host.slots) if target.host.slots else None
        nproc = slots if command.how.per_gpu else common.nproc_per_node or slots
        flags = replace(common, node_rank=rank, nproc_per_node=nproc)
        if rank == 0:
            resolve(flags, {}, lambda: 0, lambda: 1)  # an error in a flag is reported here, and once
        roster = [one.host.name for one in targets]
        orders.append(orchestrate.order(flag, flags=asdict(flags), how=how, roster=roster, line=words))
    return orders


def _master(flag: str, first: HostTarget) -> str:
    """Return node 0's address for the others. Raises UsageError if it would be each host itself."""
    address = transports.address_of(first)
    if address == "localhost" or is_loopback(address):
        raise UsageError(
            f"{flag}: {first.host.name} is the first, and so node 0, and for ssh it is {address}, which on every other "
            f"host is that host: name it as the others know it, or add {MASTER_ADDR.flag} ADDRESS"
        )
    return address


def _get_ready(judging: Callable[[], object]) -> None:
    """Load the report's imports in advance; their errors are reported at their use."""
    from distdoctor.judge import saved  # noqa: F401
    from distdoctor.render import text  # noqa: F401

    with contextlib.suppress(UsageError):
        judging()


def _report(
    facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Sequence[str], calls: Sequence[HostCall]
) -> Report:
    from distdoctor.judge.saved import diagnose

    return diagnose(facts, checks, ignore, calls) if facts else on_calls_alone(calls, checks, ignore)


def on_calls_alone(calls: Sequence[HostCall], checks: Sequence[Check], ignore: Sequence[str]) -> Report:
    """Return the report without facts of any host: the result of the command on each."""
    from distdoctor.judge.engine import judge_calls

    judgement = judge_calls(calls, checks, ignore)
    nodes = tuple(ReportNode(call.host, call.node_rank, False) for call in calls)
    return Report(
        judgement.verdict if judgement.findings else "incomplete", __version__, None, "", 0.0, {"nnodes": len(calls)},
        nodes, (), judgement.findings, judgement.ignored,
    )  # fmt: skip
