"""NCCL's topology file is missing or of another machine.

What you see
------------
`NCCL WARN Attribute arch of node cpu not found`, `NCCL WARN XML Parse : expected >, got '?'`, then `internal error` or
`invalid usage` from init.

Why it happens
--------------
NCCL_TOPO_FILE, often set by a cloud image, names a file that is malformed, or written for another machine or plugin.
NCCL's reader is no XML parser: it refuses an `<?xml ...?>` line, tabs between elements, and a version other than 1.

Fix
---
Unset NCCL_TOPO_FILE, or take the file of this machine's image.

When it is harmless
-------------------
A file that is not there is passed over.

See also
--------
environment/setting-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, plans_nccl_group

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "Attribute ",
        r"Attribute \w+ of node \w+ not found",
    ),
    Line(
        "XML ",
        "NCCL WARN XML.{0,80}(?:parse|error|not found|wrong version)",
    ),
    Line(  # NCCL_GRAPH_FILE's
        "Could not open XML graph file",
    ),
)
LOOKS_AT = ("ranks.devices",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        file = node.facts.topology
        if file is None or not file.refused or not plans_nccl_group(node):
            continue
        fixes = []
        if file.variable:
            fixes.append(Fix.on(node, "Let NCCL look at the machine itself.", env={"NCCL_TOPO_FILE": None}))
        mend = f"Mend {file.path}, or take the file of this machine's image."
        fixes.append(Fix.on(node, mend, option=len(fixes) + 1))
        yield Finding.about(
            [node],
            f"NCCL cannot read its topology file on {node.name}: {file.path}.",
            evidence=[f"{node.name}: {file.path}: {file.refused}", *where_set(node)],
            fixes=fixes,
        )


def where_set(node: Node) -> list[str]:
    path = node.where_set("NCCL_TOPO_FILE")
    return [f"{node.name}: NCCL_TOPO_FILE is set in {path}"] if path else []
