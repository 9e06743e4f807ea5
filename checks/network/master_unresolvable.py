"""MASTER_ADDR has no address on a node.

## What you see
On the affected node, at once and then every few seconds for up to 30 minutes,

    The IPv6 network addresses of (host0, 29500) cannot be retrieved (gai error: -2 - Name or service not known)

IPv6 does not matter here: read the name in the parentheses.

## Why it happens
The name is misspelled, only one node knows it (/etc/hosts), the name server is unreachable, or the record does not
exist yet.

## Fix
Use node 0's address, `export MASTER_ADDR=10.77.0.10`, or add its name to /etc/hosts on the affected nodes: `echo
"10.77.0.10 host0" >> /etc/hosts`.

With one node, use 127.0.0.1.

## Confirm with
`getent hosts $MASTER_ADDR` prints node 0's address on every node.

## When it is harmless
While a cluster starts: a Kubernetes record may appear seconds after the pod. distdoctor retries until --wait ends.

## See also
network/master-not-node0, environment/invalid-variable, host/hostname-unresolvable
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    hosts_file_commands,
    hosts_file_unread,
    lookup_failed,
    names_of,
    own_host_names,
    reachable_address,
    reads_hosts_file,
    set_master_fixes,
    together,
)

SEVERITY = "fail"
NEXT = ("the name's address on that host now; in Kubernetes, the state of node 0's pod", "getent hosts NAME")
LOG = (
    Line(
        "network addresses of",
        r"network addresses of \((?P<name>[^,/ \[\]]{1,253}), ?(?P<port>\d{1,9})\) cannot be retrieved",
        unless=r"\.local, ?\d|\((?:XX?|YY?)[.X\d]{2,20},|\((?:\d{5,10}|https?:[^,]{0,200}),",
    ),
    Line(
        "host not found: ",
        "(?:RuntimeError|Error).{0,40}host not found: (?:Name or service|Temporary failure|No address)",
        shows="end",
    ),
    Line(
        "gaierror: ", r"gaierror: \[Errno -[235]\]", shows="symptom", why="it may be any name that the program looks up"
    ),
    Line(
        ("nslookup: can't resolve '", "** server can't find "),
        r"nslookup: can't resolve '[^'(]|\*\* server can't find \S{1,253}: (?:NXDOMAIN|SERVFAIL|REFUSED)",
        shows="symptom",
        why="a wait loop retries; the name has an address when node 0's pod and its service are up",
    ),
)
PREVENTS = "master resolved"
LOOKS_AT = ("network.master",)
FOLLOWS = ("environment/invalid-variable", "environment/missing-variable", "host/hostname-numeric")
NEARLY = 0.7
"""Similarity (difflib) from which one name counts as a misspelling of the other: a letter or two of five."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [n for n in cluster.nodes if n.network.master and not n.network.master.addresses]
    if not bad:
        return
    masters = list(dict.fromkeys(str(node.plan.master_addr) for node in bad))
    yield Finding.about(
        bad,
        f"{names_of(bad)} cannot resolve MASTER_ADDR {together(masters)}.",
        evidence=(*(evidence(node) for node in bad), *hosts_file_unread(bad), *hosts_lines(bad)),
        fixes=fixes(cluster, bad, masters),
    )


def evidence(node: Node) -> str:
    assert node.network.master
    return f"{node.name}: {lookup_failed(node.network.master, node.plan.sources.get('master_addr', 'default'))}"


def fixes(cluster: Cluster, bad: list[Node], masters: list[str]) -> tuple[Fix, ...]:
    if all(node.plan.one_node and not {*masters} & {*own_host_names(node)} for node in bad):
        return set_master_fixes(bad, "Set the master to this node itself, the only one.", address="127.0.0.1")
    address = next((a for a in (real_address(cluster, master) for master in masters) if a), None)
    if address is None and len(masters) == 1 and all(hosts_file_commands(node, None, masters[0]) for node in bad):
        return tuple(in_hosts(bad, None, masters[0]))
    if address is None or len(masters) > 1:
        line = f"`<its address> {masters[0]}`"
        text = f"Use node 0's address, or add a line {line} to /etc/hosts on {names_of(bad)}."
        return (Fix.on(bad, text, unknown=("--master-addr",)),)
    added = tuple(in_hosts(bad, address, masters[0]))
    if name := node0_name_meant(cluster, bad, masters[0]):
        text = f"Use node 0's address: node 0 is {name}, and {masters[0]} may be a misspelling."
        return (*set_master_fixes(bad, text, address=address), *(replace(fix, option=2) for fix in added))
    # The numeric address is right also on a node whose own plan makes it node 0.
    if len({name for fix in added for name in fix.nodes}) < len(bad):
        return set_master_fixes(bad, "Use node 0's address.", address=address)
    return (*added, *set_master_fixes(bad, "Or use node 0's address.", address=address, option=2))


def node0_name_meant(cluster: Cluster, bad: list[Node], master: str) -> str | None:
    """Return another name for node 0: one that other nodes can resolve, else its own name.

    Its own name has to be nearly the same, and to differ in more than a number."""
    other = label(master)
    if other in {label(node.identity.hostname) for node in cluster.nodes}:
        return None
    named = {n.plan.master_addr or "" for n in cluster.nodes if n not in bad and n.network.master}
    if named:
        return named.pop() if len(named) == 1 and other not in map(label, named) else None
    own = cluster.node0.identity.hostname if cluster.node0 else ""
    numbers = [re.findall(r"\d+", name) for name in (label(own), other)]
    return own if numbers[0] == numbers[1] and get_close_matches(other, [label(own)], 1, NEARLY) else None


def label(name: str) -> str:
    """The first part of a host's name, in small letters."""
    return name.partition(".")[0].lower()


def in_hosts(bad: list[Node], address: str | None, master: str) -> Iterator[Fix]:
    """The fixes on /etc/hosts, one for the nodes that need the same; none for a node that reads its line there."""
    groups: dict[tuple[str, ...], list[Node]] = {}
    for node in bad:
        groups.setdefault(hosts_file_commands(node, address, master), []).append(node)
    for commands, nodes in groups.items():
        if commands:
            read, names = not all(map(reads_hosts_file, nodes)), [node.name for node in nodes]
            text = f"Let {together(names)} read /etc/hosts" if read else f"Add {master} with its address to /etc/hosts"
            more = f", and add {master} with its address there" if read and len(commands) > 1 else ""
            yield Fix(f"{text}{more}.", tuple(names), commands=commands)


def hosts_lines(bad: list[Node]) -> Iterator[str]:
    """The lines of /etc/hosts that name the master all the same."""
    for node in bad:
        for line in node.network.master_lines:
            yield f"{node.name}: /etc/hosts line {line.number}: {' '.join(line.text.split())}"


def real_address(cluster: Cluster, master: str) -> str | None:
    """Node 0's address, where its facts are here."""
    for node in cluster.nodes:
        if node.identity.hostname in (master, master.partition(".")[0]):
            return reachable_address(node, cluster)
    return reachable_address(cluster.node0, cluster) if cluster.node0 else None
