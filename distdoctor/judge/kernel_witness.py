"""Of whom the kernel's log tells: of a process of the job, or of somebody else's on that machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from distdoctor.model.facts.logs import LogSource, Match

_NUMBER = re.compile(r"\b(?:pid|PID)(?:: ?|=| )(\d{1,9})\b")
"""As torchrun's tables and messages give the number of a process that ended."""
_JOB = re.compile(
    r"(?i)(?<!ju)py|pt_|torch|train|ray|vllm|sglang|nccl|deepspeed|accelerate|megatron|nemo|slurm|worker|rank|gpu"
)
"""In the name of a process that may be one of a job: Python, or what a program calls itself (the kernel keeps 15
characters)."""


def numbers_told(matches: Iterable[Match]) -> set[str]:
    """The numbers of processes that these lines name, as torchrun's tables do of those that ended."""
    return {number for match in matches for number in _NUMBER.findall(match.text)}


def of_others(sources: Sequence[LogSource], matches: Sequence[Match]) -> list[Match]:
    """The lines of kernels' logs about processes that are none of the job's: neither is their number one of those that
    the job's own logs tell, nor their name one that a job's process has. Where the job tells no numbers, none: the
    log was given for a reason. A number alone proves nothing, since a container has others than the kernel.
    """
    kernels = {source.name for source in sources if source.kind == "kernel"}
    own = numbers_told(match for match in matches if match.source not in kernels)
    if not own:
        return []
    told = [match for match in matches if match.source in kernels and {"pid", "program"} <= match.values.keys()]
    others = [match for match in told if match.values["pid"] not in own and not _JOB.search(match.values["program"])]
    about = {(match.source, match.check) for match in told if match not in others}
    only = {(match.source, match.check) for match in others} - about
    rest = [match for match in matches if (match.source, match.check) in only and match not in others]
    return [*others, *rest]  # the rest goes with them: "java invoked oom-killer"


def is_strange(match: Match) -> bool:
    """Whether the kernel tells how a process ended that has no name of a job's: it may have been none, and what a rank
    says of itself counts more."""
    ended = match.check.startswith("process/") and "program" in match.values
    return ended and not _JOB.search(match.values["program"])
