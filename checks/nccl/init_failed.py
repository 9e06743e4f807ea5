"""The NCCL process group cannot be made.

What you see
------------
`torch.distributed.DistBackendError: NCCL error` in the first collective, or a hang until the watchdog's 10 minutes.

Why it happens
--------------
None of the known causes is in the facts. NCCL's own words come with NCCL_DEBUG=INFO.

Fix
---
Run the job once with NCCL_DEBUG=INFO and read the first WARN line.

When it is harmless
-------------------
When the job uses gloo only; the finding is then a warning.

See also
--------
gpu/fewer-than-ranks, gpu/shared-device, mesh/peer-ports-blocked
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, failed_stage_finding

SEVERITY = "fail"
MATTERS = "the job as planned does not use NCCL; one that does would fail"
PREVENTS = "nccl group formed"
SYMPTOM_OF = "nccl group formed"
FIX = "Run the job once with NCCL_DEBUG=INFO, and read the first WARN line."


def judge(cluster: Cluster) -> Iterator[Finding]:
    gpus = any(rank.gpu and rank.gpu.visible for node in cluster.nodes for rank in node.facts.ranks)
    planned = any("nccl" in node.plan.backends(gpus=gpus) for node in cluster.nodes)
    severity = "fail" if planned else "warn"
    yield from failed_stage_finding(cluster, "nccl", "The NCCL process group cannot be made", FIX, severity)
