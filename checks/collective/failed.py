"""A collective fails.

What you see
------------
`Connection closed by peer`, `Read error`, `Timed out waiting ... for recv operation` in the first collectives although
the process group was made.

Why it happens
--------------
A peer ended or was cut off after init; with TORCH_GLOO_LAZY_INIT=1 the connections are only made now; or large packets
do not get through (an MTU that differs along the way).

Fix
---
Look at the rank that ended first: the errors of the others follow from it.

When it is harmless
-------------------
Never.

See also
--------
barrier/rank-missing, collective/wrong-result, store/node-lost
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, failed_stage_finding

SEVERITY = "fail"
PREVENTS = "results right"
SYMPTOM_OF = "results right"
FIX = "Look at the rank that ended first: the errors of the others follow from it."


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from failed_stage_finding(cluster, "collective", "Collectives fail", FIX)
