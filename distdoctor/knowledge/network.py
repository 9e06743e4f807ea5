"""Interfaces that other hosts do not share, by their names, and the wording of a connection attempt's result."""

from __future__ import annotations

import re
from os import strerror

from distdoctor.model.facts import Contact

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
