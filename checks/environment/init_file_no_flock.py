"""The init file lies where files cannot be locked.

What you see
------------
`RuntimeError: flock: Function not implemented`.

Why it happens
--------------
file:// rendezvous locks its file, which some NFS, FUSE and Lustre mounts do not offer.

Fix
---
Put the file on a filesystem with locks, or use env:// or tcp://.

When it is harmless
-------------------
Never.

See also
--------
environment/stale-init-file
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
LOG = (
    Line(
        "Function not implemented",
        "flock: Function not implemented|flock.{0,80}Function not implemented",
    ),
    Line(
        "No locks available",
        "(?:flock|Errno 37).{0,80}No locks available",
    ),
)
