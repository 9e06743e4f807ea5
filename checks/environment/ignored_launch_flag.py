"""torchrun ignores a flag that was given.

What you see
------------
`master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified`, and each node forms a world
of its own.

Why it happens
--------------
--master-addr and --node-rank count for the static rendezvous only; with --rdzv-backend=c10d it is --rdzv-endpoint.

Fix
---
Give --rdzv-endpoint=HOST:PORT with c10d, or leave --rdzv-backend out.

When it is harmless
-------------------
torch before 2.2 printed that line always.

See also
--------
environment/rendezvous-backend-mismatch
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
