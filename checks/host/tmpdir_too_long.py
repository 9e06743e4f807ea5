"""TMPDIR is too long for sockets.

What you see
------------
`OSError: AF_UNIX path too long`.

Why it happens
--------------
The name of a Unix socket has at most 107 bytes; multiprocessing puts its sockets below TMPDIR.

Fix
---
TMPDIR=/tmp, or another short path.

When it is harmless
-------------------
Never.

See also
--------
host/temporary-folder
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
LOG = (
    Line(
        "AF_UNIX path too long",
    ),
    Line(
        "Socket pathname is too long",
        "[Ss]ocket pathname is too long",
    ),
)
