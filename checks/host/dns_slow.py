"""Name look-ups take seconds.

## What you see
The start is 10 to 90 s slower than it should be, without a log line. Or a warning says that the hostname of the client
socket cannot be retrieved. Each rank waits again.

## Why it happens
A name server of /etc/resolv.conf does not answer. Every look-up goes to it first, by default for 5 s and twice. Every
client of a TCPStore looks up the name of its peer's address, also if MASTER_ADDR is a number. It uses the IPv4 address
mapped into IPv6, which no ordinary line of /etc/hosts answers.

## Fix
Repair the dead name server or remove it from /etc/resolv.conf; until then, answer the look-ups from /etc/hosts: `echo
"::ffff:10.77.0.10 host0-store" >> /etc/hosts`.

## Confirm with
`time getent hosts ::ffff:10.77.0.10` takes less than 0.1 s.

## When it is harmless
The job still starts.

## See also
network/master-unresolvable, host/hostname-unresolvable
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Node,
    Resolution,
    append_hosts_line,
    names_of,
    node0_name,
    parse_address,
)

SEVERITY = "warn"
MATTERS = "every rank would wait for these look-ups when it starts"
LOOKS_AT = ("host", "network.master")
FOLLOWS = ("network/master-unresolvable", "host/hostname-unresolvable", "host/lo-down")
SLOW = 1.5
"""Seconds. A look-up that is answered takes milliseconds, also on a busy machine."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    slow_lookups = {node: slow for node in cluster.nodes if (slow := lookups(node))}
    if not slow_lookups:
        return
    worst = max(look.seconds for slow in slow_lookups.values() for _, look in slow)
    yield Finding.about(
        slow_lookups,
        f"Name look-ups on {names_of(slow_lookups)} take {worst:.1f} s{' or more' if given_up(slow_lookups) else ''}.",
        evidence=(line(node, what, look) for node, slow in slow_lookups.items() for what, look in slow),
        fixes=(
            *(fix for node, slow in slow_lookups.items() for fix in fixes(cluster, node, slow)),
            Fix.on(slow_lookups, "Or repair the silent name server, or remove it from /etc/resolv.conf.", 2),
        ),
        because_of=cause(slow_lookups),
    )


def cause(slow_lookups: dict[Node, list[tuple[str, Resolution]]]) -> str | None:
    """Return the finding that explains the silence, if known.

    A name server of the host's own (systemd-resolved's 127.0.0.53) gets nothing if the host drops all packets to
    itself.
    """
    if any(map(unannounced, slow_lookups)):
        return "host/rendezvous-name"
    own = [node.network.own_port for node in slow_lookups]
    deaf = all(lookup is not None and lookup.outcome == "no-answer" for lookup in own)
    return "mesh/peer-ports-blocked" if deaf and given_up(slow_lookups) else None


def unannounced(node: Node) -> bool:
    """Return whether the name that torchrun advertises for this host got no answer."""
    announced = node.host.announced
    return announced is not None and announced.timed_out and not announced.addresses


def lookups(node: Node) -> list[tuple[str, Resolution]]:
    """The look-ups that took long, each with what it was for."""
    network = node.network
    tried = (("own name", node.host.own_name), ("master", network.master), ("reverse", network.reverse))
    slow = [(what, look) for what, look in tried if look is not None and (look.timed_out or look.seconds > SLOW)]
    # No server is asked about an address: such a look-up waited for the CPU.
    return [(what, look) for what, look in slow if what == "reverse" or parse_address(look.name) is None]


def given_up(slow_lookups: dict[Node, list[tuple[str, Resolution]]]) -> bool:
    return any(look.timed_out for slow in slow_lookups.values() for _, look in slow)


def line(node: Node, what: str, look: Resolution) -> str:
    asked = f"the name of {look.name}" if what == "reverse" else f"{look.name} ({what})"
    if look.timed_out:
        return f"{node.name}: looking up {asked} got no answer in {look.seconds:.1f} s"
    return f"{node.name}: looking up {asked} took {look.seconds:.1f} s"


def fixes(cluster: Cluster, node: Node, slow: list[tuple[str, Resolution]]) -> Iterator[Fix]:
    commands = []
    for what, look in slow:
        if what == "reverse":
            parsed = parse_address(look.name)
            # A name of its own: it must not become another address of node 0's real name.
            if parsed is not None:
                asked = look.name if parsed.version == 6 else f"::ffff:{look.name}"
                commands.append(append_hosts_line(asked, f"{node0_name(cluster, node)}-store"))
        elif look.addresses:
            commands.append(append_hosts_line(look.addresses[0], look.name))
    if commands:
        text = f"Answer these look-ups on {node.name} from /etc/hosts."
        yield Fix.on(node, text, commands=tuple(dict.fromkeys(commands)))
