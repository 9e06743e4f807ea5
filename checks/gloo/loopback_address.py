"""gloo advertises a loopback address to other hosts.

## What you see
init_process_group() with gloo (which the default backend includes) fails on one side with

    connectFullMesh failed with [...] connect [127.0.1.1]:PORT: Connection refused

The port differs on each process, and the other side prints nothing for up to 2.5 hours. NCCL alone works, and each
node works alone.

## Why it happens
Without GLOO_SOCKET_IFNAME, gloo resolves its own hostname and advertises the first address that it can bind. Debian
and Ubuntu write `127.0.1.1 <hostname>` into /etc/hosts. If the hostname has no address, gloo uses 127.0.0.1. gloo
reads neither routes nor MASTER_ADDR, so the other hosts connect to their own loopback.

The larger address connects to the smaller one. A single node at 127.0.1.1 in a 10.x network therefore always connects
and is never connected to. That job runs.

`0.0.0.0` next to the hostname fails in the same way: gloo binds and advertises it, and Linux treats it as loopback. If
`::1` stands there and the other nodes have IPv4, both sides fail at once with
`ss1.ss_family == ss2.ss_family. 10 vs 2`.

## Fix
On each node, set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes: `export GLOO_SOCKET_IFNAME=eth0`.
Or replace the 127.0.1.1 line in /etc/hosts with the real address: `10.0.0.10 host0`.

## Confirm with
`getent ahosts $(hostname)` (must print no 127.x address).

## When it is harmless
When all ranks are on one host, or the job forms no gloo group (backend="nccl"). If one node alone is concerned, in a
network with addresses below 127, the job runs; the finding is then a warning.

## See also
host/hostname-loopback, host/hostname-unresolvable, gloo/interface-not-found
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    by_luck,
    correct_own_hosts_line,
    failed_ranks,
    gloo_dials,
    gloo_errors_name,
    has_other_hosts,
    hosts_file_unread,
    is_loopback,
    live,
    makes_gloo_group,
    misspellings_of,
    names_of,
    parse_address,
    primary_interface,
    reachable_address,
    reaches_no_other,
    reads_hosts_file,
    shorten_error,
    together,
)

SEVERITY = "fail"
BROKEN = r"connectFullMesh failed[^\n]{0,400}(?:\n[^\n]{0,200})?\Z"
"""The line above the rest of gloo's message, if the message is broken into lines."""
LOG = (
    Line("connect [127.0.1.", r"connect \[(?P<address>127\.0\.1\.\d+)\]:\d+: "),
    Line(("connectFullMesh failed", "gloo/transport"), r"(?:remote=\[?|connect \[)(?P<address>127\.0\.1\.\d+)\]?:?"),
    Line(
        ", remote=",  # the same, broken into lines
        r"^\s{0,20}(?:\w.{0,200}, )?remote=\[?(?P<address>127\.0\.1\.\d+)\]?:?",
        stack=BROKEN,
    ),
    Line(
        ", remote=",
        r"^\s{0,20}(?:\w.{0,200}, )?remote=\[?(?P<address>127\.0\.0\.\d+|::1)\]?",
        shows="symptom",
        several=True,
        why="where all ranks are on one host, a rank that died shows the same",
        stack=BROKEN,
    ),
    Line(
        "connectFullMesh failed",
        r"remote=\[?(?P<address>127\.0\.0\.\d+|::1)\]?",
        shows="symptom",
        several=True,
        why="where all ranks are on one host, a rank that died shows the same",
    ),
)
MATTERS = "gloo connects from the larger address to the smaller, so no node connects to this one now"
PREVENTS = "peers connected"
# Without a free port gloo can bind no address, and takes loopback.
FOLLOWS = ("host/ports-exhaustible", "network/duplicate-address")
LOOKS_AT = ("host.gloo",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if concerns(cluster, node)]
    if not bad:
        return
    offered = [address for node in bad for address in loopbacks(node)]
    yield Finding.about(
        bad,
        f"gloo on {names_of(bad)} advertises {_addresses(bad)}, which other hosts cannot reach.",
        severity="fail" if any(fails(cluster, node) for node in bad) or gloo_errors_name(cluster, offered) else "warn",
        matters=by_luck(cluster),
        evidence=tuple(line for node in bad for line in evidence(node)) + _errors(cluster),
        fixes=(fix for node in bad for fix in fixes(cluster, node)),
        because_of=cause(bad),
    )


def cause(bad: list[Node]) -> str | None:
    """Return the check or milestone that explains both this and why these nodes do not reach the master."""
    if all(has_numeric_names(node) for node in bad):
        return "host/hostname-numeric"
    if all(has_loopback_only(node) for node in bad):
        return "store reached"
    return "network/master-unresolvable" if all(ignores_hosts_file(node) for node in bad) else None


def has_loopback_only(node: Node) -> bool:
    """Return whether the node has loopback addresses only, and so no route to the other nodes."""
    real = (address for card in node.interfaces if card.up and not card.loopback for address in card.addresses)
    numbers = [number for address in real if (number := parse_address(address)) is not None]
    return bool(node.interfaces) and all(number.is_link_local for number in numbers)


def ignores_hosts_file(node: Node) -> bool:
    """Return whether the node does not read /etc/hosts, so that neither its hostname nor the master has an address."""
    nameless = node.saw("host") and not node.host.own_name.addresses
    return nameless and node.network.master is not None and not node.master_addresses and not reads_hosts_file(node)


def has_numeric_names(node: Node) -> bool:
    """Return whether the hostname and the master's name are digits only, and the node did not join."""
    return node.identity.hostname.isdecimal() and (node.plan.master_addr or "").isdecimal() and not node.meeting.joined


def concerns(cluster: Cluster, node: Node) -> bool:
    """Return whether this node's gloo offers a loopback address to other hosts."""
    return bool(loopbacks(node)) and makes_gloo_group(node) and has_other_hosts(cluster, node)


def loopbacks(node: Node) -> list[str]:
    """Return the addresses that gloo binds on this node and that no other host can reach."""
    return [address for address in node.gloo_addresses if reaches_no_other(address)]


def fails(cluster: Cluster, node: Node) -> bool:
    """Return whether any other node must connect to this node's loopback address, or has an address of another family.

    With different families gloo fails on both sides before either connects (gloo/transport/tcp/device.cc, isInitiator).
    An address on no interface fails as well (there, "Unable to find interface for")."""
    return any(
        not is_loopback(address) or gloo_dials(peer, node, address) or other_family(address, peer)
        for peer in cluster.peers(node)
        for address in loopbacks(node)
    )


def other_family(address: str, peer: Node) -> bool:
    """Return whether gloo binds an address of the other family on ``peer``."""
    return bool(peer.gloo_address) and (":" in address) != (":" in (peer.gloo_address or ""))


def evidence(node: Node) -> Iterator[str]:
    if not node.saw("host"):
        return
    choice = node.host.gloo
    if choice and choice.reason == "variable":
        yield f"{node.name}: GLOO_SOCKET_IFNAME={choice.variable} makes gloo bind {together(node.gloo_addresses)}"
        return
    resolution = node.host.own_name
    if resolution.addresses:
        yield f"{node.name}: its hostname {resolution.name} resolves to {', '.join(resolution.addresses)}"
    else:
        yield f"{node.name}: its hostname {resolution.name} has no address ({resolution.error or 'no answer'})"
    yield from hosts_file_unread([node])
    for line in node.host.hosts_lines:
        yield f"{node.name}: /etc/hosts line {line.number}: {' '.join(line.text.split())}"
    for name in misspellings_of(node, "GLOO_SOCKET_IFNAME"):
        yield f"{node.name}: {name} is set, which no program reads; perhaps GLOO_SOCKET_IFNAME is meant"
    if choice and choice.reason == "fallback":
        yield (
            f"{node.name}: gloo warns 'Unable to resolve hostname to a (local) address. Using the loopback address as "
            f"fallback' and binds {choice.address}"
        )


def fixes(cluster: Cluster, node: Node) -> Iterator[Fix]:
    interface = primary_interface(node)
    names = (node.name,)
    choice = node.host.gloo
    if interface:
        text = f"On {node.name}, set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes."
        yield Fix(text, names, env={"GLOO_SOCKET_IFNAME": interface})
    else:
        text = f"On {node.name}, set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes."
        yield Fix(f"{text} Confirm with: `ip -br address`.", names)
    address = reachable_address(node, cluster)
    if choice and choice.reason == "variable":
        resolved = node.host.own_name.addresses
        if resolved and not is_loopback(resolved[0]):
            yield Fix(
                f"Or unset it on {node.name}; gloo then binds {resolved[0]}.",
                names,
                2,
                env={"GLOO_SOCKET_IFNAME": None},
            )
    elif address and (command := correct_own_hosts_line(node, address)):
        text = f"Or give {node.name} its real address, {address}, in /etc/hosts."
        yield Fix(text, names, 2, commands=(command,))


def _addresses(nodes: list[Node]) -> str:
    return together(dict.fromkeys(address for node in nodes for address in loopbacks(node)))


def _errors(cluster: Cluster) -> tuple[str, ...]:
    """Return gloo's own errors about a loopback address or one of another family, one line per node."""
    by_node = {
        failed.node.name: failed
        for failed in reversed(failed_ranks(cluster, "gloo"))
        if any(words in (failed.stage.error or "") for words in ("[127.", "[::1]", "find interface for", "ss_family"))
    }
    return tuple(
        f"{name} rank {failed.rank.rank}: {shorten_error(failed.stage.error or '')}"
        for name, failed in sorted(by_node.items())
    )


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    alone = job is not None and not job.first.processes
    if job is None or not (job.in_rendezvous or alone) or job.world is None or job.world <= len(job.ranks):
        return
    here = [rank for rank in job.ranks if listens_on_loopback(rank)]
    if here and not job.on_one_host and not is_loopback(live.master_of(job)):
        nodes = list(dict.fromkeys(rank.node for rank in here))
        yield live.rank_finding(
            here,
            f"gloo of {live.ranks_called(here).lower()} on {names_of(nodes)} listens on a loopback address, which "
            "other "
            "nodes cannot reach.",
            evidence=(
                f"{rank.node.name}: {rank.called} (pid {rank.process.pid}) listens on {listens_on_loopback(rank)}"
                for rank in here
            ),
            fixes=(
                Fix.on(
                    nodes,
                    "Set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes, then restart the job. "
                    "Confirm with: `ip -br address`.",
                ),
            ),
        )
        return
    group = job.store.default_group if job.store else None
    bad = [member for member in (group.members if group else ()) if is_loopback(member.address)]
    if bad and len({member.host for member in (group.members if group else ())}) > 1:
        names = tuple(dict.fromkeys(member.host for member in bad))
        yield Finding.about(
            names,
            f"{together(names)} advertise{'' if names[1:] else 's'} a loopback address, which other nodes cannot "
            "reach.",
            ranks=(member.rank for member in bad),
            evidence=(f"{m.host}: rank {m.rank} wrote {m.address} port {m.port} into the store" for m in bad[:8]),
            fixes=(
                Fix(
                    f"On {together(names)}, set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes. "
                    "Confirm with: `ip -br address`.",
                    names,
                ),
            ),
            severity="warn" if alone else None,
            matters="the job hangs if another node connects to it" if alone else "",
        )


def listens_on_loopback(rank: live.LiveRank) -> str:
    """Return the loopback address and port at which gloo of the rank listens; else an empty text."""
    begun = any(thread.name == "gloo_tcp_loop" for thread in rank.process.threads)
    listening = (s for s in rank.process.sockets or () if s.state == "LISTEN" and is_loopback(s.local))
    return next((f"{s.local} port {s.local_port}" for s in listening), "") if begun else ""
