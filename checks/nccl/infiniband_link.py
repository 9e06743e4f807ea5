"""An InfiniBand or RoCE link is down.

What you see
------------
`NCCL WARN NET/IB : Got async event : port error`, kernel log: `mlx5_core ... Link down`.

Why it happens
--------------
A cable, transceiver or switch port lost its link during the run.

Fix
---
Look at the port on that host (ibstat, ibqueryerrors, ethtool), and take the node out.

When it is harmless
-------------------
Never.

See also
--------
nccl/infiniband-unreachable
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = (
    "the state of the ports",
    "ibstat",
)
LOG = (
    Line(
        ("async event", "async fatal event"),
        "async (?:fatal )?event ?: ?(?:port error|local catastrophic|device fatal)",
    ),
    Line(
        "Link down",
        r"mlx[45]_\w+ .{0,120}Link down",
    ),
)
