"""Trying a fix on the spot: one that only sets variables that a backend reads when it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

from distdoctor.judge.engine import Judgement
from distdoctor.model.cluster import Cluster
from distdoctor.model.facts import Trial
from distdoctor.model.findings import Finding
from distdoctor.model.stages import TRIAL, TRIED_AGAIN
from distdoctor.session.inbox import Inbox
from distdoctor.session.rank_assignment import Numbering
from distdoctor.session.stage_opener import StageOpener
from distdoctor.session.trial_variables import TRIED

ATTEMPT = 1
"""The climb of the ladder itself is attempt 0."""


@dataclass(frozen=True)
class Choice:
    """One option of each root cause that has one to try, together: two roots are cured only by both."""

    options: dict[str, int]
    """Check id -> option."""
    env: dict[str, dict[str, str | None]]
    """Node name -> variables."""


def choose(judgement: Judgement) -> Choice | None:
    """The best options to try, or None where there is none or where another root would fail the trial anyway."""
    options = {f.check: option for f in judgement.roots if (option := _option(f)) is not None}
    if not options or any(f.severity == "fail" and f.check not in options for f in judgement.roots):
        return None
    env: dict[str, dict[str, str | None]] = {}
    for finding in judgement.roots:
        for fix in finding.fixes:
            if options.get(finding.check) == fix.option and fix.env:
                for name in fix.nodes or finding.nodes:
                    env.setdefault(name, {}).update(fix.env)
    return Choice(options, env)


def _option(finding: Finding) -> int | None:
    for option in sorted({fix.option for fix in finding.fixes}):
        parts = [fix for fix in finding.fixes if fix.option == option]
        if all(f.env and not f.commands and not f.flags and _tried(f.env) for f in parts):
            return option
    return None


def _tried(env: dict[str, str | None]) -> bool:
    return all(name in TRIED for name in env)


async def try_fixes(
    judgement: Judgement, cluster: Cluster, inbox: Inbox, opener: StageOpener, numbering: Numbering
) -> list[Trial]:
    """Climb gloo and the barrier again with the variables that the root causes' fixes set, where there are any."""
    choice = choose(judgement)
    if choice is None:
        return []
    env = {
        str(one.number): choice.env[node.name]
        for one in inbox.present
        if (node := cluster.by_key.get(one.facts.key)) is not None and node.name in choice.env
    }
    started = time.monotonic()
    await opener.open(TRIAL, numbering, TRIAL.seconds or 0.0, attempt=ATTEMPT, env=env)
    results = [one.results.get((TRIAL.name, ATTEMPT)) for one in inbox.participants.values() if not one.left]
    errors = [result.error for result in results if result is not None and not result.ok]
    passed = not errors and all(result is not None for result in results)
    seconds = round(time.monotonic() - started, 2)
    error = errors[0] if errors else None
    return [
        Trial(check, option, choice.env, TRIED_AGAIN, passed, seconds, error)
        for check, option in choice.options.items()
    ]
