"""``distdoctor check --hosts``: the check of many hosts from one place, and one verdict on what all of them saw."""

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
    from distdoctor.remote.connection import Line
    from distdoctor.remote.transports import Target

MARGIN_SECONDS = 30.0
"""Beside --wait and --timeout: to get to the hosts, and back."""
_TAKEN = (NNODES, NODE_RANK, RDZV_ENDPOINT, STANDALONE, LOCAL_RANK)
"""What the hosts that are named say themselves."""


def check_hosts(command: CheckCommand) -> int:
    """Check, tell, and return the exit status. Raises UsageError."""
    telling, began = Telling.from_flags(command.report), time.time()
    way, targets = orchestrate.targets_of(command.where)
    orders = _orders(command, way, targets)
    command.check_times()
    require_one_of("--until", command.how.until, STAGES)
    if command.how.dry_run:
        raise UsageError("--dry-run tells of one node: start it there, without what names the hosts")
    if command.how.baseline is not None:
        raise UsageError("--baseline goes with a check that is started on each node, or with diagnose")
    judging = functools.cache(command.judging)
    if command.report.checks or command.report.ignore:  # what is wrong with them is told before anything is started
        judging()
    place = orchestrate.folder(command.how.save)
    observer = command.observer(Plan())
    wait = command.how.wait or WAIT_SECONDS
    # With settings of this place a job is another than the one that a host could prepare for before it has its order.
    ahead = [replace(target, until="" if orders[0]["env"] else command.how.until) for target in targets]
    statuses: list[int] = []

    def tell(lines: Sequence[Line], calls: Sequence[HostCall]) -> None:
        observer.close()
        facts = orchestrate.facts_of(lines)
        report = _report(facts, *judging(), calls)
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
            told=tell,
        )
    finally:
        observer.close()
    return statuses[0]


def _orders(command: CheckCommand, way: str, targets: Sequence[Target]) -> list[dict[str, Any]]:
    """Return what each host is told to do. Raises UsageError where no plan can be made of the flags."""
    from distdoctor.plan.resolve import resolve

    for setting in _TAKEN:
        if getattr(command.launch, setting.name) not in (None, False):
            raise UsageError(f"{setting.flag} does not go with {way}, which says who the nodes are: leave it out")
    launch = printable_flags(command.launch)
    master = launch.master_addr or (_master(way, targets[0]) if len(targets) > 1 else None)
    common = replace(launch, nnodes=str(len(targets)), master_addr=master)
    how = {**asdict(command.how), "save": None, "token": command.token()}
    del how["baseline"]
    orders = []
    for rank, target in enumerate(targets):
        nproc = common.nproc_per_node or (str(target.host.slots) if target.host.slots else None)
        flags = replace(common, node_rank=rank, nproc_per_node=nproc)
        if rank == 0:
            resolve(flags, {}, lambda: 0, lambda: 1)  # what is wrong with a flag is told here, and once
        roster = [one.host.name for one in targets]
        orders.append(orchestrate.order(way, flags=asdict(flags), how=how, roster=roster))
    return orders


def _master(way: str, first: Target) -> str:
    """Return where the others find node 0. Raises UsageError where that would be each host itself."""
    address = transports.address_of(first)
    if address == "localhost" or is_loopback(address):
        raise UsageError(
            f"{way}: {first.host.name} is the first, and so node 0, and for ssh it is {address}, which on every other "
            f"host is that host: name it as the others know it, or add {MASTER_ADDR.flag} ADDRESS"
        )
    return address


def _get_ready(judging: Callable[[], object]) -> None:
    """Load what the report takes, and does not need before; what is wrong with it is told where it is used."""
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
    """The report where no host told anything: what became of the command that was sent to each."""
    from distdoctor.judge.engine import judge_calls

    judgement = judge_calls(calls, checks, ignore)
    nodes = tuple(ReportNode(call.host, call.node_rank, False) for call in calls)
    return Report(
        judgement.verdict if judgement.findings else "incomplete", __version__, None, "", 0.0, {"nnodes": len(calls)},
        nodes, (), judgement.findings, judgement.ignored,
    )  # fmt: skip
