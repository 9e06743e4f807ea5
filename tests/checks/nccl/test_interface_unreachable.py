"""nccl/interface-unreachable: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import AddressChoice, Interface, Link, MeshFacts, NcclLog, RankStage
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.facts_builder import healthy, judged, with_gpus, with_host, with_plan, with_variables

CHECK = "nccl/interface-unreachable"
UNREACHED = "misc/socket.cc:596 NCCL WARN socketStartConnect: connect to {}<45383> failed : Network is unreachable"


def clusters(*cards: str | None, warnings: dict[int, str] | None = None, status: str = "failed") -> Facts:
    """Hosts with eth0 in common, each with an eno1 of this address, if any; what NCCL warns of, by the host."""
    facts = []
    for number, (one, address) in enumerate(zip(healthy(len(cards)), cards, strict=True)):
        one = with_plan(with_gpus(one, 2), backend="nccl")
        assert one.host is not None
        if address is not None:
            one = with_host(one, interfaces=(*one.host.interfaces, Interface("eno1", (address,), (24,))))
        warned = (warnings or {}).get(number)
        said = NcclLog(
            "2.28.9",
            "eth0:10.0.0.1",
            "Socket",
            ("eth0:10.0.0.1", f"eno1:{address}"),
            warnings=(warned,) if warned else (),
        )
        stage = RankStage("nccl", status if warned else "ok", error="DistBackendError: ncclSystemError")  # type: ignore[arg-type]
        ranks = tuple(replace(rank, nccl=said, stages=(*rank.stages[:-1], stage)) for rank in one.ranks)
        facts.append(replace(one, ranks=ranks))
    return tuple(facts)


def named(status: str) -> Facts:
    """NCCL finds its ranks by an eno1 of host1's that host0 has no way to; how its group came out."""
    a, b = (with_plan(with_gpus(one, 2), backend="nccl") for one in healthy(2))
    assert b.host is not None
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("eno1", ("10.55.1.11",), (24,))))
    b = with_host(b, nccl=AddressChoice("10.55.1.11", "eno1", "variable", "eno1"))
    bad = Link(b.key, "10.55.1.11", 40001, ("nccl",), "unreachable", 101)
    error = None if status == "ok" else "ended after 32 s: it did not return"
    stage = RankStage("nccl", status, error=error)  # type: ignore[arg-type]
    a, b = (replace(one, ranks=tuple(replace(r, stages=(*r.stages[:-1], stage)) for r in one.ranks)) for one in (a, b))
    return replace(a, mesh=MeshFacts(good=1, bad=(bad,))), b


def twice(network: str) -> Facts:
    """eno1 has one address on both hosts, which NCCL takes as well as eth0; its group hangs."""
    facts = []
    for one in clusters("172.31.0.1", "172.31.0.1"):
        stage = RankStage("nccl", "failed", error="ended after 32 s: it did not return", detail={"killed": True})
        said = NcclLog("2.28.9", "eth0:10.0.0.1", network, ("eth0:10.0.0.1", "eno1:172.31.0.1"))
        facts.append(
            replace(one, ranks=tuple(replace(r, nccl=said, stages=(*r.stages[:-1], stage)) for r in one.ranks))
        )
    return tuple(facts)


FAMILY = "NCCL_SOCKET_FAMILY"


def of_other_family() -> Facts:
    """eth0 has IPv4 alone, and NCCL, which is to use IPv6, takes the loopback interface on both: seen on an H100 with
    the families the other way round."""
    facts = []
    for one in twice("Socket"):
        said = NcclLog("2.28.9", "lo:::1", "Socket", ("lo:::1",))
        one = with_variables(one, **{FAMILY: "AF_INET6"})
        facts.append(replace(one, ranks=tuple(replace(rank, nccl=said) for rank in one.ranks)))
    return tuple(facts)


ROWS = [
    Row("both take loopback, for their family", of_other_family, ("host0", "host1"), together=True),
    Row("the card that is named is its own", lambda: named("failed"), ("host1",), together=True),
    Row("one address on both", lambda: twice("Socket"), ("host0", "host1"), together=True),
    Row(
        "a card of its own on each host",
        lambda: clusters(
            "172.31.0.1", "172.31.1.1", warnings={0: UNREACHED.format("172.31.1.1"), 1: UNREACHED.format("172.31.0.1")}
        ),
        ("host0", "host1"),
        together=True,
    ),
    Row(
        "a card of its own on one host",
        lambda: clusters("172.31.0.1", None, None, warnings={1: UNREACHED.format("172.31.0.1")}),
        ("host0",),
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("one address on both, and InfiniBand", lambda: twice("IB"), instead="nccl/init-failed"),
    LookAlike("a card of its own that NCCL does not miss", lambda: clusters("172.31.0.1", "172.31.1.1")),
    LookAlike(
        "a peer that has ended",
        lambda: clusters(
            None,
            None,
            warnings={0: UNREACHED.replace("Network is unreachable", "Connection refused").format("10.0.0.2")},
        ),
        instead="nccl/init-failed",
    ),
]

CURES = [
    Cure("a family that eth0 does not have", of_other_family, on_each(("host0", "host1"), {"env": {FAMILY: None}})),
    Cure(
        "interface",
        lambda: clusters("172.31.0.1", None, warnings={1: UNREACHED.format("172.31.0.1")}),
        {"host0": {"env": {"NCCL_SOCKET_IFNAME": "eth0"}}},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_link_that_nccl_does_without_is_none_of_its() -> None:
    assert CHECK not in [one.check for one in judged(*named("ok")).findings]


def test_that_all_to_all_alone_fails_is_told() -> None:
    facts = clusters("172.31.0.1", None, warnings={1: UNREACHED.format("172.31.0.1")})
    detail = {"failed": "all_to_all", "passed": ["all_reduce", "all_gather"]}
    one = facts[1]
    ranks = tuple(replace(r, stages=(*r.stages[:-1], replace(r.stages[-1], detail=detail))) for r in one.ranks)
    (found,) = [f for f in judged(facts[0], replace(one, ranks=ranks)).findings if f.check == CHECK]
    assert "all_to_all, send() and recv() fail, all_reduce and all_gather pass" in found.summary


def test_what_nccl_says_of_the_group_follows_from_it() -> None:
    facts = clusters("172.31.0.1", None, None, warnings={1: UNREACHED.format("172.31.0.1")})
    findings = judged(*facts).findings
    assert [one.check for one in findings if one.because_of is None] == [CHECK]
