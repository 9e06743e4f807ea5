"""NCCL cannot share memory over the NVLink domain.

What you see
------------
`cuMemImportFromShareableHandle` or `cuMemCreate` fails in NCCL on GB200 and the like.

Why it happens
--------------
The container has no IMEX channel device, or the NVLink domain is degraded. Where the GPUs of several nodes belong to
one NVLink domain, NCCL from 2.21 on shares memory over it, and ends with an error where that does not work (its
src/mnnvl.cc).

Fix
---
Give the container /dev/nvidia-caps-imex-channels (ComputeDomain in Kubernetes); NCCL_MNNVL_ENABLE=0 does without.

When it is harmless
-------------------
With NCCL_MNNVL_ENABLE=0 or NCCL_CUMEM_ENABLE=0, where it goes over the network.

See also
--------
nccl/cumem-host
"""

from collections import Counter
from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of

SEVERITY = "fail"
MATTERS = "NCCL takes the NVLinks between these nodes, and ends with an error where it cannot"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = ("the IMEX daemon's state", "nvidia-imex-ctl -N")
LOG = (
    Line(
        "cuMemImportFromShareableHandle",
        "cuMemImportFromShareableHandle.{0,200}(?:fail|error|not)|(?:fail|error|WARN).{0,200}cuMemImportFromSha"
        "reableHandle",
        shows="end",
    ),
    Line(
        "cuMemCreate",  # of memory for other nodes, without an IMEX channel in /dev: NVIDIA's IMEX guide, IMEX Channels
        "cuMemCreate.{0,200}operation not permitted|operation not permitted.{0,200}cuMemCreate",
        shows="end",
    ),
    Line(
        "operation not permitted",
        r"[Cc]uda failure.{0,10}'operation not permitted'",
        shows="symptom",
        why="memory that another user's process has shared shows the same",
    ),
    Line("is available but not working on this system", r"MNNVL .{0,40}is available but not working on this system"),
)
SETTINGS = ("NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE")
CHANNELS = "/dev/nvidia-caps-imex-channels"


def judge(cluster: Cluster) -> Iterator[Finding]:
    domain = {node: found for node in cluster.nodes if (found := domain_of(node))}
    shared = {found for found, count in Counter(domain.values()).items() if count > 1}
    # NCCL does without where one rank's GPU is in no domain.
    if len(domain) < len(cluster.nodes) or not shared:
        return
    bad = [node for node in domain if domain[node] in shared and gpus.driver(node).imex_channels == 0 and tries(node)]
    if bad:
        yield Finding.about(
            bad,
            f"{names_of(bad)} shares an NVLink domain with other nodes of the job, and has no IMEX channel.",
            severity="warn",
            evidence=[f"{node.name}: NVLink domain {domain[node]}, no file in {CHANNELS}" for node in bad],
            fixes=[
                Fix.on(
                    bad,
                    f"Give the job a channel ({CHANNELS}/channel0; in Kubernetes a ComputeDomain), and see that "
                    "nvidia-imex runs on each node (nvidia-imex-ctl -N).",
                ),
                Fix.on(bad, "Or do without these NVLinks.", option=2, env={SETTINGS[0]: "0"}),
            ],
        )


def domain_of(node: Node) -> str:
    """The NVLink domain of its GPUs; empty where they are in none, or not in one and ready."""
    found = {device.fabric_cluster if device.fabric == "completed" else "" for device in gpus.used_devices(node)}
    return found.pop() if len(found) == 1 else ""


def tries(node: Node) -> bool:
    """Return whether NCCL goes that way here, and has not just done so."""
    version = [int(part) for part in (node.identity.nccl or "").split(".")[:2] if part.isdecimal()]
    off = any(node.variables.get(name) == "0" for name in SETTINGS)
    return version >= [2, 21] and gpus.wants_gpus(node) and not gpus.nccl_made([node]) and not off
