"""host/compile-cache-shared: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Folder, TemporaryFolder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host, with_identity

CHECK = "host/compile-cache-shared"
NFS = "filer:/export/home"


def caches(
    *paths: str, use: str = "TRITON_CACHE_DIR", filesystem: str = "nfs4", sources: tuple[str, ...] = (NFS,)
) -> Facts:
    """Of as many nodes; they have one source, or each its own."""
    return tuple(
        with_host(
            node,
            folders=(Folder(use, path, "", 1 << 40, None, filesystem, sources[number % len(sources)]),),
            temporary=TemporaryFolder("/tmp"),
        )
        for number, (node, path) in enumerate(zip(healthy(len(paths)), paths, strict=True))
    )


SAME = ("/home/ann/cache", "/home/ann/cache")
ROWS = [
    Row("Triton's on NFS", lambda: caches(*SAME), ("host0", "host1"), "warn", together=True),
    Row(
        "inductor's on Lustre, of two nodes of three",
        lambda: caches("/l/c", "/l/c", "/l/d", use="TORCHINDUCTOR_CACHE_DIR", filesystem="lustre"),
        ("host0", "host1"),
        "warn",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("on local disks", lambda: caches(*SAME, filesystem="ext4", sources=("/dev/sda1",))),
    LookAlike("a folder for each node", lambda: caches("/home/ann/0", "/home/ann/1")),
    LookAlike("of two servers", lambda: caches(*SAME, sources=("one:/a", "two:/a"))),
    LookAlike(
        "in two containers of podman's, made by fuse-overlayfs",
        lambda: caches(*SAME, filesystem="fuse.fuse-overlayfs", sources=("fuse-overlayfs",)),
    ),
    LookAlike("in two sandboxes of gVisor's", lambda: caches(*SAME, filesystem="9p", sources=("none",))),
    LookAlike("a home on NFS", lambda: caches(*SAME, use="HOME")),
    LookAlike("containers of one host", lambda: tuple(with_identity(node, boot_id="one") for node in caches(*SAME))),
]

CURES = [
    Cure(
        "a local folder",
        lambda: caches(*SAME),
        {f"host{n}": {"env": {"TRITON_CACHE_DIR": "/tmp/triton"}} for n in range(2)},
        only=True,
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
