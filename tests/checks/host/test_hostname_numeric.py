"""host/hostname-numeric: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import AddressChoice, Bind, Resolution
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.facts_builder import (
    PORT,
    healthy,
    met,
    node,
    outside,
    waited_in_vain,
    with_gpus,
    with_host,
    with_identity,
    with_master,
    with_network,
    with_plan,
)

CHECK = "host/hostname-numeric"


def numeric_master() -> Facts:
    a, b = (
        outside(with_master(one, "6841231", resolved=["0.104.99.143"]), "unreachable", errno=113)
        for one in healthy(2, declared=True)
    )
    a, b = (
        with_host(with_identity(one, hostname=name), gloo=AddressChoice("127.0.0.1", "lo", "fallback"))
        for one, name in ((a, "6841231"), (b, "6841232"))
    )
    return with_network(a, bind=Bind(True, PORT)), b


def numeric_nccl() -> Facts:
    """With NCCL alone nothing looks the name up, but what asks for it gets a wrong address."""
    a, b = (with_gpus(with_plan(one, backend="nccl"), 2) for one in healthy(2))
    b = with_host(
        b, own_name=Resolution("6841231", ("0.104.99.143",)), gloo=AddressChoice("127.0.0.1", "lo", "fallback")
    )
    b = replace(b, identity=replace(b.identity, hostname="6841231"))
    strip = tuple(replace(r, stages=()) for r in a.ranks), tuple(replace(r, stages=()) for r in b.ranks)
    return tuple(replace(one, ranks=ranks, stages=one.stages[:2]) for one, ranks in zip((a, b), strip, strict=True))


ROWS = [
    Row("MASTER_ADDR is a number", numeric_master, ("6841231", "6841232")),
    Row("own name is a number, NCCL", numeric_nccl, ("6841231",), "warn", together=True),
]


def zero() -> Facts:
    a, b = (outside(with_master(one, "0", resolved=["0.0.0.0"]), "refused") for one in healthy(2, declared=True))
    return waited_in_vain(a), waited_in_vain(b)


LOOK_ALIKES = [
    LookAlike("0 is each host itself", zero, "network/master-not-node0"),
    LookAlike("digits and a domain", lambda: met(node("6841231.lab", 0), node("6841232.lab", 1))),
]

CURES = [
    Cure(
        "node 0's address",
        numeric_master,
        on_each(
            ("6841231", "6841232"), {"flags": {"--master-addr": "10.77.0.10"}, "env": {"GLOO_SOCKET_IFNAME": "eth0"}}
        ),
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
