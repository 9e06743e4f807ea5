"""torch cannot be imported.

What you see
------------
`ModuleNotFoundError: No module named 'torch'`, or an ImportError about a shared library, on the nodes concerned; the
others wait for them.

Why it happens
--------------
distdoctor runs in another Python environment than the job, the environment is not the same on all nodes, or the torch
build does not fit the machine (glibc, CUDA libraries).

Fix
---
Run distdoctor with the Python of the job (`python -m distdoctor check`), or install torch into this environment.

When it is harmless
-------------------
With --until network, which needs no torch.

See also
--------
environment/version-mismatch
"""

import shlex

from distdoctor.blame import together
from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node
from distdoctor.stages import position

SEVERITY = "fail"


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if node.facts.identity.torch is None and needed(node)]
    if not bad:
        return
    names = tuple(node.name for node in bad)
    yield Finding(
        summary=f"torch cannot be imported on {together(names)}.",
        nodes=names,
        ranks=tuple(rank for node in bad for rank in node.ranks),
        evidence=tuple(
            f"{node.name}: {node.facts.identity.torch_error or 'torch is not there'} "
            f"(Python {node.facts.identity.python})"
            for node in bad
        ),
        fixes=(
            Fix("Run it with the Python that the job runs with: python -m distdoctor check ...", names),
            Fix(
                "Install torch into this environment.",
                names,
                option=2,
                commands=(shlex.join(["pip", "install", "torch"]),),
            ),
        ),
    )


def needed(node: Node) -> bool:
    """Whether this run came to need torch on the node."""
    if node.facts.identity.torch_error:
        return True
    return any(position(s.stage) >= position("store") and s.status != "skipped" for s in node.facts.stages)
