"""The nodes have different values of DISTDOCTOR_TOKEN.

## What you see
Nothing in the job, which has no such token. The check of the node does not join, and node 0 waits for it.

## Why it happens
DISTDOCTOR_TOKEN or --token is set on some of the nodes only, or two runs of the check share a port.

## Fix
Set the same token on every node, or `unset DISTDOCTOR_TOKEN` on every node. In a batch script, this line before the
launcher gives all nodes the same token:

    export DISTDOCTOR_TOKEN=$(openssl rand -hex 16)

## Confirm with
`printenv DISTDOCTOR_TOKEN | sha256sum` on every node (the sums must be equal).

## When it is harmless
Always for the job: the check is incomplete, and the job's result is unknown. If the node belongs to another run, give
that run another --master-port.

## See also
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
    "unexpected": "called with a token; node 0 has none",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    for problem in JOINER:
        nodes = [node for node in cluster.nodes if node.meeting.token == problem and not joined_other_run(node)]
        where = f"{nodes[0].plan.master_addr}:{nodes[0].plan.master_port}" if nodes else ""
        evidence = [f"{node.name}: {JOINER[problem]} (read in the store at {where})" for node in nodes]
        names = [node.name for node in nodes]
        for zero, caller in callers(cluster, problem):
            evidence.append(f"{zero.name}: {caller.host} ({caller.address}) {CALLER[problem]}")
            names.append(caller.host)
        if names:
            yield finding(cluster, node0_name(cluster, *nodes[:1]), names, problem, evidence)


def callers(cluster: Cluster, problem: str) -> list[tuple[Node, Caller]]:
    """Return the callers that node 0 rejected and that have no facts of their own."""
    known = {node.identity.hostname for node in cluster.nodes if node.meeting.token == problem}
    return [
        (node, caller)
        for node in cluster.nodes
        for caller in node.meeting.callers
        if caller.token == problem and caller.host not in known
    ]


def finding(cluster: Cluster, zero: str, names: Sequence[str], problem: str, evidence: Sequence[str]) -> Finding:
    subject = some_of(dict.fromkeys(names))
    has = "has" if len(set(names)) == 1 else "have"
    summary = {
        "missing": f"{subject} {has} no {VARIABLE}; {zero} has one.",
        "different": f"{subject} {has} a different {VARIABLE} than {zero}.",
        "unexpected": f"{subject} {has} a {VARIABLE}; {zero} has none.",
    }[problem]
    fixes = (*token_fixes(zero, tuple(dict.fromkeys(names)), problem), *another_port(cluster))
    return Finding.about(names, f"{summary} The job itself uses no token.", ranks=(), evidence=evidence, fixes=fixes)


def token_fixes(zero: str, names: tuple[str, ...], problem: str) -> Iterator[Fix]:
    keyed, open_ = ((zero,), names) if problem != "unexpected" else (names, (zero,))
    unset = Fix(f"Unset {VARIABLE} on {some_of(keyed)}, and omit --token.", keyed, env={VARIABLE: None})
    ask = Fix(
        f"Set {VARIABLE} on {some_of(open_)} to the token of {some_of(keyed)}; the command reads it from the terminal.",
        open_,
        option=2,
        commands=(f"read -r {VARIABLE} && export {VARIABLE}",),
    )
    if problem == "different":  # keep a token that somebody chose
        unset, ask = replace(unset, nodes=(zero, *names), option=2), replace(ask, option=1)
        yield from (ask, unset)
    else:
        yield from (unset, ask)


def another_port(cluster: Cluster) -> tuple[Fix, ...]:
    """Return the fix if another job's check left the mark."""
    port = cluster.plan.master_port % 65535 + 1
    text = f"If another job uses that port, use port {port} for this one, on every node."
    return set_master_fixes(cluster.nodes, text, port=port, option=3)
