"""NCCL_SOCKET_IFNAME names no interface.

What you see
------------
`NCCL WARN Bootstrap : no socket interface found`, `no socket interface found`, `family N is neither AF_INET(2) nor
AF_INET6(10)`.

Why it happens
--------------
The value matches no interface that is up on that node; names differ from host to host.

Fix
---
Name an interface that every node has (ip -br address), a prefix of it, or unset NCCL_SOCKET_IFNAME.

When it is harmless
-------------------
Never.

See also
--------
gloo/interface-not-found, network/wrong-interface
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        ("no socket interface found", "No socket interface found"),
        shows="cause",
    ),
    Line(
        "is neither AF_INET",
    ),
    Line(
        "no usable listening interface found",
    ),
    Line(
        "No IP interface found",
    ),
    Line(
        "NCCL_SOCKET_IFNAME",
        "(?:no|No|Could not find|not found).{0,80}NCCL_SOCKET_IFNAME|NCCL_SOCKET_IFNAME.{0,80}(?:not found|no "
        "interface)",
    ),
    Line(
        ("No usable listening interface found", "_NET_IFNAME"),
        "No usable listening interface found|no device found (?:matching|after excluding) .{1,200}verify NCCL_OOB",
    ),
)
