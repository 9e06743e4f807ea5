"""host/cache-unwritable: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Account, Folder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/cache-unwritable"
OTHERS = Folder("TRITON_CACHE_DIR", "/root/.triton", "EACCES", 1 << 33, 9, "ext4")
UNMADE = Folder("HF_HOME", "/data/hf", "EACCES", 1 << 33, 9, "ext4", nearest="/")
A_FILE = Folder("TORCH_HOME", "/home/ann/x/hub", "ENOTDIR", 1 << 33, 9, "ext4", nearest="/home/ann/x")
CLEARED = Folder(
    "HOME/.cache", "/home/ann/.cache", "EEXIST", 9, 9, "nfs4", "", False, "/home/ann/.cache", "/scratch/ann"
)
HOME = Folder("HOME", "/home/ann", "EACCES", 1 << 33, 9, "nfs4")


def folders(*on_node_1: Folder, home_of_entry: str = "") -> Facts:
    zero, one = healthy(2)
    account = Account(1000, home="/home/ann", home_of_entry=home_of_entry)
    return with_host(zero, folders=()), with_host(one, folders=on_node_1, account=account)


COMPILED = Folder("TMPDIR/torchinductor_ann", "/tmp/torchinductor_ann", "EACCES", 1 << 33, 9, "ext4")


ROWS = [
    Row("a cache of another user", lambda: folders(OTHERS), ("host1",), "warn", together=True),
    Row("what torch.compile keeps, of another user", lambda: folders(COMPILED), ("host1",), "warn", together=True),
    Row("a folder that cannot be made", lambda: folders(UNMADE), ("host1",), "warn", together=True),
    Row("a file in its path", lambda: folders(A_FILE), ("host1",), "warn", together=True),
    Row("a link to a scratch disk", lambda: folders(CLEARED), ("host1",), "warn", together=True),
    Row(
        "a dead mount",
        lambda: folders(Folder(".", "/data", "ENOTCONN", 0, None, "fuse.sshfs")),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("root_squash", lambda: folders(HOME, home_of_entry="/home/ann"), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("a home of somebody else", lambda: folders(HOME, home_of_entry="/nonexistent")),
    LookAlike("a folder that can be made", lambda: folders(Folder("HF_HOME", "/data/hf", nearest="/data"))),
    LookAlike("a folder for temporary files", lambda: folders(Folder("TMPDIR", "/mine", "EACCES"))),
    LookAlike("a working folder", lambda: folders(Folder(".", "/opt/job", "EACCES"))),
    LookAlike("models that somebody else downloaded", lambda: folders(Folder("HF_HUB_CACHE", "/models", "EACCES"))),
    LookAlike("a slow file system", lambda: folders(Folder("HF_HOME", "/data/hf", "timeout"))),
]

CURES = [
    Cure("a cache of another user", lambda: folders(OTHERS), {"host1": {"env": {"TRITON_CACHE_DIR": None}}}),
    Cure(
        "compiled code",
        lambda: folders(COMPILED),
        {"host1": {"env": {"TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor_ann_own"}}},
    ),
    Cure("a link", lambda: folders(CLEARED), {"host1": {"commands": ("mkdir -p /scratch/ann",)}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
