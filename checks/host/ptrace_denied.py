"""A process may not duplicate a file descriptor of another process.

## What you see
`pidfd_getfd: Operation not permitted`.

## Why it happens
The container's seccomp profile or yama's ptrace_scope forbids it. torch needs it to send CUDA tensors to another
process if its allocator uses expandable segments.

## Fix
Turn expandable segments off, `export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False`; or allow the call: `docker run
--cap-add=SYS_PTRACE`, or `sysctl -w kernel.yama.ptrace_scope=0`.

## Confirm with
`sysctl kernel.yama.ptrace_scope` prints 0, or `echo $PYTORCH_CUDA_ALLOC_CONF` has no expandable_segments:True.

## When it is harmless
The job's processes send each other no CUDA tensors, as in most training. Before a job it is therefore only INFO, and
only with expandable segments.

## See also
process/exception
"""

import re

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, gpus, names_of

SEVERITY = "fail"
PREVENTS = "store used"
LOOKS_AT = ("host.account",)
LOG = (
    Line("pidfd_getfd", "pidfd_getfd.{0,80}(?:Operation not permitted|EPERM)"),
    Line("Operation not permitted", "pidfd_(?:open|getfd).{0,80}Operation not permitted"),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    refused = {
        node: (account.allocator, account.descriptors)
        for node in cluster.nodes
        if (account := node.host.account) and account.allocator and account.descriptors and gpus.wants_gpus(node)
    }
    if refused:
        yield Finding.about(
            refused,
            f"Processes on {names_of(list(refused))} cannot send each other CUDA tensors with these allocator "
            "settings.",
            severity="info",
            evidence=(
                f"{node.name}: pidfd_getfd() on a process that is not a child: {error}; {name}={value}"
                for node, ((name, value), error) in refused.items()
            ),
            fixes=(
                fix
                for node, ((name, value), _) in refused.items()
                for fix in (
                    Fix.on(node, "Turn expandable segments off.", env={name: ordinary(value)}),
                    Fix.on(
                        node,
                        "Or allow the call: docker run --cap-add=SYS_PTRACE; without a container, as root:",
                        commands=("sysctl -w kernel.yama.ptrace_scope=0",),
                        option=2,
                    ),
                )
            ),
        )


def ordinary(value: str) -> str:
    """The allocator's setting without expandable segments."""
    return re.sub(r"(?i)(expandable_segments *: *)true", r"\1False", value)
