"""NCCL's topology or graph file is missing, malformed, or of another machine.

## What you see
`NCCL WARN Attribute arch of node cpu not found`, `NCCL WARN XML Parse : expected >, got '?'`, then `internal error` or
`invalid usage` from init; `Could not open XML graph file /opt/...` and `unhandled system error`.

## Why it happens
NCCL_TOPO_FILE or NCCL_GRAPH_FILE, often set by a cloud image, names a file that is malformed, or meant for another
machine or plugin. NCCL_GRAPH_FILE may also name a missing file, for example in a container. NCCL's reader is no XML
parser: it refuses an `<?xml ...?>` line, tabs between elements, and a version other than 1.

## Fix
Unset the variable: `unset NCCL_TOPO_FILE NCCL_GRAPH_FILE`. Or use the file of this machine's image. A network plugin
such as AWS's has its own topology file; install the plugin for this type of machine.

## Confirm with
`echo $NCCL_TOPO_FILE $NCCL_GRAPH_FILE`, then `head -3 FILE` for each.

## When it is harmless
When NCCL_TOPO_FILE names a missing file: NCCL ignores it.

## See also
environment/setting-mismatch
"""

from dataclasses import dataclass

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, names_of, plans_nccl_group

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line("Attribute ", r"Attribute \w+ of node \w+ not found"),
    Line("XML ", "NCCL WARN XML.{0,80}(?:parse|error|not found|wrong version)"),
    Line(  # of NCCL_GRAPH_FILE
        "Could not open XML graph file"
    ),
)
LOOKS_AT = ("ranks.devices",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    alike: dict[Bad, list[Node]] = {}
    for node in cluster.nodes:
        for bad in unreadable_files(node):
            alike.setdefault(bad, []).append(node)
    for bad, nodes in alike.items():
        yield Finding.about(
            nodes,
            f"NCCL cannot read its {bad.kind} file {bad.path} on {names_of(nodes)}.",
            evidence=[
                *(f"{node.name}: {bad.path}: {bad.why}" for node in nodes),
                *(line for node in nodes for line in where_set(node, bad.variable)),
            ],
            fixes=fixes(nodes, bad),
        )


@dataclass(frozen=True)
class Bad:
    """File that NCCL refuses: its variable, whether that names it, its kind, and the reason."""

    variable: str
    named: bool
    kind: str
    path: str
    why: str
    absent: bool


def unreadable_files(node: Node) -> Iterator[Bad]:
    files = (("NCCL_TOPO_FILE", "topology", node.facts.topology), ("NCCL_GRAPH_FILE", "graph", node.facts.graph))
    for variable, kind, file in files if plans_nccl_group(node) else ():
        if file is None:
            continue
        # A folder can be opened, and contains nothing to read.
        absent = kind == "graph" and file.missing not in ("", "EISDIR")
        if file.refused or absent:
            why = file.refused or file.missing
            yield Bad(variable, bool(file.variable), kind, file.path or variable, why, absent)


def fixes(nodes: list[Node], bad: Bad) -> Iterator[Fix]:
    if bad.named:
        yield Fix.on(nodes, f"Unset {bad.variable}; NCCL then detects the topology itself.", env={bad.variable: None})
    correct = f"Replace {bad.path} with the file of this machine's image"
    text = f"Copy the file of this machine's image to {bad.path}, also in the container" if bad.absent else correct
    yield Fix.on(nodes, f"{text}.", option=2 if bad.named else 1)


def where_set(node: Node, variable: str) -> list[str]:
    path = node.where_set(variable)
    return [f"{node.name}: {variable} is set in {path}"] if path else []
