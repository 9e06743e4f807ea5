"""host/folder-noexec: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Folder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/folder-noexec"


HOME = Folder("HOME", "/home/ann", filesystem="ext4")


def temporary(*more: Folder) -> Facts:
    zero, one = healthy(2)
    return zero, with_host(one, folders=(Folder("TMPDIR", "/scratch", noexec=True), *more))


def hardened(*more: Folder) -> Facts:
    zero, one = healthy(2)
    return zero, with_host(one, folders=(Folder("/tmp", "/tmp", filesystem="tmpfs", noexec=True), *more))


def folder(use: str, noexec: bool = True) -> Facts:
    zero, one = healthy(2)
    return zero, with_host(one, folders=(Folder(use, "/cache", filesystem="tmpfs", source="tmpfs", noexec=noexec),))


ROWS = [
    Row("Triton's", lambda: folder("TRITON_CACHE_DIR"), ("host1",), "warn", together=True),
    Row("where torch.compile has its own", lambda: temporary(HOME), ("host1",), "warn", together=True),
    Row("/tmp of a hardened host", lambda: hardened(HOME), ("host1",), "info", together=True),
    Row("torch.compile's", lambda: folder("TORCHINDUCTOR_CACHE_DIR"), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("models, which are data", lambda: folder("HF_HOME")),
    LookAlike("torch.compile's is elsewhere", lambda: temporary(Folder("TORCHINDUCTOR_CACHE_DIR", "/x"))),
    LookAlike(
        "/tmp of a hardened host, torch.compile's elsewhere", lambda: hardened(Folder("TORCHINDUCTOR_CACHE_DIR", "/x"))
    ),
    LookAlike("mounted with exec", lambda: folder("TRITON_CACHE_DIR", noexec=False)),
]

CURES = [
    Cure("left out", lambda: folder("TRITON_CACHE_DIR"), {"host1": {"env": {"TRITON_CACHE_DIR": None}}}, only=True),
    Cure(
        "out of /tmp",
        lambda: hardened(HOME),
        {"host1": {"env": {"TORCHINDUCTOR_CACHE_DIR": "/home/ann/.cache/torchinductor"}}},
    ),
    Cure(
        "below the home",
        lambda: temporary(HOME),
        {"host1": {"env": {"TORCHINDUCTOR_CACHE_DIR": "/home/ann/.cache/torchinductor"}}},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
