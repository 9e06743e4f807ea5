"""environment/init-file-not-shared: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import BOTH, Cure, LookAlike, Row, cured, first, found, left_alone, on_each
from tests.clusters.init_files import NFS, TMP, init_files
from tests.facts_builder import with_plan

CHECK = "environment/init-file-not-shared"


ROWS = [
    Row("init file on local disks", lambda: init_files(TMP, TMP), BOTH, together=True),
    Row(
        "init file in two containers", lambda: init_files(TMP, replace(TMP, device=8), kernel="k"), BOTH, together=True
    ),
    Row(
        "stale init file on a local disk",
        lambda: init_files(TMP, replace(TMP, exists=True, size=9)),
        BOTH,
        together=True,
    ),
    Row(
        "init file's folder missing on one",
        lambda: init_files(NFS, replace(NFS, folder_exists=False, writable=False, device=None)),
        ("host1",),
        together=True,
    ),
    Row(
        "init file's folder closed on one",
        lambda: init_files(NFS, replace(NFS, writable=False)),
        ("host1",),
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("shared init file", lambda: init_files(NFS, NFS)),
    LookAlike("init file, one kernel", lambda: init_files(TMP, TMP, kernel="k")),
]

CURES = [
    Cure("no file at all", lambda: init_files(TMP, TMP), on_each(BOTH, {"flags": {"--init-method": None}})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_without_a_master_of_ones_own_the_file_is_replaced_by_node_0s_address() -> None:
    facts = init_files(TMP, TMP)
    facts = tuple(with_plan(one, sources={"master_addr": "default route, eth0"}) for one in facts)
    (fix,) = first(*facts)
    assert fix.flags == {"--init-method": "tcp://10.77.0.10:29500", "--master-addr": None}
