"""``distdoctor check --hosts``: the check of many hosts from one place, and one verdict on what all of them saw."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distdoctor import __version__, interrupts
from distdoctor.cli.check import WAIT_SECONDS, CheckCommand, save_path, told_flags
from distdoctor.cli.fanout_progress import Progress
from distdoctor.cli.report_output import Telling
from distdoctor.cli.words import one_of
from distdoctor.launch import host_list, ways
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import LOCAL_RANK, NNODES, NODE_RANK, RDZV_ENDPOINT, STANDALONE
from distdoctor.model.plan import Plan
from distdoctor.model.report import Report, ReportNode
from distdoctor.model.sanitize import environment
from distdoctor.model.stages import STAGES
from distdoctor.render.exit_status import INCOMPLETE, OK, exit_status

if TYPE_CHECKING:
    from distdoctor.judge.catalog import Check
    from distdoctor.launch.fanout import Line
    from distdoctor.launch.ways import Target
    from distdoctor.model.facts import HostCall, NodeFacts

MARGIN_SECONDS = 30.0
"""Beside --wait and --timeout: to get to the hosts, and back."""
_TAKEN = (NNODES, NODE_RANK, RDZV_ENDPOINT, STANDALONE, LOCAL_RANK)
"""What the hosts that are named say themselves."""


def check_hosts(command: CheckCommand) -> int:
    """Check, tell, and return the exit status. Raises UsageError."""
    from distdoctor.launch.fanout import FanOut

    telling, began = Telling.from_flags(command.report), time.time()
    way, targets = _targets(command)
    orders = _orders(command, way, targets)
    command.check_times()
    one_of("--until", command.how.until, STAGES)
    checks, ignore = command.judging()
    place = _folder(command.how.save)
    observer = command.observer(Plan())
    progress = Progress(observer, [target.host.name for target in targets])
    wait = command.how.wait or WAIT_SECONDS
    fan_out = FanOut(
        targets,
        orders,
        progress,
        lambda: interrupts.pending() is not None,
        setup=command.where.setup,
        hello=max(wait, 2.0 * ways.CONNECT_SECONDS),
        limit=wait + command.how.timeout + MARGIN_SECONDS,
    )
    interrupts.hold()
    try:
        calls = fan_out.run()
    finally:
        observer.close()
    facts = [one for one in map(_facts, fan_out.lines) if one is not None]
    report = _report(facts, checks, ignore, calls)
    started = datetime.fromtimestamp(began, tz=timezone.utc).isoformat(timespec="seconds")
    report = replace(report, seconds=round(time.time() - began, 3), started_at=started)
    number = interrupts.pending()
    if number is not None:
        report = _interrupted(report, number)
    unsaved = _save(place, facts) if place else None
    if unsaved:
        report = replace(report, notes=(*report.notes, unsaved))
    telling.show(report, command.given())
    status = exit_status(report, telling.fail_on, number)
    return INCOMPLETE if status == OK and unsaved else status


def _targets(command: CheckCommand) -> tuple[str, tuple[Target, ...]]:
    """The flag that names the hosts, and the hosts. Raises UsageError."""
    where = command.where
    flags = {"--hosts": where.hosts, "--hostfile": where.hostfile, "--slurm-job": where.slurm_job, "--pods": where.pods}
    given = [flag for flag, value in flags.items() if value is not None]
    if len(given) != 1:
        raise UsageError(f"{' and '.join(given)}: give one of them" if given else "it needs one of " + ", ".join(flags))
    (flag,) = given
    for setting in _TAKEN:
        if getattr(command.launch, setting.name) not in (None, False):
            raise UsageError(f"{setting.flag} does not go with {flag}, which says who the nodes are: leave it out")
    if flag != "--pods" and (where.namespace or where.container):
        raise UsageError("-n and --container belong to --pods")
    if flag == "--slurm-job":
        targets = ways.into_slurm_job(str(where.slurm_job))
    elif flag == "--pods":
        targets = ways.into_pods(str(where.pods), where.namespace, where.container)
    else:
        named = (
            host_list.named(where.hosts) if where.hosts is not None else host_list.in_file(Path(str(where.hostfile)))
        )
        targets = ways.by_ssh(named)
    program = targets[0].before[0]
    if shutil.which(program) is None:
        raise UsageError(f"{flag} needs {program}, which is not on PATH here")
    return flag, targets


def _orders(command: CheckCommand, way: str, targets: Sequence[Target]) -> list[dict[str, Any]]:
    """What each host is told to do. Raises UsageError where no plan can be made of the flags."""
    from distdoctor.launch.resolve import resolve

    launch = told_flags(command.launch)
    common = replace(
        launch,
        nnodes=str(len(targets)),
        master_addr=launch.master_addr or (ways.address_of(targets[0]) if len(targets) > 1 else None),
    )
    token = command.token() or secrets.token_hex(16)
    how = {**asdict(command.how), "save": None, "token": token}
    orders = []
    for rank, target in enumerate(targets):
        nproc = common.nproc_per_node or (str(target.host.slots) if target.host.slots else None)
        flags = replace(common, node_rank=rank, nproc_per_node=nproc)
        if rank == 0:
            resolve(flags, {}, lambda: 0, lambda: 1)  # what is wrong with a flag is told here, and once
        orders.append(
            {
                "flags": asdict(flags),
                "how": how,
                "way": way,
                "env": _handed_on(),
                "cwd": os.getcwd(),
                "roster": [one.host.name for one in targets],
            }
        )
    return orders


def _handed_on() -> dict[str, str]:
    """The settings of the backends that are made here: a fix that is exported here is then tried on the hosts."""
    from distdoctor.knowledge.variables import OF_BACKENDS

    return {name: value for name, value in environment(os.environ).items() if name in OF_BACKENDS}


def _folder(save: str | None) -> Path | None:
    """Where the facts of all hosts are kept. Raises UsageError."""
    if save is None:
        return None
    place = save_path(save)
    if not place.is_dir():
        raise UsageError(f"--save {save}: several hosts have a file each: name a folder ({save}/)")
    return place


def _facts(line: Line) -> NodeFacts | None:
    """The facts that came from a host; None where none did, or what came is none."""
    from distdoctor.model.bounds import check_facts
    from distdoctor.model.facts import BadFacts, NodeFacts, decode

    if line.facts is None:
        return None
    try:
        facts = decode(line.facts, NodeFacts)
        check_facts(facts)
    except BadFacts:
        line.facts = None
        return None
    return facts


def _report(
    facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Sequence[str], calls: Sequence[HostCall]
) -> Report:
    from distdoctor.judge.engine import judge_calls
    from distdoctor.judge.saved import diagnose

    if facts:
        return diagnose(facts, checks, ignore, calls)
    judgement = judge_calls(calls, checks, ignore)
    nodes = tuple(ReportNode(call.host, call.node_rank, False) for call in calls)
    return Report(
        judgement.verdict if judgement.findings else "incomplete", __version__, None, "", 0.0, {"nnodes": len(calls)},
        nodes, (), judgement.findings, judgement.ignored,
    )  # fmt: skip


def _interrupted(report: Report, number: int) -> Report:
    import signal

    note = f"interrupted by {signal.Signals(number).name}: this is what was known then"
    verdict = report.verdict if report.verdict == "fail" else "incomplete"
    return replace(report, verdict=verdict, notes=(note, *report.notes))


def _save(folder: Path, facts: Sequence[NodeFacts]) -> str | None:
    """Keep the facts. What went wrong, or None."""
    from distdoctor.model.facts import files

    try:
        for one in facts:
            files.write(folder, one, True)
    except OSError as err:
        return f"the facts could not be saved: {err}"
    return None
