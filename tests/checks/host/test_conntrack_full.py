"""host/conntrack-full: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import KernelLine
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host, with_identity

CHECK = "host/conntrack-full"
OWN, OTHER = "4026532001", "4026532002"


def written(netns: str | None) -> Facts:
    where = f" in netns {netns}" if netns else ""
    values = {"netns": netns} if netns else {}
    line = KernelLine(CHECK, "cause", f"nf_conntrack: table full{where}, dropping packet", 10.0, values)
    zero, one = healthy(2)
    return zero, with_identity(with_host(one, kernel_log=(line,)), netns=f"net:[{OWN}]")


ROWS = [
    Row("the kernel said so", lambda: written(None), ("host1",), "warn", together=True),
    Row("of this container", lambda: written(OWN), ("host1",), "warn", together=True),
]


def as_large_as(entries: str) -> Facts:
    zero, one = written(None)
    return zero, with_host(one, sysctls={"net.netfilter.nf_conntrack_max": entries} if entries else {})


def to(entries: int) -> dict[str, dict[str, tuple[str, ...]]]:
    what = "net.netfilter.nf_conntrack"
    return {"host1": {"commands": (f"sysctl {what}_count {what}_max", f"sysctl -w {what}_max={entries}")}}


CURES = [
    Cure("a small table", lambda: as_large_as("262144"), to(1 << 20)),
    Cure("a large one is not made smaller", lambda: as_large_as("4000000"), to(8_000_000)),
    Cure("its size is not known", lambda: as_large_as(""), to(1 << 20)),
]

LOOK_ALIKES = [LookAlike("of another container", lambda: written(OTHER))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
