"""NCCL cannot share memory over the NVLink domain.

## What you see
`cuMemImportFromShareableHandle` or `cuMemCreate` fails in NCCL, on GB200 and similar systems.

## Why it happens
The container has no IMEX channel device, or the NVLink domain is degraded. If GPUs of several nodes belong to one
NVLink domain, NCCL from 2.21 on shares memory over it. NCCL fails if that does not work (its src/mnnvl.cc).

## Fix
Add an IMEX channel to the container: `docker run --device /dev/nvidia-caps-imex-channels/channel0` (Kubernetes: a
ComputeDomain). Or disable this path with `export NCCL_MNNVL_ENABLE=0` on every node.

## Confirm with
`ls /dev/nvidia-caps-imex-channels` in the container, and `nvidia-imex-ctl -N` on the host.

## When it is harmless
With NCCL_MNNVL_ENABLE=0 or NCCL_CUMEM_ENABLE=0: NCCL then uses the network.

## See also
nccl/cumem-host
"""

from collections import Counter

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, names_of

SEVERITY = "fail"
MATTERS = "NCCL uses the NVLinks between these nodes, and fails if it cannot"
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
        why="memory shared by another user's process shows the same",
    ),
    Line("is available but not working on this system", r"MNNVL .{0,40}is available but not working on this system"),
)
SETTINGS = ("NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE")
CHANNELS = "/dev/nvidia-caps-imex-channels"


def judge(cluster: Cluster) -> Iterator[Finding]:
    domain = {node: name for node in cluster.nodes if (name := domain_of(node))}
    shared = {name for name, count in Counter(domain.values()).items() if count > 1}
    # NCCL does not use the domain if the GPU of one rank is in none.
    if len(domain) < len(cluster.nodes) or not shared:
        return
    bad = [node for node in domain if domain[node] in shared and gpus.driver(node).imex_channels == 0 and tries(node)]
    if bad:
        yield Finding.about(
            bad,
            f"{names_of(bad)} {'have' if bad[1:] else 'has'} no IMEX channel, but NVLink connects it to other nodes "
            "of the job.",
            severity="warn",
            evidence=[f"{node.name}: NVLink domain {domain[node]}, no file in {CHANNELS}" for node in bad],
            fixes=[
                Fix.on(
                    bad,
                    f"Add {CHANNELS}/channel0 to the job's containers (Kubernetes: a ComputeDomain). "
                    "Confirm with: `nvidia-imex-ctl -N` on each node.",
                ),
                Fix.on(bad, "Or disable these NVLinks.", option=2, env={SETTINGS[0]: "0"}),
            ],
        )


def domain_of(node: Node) -> str:
    """Return the NVLink domain of the node's GPUs; empty without one, with several, or if it is not ready."""
    domains = {device.fabric_cluster if device.fabric == "completed" else "" for device in gpus.used_devices(node)}
    return domains.pop() if len(domains) == 1 else ""


def tries(node: Node) -> bool:
    """Return whether NCCL would use the domain on this node, and the check's group has not just done so."""
    version = [int(part) for part in (node.identity.nccl or "").split(".")[:2] if part.isdecimal()]
    off = any(node.variables.get(name) == "0" for name in SETTINGS)
    return version >= [2, 21] and gpus.wants_gpus(node) and not gpus.nccl_made([node]) and not off
