"""nccl/interface-unreachable: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Interface, NcclLog, RankStage
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, judged, with_gpus, with_host, with_plan

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


ROWS = [
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
    Cure(
        "interface",
        lambda: clusters("172.31.0.1", None, warnings={1: UNREACHED.format("172.31.0.1")}),
        {"host0": {"env": {"NCCL_SOCKET_IFNAME": "eth0"}}},
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_what_nccl_says_of_the_group_follows_from_it() -> None:
    facts = clusters("172.31.0.1", None, None, warnings={1: UNREACHED.format("172.31.0.1")})
    findings = judged(*facts).findings
    assert [one.check for one in findings if one.because_of is None] == [CHECK]
