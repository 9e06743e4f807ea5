"""host/shared-dir-differs: what it finds, and what it leaves alone."""

from __future__ import annotations

import pytest

from distdoctor.model.facts import SharedFolder
from tests.checks.row import BOTH, THREE, Facts, LookAlike, Row, found, left_alone
from tests.facts_builder import healthy, judged, with_host

CHECK = "host/shared-dir-differs"
NFS, OTHER, DISK = ("nfs4", "server:/data"), ("nfs4", "server:/scratch"), ("ext4", "/dev/sda1")
OWN, SEEN, NOT_SEEN = None, "", "ENOENT"


def folder(
    place: tuple[str, str] = NFS, node0: str | None = SEEN, error: str = "", path: str = "/data"
) -> SharedFolder:
    return SharedFolder(path, "--shared", error, "" if error else ".distdoctor-1", *place, node0=node0)


def nodes(*folders: SharedFolder | None) -> Facts:
    """Node i saw the i-th."""
    return tuple(
        with_host(one, shared=None if seen is None else (seen,))
        for one, seen in zip(healthy(len(folders)), folders, strict=True)
    )


ROWS = [
    Row("not mounted on node 1", lambda: nodes(folder(), folder(DISK, NOT_SEEN)), ("host1",), together=True),
    Row("not mounted on node 0", lambda: nodes(folder(DISK), folder(NFS, NOT_SEEN)), ("host0",), together=True),
    Row("two exports", lambda: nodes(folder(), folder(OTHER, NOT_SEEN)), BOTH, blame="one-of", together=True),
    Row("local disks", lambda: nodes(folder(DISK), folder(DISK, NOT_SEEN)), BOTH, blame="one-of", together=True),
    Row(
        "another export on node 0 of 3",
        lambda: nodes(folder(OTHER), folder(NFS, NOT_SEEN), folder(NFS, NOT_SEEN)),
        ("host0",),
        together=True,
    ),
    Row(
        "local disk on one of 3, of the same type",
        lambda: nodes(folder(DISK), folder(DISK), folder(DISK, NOT_SEEN)),
        ("host2",),
        together=True,
    ),
    Row(
        "each its own disk",
        lambda: nodes(folder(DISK), folder(DISK, NOT_SEEN), folder(DISK, NOT_SEEN)),
        THREE,
        blame="one-of",
        together=True,
    ),
    Row(
        "closed to the user on node 1", lambda: nodes(folder(), folder(NFS, SEEN, "EACCES")), ("host1",), together=True
    ),
    Row("no such folder on node 1", lambda: nodes(folder(), folder(NFS, None, "ENOENT")), ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("one export", lambda: nodes(folder(), folder())),
    LookAlike("one disk, of containers of one host", lambda: nodes(folder(DISK), folder(DISK))),
    LookAlike("never met", lambda: nodes(folder(NFS, OWN), folder(DISK, OWN))),
    LookAlike("named on one node only", lambda: nodes(folder(), None)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


@pytest.mark.parametrize(
    ("error", "said"), [("EACCES", "Let this user"), ("EROFS", "(rw)"), ("ENOSPC", "Free"), ("ENOENT", "Mount")]
)
def test_the_fix_is_for_what_was_seen(error: str, said: str) -> None:
    (root,) = judged(*nodes(folder(), folder(NFS, None, error))).roots
    (fix,) = root.fixes
    assert said in fix.text and fix.commands == ("findmnt -T /data; ls -ld /data; id",)
