"""A build of an extension left its lock behind.

What you see
------------
`Using .../torch_extensions/... as PyTorch extensions root...` and then nothing, on every rank.

Why it happens
--------------
torch.utils.cpp_extension waits without a limit for the file `lock` in the build's folder; a build that was killed left
it.

Fix
---
Remove the lock file in that folder; TORCH_EXTENSIONS_DIR on a local disk.

When it is harmless
-------------------
While the extension is being built.

See also
--------
host/compile-cache-shared
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
NEXT = (
    "whether a lock is there",
    "ls -l ~/.cache/torch_extensions/*/*/lock",
)
LOG = (
    Line(
        "file_baton.py",
        r"wait \(.{0,200}file_baton\.py|file_baton\.py\x22, line \d+,? in wait",
        source=True,
        shows="end",
    ),
    Line(
        "as PyTorch extensions root",
        shows="hint",
        why="it is also printed before every build that works",
    ),
)
