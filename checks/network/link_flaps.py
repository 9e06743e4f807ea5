"""A network card loses its link again and again.

## What you see
Kernel log: `eth0: NIC Link is Down`, `Link up`, and again. A job hangs for seconds at a time, or loses its connections
at random: `Connection reset by peer`, `NCCL WARN NET/IB: Got completion ... status=12`.

## Why it happens
A cable, a transceiver or a switch port is bad, or a switch and a card disagree on speed or error correction. If the
link stays down, the node loses all others: the finding is then a FAIL.

## Fix
Drain the node, `scontrol update nodename=gpu01 state=drain reason=link`; then reseat or replace cable and transceiver.

## Confirm with
`ethtool -S eth0 | grep -i -e err -e crc` shows counters that no longer grow, at both ends.

## When it is harmless
One loss of the link in the kernel log is not reported: a cable was plugged in, or its MTU was set. Nor is one loss of
each part of a bond (a switch restart), or a loss of an unused interface. A loss during the check is reported. It is
harmless only if a person switched the card or its switch port just then.

## See also
mesh/packet-loss, network/no-route, store/node-lost
"""

from collections.abc import Iterable, Iterator, Mapping

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    data_interface,
    data_interfaces,
    is_cut_off,
    names_of,
)

SEVERITY = "warn"
MATTERS = "the link may fail during the job"
LOOKS_AT = ("host.kernel_log", "host.interfaces")
ONCE = "plugging in a cable or setting an MTU shows the same once"
OFTEN = 2
"""Number of link losses within the last quarter of an hour of the kernel log from which it is reported."""
LOG = (
    Line(
        ("Link is Down", "Link is down", "Link down", "Link Down", "link down"),
        r"(?<![\w.-])(?P<interface>[a-zA-Z][\w.-]{1,14})(?:\)?:? |\)\])(?:NIC )?"
        r"[Ll]ink (?:is )?[Dd]own\b",
        shows="hint",
        why=ONCE,
    ),
    Line(
        "): link status definitely down",
        r"(?<![\w.-])(?P<bond>[\w.-]{1,15}): \(slave (?P<interface>[\w.-]{1,15})\): link status definitely down",
        shows="hint",
        why=ONCE,
    ),
    Line(  # the same before 5.3
        "definitely down for ",
        r"(?<![\w.-])(?P<bond>[\w.-]{1,15}): link status definitely down for (?:active )?interface "
        r"(?P<interface>[\w.-]{1,15})",
        shows="hint",
        why=ONCE,
    ),
    Line(  # net/sched/sch_generic.c, and from 6.8 on
        "NETDEV WATCHDOG: ",
        r"NETDEV WATCHDOG: (?:\S{1,15} \(\S{1,32}\)|CPU: \d{1,5}): transmit queue \d+ timed out",
        shows="symptom",
        why="its driver resets the card, and the job may have continued",
        told="A network card stopped sending",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    watched = {node: count for node in cluster.nodes if (count := during_check(node))}
    logged = {node: lines for node in cluster.nodes if len(lines := losses(node)) >= OFTEN}
    if down := {node: count for node, count in watched.items() if is_cut_off(node)}:
        yield own_link_down([*down])
    if watched := {node: count for node, count in watched.items() if node not in down}:
        yield finding(watched, logged, f"{times(max(watched.values()))} while this check ran")
    elif logged and not down:
        yield finding(logged, logged, f"{times(max(map(len, logged.values())))} recently")


def finding(bad: Iterable[Node], logged: Mapping[Node, list[str]], how_often: str) -> Finding:
    nodes = list(bad)
    return Finding.about(
        nodes,
        f"The network card of {names_of(nodes)} lost its link {how_often}.",
        evidence=(line for node in nodes for line in evidence(node, logged.get(node, []))),
        fixes=(
            Fix.on(
                node,
                "Drain the node, then reseat or replace cable and transceiver. Confirm with the error counters:",
                commands=(f"ethtool -S {data_interface(node)[0]} | grep -i -e err -e crc",),
            )
            for node in nodes
        ),
    )


def evidence(node: Node, logged: list[str]) -> Iterator[str]:
    if count := during_check(node):
        yield f"{node.name}: {data_interface(node)[0]} went down {times(count)} while this check ran"
    yield from (f"{node.name}: kernel log: {line}" for line in logged[-3:])


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def during_check(node: Node) -> int:
    """Return how often the interface of the job's data, or the one below a VLAN, went down while the check ran."""
    lost = node.host.link_losses or {}
    return max((lost.get(name, 0) for name in data_interfaces(node)), default=0)


def own_link_down(nodes: list[Node]) -> Finding:
    """Return the finding about nodes that lost the others with their own link, and have none now."""
    return Finding.about(
        nodes,
        f"The network card of {names_of(nodes)} lost its link in the middle of the check, and is down.",
        title="The network card of a node went down in the middle of the check",
        severity="fail",
        evidence=(
            f"{node.name}: {data_interface(node)[0]} went down while this check ran, and is down" for node in nodes
        ),
        fixes=(
            Fix.on(
                node,
                "Connect the cable, or switch the card on; then check again. Confirm with: "
                f"`ip -br link show {data_interface(node)[0]}`.",
                commands=(f"ip link set dev {data_interface(node)[0]} up",),
            )
            for node in nodes
        ),
    )


def losses(node: Node) -> list[str]:
    """Return the log lines about the data interface, or about its parts (of a bond, below a VLAN), for the part with
    the most losses. A switch restart takes each part of a bond down once. Empty if that is unknown."""
    names = data_interfaces(node)
    lines = [line for line in node.host.kernel_log or () if line.check == "network/link-flaps"]
    lost: dict[str, list[str]] = {}
    for line in lines:
        if names & {line.values.get(key) for key in ("interface", "bond")}:
            lost.setdefault(line.values.get("interface", ""), []).append(line.text)
    return max(lost.values(), key=len, default=[])
