"""process/killed-by-oom: what it finds of the ranks of a check, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import KernelLine
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.ranks import KILLED, ended
from tests.facts_builder import healthy, with_host

CHECK = "process/killed-by-oom"


def written(pid: int, facts: Facts, at: float = 10.0) -> Facts:
    """The kernel of node 1 killed that process."""
    text = f"Out of memory: Killed process {pid} (python) total-vm:1kB, anon-rss:1kB"
    line = KernelLine(CHECK, "cause", text, at, {"pid": str(pid), "program": "python"})
    zero, one = facts
    return zero, with_host(one, kernel_log=(line,))


ROWS = [
    Row(
        f"a rank, in {stage}",
        lambda stage=stage: written(4242, ended(stage, 1, died=KILLED)),  # type: ignore[misc]
        ("host1",),
        together=True,
    )
    for stage in ("store", "gloo", "barrier", "collective")
]

LOOK_ALIKES = [
    LookAlike("another process", lambda: written(4243, ended("gloo", 1, died=KILLED)), "barrier/rank-missing"),
    LookAlike("another process, and all is well", lambda: written(4243, healthy(2))),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
