"""NCCL's own rules about InfiniBand and RoCE: which ports it takes, and which GID of each.

Source: NCCL src/transport/net_ib (init.cc ``ncclIbInit``, connect.cc ``ncclIbGetGidIndex``) and utils.cc
(``parseStringList``, ``matchIfList``): ports that are not ACTIVE are passed over without a word. NCCL_IB_HCA is a list
of prefixes of ``device[:port]``; ``^`` in front excludes them, ``=`` in front asks for exact names. Where no port is
left, NCCL goes on with sockets. NCCL_IB_GID_INDEX counts on RoCE alone and is taken as it is, whatever the table holds
there; without it NCCL from 2.21 on looks for a routable entry (``ncclUpdateGidIndex``), and earlier ones take entry 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address

from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import Gid, RdmaPort

HCA, DISABLED, GID_INDEX = "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_IB_GID_INDEX"


def switched_off(variables: Mapping[str, str]) -> bool:
    """Whether the settings keep NCCL from InfiniBand and RoCE."""
    net = variables.get("NCCL_NET", "")
    return number(variables.get(DISABLED, "0")) not in (0, None) or bool(net and net.upper() != "IB")


def chosen(ports: Iterable[RdmaPort], variables: Mapping[str, str]) -> list[RdmaPort]:
    """The ports that NCCL_IB_HCA leaves, up or not."""
    text = variables.get(HCA, "")
    excluded = text.startswith("^")
    text = text[1:] if excluded else text
    exact = text.startswith("=")
    wanted = [part.partition(":") for part in (text[1:] if exact else text).split(",") if part]
    if not wanted:
        return list(ports)

    def named(one: RdmaPort) -> bool:
        for name, _, port in wanted:
            same = one.device == name if exact else one.device.startswith(name)
            if same and (number(port) or one.port) == one.port:
                return True
        return False

    return [one for one in ports if named(one) != excluded]


def gid_index(variables: Mapping[str, str]) -> int | None:
    """The entry that NCCL_IB_GID_INDEX asks for; None where NCCL looks for itself."""
    index = number(variables.get(GID_INDEX, ""))
    return index if index is not None and index >= 0 else None


def looked_for(gids: Iterable[Gid], variables: Mapping[str, str]) -> Gid | None:
    """The entry that NCCL 2.21 and later takes of a RoCE port where no index is set, by NCCL's own search: of the
    family and the version that it is told to, else entry 0. None where that is not known or not set."""
    table = sorted(gids, key=lambda gid: gid.index)
    family = "IPv6" if variables.get("NCCL_IB_ADDR_FAMILY") == "AF_INET6" else "IPv4"
    version = variables.get("NCCL_IB_ROCE_VERSION_NUM", "2")
    if variables.get("NCCL_IB_ADDR_RANGE") or not all(gid.version for gid in table):
        return None
    taken = next((gid for gid in table if gid.index == 0), None)
    for gid in table:
        fits = _family(gid) == family
        other = (_family(taken) if taken is not None else "IPv6") != family
        routed = kind_of_address(gid.address) != "link-local"
        poor = taken is None or taken.version != gid.version or kind_of_address(taken.address) == "link-local"
        if gid.index and fits and (other or (routed and poor and gid.version == version)):
            taken = gid
    return taken


def _family(gid: Gid) -> str:
    return "IPv4" if kind_of_address(gid.address) == "IPv4" else "IPv6"


def kind_of_address(address: str) -> str:
    """``IPv4``, ``IPv6`` or ``link-local``: those of one kind can reach each other."""
    parsed = parse_address(address)
    if parsed is None:
        return ""
    return "IPv4" if parsed.version == 4 else "link-local" if parsed.is_link_local else "IPv6"


def subnet(address: str) -> str:
    """The subnet prefix of an InfiniBand GID; empty for what is none."""
    parsed = parse_address(address)
    return str(IPv6Address(int(parsed) >> 64 << 64)) if isinstance(parsed, IPv6Address) else ""


def number(text: str) -> int | None:
    """A whole number as NCCL reads one; None for what is none."""
    try:
        return int(text)
    except ValueError:
        return None
