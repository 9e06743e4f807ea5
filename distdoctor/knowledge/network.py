"""Interfaces that other hosts do not share, by their names; the time that a limited rate of connections costs; and the
wording of a connection attempt's result."""

from __future__ import annotations

import math
import re
from os import strerror

from distdoctor.model.facts import Contact, FirewallChain

_BRIDGE = re.compile(r"docker|br-|veth|virbr|lxcbr|lxdbr|podman")
_VIRTUAL = re.compile(
    r"docker|br-|veth|virbr|lxc|lxd|cni|flannel|cali|kube|tun|tap|wg|tailscale|zt|podman|vmnet|dummy|ppp|ipsec"
    r"|cilium_|nodelocaldns$|vxlan\.calico$|weave$|antrea-|ovn-k8s-|ovs-system$|eni[0-9a-f]{11}$|gke[0-9a-f]{11}$|azv"
)


def is_bridge(interface: str | None) -> bool:
    """Return whether an interface of this name joins containers and virtual machines of this host, not other hosts.

    Container networks over several hosts (flannel, cilium) and VPNs have other names.
    """
    return bool(_BRIDGE.match(interface or ""))


def is_virtual(interface: str | None) -> bool:
    """Return whether it is a bridge, or leads into a VPN or a container network: the last choice to offer to other
    hosts."""
    return bool(_VIRTUAL.match(interface or ""))


GIVES_UP = 127.0
"""Seconds after which Linux ends an attempt to connect (tcp_syn_retries = 6 in the kernel's ip-sysctl.rst); gloo and
TCPStore leave it to the kernel."""


UNNOTICED = 2.0
"""Seconds: a SYN that is dropped is sent again after 1 s."""


def start_seconds(rule: str, ranks: int, local: int) -> float | None:
    """Return the seconds that a gloo job's connections take to pass a rule of node 0 that limits their rate: 0 if that
    is not noticed, infinite if the kernel ends some before, None if the rule does not show its rate.

    Each of the ``ranks`` connects to the store; each of the ``local`` ranks of node 0 connects with every other; and a
    rule may count both packets of a connection within node 0. Measured with plain torch at 1/second: 2 x 2 ranks 13 s,
    3 x 2 ranks 21 s; at 30/minute 31 and 43 s.
    """
    rate = FirewallChain.connections_per_second(rule)
    if rate is None:
        return None
    seconds = (2 * ranks + ranks * local) / rate if rate else math.inf
    return 0.0 if seconds < UNNOTICED else seconds if seconds <= GIVES_UP else math.inf


def contact_text(contact: Contact | None) -> str:
    """Return the result of an attempt to connect, for a sentence."""
    if contact is None:
        return "was never tried"
    shown = contact.outcome in ("error", "unreachable", "rejected")
    error = f" ({strerror(contact.errno)})" if contact.errno and shown else ""
    outcomes = {
        "open": "was open",
        "refused": "refused the connection",
        "reset": "reset the connection",
        "no-answer": f"gave no answer in {contact.seconds:.1f} s" if contact.seconds else "gave no answer",
        "rejected": "was rejected by a firewall",
        "unreachable": "was unreachable",
        "wrong-node": "was answered by another process than the one meant",
        "stalled": "takes small payloads and never a large one",
        "error": "gave an error",
    }
    return f"{contact.address}:{contact.port} {outcomes[contact.outcome]}{error}"
