"""A disk that the job writes to is full or read-only.

What you see
------------
`[Errno 28] No space left on device`, `[Errno 122] Disk quota exceeded`, `Read-only file system`, `PytorchStreamWriter
failed writing file`.

Why it happens
--------------
The home, /tmp or checkpoint filesystem has no blocks, inodes or quota left, or was remounted read-only after errors.

Fix
---
Free space (df -h, df -i, quota -s), and move caches and checkpoints: TMPDIR, HF_HOME, TORCH_HOME, the output folder.

When it is harmless
-------------------
Never.

See also
--------
host/shared-memory-small
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
NEXT = (
    "how full the disks are",
    "df -h; df -i; quota -s",
)
LOG = (
    Line(
        "No space left on device",
        unless="shm|shared memory|nccl-|posix_fallocate",
    ),
    Line(
        "Disk quota exceeded",
    ),
    Line(
        "Read-only file system",
        "(?:Errno 30|Error|[Cc]annot|[Ff]ailed to).{0,160}Read-only file system",
    ),
    Line(
        "emounting filesystem read-only",
        "[Rr]emounting filesystem read-only",
    ),
    Line(
        "PytorchStreamWriter failed writing",
        shows="symptom",
        why="a file that was written by two ranks at once fails so, too",
    ),
    Line(
        "unexpected pos",
        r"inline_container\.cc.{0,80}unexpected pos",
        shows="symptom",
        why="a file that was written by two ranks at once fails so, too",
    ),
    Line(
        ("low on resource: ephemeral-storage", "DiskPressure"),
        r"low on resource: ephemeral-storage|had condition: \[DiskPressure",
    ),
)
