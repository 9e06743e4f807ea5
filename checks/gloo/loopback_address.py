"""gloo advertises a loopback address to other hosts.

What you see
------------
init_process_group() with gloo (which the default backend includes) fails on one side with

    connectFullMesh failed with [...] connect [127.0.1.1]:PORT: Connection refused

a different port on each process, while the other side prints nothing for up to 2.5 hours. NCCL alone works, and so
does each node on its own.

Why it happens
--------------
Without GLOO_SOCKET_IFNAME, gloo looks its own host name up and advertises the first address that it can bind. Debian
and Ubuntu write `127.0.1.1 <hostname>` into /etc/hosts, and where the name has no address at all gloo falls back to
127.0.0.1. Neither routes nor MASTER_ADDR are consulted. The other hosts then connect to their own loopback.

Which side connects is settled by number: the larger address connects to the smaller. A single node at 127.0.1.1 in a
10.x network therefore always connects and is never connected to: it works, by luck.

`0.0.0.0` beside the host name is no better: gloo binds and advertises that, and Linux takes it for loopback. `::1` in
place of it fails on both sides at once: `ss1.ss_family == ss2.ss_family. 10 vs 2`, where the others have IPv4.

Fix
---
Name the interface that reaches the other nodes, on each node its own: `export GLOO_SOCKET_IFNAME=eth0`. Or give the
host name its real address in /etc/hosts, in place of the 127.0.1.1 line.

When it is harmless
-------------------
When all ranks are on one host, and when no gloo group is made (backend="nccl"). With only one such node in a network
whose addresses are below 127 the job runs; the finding is then a warning.

See also
--------
host/hostname-loopback, host/hostname-unresolvable, gloo/interface-not-found
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
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
"""What stands right above the rest of gloo's message, where it is broken into lines."""
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
MATTERS = "by luck: gloo connects from the larger address to the smaller, and here nobody connects to this one"
PREVENTS = "peers connected"
# Without a port that is left no address can be bound, and gloo takes loopback.
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
    """Return what these nodes' names lead nowhere for, where that keeps them from the master, too: a check, or a
    milestone."""
    if all(numbered(node) for node in bad):
        return "host/hostname-numeric"
    if all(bare(node) for node in bad):
        return "store reached"
    return "network/master-unresolvable" if all(unread(node) for node in bad) else None


def bare(node: Node) -> bool:
    """Return whether the node has no address but its loopback's, and so no way to the others either."""
    real = (address for one in node.interfaces if one.up and not one.loopback for address in one.addresses)
    numbers = [number for address in real if (number := parse_address(address)) is not None]
    return bool(node.interfaces) and all(number.is_link_local for number in numbers)


def unread(node: Node) -> bool:
    """Return whether /etc/hosts is not read here, so that neither the node's own name nor the master's has an
    address."""
    nameless = node.saw("host") and not node.host.own_name.addresses
    return nameless and node.network.master is not None and not node.master_addresses and not reads_hosts_file(node)


def numbered(node: Node) -> bool:
    """Return whether both the node's own name and the master's are digits only, and the nodes did not meet for that."""
    return node.identity.hostname.isdecimal() and (node.plan.master_addr or "").isdecimal() and not node.meeting.joined


def concerns(cluster: Cluster, node: Node) -> bool:
    """Return whether this node's gloo offers a loopback address to other hosts."""
    return bool(loopbacks(node)) and makes_gloo_group(node) and has_other_hosts(cluster, node)


def loopbacks(node: Node) -> list[str]:
    """The addresses that gloo takes on this node, and at which no other host reaches it."""
    return [address for address in node.gloo_addresses if reaches_no_other(address)]


def fails(cluster: Cluster, node: Node) -> bool:
    """Return whether any other host has to connect to this node's loopback address (see gloo_rules.initiates), or
    has one of the other family: gloo then fails on both sides before either connects (gloo/transport/tcp/device.cc,
    isInitiator). An address that is on no interface fails by itself (there, "Unable to find interface for")."""
    return any(
        not is_loopback(address) or gloo_dials(peer, node, address) or other_family(address, peer)
        for peer in cluster.peers(node)
        for address in loopbacks(node)
    )


def other_family(address: str, peer: Node) -> bool:
    """Return whether gloo has an address of the other family on ``peer``."""
    return bool(peer.gloo_address) and (":" in address) != (":" in (peer.gloo_address or ""))


def evidence(node: Node) -> Iterator[str]:
    if not node.saw("host"):
        return
    choice = node.host.gloo
    if choice and choice.reason == "variable":
        yield f"{node.name}: GLOO_SOCKET_IFNAME={choice.variable} leads gloo to {together(node.gloo_addresses)}"
        return
    resolution = node.host.own_name
    if resolution.addresses:
        yield f"{node.name}: its own name {resolution.name} resolves to {', '.join(resolution.addresses)}"
    else:
        yield f"{node.name}: its own name {resolution.name} has no address ({resolution.error or 'no answer'})"
    yield from hosts_file_unread([node])
    for line in node.host.hosts_lines:
        yield f"{node.name}: /etc/hosts line {line.number}: {' '.join(line.text.split())}"
    for name in misspellings_of(node, "GLOO_SOCKET_IFNAME"):
        yield f"{node.name}: {name} is set, which nothing reads: is that GLOO_SOCKET_IFNAME, misspelled?"
    if choice and choice.reason == "fallback":
        yield (
            f"{node.name}: gloo warns 'Unable to resolve hostname to a (local) address. Using the loopback address as "
            f"fallback' and takes {choice.address}"
        )


def fixes(cluster: Cluster, node: Node) -> Iterator[Fix]:
    interface = primary_interface(node)
    names = (node.name,)
    choice = node.host.gloo
    if interface:
        text = f"On {node.name}, tell gloo the interface that reaches the other nodes."
        yield Fix(text, names, env={"GLOO_SOCKET_IFNAME": interface})
    else:
        text = f"On {node.name}, set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes."
        yield Fix(text, names)
    address = reachable_address(node, cluster)
    if choice and choice.reason == "variable":
        resolved = node.host.own_name.addresses
        if resolved and not is_loopback(resolved[0]):
            yield Fix(
                f"Or unset it on {node.name}: gloo then takes {resolved[0]}.",
                names,
                2,
                env={"GLOO_SOCKET_IFNAME": None},
            )
    elif address and (command := correct_own_hosts_line(node, address)):
        text = f"Or give {node.name} its real address in /etc/hosts."
        yield Fix(text, names, 2, commands=(command,))


def _addresses(nodes: list[Node]) -> str:
    return together(dict.fromkeys(address for node in nodes for address in loopbacks(node)))


def _errors(cluster: Cluster) -> tuple[str, ...]:
    """Return what gloo itself said of a loopback address or of one of another family, one line per node."""
    said = {
        one.node.name: one
        for one in reversed(failed_ranks(cluster, "gloo"))
        if any(words in (one.stage.error or "") for words in ("[127.", "[::1]", "find interface for", "ss_family"))
    }
    return tuple(
        f"{name} rank {one.rank.rank}: {shorten_error(one.stage.error or '')}" for name, one in sorted(said.items())
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
            f"{live.called(here)} on {names_of(nodes)} can only be reached from {names_of(nodes)}: gloo listens on a "
            "loopback address there.",
            evidence=(
                f"{rank.node.name}: {rank.called} (pid {rank.process.pid}) listens on {listens_on_loopback(rank)}"
                for rank in here
            ),
            fixes=(
                Fix.on(
                    nodes,
                    "Set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes, or give the host's own name "
                    "its real address in /etc/hosts; then start again.",
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
            f"{together(names)} told the others a loopback address, at which they cannot reach it.",
            ranks=(member.rank for member in bad),
            evidence=(f"{m.host}: rank {m.rank} wrote {m.address} port {m.port} into the store" for m in bad[:8]),
            fixes=(Fix("Set GLOO_SOCKET_IFNAME there to the interface that reaches the other nodes.", names),),
            severity="warn" if alone else None,
            matters="it works by luck where no other node connects to them, and hangs else" if alone else "",
        )


def listens_on_loopback(rank: live.LiveRank) -> str:
    """Return where gloo listens in a rank, where that is a loopback address; else nothing."""
    begun = any(thread.name == "gloo_tcp_loop" for thread in rank.process.threads)
    found = (s for s in rank.process.sockets or () if s.state == "LISTEN" and is_loopback(s.local))
    return next((f"{s.local} port {s.local_port}" for s in found), "") if begun else ""
