"""NCCL's topology file is missing or of another machine.

What you see
------------
`NCCL WARN Attribute arch of node cpu not found`, `Could not open XML topology file`.

Why it happens
--------------
NCCL_TOPO_FILE, often set by a cloud image, names a file that is not there, malformed, or written for another machine or
plugin.

Fix
---
Unset NCCL_TOPO_FILE, or take the file of this machine's image.

When it is harmless
-------------------
A file that is not there is passed over.

See also
--------
environment/setting-mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "Attribute ",
        r"Attribute \w+ of node \w+ not found",
    ),
    Line(
        "XML ",
        "NCCL WARN XML.{0,80}(?:parse|error|not found)",
    ),
)
