"""host/duplicate-hostname: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import Resolution
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host, with_identity, with_plan, with_variables

CHECK = "host/duplicate-hostname"


def cloned(*addresses: str, names: tuple[str, str] = ("worker", "worker"), **plan: Any) -> Facts:
    """Two nodes with these names, and what each means on its node."""
    nodes = zip(healthy(2), names, addresses or ("10.77.0.10", "10.77.0.11"), strict=True)
    return tuple(
        with_plan(
            with_host(with_identity(one, hostname=name), announced=Resolution(name, (address,))),
            **{"rdzv_backend": "c10d", **plan},
        )
        for one, name, address in nodes
    )


def all_known() -> Facts:
    """The name has both addresses on both: torch's ranks try one after the other."""
    both = Resolution("worker", ("10.77.0.10", "10.77.0.11"))
    return tuple(with_host(one, announced=both) for one in cloned())


def on_one_host() -> Facts:
    zero, one = cloned("127.0.0.1", "127.0.0.1")
    return zero, replace(one, identity=replace(zero.identity, pid=zero.identity.pid + 1))


def with_addresses() -> Facts:
    return tuple(
        with_variables(one, PET_LOCAL_ADDR=address)
        for one, address in zip(cloned(), ("10.77.0.10", "10.77.0.11"), strict=True)
    )


NAMES = ("worker#0", "worker#1")

ROWS = [
    Row("cloned hosts", cloned, NAMES, together=True),
    Row("both are loopback", lambda: cloned("127.0.1.1", "127.0.1.1"), NAMES, together=True),
    Row(
        "one of them in the DNS",
        lambda: cloned("10.77.0.10", "10.77.0.10"),
        ("worker#0", "worker#1"),
        "warn",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("names of their own", lambda: cloned(names=("worker-0", "worker-1"))),
    LookAlike("the static rendezvous", lambda: cloned(rdzv_backend="static")),
    LookAlike("two nodes on one host", on_one_host),
    LookAlike("each has the addresses of both in /etc/hosts", all_known),
    LookAlike("each agent has its address", with_addresses),
]

CURES = [
    Cure(
        "the addresses",
        cloned,
        {"worker#0": {"env": {"PET_LOCAL_ADDR": "10.77.0.10"}}, "worker#1": {"env": {"PET_LOCAL_ADDR": "10.77.0.11"}}},
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
