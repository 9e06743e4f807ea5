"""A host of a remote run has no distdoctor.

## What you see
`distdoctor check --hosts ...` reaches a host, but finds no distdoctor there. The other hosts are still checked.

## Why it happens
distdoctor is installed in an environment that a plain `ssh HOST command` does not activate, or only on some hosts. A
host with the same files as this one uses the same environment; other hosts need distdoctor on their PATH.

Under Ray the workers' Python needs distdoctor: the one that `ray start` ran in.

## Fix
Activate the job's environment with `--setup 'source /opt/venv/bin/activate'`, or install the same version there (`pip
install .` in its source).

## Confirm with
`ssh host1 'source /opt/venv/bin/activate; distdoctor --version'` prints the same version as here.

## When it is harmless
Never: distdoctor has no facts of that host.

## See also
launch/host-unreachable, environment/version-mismatch
"""

from distdoctor.check_api import Cluster, Finding, Fix, HostCall, Iterator, some_of

SEVERITY = "fail"
PREVENTS = "plan agreed"
INCOMPLETE = True


def judge(cluster: Cluster) -> Iterator[Finding]:
    absent = [call for call in cluster.calls if call.outcome == "absent"]
    if absent:
        names = tuple(call.host for call in absent)
        yield Finding.about(
            names,
            f"{some_of(names)} {'has' if len(names) == 1 else 'have'} no distdoctor, neither at this host's path nor "
            "on "
            "the PATH.",
            evidence=(call_evidence(call) for call in absent),
            fixes=fixes(names, by_ray=all(call.way == "ray" for call in absent)),
        )


def fixes(names: tuple[str, ...], by_ray: bool) -> tuple[Fix, ...]:
    if by_ray:
        return (
            Fix("Install this version into the Python of Ray's workers there, or into the image of its pods.", names),
        )
    return (
        Fix("Activate the job's environment there: --setup 'source ENVIRONMENT/bin/activate'.", names),
        Fix("Or install this version there, into the environment of the job.", names, option=2),
    )


def call_evidence(call: HostCall) -> str:
    nothing = "not on its PATH, and not in its python3"
    return f"{call.host}: {call.said[-1] if call.said else nothing}"
