"""Which fixes the doctor can try itself: those that only set variables that a backend reads when it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from distdoctor.judge.engine import Judgement
from distdoctor.model.facts import BadFacts
from distdoctor.model.findings import Finding

TRIED = ("GLOO_SOCKET_IFNAME", "GLOO_DEVICE_TRANSPORT")
"""Variables read when a process group is made; those of the launch line are read before and cannot be tried here.
A member sets these and no others, whatever node 0 says."""
_VALUE = re.compile(r"[\w.:@,=^+-]{0,256}", re.ASCII)
"""Names of interfaces and transports."""


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


def check_env(env: Mapping[str, str | None]) -> None:
    """Raises BadFacts where a variable is none that a trial sets, or its value none that it takes."""
    for name, value in env.items():
        if name not in TRIED:
            raise BadFacts(f"the variable {name[:60]!r} is none that a trial sets ({', '.join(TRIED)})")
        if value is not None and not _VALUE.fullmatch(value):
            raise BadFacts(f"{name} cannot be {value[:60]!r}")
