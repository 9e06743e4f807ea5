"""How many files this process may have open: a line to a host takes three, and a shell often allows 1,024 at first."""

from __future__ import annotations

import resource

from distdoctor.model.errors import UsageError

EACH, BESIDE = 3, 64
"""stdin, stdout and stderr of the command that leads to a host; what else is open, also for a moment at its start."""


def make_room(hosts: int) -> None:
    """Allow this process, and what it starts, as many as ``hosts`` lines need. Raises UsageError where it may not."""
    needed = EACH * hosts + BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise UsageError(
                f"{hosts} hosts at a time need {needed} open files here, and this shell may have {hard} (ulimit -Hn): "
                f"name at most {max(1, (hard - BESIDE) // EACH)} hosts"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
