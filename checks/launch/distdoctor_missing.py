"""A host of a run from one place has no distdoctor.

What you see
------------
`distdoctor check --hosts ...` gets to a host, and finds no distdoctor there. The other hosts are checked all the same.

Why it happens
--------------
It is installed in an environment that a plain `ssh HOST command` does not activate, or only on some hosts. A host that
sees the same files as this one uses the same environment; another one is searched for distdoctor on its PATH.

Fix
---
Install the same version there, or say with --setup what activates the job's environment, as `module load` or `source
.../activate`.

When it is harmless
-------------------
Never: nothing was seen of that host.

See also
--------
launch/host-unreachable, environment/version-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, HostCall, some_of

SEVERITY = "fail"
PREVENTS = "plan agreed"
INCOMPLETE = True


def judge(cluster: Cluster) -> Iterator[Finding]:
    absent = [call for call in cluster.calls if call.outcome == "absent"]
    if absent:
        names = tuple(call.host for call in absent)
        yield Finding.about(
            names,
            f"There is no distdoctor on {some_of(names)}, neither where it is here nor on the PATH.",
            evidence=(seen(call) for call in absent),
            fixes=(
                Fix(
                    "say what activates the job's environment there: --setup 'source ENVIRONMENT/bin/activate'.", names
                ),
                Fix("or install this version there, into the environment of the job.", names, option=2),
            ),
        )


def seen(call: HostCall) -> str:
    nothing = "nothing of that name on its PATH, and its python3 has none"
    return f"{call.host}: {call.said[-1] if call.said else nothing}"
