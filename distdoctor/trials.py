"""Which fixes the doctor can try itself: those that only set variables that a backend reads when it starts."""

from __future__ import annotations

from dataclasses import dataclass

from distdoctor.findings import Finding
from distdoctor.judge import Judgement

TRIED_PREFIXES = ("GLOO_",)
"""Variables read when a process group is made; those of the launch line are read before and cannot be tried here."""


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
    return all(name.startswith(TRIED_PREFIXES) for name in env)
