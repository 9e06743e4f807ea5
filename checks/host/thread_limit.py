"""No further thread or process is allowed.

What you see
------------
`OpenBLAS blas_thread_init: pthread_create failed`, `libgomp: Thread creation failed`, `can't start new thread`, `fork:
Resource temporarily unavailable`.

Why it happens
--------------
ulimit -u or the cgroup's pids.max is used up by ranks times BLAS threads; libgomp counts the host's cores, not those of
the container.

Fix
---
OMP_NUM_THREADS=cores/ranks, and raise ulimit -u and the container's --pids-limit.

When it is harmless
-------------------
Never.

See also
--------
host/open-files-limit
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
LOG = (
    Line(
        "blas_thread_init",
        "pthread_create failed",
        unless="Operation not permitted",
    ),
    Line(
        "Thread creation failed",
        "libgomp|OMP: ",
    ),
    Line(
        "start new thread",
        "can.?t start new thread",
    ),
    Line(
        "Resource temporarily unavailable",
        "fork|clone|thread|BlockingIOError|pthread|Errno 11",
    ),
    Line(
        "pthread_create",
        "pthread_create.{0,60}(?:Resource temporarily|failed|EAGAIN)",
        unless="Operation not permitted",
    ),
    Line(
        "pthread_create failed",
        "Operation not permitted",
        shows="symptom",
        why="a container's seccomp profile that does not know clone3 forbids it, too",
    ),
)
