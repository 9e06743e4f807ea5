"""Ranks whose stages failed: which they are, what they said, and the finding that tells it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from distdoctor.check_api.accused_peers import Accused, accused
from distdoctor.check_api.error_remedies import said_fixes
from distdoctor.check_api.text import shorten_error, together
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.error_text import shortened
from distdoctor.model.facts import RankFacts, RankStage
from distdoctor.model.findings import Finding, Fix


def errors_with_words(cluster: Cluster, words: Collection[str], unless: str = "") -> dict[str, tuple[str, ...]]:
    """Node name -> the errors of its ranks, and of stages that broke on the node itself, that hold one of ``words`` and
    not ``unless``, each once, as lines of evidence."""
    found: dict[str, tuple[str, ...]] = {}
    for node in cluster.nodes:
        errors = [entry.error for rank in node.facts.ranks for entry in rank.stages if entry.error]
        errors += [stage.reason for stage in node.facts.stages if stage.status == "error"]
        errors = [error for error in errors if not (unless and unless in error)]
        texts = dict.fromkeys(shorten_error(error) for error in errors if any(word in error for word in words))
        if texts:
            found[node.name] = tuple(f"{node.name}: {text}" for text in texts)
    return found


LINES = 6
NOT_SEEN = (
    "at best by luck: gloo connects from the larger address to the smaller, and whether that will do was not seen"
)
STOPPED = ("T", "t")
"""The states of a stopped process (proc(5)): by a signal, by a tracer."""


@dataclass(frozen=True)
class FailedRank:
    """One rank's stage that did not end well."""

    node: Node
    rank: RankFacts
    stage: RankStage


def failed_ranks(cluster: Cluster, stage: str) -> list[FailedRank]:
    """The ranks for which ``stage`` failed; where one of them was kept waiting for a processor all the time, those with
    wrong results only: of the others it says that they waited, and torch waits for 30 minutes. It cannot be told then,
    nor where node 0, which had the facts of all, could not tell.
    """
    failed = [
        FailedRank(node, rank, entry)
        for node in cluster.nodes
        for rank in node.facts.ranks
        for entry in rank.stages
        if entry.stage == stage and entry.status in ("failed", "error")
    ]
    untold = any(node.meeting.verdict == "incomplete" for node in cluster.nodes)
    if untold or any(one.stage.detail.get("starved") for one in failed):
        return [one for one in failed if one.stage.detail.get("wrong")]
    return failed


def stopped_ranks(cluster: Cluster) -> list[FailedRank]:
    """The ranks whose process was stopped when a stage ended, in their first such stage."""
    return _first(cluster, lambda entry: entry.detail.get("state") in STOPPED)


def starved_ranks(cluster: Cluster) -> list[FailedRank]:
    """The ranks that had no processor for most of a stage, in their first such stage."""
    return _first(cluster, lambda entry: bool(entry.detail.get("starved")))


def died_ranks(cluster: Cluster) -> list[FailedRank]:
    """The ranks whose process ended by itself or from outside, but not by the doctor's hand, in the stage it was in."""
    ended = _first(cluster, lambda entry: bool(entry.detail.get("died") or entry.detail.get("killed")))
    return [one for one in ended if one.stage.detail.get("died")]


def _first(cluster: Cluster, wanted: Callable[[RankStage], bool]) -> list[FailedRank]:
    """Each rank with the first of its stages that is wanted."""
    found = []
    for node in cluster.nodes:
        for rank in node.facts.ranks:
            entry = next((entry for entry in rank.stages if entry.detail and wanted(entry)), None)
            if entry is not None:
                found.append(FailedRank(node, rank, entry))
    return found


def by_luck(cluster: Cluster) -> str:
    """Why what only gloo's choice of direction makes harmless matters, where no run of gloo has shown that it is: the
    check was interrupted, ended below that stage, or the other nodes are not known. Empty where gloo came through.
    """
    ran = all(any(s.stage == "gloo" and s.status == "ok" for s in node.facts.stages) for node in cluster.nodes)
    return "" if ran or not cluster.gloo_planned else NOT_SEEN


def failed_by_themselves(ended: list[FailedRank]) -> list[FailedRank]:
    """Those with an error of their own, else those whose process ended by itself; all of them where every one was only
    ended from outside."""
    alive = [one for one in ended if not one.stage.detail.get("killed")]
    return [one for one in alive if not one.stage.detail.get("died")] or alive or ended


def gloo_errors_name(cluster: Cluster, addresses: Iterable[str | None]) -> bool:
    """Whether gloo failed on any rank with a text that names one of ``addresses``."""
    texts = [one.stage.error or "" for one in failed_ranks(cluster, "gloo")]
    return any(f"[{address}]" in text for address in addresses for text in texts)


def ranks_of_failed(ended: list[FailedRank]) -> tuple[int, ...]:
    """The global ranks concerned, each once, in order."""
    return tuple(sorted({one.rank.rank for one in ended if one.rank.rank is not None}))


def nodes_of_failed(cluster: Cluster, ended: list[FailedRank]) -> tuple[str, ...]:
    """The nodes concerned, each once, in the cluster's order."""
    names = {one.node.name for one in ended}
    return tuple(node.name for node in cluster.nodes if node.name in names)


def rank_errors_said(ended: list[FailedRank]) -> tuple[str, ...]:
    """What was said, each text once with the ranks that said it."""
    groups: dict[str, list[FailedRank]] = {}
    for one in ended:
        groups.setdefault(shorten_error(one.stage.error or "no text"), []).append(one)
    lines = []
    for text, ones in groups.items():
        who = together(
            str(one.rank.rank if one.rank.rank is not None else f"local {one.rank.local_rank}") for one in ones
        )
        nodes = together(dict.fromkeys(one.node.name for one in ones))
        lines.append(f"rank{'s' if len(ones) > 1 else ''} {who} on {nodes}: {text}")
    return (*lines[:LINES], *((f"and {len(lines) - LINES} other texts",) if len(lines) > LINES else ()))


def accused_by_errors(cluster: Cluster, ended: Sequence[FailedRank]) -> Accused:
    """Whom the errors of these ranks are to be blamed on (see :func:`distdoctor.check_api.accused_peers.accused`)."""
    return accused(cluster, [(one.node, one.stage.error or "") for one in ended])


def ranks_to_blame(ended: Sequence[FailedRank], blamed: Accused) -> tuple[int, ...]:
    """The ranks to blame: those that failed on the blamed nodes; of a node that others name, all of its ranks."""
    failed: defaultdict[Node, list[FailedRank]] = defaultdict(list)
    for one in ended:
        failed[one.node].append(one)
    found: list[int] = []
    for node in blamed.nodes:
        found += ranks_of_failed(failed[node]) or node.ranks
    return tuple(sorted(found))


def failed_stage_finding(
    cluster: Cluster, stage: str, what: str, fix: str, severity: str = "fail"
) -> Iterator[Finding]:
    """The finding about a stage that failed, for whatever reason. ``what`` completes ``... on rank 1 of host0``;
    ``fix`` is for what failed between ranks: an error of a rank's own has remedies of its own."""
    ended = [one for one in failed_by_themselves(failed_ranks(cluster, stage)) if not one.stage.detail.get("wrong")]
    if not ended:
        return  # wrong results have a check of their own
    blamed = accused_by_errors(cluster, ended)
    names = tuple(node.name for node in blamed.nodes)
    told = [one for one in ended if one.node in (blamed.reporters or blamed.nodes)] or ended
    where = f"on {together(names)}"
    if blamed.reporters:
        accusers, place = together(node.name for node in blamed.reporters), f" ({blamed.place})" if blamed.place else ""
        whom = [node.name for node in blamed.nodes if node not in blamed.reporters]
        where = f"with {together(whom)}{place}, say the ranks of {accusers}"
    yield Finding(
        summary=f"{what} {where}: {shortened(shorten_error(told[0].stage.error or 'no text'), 160)}",
        nodes=names,
        ranks=ranks_to_blame(ended, blamed),
        links=tuple((a.name, b.name) for a in blamed.reporters for b in blamed.nodes if a is not b),
        blame=blamed.blame,
        evidence=rank_errors_said(ended),
        fixes=remedies(blamed, told, fix),
        severity="warn" if severity == "warn" else "fail",
        # A rank that is stopped or gone says why ranks fail together.
        because_of="ranks together" if stopped_ranks(cluster) or died_ranks(cluster) else None,
    )


def remedies(blamed: Accused, told: Sequence[FailedRank], fix: str) -> tuple[Fix, ...]:
    """What to do about these errors: by their own words where these say what it is, else ``fix``."""
    names = tuple(node.name for node in blamed.nodes)
    if blamed.reporters:
        whom = [node.name for node in blamed.nodes if node not in blamed.reporters]
        place = f" ({blamed.place})" if blamed.place else ""
        return (Fix(f"Look at {together(whom)}{place} first: the errors of the others name it. {fix}", names),)
    said = dict.fromkeys((one.node, one.stage.error or "") for one in told)
    found = [remedy for node, text in said for remedy in said_fixes(node, text)]
    unique = [remedy for number, remedy in enumerate(found) if remedy not in found[:number]]
    return tuple(unique) or (Fix(fix, names),)
