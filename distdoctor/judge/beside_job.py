"""What was told beside the logs of a job that ended well: by kernels and tools, which know other jobs, too. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from distdoctor.judge.log_notes import aside
from distdoctor.judge.streams import is_ranks, only_beside
from distdoctor.judge.survived import by_scheduler
from distdoctor.model.facts.logs import LogFacts, LogSource, Match

_STEP = re.compile(r"(?P<job>\d{1,12}(?:_\d{1,9})?)\.\w{1,20} ")
"""How the row of a step of a job begins in sacct's tables."""


def ended_well(logs: LogFacts, symptoms: Collection[Match]) -> bool:
    """Whether all logs of the job end with its end, and none of them has a ``symptom``: what a kernel or a tool told
    beside them is then of no failure of this job, but for the state in which the scheduler has it."""
    told = aside(logs)
    others = all(match.source in told and (not by_scheduler(match) or _is_of_step(match, logs)) for match in symptoms)
    return others and _all_end(logs)


def is_of_others(logs: LogFacts, failures: Collection[Match]) -> bool:
    """Whether all ``failures`` are ends of processes in a kernel's log, or of pods in a list of them, and all ranks
    have told of the end of the job: they would have missed one that was killed. Where no log is a rank's, a script may
    have said so whatever became of them."""
    kernels = {source.name for source in logs.sources if source.kind == "kernel"}
    those = all(
        "pod" in match.values or (match.source in kernels and match.check.startswith("process/")) for match in failures
    )
    return those and any(is_ranks(source) for source in _own(logs)) and _all_end(logs)


def _all_end(logs: LogFacts) -> bool:
    own = [*_own(logs)]
    is_only_beside = only_beside(own)
    return any(source.done for source in own) and all(source.done or is_only_beside(source) for source in own)


def _own(logs: LogFacts) -> Iterable[LogSource]:
    return (source for source in logs.sources if source.kind == "log" and source.lines)


def _is_of_step(match: Match, logs: LogFacts) -> bool:
    """Whether it is the row of a step that was cancelled, as one that watches is when the work is done, of a job that
    the same table has as completed."""
    step = _STEP.match(match.text) if match.values.get("of_table") == "CANCELLED" else None
    return step is not None and any(
        one.source == match.source and one.values.get("well") == step["job"] and " COMPLETED " in one.text
        for one in logs.matches
    )
