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

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
RESTART = "yes"
NEXT = (
    "who sent the signal",
    "sacct -j JOBID; kubectl describe pod POD",
)
LOG = (
    Line(
        "death signal",
        r"(?P<outside>Received 15 death signal|Received Signals\.SIGTERM)",
        shows="end",
    ),
    Line(
        "got signal: 15",
        r"(?P<outside>got signal: 15)\b",
        shows="end",
    ),
    Line(
        "SIGTERMException",  # Lightning's, at the next step after the signal
        r"^(?P<outside>(?:[\w.]{1,200}\.)?SIGTERMException)\b",
        shows="end",
    ),
    Line(
        "closing signal",
        r"(?P<by_launcher>closing) signal (?:Signals\.)?SIGTERM",
        shows="symptom",
        why="torchrun ends the other ranks so after one has failed",
    ),
    Line.of_exit_code(
        "(?P<by_launcher>-15|143)",
        shows="symptom",
        why="torchrun ends the other ranks so after one has failed",
    ),
    Line(
        "Signal 15",
        r"Signal (?P<by_launcher>15) \(SIGTERM\) received",
        shows="symptom",
        why="torchrun ends the other ranks so after one has failed",
    ),
    Line(
        "KeyboardInterrupt",
        shows="symptom",
        why="somebody pressed Ctrl-C: why the job had to be ended so is not said",
    ),
    Line(
        ("death signal", "got signal: 2"),
        r"Received 2 death signal|got signal: 2\b",
        shows="symptom",
        why="somebody pressed Ctrl-C: why the job had to be ended so is not said",
    ),
    Line(
        "got signal: 2",
        r"got signal: 2\b",
        shows="symptom",
        why="somebody pressed Ctrl-C: why the job had to be ended so is not said",
    ),
    Line(
        ("CancelledError", "RendezvousGracefulExitError"),
        shows="symptom",
        why="it was ended in an orderly way: by whom is not said",
    ),
    Line(
        "Terminated",
        r"srun: error: (?P<host>[\w.-]{1,64}): tasks? (?P<tasks>[\d,-]{1,200}): Terminated"
        r"|(?:tasks? [\d,-]{1,200}: |line \d+: +\d+ +|^|[\]\\|%\d])Terminated\b(?: {2,}|$)",
        shows="symptom",
        why="it does not say by whom",
    ),
    Line(
        # HPE's mpiexec (PALS), which ends the other ranks so after one has failed; HTCondor; Open MPI's
        (" died from signal ", "l termination (signal ", " exited on signal "),
        r"^(?:(?P<host>[\w.-]{1,253}): )?rank (?P<rank>\d{1,6}) died from signal (?:2|3|15)\b"
        r"|(?:\(0\) Abnormal termination \(| exited on )signal (?:1|2|3|10|12|15)\b",
        shows="symptom",
        why="it does not say by whom",
    ),
    Line(
        "*** SIGTERM",
        r"\*\*\* SIGTERM\b.{0,40} received ",
        shows="symptom",
        why="it does not say by whom",
    ),
    Line.of_exit_code(
        "-2|-3|130|131",
        shows="symptom",
        why="somebody pressed Ctrl-C, or a program did as if: why the job had to be ended so is not said",
    ),
    Line(
        ("terminated with signal SIG", "died with <Signals.SIG"),
        r"(?:process (?P<local_rank>\d{1,4}) )?(?:terminated with signal|died with <Signals\.) ?SIG(?:INT|TERM|QUIT|HUP"
        r"|PIPE|USR)",
        shows="symptom",
        why="it does not say by whom",
    ),
)
