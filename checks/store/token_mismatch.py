"""A node does not have the token of the run.

What you see
------------
Only this check has tokens: the node is not let into the meeting, and node 0 waits for it in vain.

Why it happens
--------------
The line that node 0 printed was typed without the DISTDOCTOR_TOKEN before it, the variable is set on some of the nodes
only, or two runs share a port.

Fix
---
Give every node the same DISTDOCTOR_TOKEN, or none of them one. In a batch script `export DISTDOCTOR_TOKEN=$(openssl
rand -hex 16)` before the launcher that starts the nodes gives all of them the same, and nobody else.

When it is harmless
-------------------
When the node belongs to another run: then it is at the wrong port.

See also
--------
store/forged-message, store/foreign-store, store/nodes-missing
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, met_other_run, node0_name, set_master_fixes, some_of

SEVERITY = "fail"
PREVENTS = "store hosted"
FOLLOWS_ANYWHERE = ("network/port-in-use",)
SAID = {
    "missing": "node 0 runs with a token, and this node has none",
    "different": "node 0 runs with another token than this node's",
    "unexpected": "this node has a token, and node 0 runs without one",
}
VARIABLE = "DISTDOCTOR_TOKEN"


def judge(cluster: Cluster) -> Iterator[Finding]:
    for how in SAID:
        nodes = [n for n in cluster.nodes if n.meeting.token == how and not met_other_run(n)]
        if nodes:
            yield finding(cluster, nodes, how)


def finding(cluster: Cluster, nodes: list[Node], how: str) -> Finding:
    names = tuple(node.name for node in nodes)
    zero = node0_name(cluster, nodes[0])
    has = "has" if len(names) == 1 else "have"
    summary = {
        "missing": f"{zero} runs with a token, and {some_of(names)} {has} none.",
        "different": f"{some_of(names)} {has} another token than {zero}.",
        "unexpected": f"{some_of(names)} {has} a token, and {zero} runs without one.",
    }[how]
    where = f"{nodes[0].plan.master_addr}:{nodes[0].plan.master_port}"
    return Finding.about(
        nodes,
        summary,
        ranks=(),
        evidence=(f"{name}: {SAID[how]} (the mark in the store at {where})" for name in names),
        fixes=(*fixes(zero, names, how), *another_port(cluster, 3 if how == "unexpected" else 2)),
    )


def fixes(zero: str, names: tuple[str, ...], how: str) -> Iterator[Fix]:
    if how == "unexpected":
        yield Fix(f"Start {zero} with the same {VARIABLE} as {some_of(names)}.", (zero,))
        yield Fix("Or leave it out here.", names, option=2, env={VARIABLE: None})
        return
    yield Fix(
        f"Put the token before the line, as {zero} has or printed it: {VARIABLE}=... distdoctor check ...",
        names,
    )


def another_port(cluster: Cluster, option: int) -> tuple[Fix, ...]:
    """For the case that the mark is that of another job's check."""
    port = cluster.plan.master_port % 65535 + 1
    text = f"Or, if it is another job that is checked there: use another port, the same on every node, such as {port}."
    return set_master_fixes(cluster.nodes, text, port=port, option=option)
