"""host/filesystem-stalled: what it finds before a job, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Folder, KernelLine
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/filesystem-stalled"
DOWN = KernelLine(CHECK, "symptom", "nfs: server filer1 not responding, still trying", 10.0, {"server": "filer1"})
HUNG = KernelLine(
    CHECK, "symptom", "task python:77 blocked for more than 120 seconds.", 10.0, {"program": "python", "pid": "77"}
)
BACK = KernelLine(CHECK, "noise", "nfs: server filer1 OK", 11.0, {"server": "filer1"})


def stuck(*lines: KernelLine, source: str = "filer1:/home", error: str = "timeout") -> Facts:
    zero, one = healthy(2)
    folder = Folder("HOME", "/home/ann", error, filesystem="nfs4", source=source)
    return zero, with_host(one, folders=(folder,), kernel_log=lines)


ROWS = [
    Row("home on a server that is down", lambda: stuck(DOWN), ("host1",), "warn", together=True),
    Row("down, back, and down again", lambda: stuck(DOWN, BACK, DOWN), ("host1",), "warn", together=True),
]

ROWS.append(Row("a disk that hangs", lambda: stuck(HUNG, source="/dev/sdb1"), ("host1",), "warn", together=True))

LOOK_ALIKES = [
    LookAlike("a process waited, and the disk answers", lambda: stuck(HUNG, source="/dev/sdb1", error="")),
    LookAlike("a process waited, and the server is back", lambda: stuck(HUNG, BACK)),
    LookAlike("it is back", lambda: stuck(DOWN, BACK)),
    LookAlike("another server", lambda: stuck(DOWN, source="filer2:/home")),
    LookAlike("it answers now", lambda: stuck(DOWN, error="")),
    LookAlike("slow, and the kernel says nothing", stuck),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
