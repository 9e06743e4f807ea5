"""The table of connections is full.

What you see
------------
Kernel log: `nf_conntrack: table full, dropping packet`; connections time out under load.

Why it happens
--------------
The firewall follows every connection, and has no room for more.

Fix
---
sysctl net.netfilter.nf_conntrack_max, or no tracking between the nodes of the job.

When it is harmless
-------------------
Never.

See also
--------
network/port-filtered
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
RESTART = "yes"
LOG = (
    Line(
        "table full, dropping packet",
        "nf_conntrack",
    ),
)
