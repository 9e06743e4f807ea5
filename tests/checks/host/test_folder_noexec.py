"""host/folder-noexec: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Folder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/folder-noexec"


def folder(use: str, noexec: bool = True) -> Facts:
    zero, one = healthy(2)
    return zero, with_host(one, folders=(Folder(use, "/cache", filesystem="tmpfs", source="tmpfs", noexec=noexec),))


ROWS = [
    Row("Triton's", lambda: folder("TRITON_CACHE_DIR"), ("host1",), "warn", together=True),
    Row("torch.compile's", lambda: folder("TORCHINDUCTOR_CACHE_DIR"), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("models, which are data", lambda: folder("HF_HOME")),
    LookAlike("/tmp of a hardened host", lambda: folder("/tmp")),
    LookAlike("mounted with exec", lambda: folder("TRITON_CACHE_DIR", noexec=False)),
]

CURES = [
    Cure("left out", lambda: folder("TRITON_CACHE_DIR"), {"host1": {"env": {"TRITON_CACHE_DIR": None}}}, only=True)
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
