"""GPUDirect RDMA does not work.

What you see
------------
`NCCL WARN NET/IB : ... vendor err 81` with local protection or access errors; `nv_peer_mem` missing.

Why it happens
--------------
The HCA cannot reach the GPU's memory: no nvidia-peermem, ACS on, an IOMMU in between.

Fix
---
modprobe nvidia-peermem; turn ACS off on the PCIe switches; NCCL_NET_GDR_LEVEL=0 to prove it.

When it is harmless
-------------------
Never.

See also
--------
nccl/p2p-broken, nccl/infiniband-unreachable
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
NEXT = (
    "whether the module is loaded",
    "lsmod | grep peermem",
)
LOG = (
    Line(
        ("vendor err 81", "vendor_err=81"),
    ),
    Line(
        ("ibv_reg_mr", "ibv_reg_dmabuf_mr"),
        r"ibv_reg_(?:dmabuf_)?mr\w*.{0,40}(?:Bad address|Operation not supported)",
    ),
    Line(
        "ibv_poll_cq failed",
        shows="symptom",
        why="status 12 is a peer that does not answer, 4 memory that the adapter may not read",
    ),
)
