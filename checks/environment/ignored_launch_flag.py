"""torchrun ignores a flag that was given.

What you see
------------
`master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified`, and each node forms a world
of its own.

Why it happens
--------------
--master-addr and --node-rank count for the static rendezvous only; with --rdzv-backend=c10d it is --rdzv-endpoint,
which is localhost where it is not given.

`distdoctor check` with the same flags says so before the job: it does not start, and names the flag to give. Where the
rendezvous is set by a variable (PET_RDZV_BACKEND), which may be left over, that is environment/invalid-variable. A log
only shows torchrun's line, and proves nothing.

Fix
---
Give --rdzv-endpoint=HOST:PORT with c10d, or leave --rdzv-backend out.

When it is harmless
-------------------
torch before 2.2 printed that line always.

See also
--------
environment/rendezvous-backend-mismatch, environment/invalid-variable
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = (
    "torchrun's whole command line",
    "",
)
LOG = (
    Line(
        "master_addr is only used for static",
        shows="noise",
        why="torch before 2.2 printed it always",
    ),
)
