"""A collective fails.

## What you see
`Connection closed by peer`, `Read error`, `Timed out waiting ... for recv operation` in the first collectives,
although the process group was formed.

## Why it happens
A peer ended or lost its connections after init. With TORCH_GLOO_LAZY_INIT=1 the connections are made only now. Or
large packets are lost, because the MTU differs along the path.

## Fix
Fix the error of the rank that ended first; the errors of the others are its consequences. If no rank ended, set one
MTU on all nodes: `ip link set dev eth0 mtu 1500`.

## Confirm with
`distdoctor diagnose LOGS...` (names the first rank), and `ping -M do -s 1472 -c 1 10.0.0.11`.

## When it is harmless
Never.

## See also
barrier/rank-missing, collective/wrong-result, store/node-lost
"""

from distdoctor.check_api import Cluster, Finding, Iterator, failed_stage_finding

SEVERITY = "fail"
PREVENTS = "results right"
SYMPTOM_OF = "results right"
FIX = "Fix the error of the rank that ended first. Confirm with: `distdoctor diagnose LOGS...`."


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from failed_stage_finding(cluster, "collective", "Collectives fail", FIX)
