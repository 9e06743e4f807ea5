"""A rank cannot use the store.

## What you see
Some ranks raise `DistStoreError`, `DistNetworkError` or a timeout in init_process_group(), although their node joined
the same store.

## Why it happens
The store's host is overloaded or shutting down, or has reached its limit of open files. Or the environment of the rank
(a cgroup, a network namespace) keeps it from node 0.

## Fix
Fix the error that the report quotes. If the ranks time out, end other load on node 0, and raise its limit of open
files with `ulimit -n 65536` before the launch.

## Confirm with
`ss -tnp 'sport = :29500' | wc -l`, `uptime` and `ulimit -n` on node 0.

## When it is harmless
Never.

## See also
store/nodes-missing, store/node-lost
"""

from distdoctor.check_api import Cluster, Finding, Iterator, failed_stage_finding

SEVERITY = "fail"
PREVENTS = "store used"
SYMPTOM_OF = "store used"
LOOKS_AT = ("ranks.store",)
FOLLOWS_ANYWHERE = ("store/nodes-missing",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from failed_stage_finding(
        cluster,
        "store",
        "Ranks cannot use the store",
        "Fix the quoted error, on node 0 first. Confirm with: `ulimit -n; uptime` on node 0.",
    )
