"""host/disk-full: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Folder, KernelLine, TemporaryFolder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/disk-full"
ROOM = Folder("HOME", "/root", free=1 << 33, free_files=900_000, filesystem="ext4")
SPACE = Folder("/tmp", "/tmp", "ENOSPC", 0, 5_000, "tmpfs")
INODES = Folder("HF_HOME", "/data/hf", "ENOSPC", 1 << 30, 0, "xfs")
QUOTA = Folder("HOME", "/home/ann", "EDQUOT", 1 << 40, None, "nfs4")
READ_ONLY = Folder("TRITON_CACHE_DIR", "/opt/cache", "EROFS", 1 << 30, 1_000, "ext4")


def folders(*on_node_1: Folder) -> Facts:
    """These on node 1, and one with room on both."""
    first, second = (with_host(one, temporary=TemporaryFolder("/var/tmp")) for one in healthy(2))
    return with_host(first, folders=(ROOM,)), with_host(second, folders=(ROOM, *on_node_1))


def remounted(device: str) -> Facts:
    """The kernel made a disk read-only, and the home lies on /dev/sda2, which is."""
    text = f"EXT4-fs ({device}): Remounting filesystem read-only"
    first, second = folders(Folder("HOME", "/home/ann", "EROFS", 1 << 30, 9, "ext4", "/dev/sda2"))
    return first, with_host(second, kernel_log=(KernelLine(CHECK, "cause", text, 10.0, {"device": device}),))


ROWS = [
    Row("a home on a disk that failed", lambda: remounted("sda2"), ("host1",), "warn", together=True),
    *(
        Row(name, lambda folder=folder: folders(folder), ("host1",), "warn", together=True)  # type: ignore[misc]
        for name, folder in (
            ("no space in /tmp", SPACE),
            ("no inodes", INODES),
            ("no quota", QUOTA),
            ("a cache that is read-only", READ_ONLY),
            ("one that is alone in a home", Folder("HOME/.cache", "/root/.cache", "EROFS", 0, 0, "nfs4")),
        )
    ),
]

LOOK_ALIKES = [
    LookAlike("another disk failed, and the home is read-only", lambda: remounted("sdb1")),
    LookAlike(
        "a container's read-only root",
        lambda: folders(*(Folder(use, "/", "EROFS", 0, 0, "overlay") for use in ("HOME", ".", "/tmp"))),
    ),
    LookAlike(
        "and so the caches in the home that came with the image",
        lambda: folders(
            *(
                Folder(use, path, "EROFS", 0, 0, "overlay")
                for use, path in (("HOME", "/h"), ("HOME/.cache", "/h/.cache"))
            )
        ),
    ),
    LookAlike(
        "models on a disk that is mounted read-only",
        lambda: folders(Folder("HF_HUB_CACHE", "/models", "EROFS", 0, 0, "nfs4", "fs1:/models")),
    ),
    LookAlike("a home of somebody else", lambda: folders(Folder("HOME", "/root", "EACCES", 1 << 30, 9, "ext4"))),
    LookAlike("a file system that was slow to answer", lambda: folders(Folder("HOME", "/home/ann", "timeout"))),
    LookAlike("little left", lambda: folders(Folder("HOME", "/home/ann", "", 4096, 1, "ext4"))),
]

CURES = [
    Cure("temporary files go elsewhere", lambda: folders(SPACE), {"host1": {"env": {"TMPDIR": "/var/tmp"}}}),
    Cure("no inodes", lambda: folders(INODES), {"host1": {"commands": ("df -i /data/hf",)}}),
    Cure("no quota", lambda: folders(QUOTA), {"host1": {"commands": ("quota -s",)}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
