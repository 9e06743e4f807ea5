"""network/neighbour-table-full: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import HardwareAddress, Link, MeshFacts, NeighbourTable
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_identity, with_network

CHECK = "network/neighbour-table-full"
PORTS = "mesh/one-way"
GATEWAY = HardwareAddress("10.77.0.1", "52:54:00:00:00:01", "eth0")


def silent(count: int = 4, *, containers: bool = False, **network: object) -> Facts:
    """host1 gets no answer from host2; its table has others. ``containers``: each of one machine, with its network."""
    facts = list(healthy(count))
    if containers:
        facts = [with_identity(one, boot_id="one", netns=f"net:[{i}]") for i, one in enumerate(facts)]
    link = Link(facts[2].key, "10.77.0.12", 40000, ("gloo", "primary"), "no-answer", seconds=3.3)
    facts[1] = replace(facts[1], mesh=MeshFacts(good=count - 2, bad=(link,)))
    facts[1] = with_network(facts[1], **{"hardware_addresses": (GATEWAY,), **network})
    return tuple(facts)


def refused() -> Facts:
    """The kernel of host1 counts what it had no room for."""
    return silent(neighbour_table=NeighbourTable(4, 1024, 17))


def on_one_machine(count: int = 40, **network: object) -> Facts:
    return silent(count, containers=True, **network)


def full_and_well() -> Facts:
    a, b = healthy(2)
    return a, with_network(b, neighbour_table=NeighbourTable(4, 1024, 17))


ROWS = [
    Row("the kernel counted it", refused, ("host1",), together=True),
    Row("40 containers of one machine", on_one_machine, ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("a link is blocked, and the table has room", silent, PORTS),
    LookAlike("20 containers of one machine", lambda: on_one_machine(20), PORTS),
    LookAlike(
        "it was asked, and somebody answered",
        lambda: on_one_machine(hardware_addresses=(HardwareAddress("10.77.0.12", "52:54:00:00:00:02", "eth0"),)),
        PORTS,
    ),
    LookAlike(
        "it was too long to be kept, and somebody is down",
        lambda: on_one_machine(hardware_addresses=(), unanswered=(HardwareAddress("10.77.0.9", "", "eth0"),)),
        PORTS,
    ),
    LookAlike("the table was not read", lambda: on_one_machine(hardware_addresses=()), PORTS),
    LookAlike("it counts, and all links work", full_and_well),
]


def limits(first: int) -> dict[str, dict[str, tuple[str, ...]]]:
    words = " ".join(f"net.ipv4.neigh.default.gc_thresh{n}={first * 2 ** (n - 1)}" for n in (1, 2, 3))
    return {"host1": {"commands": (f"sysctl -w {words}",)}}


CURES = [
    Cure("twice the room", refused, limits(512), only=True),
    Cure("twice what they need", on_one_machine, limits(40 * 39 // 2), only=True),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
