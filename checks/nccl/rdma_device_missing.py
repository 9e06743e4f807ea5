"""The container has no RDMA device.

What you see
------------
`NET/OFI ... fi_getinfo() call failed: No data available`, `NET/IB : No device found` where the host has one.

Why it happens
--------------
/dev/infiniband was not passed into the container, or the plugin finds no provider.

Fix
---
docker run --device=/dev/infiniband; in Kubernetes the device plugin of the fabric.

When it is harmless
-------------------
Where the job is to use TCP.

See also
--------
nccl/infiniband-gid
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
NEXT = (
    "the devices in the container",
    "ls /dev/infiniband",
)
LOG = (
    Line(
        "fi_getinfo",
        r"fi_getinfo\(\) call failed",
        shows="hint",
        why="NCCL goes on with sockets",
    ),
    Line(
        "NET/IB : No device found",
        shows="noise",
        why="NCCL goes on with sockets",
    ),
)
