"""A cluster that is healthy, however odd, and what a check says there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.examine import torchs_own
from tests.lab.harness.launch import Fault, Launch, Style
from tests.lab.harness.runner import Run, run


@dataclass(frozen=True)
class Shape:
    """A cluster that is healthy, and how the job is started on it."""

    name: str
    hosts: int | Sequence[str] = 2
    setup: Fault | None = None
    style: Style = "node"
    nproc: int = 2
    subnets: Sequence[str] = ("10.77.0.0/24",)
    interface: str | Sequence[str] = "eth0"
    master: str | None = None
    peers_in_hosts_file: bool = True
    verdict: Literal["pass", "warn"] = "pass"
    flags: tuple[str, ...] = ("--wait", "30")
    line: tuple[str, ...] = ()
    """Start line of an engine, whose plan is checked."""


def run_shape(shape: Shape) -> tuple[list[str], Run]:
    """Build the shape, run the check there, and give all that is not as it should be, in words, with the run."""
    with Cluster(
        shape.hosts, subnets=shape.subnets, interface=shape.interface, peers_in_hosts_file=shape.peers_in_hosts_file
    ) as cluster:
        launch = Launch(cluster, shape.style, shape.nproc, shape.flags, master=shape.master, line=shape.line)
        if shape.setup is not None:
            shape.setup(launch)
        before = set(cluster.leftovers())
        ended = run(launch, diagnose=False)
        left = [what for what in set(cluster.leftovers()) - before if not torchs_own(what)]
    return [*unhealthy(ended, shape.verdict), *(f"left behind: {what}" for what in sorted(left))], ended


def unhealthy(done: Run, verdict: str = "pass") -> list[str]:
    """Return how a run is not that of a healthy cluster, in words."""
    wrong = []
    for one in done.ended:
        if one.status != 0:
            wrong.append(f"{one.name} ends with status {one.status}")
        if one.report is not None:
            if one.report["verdict"] != verdict:
                wrong.append(f"{one.name} says {one.report['verdict']}")
            wrong += [
                f"{one.name}: {f['id']}: {f['summary']}" for f in one.report["findings"] if f["severity"] == "fail"
            ]
    if not any(one.report for one in done.ended):
        wrong.append("nobody printed a report")
    return wrong
