"""Ranks of several nodes share one compile cache.

What you see
------------
`.triton/cache/...: Stale file handle`, `FileNotFoundError: ... .tmp.pid_...` below a triton or inductor cache, on one
rank; the others hang.

Why it happens
--------------
Ranks replace each other's files in a cache on NFS, which has no atomic rename between hosts.

Fix
---
TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR on a local disk, one folder per node.

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
RESTART = "yes"
LOG = (
    Line(
        "Stale file handle",
        shows="symptom",
        why="any file on a network filesystem may be meant",
        unless="triton|inductor",
    ),
    Line(
        ("triton", "inductor"),
        r"(?:\.triton|triton/cache|triton_cache|inductor).{0,300}(?:Stale file handle|Device or resource busy"
        r"|\.tmp\.pid_)|(?:Stale file handle|Errno 116|Errno 16\]).{0,300}(?:triton|inductor)",
    ),
)
