"""The connection to a host ended during a remote run.

## What you see
`distdoctor check --hosts ...` started the check on a host, but its facts did not return. ssh ended, or the host stopped
responding. The other hosts are judged by their own facts.

## Why it happens
sshd or the host went down, a scheduler ended the session, the host ran out of memory, or the login network failed. If
the check itself failed, its last line has the reason.

A host also ends its part if it receives nothing for 10 s from where the run was started. A login that may run no
commands (nologin shell, forced command in sshd) starts no check.

## Fix
Find the end of the session in that host's logs, then check again: `ssh host1 journalctl -u ssh --since -10min`. Under
Ray these are in `/tmp/ray/session_latest/logs/raylet.out`.

## Confirm with
`ssh -o BatchMode=yes host1 true` exits with status 0.

## When it is harmless
You stopped the run on purpose.

## See also
launch/host-unreachable, store/node-lost
"""

from distdoctor.check_api import Cluster, Finding, Fix, HostCall, Iterator, some_of

SEVERITY = "fail"
PREVENTS = "plan agreed"
INCOMPLETE = True
FOLLOWS = ("barrier/rank-stopped",)
HELD_UP = "from where the run was started"
"""Part of the last line of a host that received nothing for too long."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    lost = [call for call in cluster.calls if call.outcome == "lost"]
    if lost:
        names = tuple(call.host for call in lost)
        yield Finding.about(
            names,
            f"The connection to {some_of(names)} ended before the facts arrived.",
            evidence=(call_evidence(call) for call in lost),
            fixes=(
                Fix(
                    f"Find the end of the session on {some_of(names)} ({sources(lost)}, `dmesg -T`), then check again.",
                    names,
                ),
            ),
        )
    failed = [call for call in cluster.calls if call.outcome == "failed"]
    if unbegun := [call for call in failed if not call.distdoctor]:
        names = tuple(call.host for call in unbegun)
        yield Finding.about(
            names,
            f"The check did not start on {some_of(names)}: the remote command ended without output.",
            title="The check did not start on a host",
            evidence=(call_evidence(call) for call in unbegun),
            fixes=(
                Fix(
                    "Let a login there run commands (confirm with `ssh HOST true`), then run `distdoctor check` there "
                    "after --setup's line and fix its error.",
                    names,
                ),
            ),
        )
    if failed := [call for call in failed if call.distdoctor]:
        names = tuple(call.host for call in failed)
        yield Finding.about(
            names,
            f"The check on {some_of(names)} ended without facts.",
            title="The check on a host ended without facts",
            evidence=(call_evidence(call) for call in failed),
            fixes=(
                Fix(
                    "Run `distdoctor check` on that host, after --setup's line, and fix the error that it prints.",
                    names,
                ),
            ),
        )


def sources(calls: list[HostCall]) -> str:
    """Return where the hosts log the end of such a session."""
    by_ray = all(call.way == "ray" for call in calls)
    return "`grep -i actor /tmp/ray/session_latest/logs/raylet.out`" if by_ray else "`journalctl -u ssh`"


def call_evidence(call: HostCall) -> str:
    output = next((f": {line}" for line in call.said if HELD_UP in line), f": {call.said[-1]}" if call.said else "")
    ended = f"{call.way} ended with status {call.status}" if call.status is not None else "no output, given up"
    return f"{call.host}: {ended} after {call.seconds:.1f} s{output}"
