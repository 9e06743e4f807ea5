"""Processes are ended after some processor time.

What you see
------------
A rank ends in mid-training with signal 24 (SIGXCPU, `CPU time limit exceeded`) or 9, at about the same step each time;
the others then report a closed connection.

Why it happens
--------------
A limit on the processor time of each process (`ulimit -t`, limits.conf, LimitCPU= of a unit), as login nodes have it.
It counts the time of all threads of a process together.

Fix
---
`ulimit -t unlimited`, or start the job where there is no such limit: in a job of the scheduler.

When it is harmless
-------------------
For a job that is shorter.

See also
--------
process/killed-by-scheduler, host/memory-limit
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, names_of

SEVERITY = "warn"
MATTERS = "a rank that has used so much is ended"
LOOKS_AT = ("host.limits",)
LONG = 86_400
"""Seconds; a job that lasts as long has been told of its end."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = {node: most for node in cluster.nodes if (most := node.limits.cpu_seconds) is not None and most < LONG}
    if bad:
        yield Finding.about(
            bad,
            f"Each process on {names_of(list(bad))} is ended after {min(bad.values()):,} s of processor time.",
            evidence=(
                f"{node.name}: the limit on processor time (ulimit -t) is {most:,} s" for node, most in bad.items()
            ),
            fixes=(
                Fix.on(bad, "Take the limit off, in the shell that starts the job.", commands=("ulimit -t unlimited",)),
            ),
        )
