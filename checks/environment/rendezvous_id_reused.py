"""The rendezvous was closed before.

What you see
------------
`RendezvousClosedError` at the start.

Why it happens
--------------
A run with that id has ended, and its rendezvous stays closed for those who come with the same id.

Fix
---
Start all nodes with a fresh --rdzv-id.

When it is harmless
-------------------
On a node that came after the job had ended.

See also
--------
environment/rendezvous-id-mismatch, environment/stale-init-file
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("the logs of all agents", "")
LOG = (
    Line(
        "RendezvousClosedError",
        shows="symptom",
        why="a node that comes when the others have already failed sees the same",
    ),
)
