"""host/cache-without-locks: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Folder, TemporaryFolder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/cache-without-locks"
ON_NFS = Folder("HF_HOME", "/data/hf", "", 1 << 33, 9, "nfs", "fs1:/data", lock_error="ENOLCK")
COMPILED = Folder("TORCHINDUCTOR_CACHE_DIR", "/data/inductor", "", 9, 9, "lustre", lock_error="ENOSYS")
SILENT = Folder("HF_DATASETS_CACHE", "/fsx/data", "", 9, 9, "lustre", lock_error="timeout")
HOME = Folder("HOME", "/home/ann", "", 1 << 33, 9, "nfs", "fs1:/home", lock_error="ENOLCK")


def folders(*on_node_1: Folder) -> Facts:
    zero, one = healthy(2)
    return with_host(zero, folders=()), with_host(one, folders=on_node_1, temporary=TemporaryFolder("/local"))


ROWS = [
    Row("NFS without its lock daemon", lambda: folders(ON_NFS), ("host1",), "warn", together=True),
    Row("Lustre without flock", lambda: folders(COMPILED), ("host1",), "warn", together=True),
    Row("a lock that is never answered", lambda: folders(SILENT), ("host1",), "warn", together=True),
    Row("a home with downloads in it", lambda: folders(HOME), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("files can be locked, or nobody tried", lambda: folders(replace(ON_NFS, lock_error=""))),
    LookAlike("NFS with locks", lambda: folders(replace(ON_NFS, lock_error="", filesystem="nfs4"))),
]

CURES = [
    Cure("HF_HOME", lambda: folders(ON_NFS), {"host1": {"env": {"HF_HOME": "/local/huggingface"}}}),
    Cure(
        "the data sets'",
        lambda: folders(SILENT),
        {"host1": {"env": {"HF_DATASETS_CACHE": "/local/huggingface/datasets"}}},
    ),
    Cure("the home", lambda: folders(HOME), {"host1": {"env": {"HF_HOME": "/local/huggingface"}}}),
    Cure(
        "torch.compile's",
        lambda: folders(COMPILED),
        {"host1": {"env": {"TORCHINDUCTOR_CACHE_DIR": "/local/torchinductor"}}},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
