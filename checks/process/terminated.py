"""A signal from outside ended the job.

## What you see
`Received 15 death signal, shutting down workers` on an agent that printed nothing before, `got signal: 15`, exit code
143.

## Why it happens
A scheduler, a kubelet that evicts the pod, an operator that scales down, or a user sent SIGTERM.

## Fix
Remove the sender's reason, then restart the job: raise the limit that the scheduler enforces (`sbatch --time`), or the
pod's resources.

## Confirm with
`sacct -j JOBID --format=State,Reason`, `kubectl describe pod POD`, or `ausearch -m OBJ_PID -ts recent`.

## When it is harmless
When it was intended.

## See also
process/killed-by-scheduler, process/terminal-closed
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
RESTART = "yes"
NEXT = ("the sender of the signal", "sacct -j JOBID; kubectl describe pod POD")
BY_LAUNCHER = "a launcher ends the other ranks with it after one has failed"
LOG = (
    Line.of_end(Ended(("launcher signalled",), signals=(15,)), shows="end"),
    Line.of_end(Ended(("", "sent by launcher"), signals=(15,)), shows="symptom", why=BY_LAUNCHER),
    Line.of_end(
        Ended(("", "launcher signalled"), signals=(2, 3)),
        shows="symptom",
        why="Ctrl-C or a program sent it; the log does not show the reason",
        told="Ctrl-C, or a program that sends SIGINT, ended the job",
        fix="If no user meant it, find the sender: `ausearch -m OBJ_PID -ts recent`. If the job hung before, run "
        "`distdoctor hang` on one of its nodes before you end it.",
    ),
    Line.of_end(Ended(signals=(1, 10, 12, 13)), shows="symptom", why="the log does not show the sender"),
    Line(
        "SIGTERMException",  # of Lightning, at the next step after the signal
        r"^(?P<outside>(?:[\w.]{1,200}\.)?SIGTERMException)\b",
        shows="end",
    ),
    Line(  # vllm/v1/engine/core.py: the program that made the engine ends it with SIGTERM
        "[shutdown] EngineCore: request processing complete",
        r"(?P<leaves>EngineCore: request processing complete)",
        shows="noise",
        why="the engine has done its requests and ends in order",
    ),
    Line("KeyboardInterrupt", shows="symptom", why="a user pressed Ctrl-C; the log does not show the reason"),
    Line(
        ("CancelledError", "RendezvousGracefulExitError"),
        shows="symptom",
        why="an orderly end; the log does not show the sender",
    ),
)
