"""The job was ended from outside.

What you see
------------
`Received 15 death signal, shutting down workers` on an agent that printed nothing before, `got signal: 15`, exit code
143.

Why it happens
--------------
Somebody or something sent SIGTERM: a scheduler, a kubelet that evicts the pod, an operator that scales down, a user.

Fix
---
Find out who sent it: the scheduler's record of the job (sacct, kubectl describe pod), the host's audit log.

When it is harmless
-------------------
Where it was meant.

See also
--------
process/killed-by-scheduler, process/terminal-closed
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
RESTART = "yes"
NEXT = ("who sent the signal", "sacct -j JOBID; kubectl describe pod POD")
BY_LAUNCHER = "a launcher ends the other ranks so after one has failed"
LOG = (
    Line.of_end(Ended(("launcher signalled",), signals=(15,)), shows="end"),
    Line.of_end(Ended(("", "sent by launcher"), signals=(15,)), shows="symptom", why=BY_LAUNCHER),
    Line.of_end(
        Ended(("", "launcher signalled"), signals=(2, 3)),
        shows="symptom",
        why="somebody pressed Ctrl-C, or a program did as if: why the job had to be ended so is not said",
    ),
    Line.of_end(Ended(signals=(1, 10, 12, 13)), shows="symptom", why="it does not say by whom"),
    Line(
        "SIGTERMException",  # Lightning's, at the next step after the signal
        r"^(?P<outside>(?:[\w.]{1,200}\.)?SIGTERMException)\b",
        shows="end",
    ),
    Line(
        "KeyboardInterrupt", shows="symptom", why="somebody pressed Ctrl-C: why the job had to be ended so is not said"
    ),
    Line(
        ("CancelledError", "RendezvousGracefulExitError"),
        shows="symptom",
        why="it was ended in an orderly way: by whom is not said",
    ),
)
