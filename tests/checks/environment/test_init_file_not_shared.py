"""environment/init-file-not-shared: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import InitFile, SharedFolder
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, first, found, left_alone, on_each
from tests.clusters.init_files import NFS, TMP, init_files
from tests.facts_builder import with_host, with_plan

CHECK = "environment/init-file-not-shared"


def with_folders(file: InitFile, seen: str) -> Facts:
    """Node 0 left a file beside it, and this became of it on node 1."""
    zero, one = init_files(file, file)
    folder = SharedFolder(file.path.rpartition("/")[0], "--init-method", "", ".distdoctor-1", file.filesystem)
    return (with_host(zero, shared=(replace(folder, node0=""),)), with_host(one, shared=(replace(folder, node0=seen),)))


def other_file(path: str) -> Facts:
    """Beside the one of node 0, which left a file in the folder: node 1 saw that."""
    zero, one = with_folders(NFS, "")
    file = replace(NFS, path=path)
    return zero, with_plan(with_host(one, init_file=file), init_method=f"file://{path}")


def by_port(*nodes: int, of: int = 2) -> Facts:
    """These meet at node 0's port, and the others by a file."""
    facts = init_files(*([NFS] * of))
    port = {"init_method": "tcp://10.77.0.10:29500"}
    return tuple(with_plan(with_host(f, init_file=None), **port) if n in nodes else f for n, f in enumerate(facts))


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
    Row("two exports of one name", lambda: with_folders(NFS, "ENOENT"), BOTH, together=True),
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

ROWS += [
    Row("another file of the same folder", lambda: other_file("/shared/other"), BOTH, together=True),
    Row("a file on one, the master's port on the other", lambda: by_port(1), BOTH, blame="one-of", together=True),
    Row("a file on one of three", lambda: by_port(1, 2, of=3), ("host0",), together=True),
    Row("a file on two of three", lambda: by_port(2, of=3), ("host2",), together=True),
]

LOOK_ALIKES = [
    LookAlike("a file of node 0's beside it was seen", lambda: with_folders(TMP, "")),
    LookAlike("shared init file", lambda: init_files(NFS, NFS)),
    LookAlike("init file, one kernel", lambda: init_files(TMP, TMP, kernel="k")),
]

CURES = [
    Cure("the file", lambda: by_port(1), {"host1": {"flags": {"--init-method": "file:///shared/init"}}}),
    Cure("as most do", lambda: by_port(1, 2, of=3), {"host0": {"flags": {"--init-method": "tcp://10.77.0.10:29500"}}}),
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
