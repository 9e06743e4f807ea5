"""The clocks of the nodes differ.

## What you see
With torchrun's c10d rendezvous the agents drop nodes again and again (`The node ... has been removed`, or
RendezvousTimeoutError), and the job never starts. Or the node with the fast clock drops all others and trains alone,
with a world size of 1. Otherwise only the order of log lines is wrong.

## Why it happens
One node has no time service, or the service cannot reach its servers. In the c10d rendezvous every node writes its own
time as a heartbeat every 5 s. A node drops another one whose last heartbeat is 15 s old by its own clock.

## Fix
Let chrony, systemd-timesyncd or ntpd set the clocks: `timedatectl set-ntp true`.

## Confirm with
`for h in host0 host1; do ssh $h date +%s.%N; done` prints times less than a second apart.

## When it is harmless
With a static rendezvous or without torchrun the finding is a WARN.

## See also
environment/rendezvous-id-mismatch
"""

import statistics

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, names_of

SEVERITY = "warn"
NEXT = ("the time and the time service of each host, at the same moment", "timedatectl")
LOG = (
    Line(
        ("Rewound credential", "Check for out of sync clocks"),  # slurm's auth_munge.c: made later than it was read
        shows="symptom",
        why="the line below names the sending host, which may not belong to the job",
    ),
    Line(
        "Job credential expired",  # older than slurm.conf's cred_expire, 120 s, by the node's own clock
        shows="symptom",
        why="a node that is minutes late, by its prolog or its load, shows the same",
    ),
)
MATTERS = "log times are wrong, and a c10d rendezvous drops a node whose clock is 15 s off"
LOOKS_AT = ("mesh", "mesh.clock_offset")
NOTICED = 5.0
DEAD = 15.0
"""Seconds: keep-alive interval (5 s) times the attempts (3) of torch's dynamic rendezvous."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    clocks = {node.name: clock for node in cluster.nodes if (clock := ahead(cluster, node)) is not None}
    if len(clocks) < 2:
        return
    spread = max(clocks.values()) - min(clocks.values()) - slack(cluster)
    if spread <= NOTICED:
        return
    usual = statistics.median_low(clocks.values())
    off = [name for name, clock in clocks.items() if abs(clock - usual) > NOTICED]
    sure = len(clocks) - len(off) > len(off)
    blamed = [node for node in cluster.nodes if node.name in clocks and (not sure or node.name in off)]
    yield Finding.about(
        blamed,
        f"The clocks of {names_of(blamed)} differ{' from the others' if sure else ''} by {spread:.0f} s.",
        unsure=not sure,
        severity="fail" if spread > DEAD and cluster.plan.rdzv_backend == "c10d" else "warn",
        evidence=(line(name, clock) for name, clock in clocks.items()),
        fixes=fixes(blamed),
    )


def fixes(blamed: list[Node]) -> Iterator[Fix]:
    without = [node for node in blamed if node.host.account is not None and node.host.account.systemd is False]
    if others := [node for node in blamed if node not in without]:
        yield Fix.on(others, "Let the time service set the clock, as root.", commands=("timedatectl set-ntp true",))
    if without:
        text = "Let a time service (chronyd, ntpd) set the clock; for a container, on its machine."
        yield Fix.on(without, text)
    yield Fix.on(blamed, "Or, if chrony runs already, step the clock now.", 2, commands=("chronyc -a makestep",))


def ahead(cluster: Cluster, node: Node) -> float | None:
    """Seconds by which this node's clock is ahead of node 0's; None where it was not compared."""
    if node.mesh.clock_offset is not None:
        return -node.mesh.clock_offset
    return 0.0 if node is cluster.node0 else None


def slack(cluster: Cluster) -> float:
    """Return how far off the comparison may be."""
    return max((n.mesh.clock_error or 0.0 for n in cluster.nodes), default=0.0)


def line(name: str, clock: float) -> str:
    if clock == 0:
        return f"{name}: the reference clock"
    return f"{name}: {abs(clock):.1f} s {'ahead of' if clock > 0 else 'behind'} node 0"
