"""Common part of remote runs: hosts, connections, facts, folder and interruption."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distdoctor import interrupts
from distdoctor.cli.check import save_path
from distdoctor.cli.options import HostFlags, RunFlags
from distdoctor.cli.program import require_one_of
from distdoctor.model.errors import UsageError
from distdoctor.model.report import Report
from distdoctor.model.text import environment
from distdoctor.remote import transports
from distdoctor.remote.transports import make_room

if TYPE_CHECKING:
    from distdoctor.model.facts import HostCall, NodeFacts
    from distdoctor.plan.values import Flags
    from distdoctor.remote.connection import HostConnection
    from distdoctor.remote.fanout import Watcher
    from distdoctor.remote.transports import HostTarget

RAY = "--ray"


def targets_of(
    where: HostFlags, job: Flags | None = None, how: RunFlags | None = None
) -> tuple[str, tuple[HostTarget, ...]]:
    """Return the flag that names the hosts, and the hosts. ``job``, ``how``: a check, of which Ray places actors.
    Raises UsageError."""
    flags = {
        "--hosts": where.hosts,
        "--hostfile": where.hostfile,
        "--slurm-job": where.slurm_job,
        "--pods": where.pods,
        RAY: where.ray,
    }
    given = [flag for flag, value in flags.items() if value is not None]
    if len(given) != 1:
        raise UsageError(f"{' and '.join(given)}: give one of them" if given else "it needs one of " + ", ".join(flags))
    (flag,) = given
    if flag != "--pods" and (where.namespace or where.container):
        raise UsageError("-n and --container belong to --pods")
    if how is not None and (how.per_gpu or how.placement_group) and flag != RAY:
        raise UsageError(f"--{'per-gpu' if how.per_gpu else 'placement-group'} belongs to {RAY}")
    if flag == "--slurm-job":
        targets = transports.into_slurm_job(str(where.slurm_job))
    elif flag == "--pods":
        targets = transports.into_pods(str(where.pods), where.namespace, where.container)
    elif flag == RAY:
        targets = _in_ray(str(where.ray), job, how)
    else:
        named = (
            transports.hosts_named(where.hosts)
            if where.hosts is not None
            else transports.hosts_in_file(Path(str(where.hostfile)))
        )
        targets = transports.by_ssh(named)
    program = targets[0].before[0]
    if shutil.which(program) is None:
        raise UsageError(f"{flag} needs {program}, which is not on PATH here")
    return flag, targets


def _in_ray(address: str, job: Flags | None, how: RunFlags | None) -> tuple[HostTarget, ...]:
    """Return the actors of a check, or all nodes without one. Raises UsageError."""
    from distdoctor.remote import ray_cluster, ray_groups

    strategy = how.placement_group if how is not None else None
    if strategy is not None:
        strategy = require_one_of("--placement-group", strategy.upper(), ray_groups.STRATEGIES)
    targets, dead = ray_cluster.nodes_of(address)
    if job is None or how is None:
        return targets
    nnodes, ranks = _number(job.nnodes), _number(job.nproc_per_node)
    if strategy is not None:
        return ray_groups.in_groups(targets, dead, strategy, nnodes, ranks, how.per_gpu)
    targets = ray_cluster.for_job(targets, dead, nnodes, ranks)
    return ray_cluster.each_gpu(targets) if how.per_gpu else targets


def _number(text: str | None) -> int | None:
    """Return the number of nodes (of MIN:MAX, MAX) or ranks; None for words such as auto."""
    last = (text or "").rpartition(":")[2]
    return int(last) if last.isdecimal() else None


def order(flag: str, **what: Any) -> dict[str, Any]:
    """Return the order for a host, with this machine's settings of the backends and its folder.

    Ray's workers have settings and a folder of their own: they get those of this shell to compare with.
    """
    from distdoctor.knowledge.settings import OF_BACKENDS, of_shell

    if flag == RAY:
        return {**what, "way": flag, "env": {}, "cwd": "", "shell": of_shell(environment(os.environ))}
    env = {name: value for name, value in environment(os.environ).items() if name in OF_BACKENDS}
    return {**what, "way": flag, "env": env, "cwd": os.getcwd()}


def carry_out(
    targets: Sequence[HostTarget],
    orders: Sequence[Mapping[str, Any]],
    watcher: Watcher,
    *,
    setup: str | None,
    wait: float,
    limit: float,
    meanwhile: Callable[[], object] | None = None,
    on_results: Callable[[Sequence[HostConnection], Sequence[HostCall]], object] | None = None,
) -> tuple[list[HostConnection], list[HostCall]]:
    """Send each host its order, and wait for the end of all. Return the connection to each, and its result.

    ``wait``, ``limit``: seconds until a host must be connected, and until all must have ended. ``meanwhile``: runs
    here, in a thread, while they connect. ``on_results``: gets the results once all have sent theirs, while they end.
    From now on, signals are held. Raises UsageError for more hosts than this process may connect to, or two names of
    one host.
    """
    from distdoctor.remote.fanout import FanOut

    make_room(len(targets))
    fan_out = FanOut(
        targets,
        orders,
        watcher,
        lambda: interrupts.pending() is not None,
        setup=setup,
        hello=max(wait, 2.0 * transports.CONNECT_SECONDS),
        limit=limit,
        meanwhile=meanwhile,
        on_results=on_results,
    )
    interrupts.hold()
    calls = fan_out.run()
    if fan_out.twice:
        one, other = fan_out.twice
        raise UsageError(
            f"{one} and {other} lead to one and the same host: name each once (several nodes of one host cannot be "
            "looked at from one place)"
        )
    return fan_out.lines, calls


def facts_of(lines: Sequence[HostConnection]) -> list[NodeFacts]:
    """Return the facts of the hosts, without hosts that sent none or bad ones."""
    return [one for one in map(_facts, lines) if one is not None]


def _facts(line: HostConnection) -> NodeFacts | None:
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


def after_signal(report: Report) -> Report:
    """Return the report; after a signal it says that it was interrupted and is incomplete."""
    number = interrupts.pending()
    if number is None:
        return report
    note = f"interrupted by {signal.Signals(number).name}: this is what was known then"
    verdict = report.verdict if report.verdict == "fail" else "incomplete"
    return replace(report, verdict=verdict, notes=(note, *report.notes))


def folder(save: str | None) -> Path | None:
    """Return the folder for the facts of all hosts. Raises UsageError."""
    if save is None:
        return None
    place = save_path(save)
    if not place.is_dir():
        raise UsageError(f"--save {save}: several hosts have a file each: name a folder ({save}/)")
    return place


def keep(place: Path | None, facts: Sequence[NodeFacts]) -> str | None:
    """Save the facts if requested. Return the error, or None."""
    from distdoctor.model.facts import files

    try:
        for one in facts if place is not None else ():
            files.write(place, one, True)  # type: ignore[arg-type]
    except OSError as err:
        return f"the facts could not be saved: {err}"
    return None
