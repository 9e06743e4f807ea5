"""Report: the cluster and the checks' findings, with stages, coverage, the matrix of links and details of GPUs.
Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from distdoctor import __version__
from distdoctor.judge.catalog import CLOCK, DEVICES, EVERYONE, MEETING, RANKS, WORK, Check
from distdoctor.judge.engine import Judgement, one_host_note, only_probed
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import LinkRow, NodeFacts, PeerCopies, RankFacts, StageFacts
from distdoctor.model.findings import SEVERITIES, Finding, at_least
from distdoctor.model.report import Report, ReportCheck, ReportNode, ReportStage, Verdict
from distdoctor.model.stages import BY_NAME, COLLECTIVE, GPU, HOST, MESH, NETWORK, STAGES, STORE, stage_index
from distdoctor.model.stages import COLLECTIVE as LAST

_STATUS = {"ok": "pass", "failed": "fail", "skipped": "skip", "error": "error"}
WARNINGS_SHOWN = 4
"""Most warnings of one node's NCCL."""
_WORST_FIRST = ("error", "failed", "ok", "skipped")


def assemble(
    cluster: Cluster,
    judgement: Judgement,
    *,
    started_at: str,
    seconds: float,
    notes: Iterable[str] = (),
    extra_missing: Iterable[str] = (),
    until: str | None = None,
) -> Report:
    """Return the report on ``cluster``.

    ``started_at`` is a time in ISO 8601, ``seconds`` the duration of the run. ``extra_missing`` names nodes that did
    not join, in addition to those in the findings. ``until`` is the last stage to run: stages up to it are listed even
    if no node reached them (None: those that any node recorded).
    """
    top = max(
        (stage_index(s.stage) for one in _all_slices(cluster) for s in one.stages if s.stage in STAGES), default=-1
    )
    wanted = STAGES[: max(top, stage_index(until) if until else -1) + 1]
    stages = tuple(s for node in cluster.nodes for s in _stages(cluster, node, wanted, judgement.findings))
    unexplained = tuple(_unexplained(stages, judgement.findings))
    here = {node.name for node in cluster.nodes}
    # An incomplete finding about nodes that are here says why something is unknown.
    unknown = any(f.incomplete and here.issuperset(f.nodes) for f in judgement.findings)
    crashed = tuple(f"a check crashed and was not judged: {broken.strip()}" for broken in judgement.broken)
    crashed += tuple(f"the check {check} was not judged: {why}" for check, why in judgement.uncollected)
    nodes = (*(_node(node) for node in cluster.nodes), *_missing(cluster, judgement.findings, extra_missing))
    return Report(
        verdict=_verdict(judgement.verdict, stages, bool(unexplained)),
        distdoctor=__version__,
        torch=cluster.reference.facts.identity.torch,
        started_at=started_at,
        seconds=round(seconds, 3),
        plan=plan_summary(cluster),
        nodes=nodes,
        stages=stages,
        findings=judgement.findings,
        ignored=judgement.ignored,
        notes=(*dict.fromkeys((*notes, *one_host_note(cluster), *(() if unknown else unexplained), *crashed)),),
        details=_details(cluster),
        checks=tuple(coverage(cluster, judgement, nodes, stages)),
    )


def plan_summary(cluster: Cluster) -> dict[str, Any]:
    """Return the reference node's plan as plain values."""
    plan = cluster.plan
    gpus = any(rank.gpu and rank.gpu.visible for rank in cluster.reference.facts.ranks)
    return {
        "nnodes": plan.nnodes,
        "nproc_per_node": plan.nproc_per_node,
        "node_rank": cluster.reference.node_rank,
        "world_size": plan.world_size,
        "master_addr": plan.master_addr,
        "master_port": plan.master_port,
        **({"rdzv_backend": plan.rdzv_backend} if plan.rdzv_backend != "static" else {}),
        **({"init_method": plan.init_method} if plan.init_method else {}),
        "backend": plan.backend,
        "backends": list(plan.backends(gpus)),
        **({"mesh": dict(plan.mesh)} if plan.mesh else {}),
        **({"groups": plan.groups} if plan.groups else {}),
        "started": plan.started,
        "launcher": plan.launcher,
        **({"engine": plan.engine} if plan.engine else {}),
        **({"alone": True} if plan.nnodes == 1 and plan.sources.get("nnodes") == "default" else {}),
        **({"everywhere": plan.everywhere} if plan.everywhere else {}),
        **({"ranks_per_node": list(plan.tasks)} if len(set(plan.tasks)) > 1 else {}),
        "sources": dict(plan.sources),
    }


# -- nodes -----------------------------------------------------------------------------------------------------------


def _node(node: Node) -> ReportNode:
    identity = node.facts.identity
    return ReportNode(
        name=node.name,
        node_rank=node.node_rank,
        arrived=True,
        hostname=identity.hostname,
        ranks=node.ranks,
        address=node.reached_at,
        torch=identity.torch,
        distdoctor=identity.distdoctor,
    )


def _missing(cluster: Cluster, findings: Sequence[Finding], extra: Iterable[str]) -> Iterator[ReportNode]:
    here = {node.name for node in cluster.nodes}
    named = (name for finding in findings if finding.incomplete for name in finding.nodes)
    for name in dict.fromkeys((*named, *extra)):
        if name not in here:
            digits, roster = name.removeprefix("node"), cluster.plan.roster
            rank = int(digits) if name.startswith("node") and digits.isdecimal() and len(digits) < 9 else None
            rank = roster.index(name) if name in roster else rank
            yield ReportNode(name=name, node_rank=rank, arrived=False)


# -- stages ----------------------------------------------------------------------------------------------------------


def _stages(cluster: Cluster, node: Node, wanted: Sequence[str], findings: Sequence[Finding]) -> Iterator[ReportStage]:
    """Yield each of the ``wanted`` stages with exactly one status."""
    recorded = _recorded(cluster, node)
    stopped: str | None = None
    for stage in wanted:
        facts = recorded.get(stage) or _not_recorded(stage, stopped)
        if facts.status in ("failed", "error") and stopped is None:
            stopped = stage
        own = _STATUS[facts.status]
        status = "skip" if facts.blocked_by else _raised(cluster, node, stage, own, findings)
        reason, blocked_by = facts.reason, facts.blocked_by if status == "skip" else None
        if own in ("pass", "skip") and status in ("warn", "fail"):
            # It ran through or was not reached, and its text is no reason.
            reason = ", ".join(f.id for f in _of_stage(node, stage, findings) if f.severity in ("warn", "fail"))
        if status == "pass":
            reason = _without_the_missing(cluster) if BY_NAME[stage].opened else ""
        if status == "skip" and not reason:
            reason = f"not run: needs {blocked_by}" if blocked_by else "not run"
        elif status == "skip" and reason.startswith("needs "):
            reason = f"not run: {reason}"
        yield ReportStage(stage, node.name, status, round(facts.seconds, 3), reason, blocked_by)


def _without_the_missing(cluster: Cluster) -> str:
    """Return the nodes that took part in the stages that node 0 opens; empty if all did, or if unknown."""
    meeting = cluster.meeting
    if meeting is None or not 0 < len(meeting.arrived) < meeting.expected:
        return ""
    if meeting.counts == "ranks":
        return f"{len(meeting.arrived)} of {meeting.expected} ranks only"
    return "this node only" if len(meeting.arrived) == 1 else f"these {len(meeting.arrived)} nodes only"


def _all_slices(cluster: Cluster) -> tuple[NodeFacts, ...]:
    return cluster.slices or tuple(node.facts for node in cluster.nodes)


def _recorded(cluster: Cluster, node: Node) -> dict[str, StageFacts]:
    """Return the result of each stage on ``node``; of a node started once per rank, the worst of its ranks."""
    found: dict[str, StageFacts] = {}
    for one in (s for s in _all_slices(cluster) if s.key in node.keys):
        for facts in one.stages:
            known = found.get(facts.stage)
            if known is None or _WORST_FIRST.index(facts.status) < _WORST_FIRST.index(known.status):
                found[facts.stage] = facts
    return found


def _not_recorded(stage: str, stopped: str | None) -> StageFacts:
    if stopped is None:
        return StageFacts(stage, "skipped", reason="not reached")
    return StageFacts(stage, "skipped", reason=f"not run: needs {stopped}", blocked_by=stopped)


def _raised(cluster: Cluster, node: Node, stage: str, status: str, findings: Sequence[Finding]) -> str:
    """Return ``status``, adjusted to the stage's findings on that node.

    A failure that a finding calls harmless for the planned job is a warning, and a finished stage with a finding has
    not passed.
    """
    touching = [f.severity for f in (*_of_stage(node, stage, findings), *_of_links(cluster, node, stage, findings))]
    worst = max((s for s in touching if s), key=SEVERITIES.index, default=None)
    if status == "error":
        return status
    if worst in ("warn", "fail"):
        return str(worst)
    if status == "fail" and only_probed(cluster, stage):
        return "warn"
    return status


def _of_stage(node: Node, stage: str, findings: Sequence[Finding]) -> list[Finding]:
    return [f for f in findings if f.check.partition("/")[0] == stage and node.name in _touched(f)]


def _of_links(cluster: Cluster, node: Node, stage: str, findings: Sequence[Finding]) -> list[Finding]:
    """Return the mesh's findings with those of other stages (a route, an interface) that explain a link from that
    node."""
    if not BY_NAME[stage].links or node.facts.mesh is None:
        return []
    targets = {cluster.by_key[link.to].name for link in node.facts.mesh.bad if link.to in cluster.by_key}
    return [f for f in findings if any(source == node.name and target in targets for source, target in f.links)]


def _touched(finding: Finding) -> set[str]:
    return {*finding.nodes, *(node for link in finding.links for node in link)}


def _unexplained(stages: Sequence[ReportStage], findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a note for each failed stage without a finding, so that it does not go unnoticed."""
    if any(at_least(finding.severity, "fail") for finding in findings):
        return
    for stage in stages:
        if stage.status in ("fail", "error"):
            how = "failed" if stage.status == "fail" else "did not finish"
            yield f"{stage.stage} {how} on {stage.node}; the cause is unknown: {stage.reason or 'no reason given'}"


def _verdict(verdict: Verdict, stages: Sequence[ReportStage], unexplained: bool) -> Verdict:
    if verdict in ("fail", "incomplete"):
        return verdict
    return "incomplete" if unexplained or any(stage.status == "error" for stage in stages) else verdict


# -- details ---------------------------------------------------------------------------------------------------------


def _details(cluster: Cluster) -> dict[str, Any]:
    trials = [
        {"check": t.check, "option": t.option, "stages": list(t.stages), "passed": t.passed, "error": t.error}
        for node in cluster.nodes
        for t in node.facts.trials
    ]
    nodes = {node.name: _node_details(node) for node in cluster.nodes}
    links = link_matrix(cluster)
    return {"nodes": nodes, **({"links": links} if links else {}), **({"trials": trials} if trials else {})}


def _node_details(node: Node) -> dict[str, Any]:
    host, mesh, identity = node.facts.host, node.facts.mesh, node.facts.identity
    values: dict[str, Any] = {
        "interfaces": {i.name: list(i.addresses) for i in host.interfaces} if host else None,
        "gloo_address": node.gloo_address,
        "gloo_interface": node.interface_of(node.gloo_address),
        "reached_at": node.reached_at,
        "master_port_refused": (node.network.refused_before and not node.meeting.joined) or None,
        "variables": dict(node.facts.variables) or None,
        "variable_files": dict(node.facts.variable_files) or None,
        "links_good": mesh.good if mesh else None,
        "links_bad": len(mesh.bad) if mesh else None,
        "rtt_median": mesh.rtt_median if mesh else None,
        "rtt_max": mesh.rtt_max if mesh else None,
        "python": identity.python,
        "executable": identity.executable or None,
        "torch": identity.torch,
        "torch_path": identity.torch_path,
        "torch_seconds": identity.torch_seconds,
        "torch_importing": identity.torch_importing or None,
        "torch_error": identity.torch_error,
    }
    for rank in node.facts.ranks:
        for stage in rank.stages:
            if stage.stage == COLLECTIVE.name and stage.detail:
                values.setdefault(stage.stage, {})[str(rank.rank)] = stage.detail
    values["gpus"] = gpu_details(node.facts)
    values["nccl"] = _nccl(node)
    return {name: value for name, value in values.items() if value is not None}


def _nccl(node: Node) -> dict[str, Any] | None:
    """Return the settings that NCCL of the node's ranks logged in the check's own group; None if there are none."""
    logs = [rank.nccl for rank in node.facts.ranks if rank.nccl is not None]
    channels = Counter[str]()
    for log in logs:
        channels.update(log.channels)
    details: dict[str, Any] = {
        name: list(dict.fromkeys(one for log in logs if (one := getattr(log, name))))
        for name in ("version", "interface", "network")
    }
    details["devices"] = list(dict.fromkeys(one for log in logs for one in log.devices))
    details["channels"] = [f"{transport} x {number}" for transport, number in sorted(channels.items())]
    details["notes"] = list(dict.fromkeys(one for log in logs for one in log.notes))
    details["warnings"] = list(dict.fromkeys(one for log in logs for one in log.warnings))[:WARNINGS_SHOWN]
    return {name: value for name, value in details.items() if value} or None


# Coverage: whether each check found something, looked and found nothing, or could not look, and why.
#
# A check declares the facts that it needs in ``LOOKS_AT`` (words in :mod:`distdoctor.judge.catalog`), by default those
# of its own stage. No finding counts only if all of it was seen on every node of the job.


_STAGE_OF = {"host": HOST, "network": NETWORK, "meeting": STORE, "mesh": MESH, "identity": STORE}
_RANKS_STAGE = {DEVICES: GPU, WORK: LAST}


def coverage(
    cluster: Cluster, judgement: Judgement, nodes: Sequence[ReportNode], stages: Sequence[ReportStage]
) -> Iterator[ReportCheck]:
    """Yield each check that ran, in order, with its coverage; ``nodes`` and ``stages`` as in the report."""
    found = {finding.check for finding in judgement.findings}
    ignored = {finding.check for finding in judgement.ignored}
    broken = {by_stage.partition(":")[0] for by_stage in judgement.broken}
    uncollected = dict(judgement.uncollected)
    absent = _absent(cluster, judgement, nodes)
    by_stage = {(stage.node, stage.stage): stage for stage in stages}
    for check in judgement.checks:
        if check.id in broken:
            yield ReportCheck(check.id, "not-judged", "the check crashed")
        elif check.id in found or check.id in ignored:
            yield ReportCheck(check.id, "found", "" if check.id in found else "ignored")
        else:
            why = absent or uncollected.get(check.id) or next(_missing_facts(cluster, check, by_stage), "")
            yield ReportCheck(check.id, "not-judged" if why else "clear", why)


def _absent(cluster: Cluster, judgement: Judgement, nodes: Sequence[ReportNode]) -> str:
    """Return the reason why the whole job cannot be judged: the nodes that were not seen."""
    names = [node.name for node in nodes if not node.arrived]
    if names:
        return f"{names[0]} was not seen" if len(names) == 1 else f"{len(names)} nodes were not seen"
    here = {one.plan.rank for one in cluster.slices}
    never = (finding for finding in (*judgement.findings, *judgement.ignored) if finding.incomplete)
    ranks = sorted({rank for finding in never for rank in finding.ranks} - here)
    if ranks and cluster.plan.started == "rank":
        return f"rank {ranks[0]} was not seen" if len(ranks) == 1 else f"{len(ranks)} ranks were not seen"
    return ""


def _missing_facts(cluster: Cluster, check: Check, by_stage: Mapping[tuple[str, str], ReportStage]) -> Iterator[str]:
    """Yield the reasons why the check's facts were not seen on every node."""
    for part in check.looks_at:
        if part == EVERYONE:
            yield from _incomplete(cluster)
            continue
        stage = _stage_of(part)
        for node in cluster.nodes:
            entry = by_stage.get((node.name, stage))
            if entry is not None and entry.status == "error":
                yield f"{stage} did not finish on {node.name}"
            elif not _node_saw(node, part) and not (part == CLOCK and node is cluster.node0):
                yield _why(entry, stage, cluster, node)


def _stage_of(part: str) -> str:
    """Return the stage that collects a part of the facts."""
    first, _, second = part.partition(".")
    if first == RANKS:
        return _RANKS_STAGE[second].name if second in _RANKS_STAGE else second
    return _STAGE_OF[first].name if first in _STAGE_OF else STAGES[0]


def _node_saw(node: Node, part: str) -> bool:
    first, _, second = part.partition(".")
    if first == RANKS:
        return bool(node.facts.ranks) and all(_rank_saw(rank, second) for rank in node.facts.ranks)
    if part == MEETING:
        return node.meeting.joined or node.meeting.ended
    value: object = node.facts
    for name in part.split("."):
        value = getattr(value, name, None)
        if value is None or value is False:
            return False
    return True


def _rank_saw(rank: RankFacts, what: str) -> bool:
    if what == DEVICES:
        return rank.gpu is not None and bool(rank.gpu.visible)
    if what == WORK:
        return rank.work is not None
    return any(entry.stage == what and entry.status in ("ok", "failed") for entry in rank.stages)


def _incomplete(cluster: Cluster) -> Iterator[str]:
    """Yield reasons if the facts are of a part of the job only, such as up to a stage that each node runs by itself."""
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
    return f"{stage} did not record it{where}"


# Measurements of all links as one matrix, from each node's row.


FIGURES = ("rtt", "rates", "lost")


def link_matrix(cluster: Cluster) -> dict[str, Any] | None:
    """Return the matrix of links (rows connect to columns), each entry a node or several neighbours (``names``).

    Values are seconds of a round trip, bytes per second, and the share of retransmitted segments; ``bad`` counts the
    failed links. An entry of several nodes has the worst value. Rows that are not of the run's own size are left out.
    None if there are no measurements.
    """
    rows = [(node, node.mesh.row) for node in cluster.nodes if node.mesh.row is not None]
    sizes = Counter(row.nodes for _, row in rows)
    if not rows:
        return None
    nodes = sizes.most_common(1)[0][0]
    rows = [(node, row) for node, row in rows if row.nodes == nodes]
    frame = rows[0][1]
    names: list[list[str]] = [[] for _ in range(frame.entries)]
    for node, row in sorted(rows, key=lambda pair: pair[1].place):
        names[row.entry(row.place)].append(node.name)
    return {
        "names": names,
        **{figure: _worst(rows, figure, frame.entries) for figure in FIGURES},
        "bad": _bad(rows, frame.entries),
    }


def _worst(rows: list[tuple[Node, LinkRow]], figure: str, entries: int) -> list[list[float | None]]:
    choose = min if figure == "rates" else max
    found: list[list[float | None]] = [[None] * entries for _ in range(entries)]
    for _, row in rows:
        line = found[row.entry(row.place)]
        for place, value in enumerate(getattr(row, figure)):
            if value is not None:
                before = line[place]
                line[place] = value if before is None else choose(before, value)
    return found if any(value is not None for line in found for value in line) else []


def _bad(rows: list[tuple[Node, LinkRow]], entries: int) -> list[list[int]]:
    entry_of = {key: row.entry(row.place) for node, row in rows for key in node.keys}
    found = [[0] * entries for _ in range(entries)]
    for node, row in rows:
        for link in node.mesh.bad:
            if link.to in entry_of:
                found[row.entry(row.place)][entry_of[link.to]] += 1
    return found if any(any(line) for line in found) else []


# GPUs of a node, and the sources of these facts, for the report's details.


SOURCES = {"nvml": "NVML", "nvidia-smi": "nvidia-smi", "amd-smi": "amd-smi", "rocm-smi": "rocm-smi"}
ALONE = "torch alone"


def gpu_details(facts: NodeFacts) -> dict[str, Any] | None:
    """Return the sources, the GPU of each rank, and which GPUs reach each other; None if no rank sees one."""
    ranks = {rank.rank if rank.rank is not None else rank.local_rank: rank for rank in facts.ranks if rank.gpu}
    devices = {device.index: device.name for rank in ranks.values() if rank.gpu for device in rank.gpu.visible}
    if not devices:
        return None
    driver, amd = facts.driver, facts.amd
    source = SOURCES.get((driver.source if driver else "") or (amd.source if amd else ""), ALONE)
    taken = {
        str(number): rank.gpu.visible[rank.local_rank % len(rank.gpu.visible)]
        for number, rank in ranks.items()
        if rank.gpu and rank.gpu.visible
    }
    values: dict[str, Any] = {
        "asked": source,
        "not_asked": driver.error if driver and source == ALONE else "",
        "driver": (driver.module if driver else "") or (amd.module if amd else ""),
        "cuda": driver.cuda if driver else "",
        "models": list(dict.fromkeys(devices.values())),
        "devices_of_ranks": {number: f"{one.index} {one.uuid}".strip() for number, one in taken.items()},
        "copies": _copies(facts.peers) if facts.peers else None,
    }
    return {name: value for name, value in values.items() if value}


def _copies(peers: PeerCopies) -> str:
    """Return ``54 of 56 pairs reach each other's memory, not 3 to 4; 54 copies tried, 0 wrong``."""
    pairs = peers.devices * (peers.devices - 1)
    apart = ", ".join(f"{one} to {other}" for one, other in peers.refused)
    reach = f"{peers.able} of {pairs} pairs reach each other's memory{f', not {apart}' if apart else ''}"
    endless = f", {peers.endless[0]} to {peers.endless[1]} did not end" if peers.endless else ""
    return f"{reach}; {peers.tried} copies tried, {len(peers.wrong)} wrong{endless}"
