"""The host removed the job's shared memory.

What you see
------------
`could not unlink the shared memory file /torch_...: No such file or directory`, `FileNotFoundError` of a SemLock.

Why it happens
--------------
systemd-logind with RemoveIPC=yes removes all shared memory of a user when the last login session ends, as with ssh
launchers.

Fix
---
loginctl enable-linger USER, or RemoveIPC=no in logind.conf.

When it is harmless
-------------------
At the end of a job.

See also
--------
host/shared-memory-small
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
RESTART = "yes"
NEXT = (
    "logind's setting",
    "grep -r RemoveIPC /etc/systemd/logind.conf*",
)
LOG = (
    Line(
        "could not unlink the shared memory file",
        shows="symptom",
        why="a process that was killed leaves the same",
    ),
)
