"""A collective gives a wrong result.

What you see
------------
Training that diverges, or differs from run to run, without any error.

Why it happens
--------------
Broken memory, a faulty network card or link that passes damaged data, mixed library versions between nodes.

Fix
---
Take the nodes concerned out, one at a time, and test their memory and network cards.

When it is harmless
-------------------
Never.

See also
--------
environment/version-mismatch, collective/failed
"""

from distdoctor.blame import together
from distdoctor.check_api import Cluster, Finding, Fix, Iterator
from distdoctor.outcomes import errors, failed, node_names, rank_numbers

SEVERITY = "fail"


def judge(cluster: Cluster) -> Iterator[Finding]:
    ended = [one for stage in ("collective", "nccl") for one in failed(cluster, stage) if one.stage.detail.get("wrong")]
    if not ended:
        return
    wrong = dict.fromkeys(str(name) for one in ended for name in one.stage.detail["wrong"])
    names = node_names(cluster, ended)
    ranks = rank_numbers(ended)
    yield Finding(
        summary=f"Wrong results of {together(wrong)} on rank {together(map(str, ranks))}.",
        nodes=names,
        ranks=ranks,
        blame="one-of" if len(names) > 1 else "all",
        evidence=errors(ended),
        fixes=(Fix(f"Leave {together(names)} out, one at a time, and test memory and network cards.", names),),
    )
