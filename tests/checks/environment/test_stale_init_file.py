"""environment/stale-init-file: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import BOTH, Cure, LookAlike, Row, cured, found, left_alone, on_each
from tests.clusters.init_files import NFS, STALE, init_files

CHECK = "environment/stale-init-file"


ROWS = [
    Row("stale init file", lambda: init_files(STALE, STALE), BOTH, together=True),
    Row("stale init file, one kernel", lambda: init_files(STALE, STALE, kernel="k"), BOTH, together=True),
]

LOOK_ALIKES = [
    LookAlike(
        "empty init file", lambda: init_files(replace(NFS, exists=True, inode=2), replace(NFS, exists=True, inode=2))
    )
]

CURES = [Cure("the stale file", lambda: init_files(STALE, STALE), on_each(BOTH, {"commands": ("rm -f /shared/init",)}))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
