"""A peer does not answer over InfiniBand or RoCE.

What you see
------------
`NCCL WARN NET/IB : Got completion from peer ... with status=12 opcode=... vendor err 129`; `status=5` follows it.

Why it happens
--------------
The transport gave up sending (status 12, retry exceeded): rails that are not routed to each other, a fabric that loses
packets, a peer whose link is down.

Fix
---
Test that pair of HCAs with ib_write_bw; where rails are separate networks, NCCL_CROSS_NIC=0 and the right NCCL_IB_HCA.

When it is harmless
-------------------
Where the peer had died before: its queue pairs do not answer any more.

See also
--------
nccl/infiniband-link, nccl/infiniband-gid
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = (
    "ib_write_bw between both HCAs",
    "ib_write_bw -d HCA HOST",
)
LOG = (
    Line(
        "Got completion",
        r"Got completion (?:from peer (?P<peer>\S{1,64}) )?with (?:status=12|error 12"
        r"|status=IBV_WC_RETRY_EXC_ERR\(12\))",
        shows="end",
    ),
    Line(
        "Got completion",
        r"Got completion (?:from peer \S{1,64} )?with (?:status=(?!12\b)\d+|error (?!12\b)\d+)",
        shows="symptom",
        why="status 5 follows an earlier failure of the same connection",
    ),
    Line(
        ("ibv_post_send() failed", "ibv_post_recv() failed", "Call to ibv_poll_cq() returned"),
        shows="symptom",
        why="a connection that was lost before shows the same",
    ),
)
