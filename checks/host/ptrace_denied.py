"""A process may not look into its sibling.

What you see
------------
`pidfd_getfd: Operation not permitted`.

Why it happens
--------------
The container's seccomp profile or yama's ptrace_scope forbids it; CUDA IPC with expandable segments and symmetric
memory need it.

Fix
---
docker run --cap-add=SYS_PTRACE; or sysctl kernel.yama.ptrace_scope=0.

When it is harmless
-------------------
Never.

See also
--------
process/exception
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
LOG = (
    Line(
        "pidfd_getfd",
        "pidfd_getfd.{0,80}(?:Operation not permitted|EPERM)",
    ),
    Line(
        "Operation not permitted",
        "pidfd_(?:open|getfd).{0,80}Operation not permitted",
    ),
)
