"""The nodes do not have the same DISTDOCTOR_TOKEN.

What you see
------------
Nothing in the job, which has no such token. The check of the node does not join, and node 0 waits for it.

Why it happens
--------------
DISTDOCTOR_TOKEN or --token is set on some of the nodes only, or two runs of the check share a port.

Fix
---
Set the same token on every node, or on none. In a batch script, this line before the launcher gives all nodes the same:

    export DISTDOCTOR_TOKEN=$(openssl rand -hex 16)

When it is harmless
-------------------
Always for the job: the check is incomplete, and says nothing about the job. If the node belongs to another run, give
that run another --master-port.

See also
--------
store/forged-message, store/foreign-store, store/nodes-missing
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from distdoctor.check_api import (
    Caller,
    Cluster,
    Finding,
    Fix,
    Node,
    joined_other_run,
    node0_name,
    set_master_fixes,
    some_of,
)

SEVERITY = "fail"
PREVENTS = "store hosted"
INCOMPLETE = True
FOLLOWS_ANYWHERE = ("network/port-in-use",)
VARIABLE = "DISTDOCTOR_TOKEN"
JOINER = {
    "missing": "node 0 has a token, this node has none",
    "different": "node 0 has another token than this node",
    "unexpected": "this node has a token, node 0 has none",
}
CALLER = {
    "missing": "called without the token",
    "different": "called with another token",
    "unexpected": "called with a token; none is set here",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    for how in JOINER:
        nodes = [node for node in cluster.nodes if node.meeting.token == how and not joined_other_run(node)]
        where = f"{nodes[0].plan.master_addr}:{nodes[0].plan.master_port}" if nodes else ""
        evidence = [f"{node.name}: {JOINER[how]} (read in the store at {where})" for node in nodes]
        names = [node.name for node in nodes]
        for zero, caller in callers(cluster, how):
            evidence.append(f"{zero.name}: {caller.host} ({caller.address}) {CALLER[how]}")
            names.append(caller.host)
        if names:
            yield finding(cluster, node0_name(cluster, *nodes[:1]), names, how, evidence)


def callers(cluster: Cluster, how: str) -> list[tuple[Node, Caller]]:
    """Return those that node 0 did not let in and whose own facts are not here."""
    known = {node.identity.hostname for node in cluster.nodes if node.meeting.token == how}
    return [
        (node, caller)
        for node in cluster.nodes
        for caller in node.meeting.callers
        if caller.token == how and caller.host not in known
    ]


def finding(cluster: Cluster, zero: str, names: Sequence[str], how: str, evidence: Sequence[str]) -> Finding:
    who = some_of(dict.fromkeys(names))
    has = "has" if len(set(names)) == 1 else "have"
    summary = {
        "missing": f"{who} {has} no {VARIABLE}, and {zero} has one.",
        "different": f"{who} {has} another {VARIABLE} than {zero}.",
        "unexpected": f"{who} {has} a {VARIABLE}, and {zero} has none.",
    }[how]
    fixes = (*token_fixes(zero, tuple(dict.fromkeys(names)), how), *another_port(cluster))
    return Finding.about(names, f"{summary} The job itself has no token.", ranks=(), evidence=evidence, fixes=fixes)


def token_fixes(zero: str, names: tuple[str, ...], how: str) -> Iterator[Fix]:
    keyed, open_ = ((zero,), names) if how != "unexpected" else (names, (zero,))
    unset = Fix(f"Unset {VARIABLE} on {some_of(keyed)}, and leave out --token.", keyed, env={VARIABLE: None})
    ask = Fix(
        f"Give {some_of(open_)} the token of {some_of(keyed)}: type it after this line.",
        open_,
        option=2,
        commands=(f"read -r {VARIABLE} && export {VARIABLE}",),
    )
    if how == "different":  # a token that somebody chose stays
        unset, ask = replace(unset, nodes=(zero, *names), option=2), replace(ask, option=1)
        yield from (ask, unset)
    else:
        yield from (unset, ask)


def another_port(cluster: Cluster) -> tuple[Fix, ...]:
    """Return the fix for the mark of another job's check."""
    port = cluster.plan.master_port % 65535 + 1
    text = f"If another job is checked at that port, use another one, the same on every node, such as {port}."
    return set_master_fixes(cluster.nodes, text, port=port, option=3)
