"""The report on facts that were kept."""

from __future__ import annotations

from collections.abc import Sequence

from distdoctor.judge.catalog import Check
from distdoctor.model.facts import NodeFacts
from distdoctor.model.report import Report


def of_facts(facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Sequence[str]) -> Report:
    """The report on what `check --save` or `hang --save` kept."""
    if any(one.jobs for one in facts):
        from distdoctor.inspection.report import of_saved

        return of_saved(facts, checks, ignore)
    from distdoctor.judge.saved import diagnose

    return diagnose(facts, checks, ignore)
