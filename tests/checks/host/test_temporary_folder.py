"""host/temporary-folder: what it finds, and what it leaves alone."""

from __future__ import annotations

from typing import Any

from distdoctor.model.facts import TemporaryFolder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host, with_plan

CHECK = "host/temporary-folder"


def no_temporary(number: int, **plan: Any) -> Facts:
    """One node without a folder for temporary files."""
    folder = TemporaryFolder(None, "No usable temporary directory found in ['/tmp', '/']", "/dev/shm")
    facts = tuple(with_plan(one, **plan) for one in healthy(2)) if plan else healthy(2)
    return tuple(with_host(one, temporary=folder) if n == number else one for n, one in enumerate(facts))


def umask() -> Facts:
    folder = TemporaryFolder(None, "Permission denied in a folder just made in /tmp", umask="0777")
    return tuple(with_host(one, temporary=folder) if n else one for n, one in enumerate(healthy(2)))


ROWS = [
    Row("folders that the user makes are closed to it", umask, ("host1",), together=True),
    Row("torchrun's folder is given", lambda: no_temporary(1, log_dir="/logs"), ("host1",), "warn", together=True),
    Row("no temporary folder", lambda: no_temporary(1), ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike(
        "another folder than /tmp",
        lambda: tuple(with_host(one, temporary=TemporaryFolder("/scratch")) for one in healthy(2)),
    )
]

CURES = [Cure("a umask", umask, {"host1": {"commands": ("umask 022",)}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
