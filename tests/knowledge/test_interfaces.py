"""One rule for interfaces that other hosts do not share: what the probe refuses, no fix offers."""

from __future__ import annotations

import pytest

from distdoctor.check_api.nodes import reachable_address
from distdoctor.knowledge.network import is_bridge, is_virtual
from distdoctor.model.cluster import build
from distdoctor.model.facts import AddressChoice, Interface, Resolution
from distdoctor.probes.network import interfaces as probed_interfaces
from tests.facts_builder import healthy, judged, node, with_host, with_network

BRIDGES = ("docker0", "br-1a2b3c", "veth12ab", "virbr0", "lxcbr0", "lxdbr0", "podman0")
NETWORKS = ("cni0", "flannel.1", "cali9f", "kube-ipvs0", "tailscale0", "zt5u4", "vmnet8", "cilium_host", "nodelocaldns")
CNI = ("vxlan.calico", "weave", "antrea-gw0", "ovn-k8s-mp0", "eni0123456789a", "gke0123456789a", "azv1b2")
TUNNELS = (*NETWORKS, *CNI, "tun0", "tap1", "wg0", "dummy0", "ppp0", "ipsec0")
REAL = (
    "eth0",
    "enp0s31f6",
    "ib0.8002",
    "bond0",
    "bond0.100",
    "wlx00c0ca",
    "vlan100",
    "ens5",
    "hsn0",
    "vxlan0",
    "enic0",
)
LO = Interface("lo", ("127.0.0.1",), (8,), loopback=True)


@pytest.mark.parametrize("name", [*BRIDGES, *TUNNELS, *REAL])
def test_the_kinds(name: str) -> None:
    assert (is_bridge(name), is_virtual(name)) == (name in BRIDGES, name not in REAL)


@pytest.mark.parametrize("name", [*BRIDGES, *TUNNELS])
def test_probe_and_fixes_take_the_same_address(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Beside a real interface the other one is not taken; alone, a bridge is offered by neither, a VPN by both."""
    monkeypatch.setattr(probed_interfaces, "default_route_interfaces", set)
    other, eth0 = Interface(name, ("10.9.0.1",), (24,)), Interface("eth0", ("10.77.0.10",), (24,))
    for interfaces, expected in (((other, eth0), "10.77.0.10"), ((other,), None if name in BRIDGES else "10.9.0.1")):
        probed = probed_interfaces.reachable_address((LO, *interfaces))
        facts = with_network(with_host(node("host0", 0), interfaces=(LO, *interfaces)), primary=None)
        offered = reachable_address(build([facts]).nodes[0])
        assert ((probed.address if probed else None), offered) == (expected, expected)


def test_a_bridge_that_is_the_way_out_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As OpenStack's br-ex: the host's own address lies on it."""
    monkeypatch.setattr(probed_interfaces, "default_route_interfaces", lambda: {"br-ex"})
    found = probed_interfaces.reachable_address((LO, Interface("br-ex", ("10.77.0.10",), (24,))))
    assert found is not None and found.interface == "br-ex"


def test_gloo_is_not_told_to_take_the_bridge_of_containers() -> None:
    """The only address of the right family is docker0's: it is named by no fix."""
    a, b = healthy(2)
    interfaces = (LO, Interface("docker0", ("172.17.0.1",), (16,)), Interface("eth0", ("fd77::b",), (64,)))
    gloo = AddressChoice("fd77::b", "eth0", "hostname")
    b = with_host(b, own_name=Resolution("host1", ("fd77::b",)), interfaces=interfaces, gloo=gloo)
    (finding,) = [f for f in judged(a, b).findings if f.check == "network/ipv6-mismatch"]
    assert [fix.env for fix in finding.fixes] == [{}]
