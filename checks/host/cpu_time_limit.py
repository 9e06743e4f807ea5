"""The kernel ends processes after a limit of CPU time.

## What you see
A rank ends in mid-training with signal 24 (SIGXCPU, `CPU time limit exceeded`) or 9, at about the same step each time.
The others then report a closed connection.

## Why it happens
Each process has a limit of CPU time (`ulimit -t`, limits.conf, LimitCPU= of a unit), as on login nodes. The time of all
threads of a process counts.

## Fix
Remove the limit, `ulimit -t unlimited`, or run the job where no limit applies: in a job of the scheduler.

## Confirm with
`ulimit -t` prints unlimited in the shell that starts the job.

## When it is harmless
The job is shorter than the limit.

## See also
process/killed-by-scheduler, host/memory-limit
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, names_of

SEVERITY = "warn"
MATTERS = "the kernel ends a rank that has used so much CPU time"
LOOKS_AT = ("host.limits",)
LONG = 86_400
"""Seconds from which a limit is left unreported."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = {node: most for node in cluster.nodes if (most := node.limits.cpu_seconds) is not None and most < LONG}
    if bad:
        yield Finding.about(
            bad,
            f"The kernel ends each process on {names_of(list(bad))} after {min(bad.values()):,} s of CPU time.",
            evidence=(f"{node.name}: the limit on CPU time (ulimit -t) is {most:,} s" for node, most in bad.items()),
            fixes=(
                Fix.on(bad, "Remove the limit in the shell that starts the job.", commands=("ulimit -t unlimited",)),
            ),
        )
