"""environment/init-file-no-flock: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import BOTH, Cure, LookAlike, Row, cured, found, left_alone, on_each
from tests.clusters.init_files import NFS, init_files

CHECK = "environment/init-file-no-flock"
LOCKLESS = replace(NFS, lock_error="ENOLCK")

ROWS = [Row("NFS without its lock daemon", lambda: init_files(LOCKLESS, LOCKLESS), BOTH, together=True)]

LOOK_ALIKES = [
    LookAlike("locks work", lambda: init_files(NFS, NFS)),
    LookAlike("whether they do is not known", lambda: init_files(*(replace(NFS, writable=True) for _ in range(2)))),
]

CURES = [Cure("tcp://", lambda: init_files(LOCKLESS, LOCKLESS), on_each(BOTH, {"flags": {"--init-method": None}}))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
