"""NCCL uses a GID that the fabric does not route.

What you see
------------
`NCCL WARN Call to ibv_modify_qp failed with error Invalid argument` (or `Connection timed out`, `No such device`).

Why it happens
--------------
On RoCE, the GID index decides which address and version a connection uses; the default is link-local or not routed, or
the index does not exist on that port.

Fix
---
NCCL_IB_GID_INDEX of the routable RoCE v2 GID (show_gids), the same on all nodes; or leave it unset with NCCL 2.21 and
later.

When it is harmless
-------------------
Never.

See also
--------
nccl/infiniband-unreachable, nccl/infiniband-link
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
NEXT = (
    "the GIDs of each port",
    "show_gids",
)
LOG = (
    Line(
        "ibv_modify_qp",
        "ibv_modify_qp (?:failed|returned)",
    ),
    Line(
        "ibv_query_gid",
        "ibv_query_gid.{0,40} failed",
    ),
)
