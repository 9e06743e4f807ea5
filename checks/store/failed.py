"""A rank cannot use the store.

What you see
------------
`DistStoreError`, `DistNetworkError` or a time-out in init_process_group() on some ranks, although the node met the
others in the same store.

Why it happens
--------------
The store's host is overloaded or going away, a limit on open files is reached, or the rank's own environment (a cgroup,
a network namespace) keeps it from node 0.

Fix
---
Read the error; look at node 0 first.

When it is harmless
-------------------
Never.

See also
--------
store/nodes-missing, store/node-lost
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, failed_stage_finding

SEVERITY = "fail"
PREVENTS = "store used"
SYMPTOM_OF = "store used"
LOOKS_AT = ("ranks.store",)
FOLLOWS_ANYWHERE = ("store/nodes-missing",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    yield from failed_stage_finding(
        cluster, "store", "The store cannot be used", "Read the error, and look at node 0 first."
    )
