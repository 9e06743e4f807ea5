"""Causes that NCCL names in the warnings of the check's own group, by the wordings for logs.

Only ranks whose group failed count: after a successful init, a warning means nothing. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from distdoctor.judge.catalog import Check
from distdoctor.judge.logs.findings import first_fix
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import RankFacts
from distdoctor.model.findings import Finding, Fix
from distdoctor.model.log_line import Line
from distdoctor.model.stages import NCCL

LINES = 4


def warning_findings(cluster: Cluster, checks: Iterable[Check]) -> Iterator[tuple[Check, Finding]]:
    """Yield a finding for each check whose cause such a line shows."""
    lines = [
        (node, rank, text)
        for node in cluster.nodes
        for rank in node.facts.ranks
        if rank.nccl is not None and _failed(rank)
        for text in rank.nccl.warnings
    ]
    for check in checks if lines else ():
        causes = [line for line in check.log if line.shows == "cause"]
        shown = [entry for entry in lines if any(_is(line, entry[2]) for line in causes)]
        if shown:
            line = next(line for line in causes if _is(line, shown[0][2]))
            yield check, _finding(check, line, shown)


def _finding(check: Check, line: Line, shown: list[tuple[Node, RankFacts, str]]) -> Finding:
    nodes = list(dict.fromkeys(node for node, _, _ in shown))
    words = shown[0][2].partition("NCCL WARN ")[2]
    evidence = [f"{node.name}: rank {rank.rank}: {text}" for node, rank, text in shown]
    return Finding.about(
        nodes,
        f"NCCL says so where its group fails: {words.rstrip('.')}.",
        ranks=sorted({rank.rank for _, rank, _ in shown if rank.rank is not None}),
        evidence=evidence[:LINES],
        fixes=[Fix.on(nodes, line.fix or first_fix(check))],
        title=line.told,
        severity="fail" if any(_plans_nccl(node) for node in nodes) else None,
    )


def _plans_nccl(node: Node) -> bool:
    return "nccl" in node.plan.backends(gpus=node.gpus)


def _failed(rank: RankFacts) -> bool:
    return any(stage.stage == NCCL.name and stage.status in ("failed", "error") for stage in rank.stages)


def _is(line: Line, text: str) -> bool:
    """Return whether ``text`` matches this wording."""
    if not any(literal in text for literal in line.literals) or not re.search(line.pattern, text):
        return False
    return not (line.unless and re.search(line.unless, text))
