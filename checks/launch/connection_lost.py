"""The connection to a host ended in the middle of a run from one place.

What you see
------------
`distdoctor check --hosts ...` had started the check on a host, and its facts did not come back: ssh ended, or nothing
was heard of the host any more. The other hosts are judged by what they saw.

Why it happens
--------------
sshd or the host went down, a scheduler ended the session, memory ran out there, or the network over which one logs in
was cut. Where the check itself ended with an error, its last line says why. A host also ends its part where nothing has
come for 10 s from the place that the check was started from: that one, or its line, was held up; the host says so. A
login that may run no commands (its shell is nologin, or sshd forces another command) begins no check.

Fix
---
Look at that host first, then check again.

When it is harmless
-------------------
When somebody stopped it on purpose.

See also
--------
launch/host-unreachable, store/node-lost
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, HostCall, some_of

SEVERITY = "fail"
PREVENTS = "plan agreed"
INCOMPLETE = True
FOLLOWS = ("barrier/rank-stopped",)
HELD_UP = "from where the run was started"
"""In what a host says that has heard nothing for too long."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    lost = [call for call in cluster.calls if call.outcome == "lost"]
    if lost:
        names = tuple(call.host for call in lost)
        yield Finding.about(
            names,
            f"The connection to {some_of(names)} ended before its facts came.",
            evidence=(seen(call) for call in lost),
            fixes=(Fix(f"see what ended it on {some_of(names)} (its log of sshd, dmesg), then check again.", names),),
        )
    failed = [call for call in cluster.calls if call.outcome == "failed"]
    if unbegun := [call for call in failed if not call.distdoctor]:
        names = tuple(call.host for call in unbegun)
        yield Finding.about(
            names,
            f"The check did not begin on {some_of(names)}: what was started there ended, and told nothing.",
            title="The check did not begin on a host",
            evidence=(seen(call) for call in unbegun),
            fixes=(
                Fix(
                    "see whether a login there may run commands at all (`ssh HOST true`), and what `distdoctor check` "
                    "says there, after --setup's line.",
                    names,
                ),
            ),
        )
    if failed := [call for call in failed if call.distdoctor]:
        names = tuple(call.host for call in failed)
        yield Finding.about(
            names,
            f"The check ended on {some_of(names)} by itself, and told no facts.",
            title="The check ended on a host without telling anything",
            evidence=(seen(call) for call in failed),
            fixes=(Fix("see what it says on that host itself: `distdoctor check`, after --setup's line.", names),),
        )


def seen(call: HostCall) -> str:
    said = next((f": {line}" for line in call.said if HELD_UP in line), f": {call.said[-1]}" if call.said else "")
    ended = f"{call.way} ended with status {call.status}" if call.status is not None else "silent, and given up here"
    return f"{call.host}: {ended} after {call.seconds:.1f} s{said}"
