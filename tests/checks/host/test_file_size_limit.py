"""host/file-size-limit: what it finds, and what it leaves alone."""

from __future__ import annotations

from typing import Any

from distdoctor.model.facts import Limits, TemporaryFolder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host, with_plan

CHECK = "host/file-size-limit"


def limited(size: int | None) -> Facts:
    zero, one = healthy(2)
    return zero, with_host(one, limits=Limits(file_size=size))


def no_file_at_all(**plan: Any) -> Facts:
    """Nor a temporary one."""
    zero, one = (with_plan(facts, **plan) for facts in limited(0))
    none = TemporaryFolder(None, "No usable temporary directory found in ['/tmp', '/']", "/root")
    return zero, with_host(one, temporary=none)


ROWS = [
    Row("not even a temporary one", no_file_at_all, ("host1",), together=True),
    Row(
        "the same, and torchrun's folder is given",
        lambda: no_file_at_all(log_dir="/logs"),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("100 kB", lambda: limited(102_400), ("host1",), "warn", together=True),
    Row("nothing", lambda: limited(0), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("no limit", lambda: limited(-1)),
    LookAlike("not known", lambda: limited(None)),
    LookAlike("100 GB", lambda: limited(100 << 30)),
]

CURES = [Cure("none", lambda: limited(1024), {"host1": {"commands": ("ulimit -f unlimited",)}}, only=True)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
