"""Coverage: of each check, whether it found something, looked and found nothing, or could not look, and why. Pure.

A check declares what it needs to have seen, ``LOOKS_AT``, in the words of :mod:`distdoctor.judge.parts`; without that
it is what its own stage sees. Nothing found counts only where all of it was seen on every node of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distdoctor.judge.catalog import Check
from distdoctor.judge.engine import Judgement
from distdoctor.judge.parts import CLOCK, DEVICES, EVERYONE, MEETING, RANKS, WORK
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import RankFacts
from distdoctor.model.report import ReportCheck, ReportNode, ReportStage
from distdoctor.model.stages import COLLECTIVE as LAST
from distdoctor.model.stages import GPU, HOST, MESH, NETWORK, STAGES, STORE

_STAGE_OF = {"host": HOST, "network": NETWORK, "meeting": STORE, "mesh": MESH, "identity": STORE}
_RANKS_STAGE = {DEVICES: GPU, WORK: LAST}


def coverage(
    cluster: Cluster, judgement: Judgement, nodes: Sequence[ReportNode], stages: Sequence[ReportStage]
) -> Iterator[ReportCheck]:
    """Each check that was run, in their order; ``nodes`` and ``stages`` as the report tells them."""
    found = {finding.check for finding in judgement.findings}
    ignored = {finding.check for finding in judgement.ignored}
    broken = {told.partition(":")[0] for told in judgement.broken}
    uncollected = dict(judgement.uncollected)
    absent = _absent(cluster, judgement, nodes)
    told = {(stage.node, stage.stage): stage for stage in stages}
    for check in judgement.checks:
        if check.id in broken:
            yield ReportCheck(check.id, "not-judged", "the check crashed")
        elif check.id in found or check.id in ignored:
            yield ReportCheck(check.id, "found", "" if check.id in found else "ignored")
        else:
            why = absent or uncollected.get(check.id) or next(_unseen(cluster, check, told), "")
            yield ReportCheck(check.id, "not-judged" if why else "clear", why)


def _absent(cluster: Cluster, judgement: Judgement, nodes: Sequence[ReportNode]) -> str:
    """Why nothing can be said of the whole job: who was not seen at all."""
    names = [node.name for node in nodes if not node.arrived]
    if names:
        return f"{names[0]} was not seen" if len(names) == 1 else f"{len(names)} nodes were not seen"
    here = {one.plan.rank for one in cluster.slices}
    never = (finding for finding in (*judgement.findings, *judgement.ignored) if finding.incomplete)
    ranks = sorted({rank for finding in never for rank in finding.ranks} - here)
    if ranks and cluster.plan.started == "rank":
        return f"rank {ranks[0]} was not seen" if len(ranks) == 1 else f"{len(ranks)} ranks were not seen"
    return ""


def _unseen(cluster: Cluster, check: Check, told: Mapping[tuple[str, str], ReportStage]) -> Iterator[str]:
    """Why what the check looks at was not seen on every node."""
    for part in check.looks_at:
        if part == EVERYONE:
            yield from _incomplete(cluster)
            continue
        stage = _stage_of(part)
        for node in cluster.nodes:
            entry = told.get((node.name, stage))
            if entry is not None and entry.status == "error":
                yield f"{stage} could not be finished on {node.name}"
            elif not _seen(node, part) and not (part == CLOCK and node is cluster.node0):
                yield _why(entry, stage, cluster, node)


def _stage_of(part: str) -> str:
    """The stage in which a part of the facts is seen."""
    first, _, second = part.partition(".")
    if first == RANKS:
        return _RANKS_STAGE[second].name if second in _RANKS_STAGE else second
    return _STAGE_OF[first].name if first in _STAGE_OF else STAGES[0]


def _seen(node: Node, part: str) -> bool:
    first, _, second = part.partition(".")
    if first == RANKS:
        return bool(node.facts.ranks) and all(_rank_seen(rank, second) for rank in node.facts.ranks)
    if part == MEETING:
        return node.meeting.joined or node.meeting.ended
    value: object = node.facts
    for name in part.split("."):
        value = getattr(value, name, None)
        if value is None or value is False:
            return False
    return True


def _rank_seen(rank: RankFacts, what: str) -> bool:
    if what == DEVICES:
        return rank.gpu is not None and bool(rank.gpu.visible)
    if what == WORK:
        return rank.work is not None
    return any(entry.stage == what and entry.status in ("ok", "failed") for entry in rank.stages)


def _incomplete(cluster: Cluster) -> Iterator[str]:
    """Where the facts are of a part of the job only, as up to a stage that each node climbs by itself."""
    by_rank = cluster.plan.started == "rank"
    here = len(cluster.slices) if by_rank else len(cluster.nodes)
    planned = (cluster.plan.world_size if by_rank else cluster.plan.nnodes) or 1
    if here < planned:
        yield f"{here} of {planned} {'ranks' if by_rank else 'nodes'} {'was' if here == 1 else 'were'} seen"


def _why(entry: ReportStage | None, stage: str, cluster: Cluster, node: Node) -> str:
    if entry is None:
        return f"not reached: {stage}"
    if entry.status == "skip" and entry.reason:
        return entry.reason if entry.reason.startswith("not run") or ":" in entry.reason else f"{stage}: {entry.reason}"
    where = f" on {node.name}" if len(cluster.nodes) > 1 else ""
    return f"nothing of it was seen in {stage}{where}"
