"""A process may not take a descriptor of another.

What you see
------------
`pidfd_getfd: Operation not permitted`.

Why it happens
--------------
The container's seccomp profile or yama's ptrace_scope forbids it; torch needs it to hand CUDA tensors to another
process where its allocator is set to expandable segments.

Fix
---
expandable_segments:False in PYTORCH_CUDA_ALLOC_CONF; or docker run --cap-add=SYS_PTRACE; or sysctl
kernel.yama.ptrace_scope=0.

When it is harmless
-------------------
For a job whose processes hand each other no CUDA tensors, as most that only train: before a job it is told for
information, then, and only where expandable segments are asked for.

See also
--------
process/exception
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, gpus, names_of

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
            f"Processes on {names_of(list(refused))} cannot hand each other CUDA tensors as torch's allocator is set.",
            severity="info",
            evidence=(
                f"{node.name}: pidfd_getfd() of a process that is no child: {error}; {name}={value}"
                for node, ((name, value), error) in refused.items()
            ),
            fixes=(
                fix
                for node, ((name, value), _) in refused.items()
                for fix in (
                    Fix.on(node, "Let the allocator keep to ordinary segments.", env={name: ordinary(value)}),
                    Fix.on(
                        node,
                        "Or let processes do it: docker run --cap-add=SYS_PTRACE, or without a container, as root:",
                        commands=("sysctl -w kernel.yama.ptrace_scope=0",),
                        option=2,
                    ),
                )
            ),
        )


def ordinary(value: str) -> str:
    """The allocator's setting without expandable segments."""
    return re.sub(r"(?i)(expandable_segments *: *)true", r"\1False", value)
