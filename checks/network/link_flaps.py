"""A network card loses its link again and again.

What you see
------------
Kernel log: `eth0: NIC Link is Down`, `Link up`, and again. A job that hangs for seconds at a time, or loses its
connections at random: `Connection reset by peer`, `NCCL WARN NET/IB: Got completion ... status=12`.

Why it happens
--------------
A cable, a transceiver or a port of the switch is bad; or a switch and a card do not agree on speed or error correction.

Fix
---
Take the node out of use; reseat or replace cable and transceiver, and look at the error counters of both ends.

When it is harmless
-------------------
One loss of the link, as when a cable is plugged in, or its MTU is set, is not reported; nor is one of each part of a
bond, as when their switch is started anew, or of an interface that the job does not use.

See also
--------
mesh/packet-loss, network/no-route
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, data_interface, names_of

SEVERITY = "warn"
MATTERS = "it is up now, and may go down under the job"
LOOKS_AT = ("host.kernel_log", "host.interfaces")
ONCE = "a cable that is plugged in, or an MTU that is set, shows the same once"
OFTEN = 2
"""How many times the link was lost in the part of the log that is read, a quarter of an hour."""
LOG = (
    Line(
        ("Link is Down", "Link is down", "Link down", "Link Down", "link down"),
        r"(?P<interface>[a-zA-Z][\w.-]{1,14})(?:\)?:? |\)\])(?:NIC )?"
        r"[Ll]ink (?:is )?[Dd]own\b",
        shows="hint",
        why=ONCE,
    ),
    Line(
        "): link status definitely down",
        r"(?P<bond>[\w.-]{1,15}): \(slave (?P<interface>[\w.-]{1,15})\): link status definitely down",
        shows="hint",
        why=ONCE,
    ),
    Line(  # the same before 5.3
        "definitely down for ",
        r"(?P<bond>[\w.-]{1,15}): link status definitely down for (?:active )?interface (?P<interface>[\w.-]{1,15})",
        shows="hint",
        why=ONCE,
    ),
    Line(  # net/sched/sch_generic.c, and from 6.8 on
        "NETDEV WATCHDOG: ",
        r"NETDEV WATCHDOG: (?:\S{1,15} \(\S{1,32}\)|CPU: \d{1,5}): transmit queue \d+ timed out",
        shows="symptom",
        why="its driver sets the card up anew, and the job may have gone on",
        told="A network card stopped sending",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = {node: lines for node in cluster.nodes if len(lines := losses(node)) >= OFTEN}
    if bad:
        yield Finding.about(
            bad,
            f"The network card of {names_of(list(bad))} lost its link {max(map(len, bad.values()))} times of late.",
            evidence=(f"{node.name}: the kernel's log: {line}" for node, lines in bad.items() for line in lines[-3:]),
            fixes=(
                Fix.on(
                    node,
                    "Take the node out of use; look at cable and transceiver, and at the errors that both ends count.",
                    commands=(f"ethtool -S {data_interface(node)[0]} | grep -i -e err -e crc",),
                )
                for node in bad
            ),
        )


def losses(node: Node) -> list[str]:
    """The lines about the interface that the data of the job takes, or what that is made of (parts of a bond, the one
    below a VLAN), of that which lost its link most often: where the switch is started anew, each part of a bond does
    once. None where that is not known."""
    name = data_interface(node)[0] or ""
    names = {name, name.partition(".")[0]} - {""}
    lines = [line for line in node.system.kernel_log or () if line.check == "network/link-flaps"]
    lost: dict[str, list[str]] = {}
    for line in lines:
        if names & {line.values.get(one) for one in ("interface", "bond")}:
            lost.setdefault(line.values.get("interface", ""), []).append(line.text)
    return max(lost.values(), key=len, default=[])
