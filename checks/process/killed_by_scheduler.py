"""The scheduler ended the job.

What you see
------------
`CANCELLED ... DUE TO TIME LIMIT`, `DUE TO PREEMPTION`, `DUE TO NODE FAILURE`, `TERM_RUNLIMIT`, `job killed: walltime`.

Why it happens
--------------
The job's time was over, a job of higher priority took its nodes, or a node went down.

Fix
---
Ask for a longer time limit (--time), write checkpoints often enough, and let the job be started again from the last one
(--requeue).

When it is harmless
-------------------
Where the job was to run until its time is over.

See also
--------
process/terminated, process/killed-by-oom
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
RESTART = "yes"
NEXT = ("who cancelled the job", "sacct -j JOBID --format=JobID,State,ExitCode,Reason")
PREEMPTED = "The scheduler gave the job's nodes to another"
AGAIN = (
    "Write checkpoints often enough, and let the job be started again from the last one (SLURM: --requeue); where "
    "it may not be interrupted, another partition or priority."
)
NODE_LOST = "A node of the job failed"
ELSEWHERE = (
    "Start again from the last checkpoint, without that node (--exclude=HOST); its administrator can say what it was "
    "(sinfo -R, scontrol show node HOST)."
)
LOG = (
    Line.of_end(Ended(("time limit", "node shut down")), final=True),
    Line.of_end(Ended(("preempted",)), final=True, told=PREEMPTED, fix=AGAIN),
    Line.of_end(Ended(("node failure",)), final=True, told=NODE_LOST, fix=ELSEWHERE),
    Line.of_end(
        Ended(("instance terminated",)),
        final=True,
        told=NODE_LOST,
        fix="Let the job be tried again (AWS Batch: attempts), from its last checkpoint.",
    ),
    Line.of_end(Ended(("goes well",)), shows="noise", why="it is how well a job goes"),
    Line.of_end(
        Ended(("cancelled",)), shows="symptom", why="scancel or its like, by a person or a script, shows the same"
    ),
    Line.of_end(
        Ended(("held",)), shows="symptom", why="the line below it says why HTCondor, or somebody, has stopped it"
    ),
    Line.of_end(
        Ended(signals=(10, 12)),
        shows="symptom",
        why="a scheduler that warns before the end sends SIGUSR1 or SIGUSR2, and whoever wants may do so",
    ),
    Line(  # sinfo -R, also with -l
        "Not responding ",
        r"^Not responding +\w{1,32}(?:\(\d+\))? +\d{4}-\d\d-\d\dT[\d:]{8} +(?:down\S{0,2} +)?"
        r"(?:(?P<host>[A-Za-z][\w.-]{0,63})\s*$)?",
        shows="hint",
        why="whether that node was one of the job is not said",
        told="A node did not answer SLURM",
        fix=ELSEWHERE,
    ),
    Line(
        ("termination is imminent", "interruption notice", "nterruption Notice", "preemption notice"),
        shows="symptom",
        why="a cloud takes machines back so; whether the job was still on it is not said",
    ),
)
