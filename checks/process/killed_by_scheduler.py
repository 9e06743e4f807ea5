"""The scheduler ended the job.

## What you see
`CANCELLED ... DUE TO TIME LIMIT`, `DUE TO PREEMPTION`, `DUE TO NODE FAILURE`, `TERM_RUNLIMIT`, `job killed: walltime`.

## Why it happens
The job reached its time limit, a job of higher priority took its nodes, or a node failed.

## Fix
Request a longer time limit (`sbatch --time 24:00:00`). Write checkpoints, and let the scheduler restart the job from
the last one: `sbatch --requeue`.

## Confirm with
`sacct -j JOBID --format=JobID,State,Elapsed,Timelimit,Reason`.

## When it is harmless
When the job is meant to run until its time limit.

## See also
process/terminated, process/killed-by-oom
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
RESTART = "yes"
NEXT = ("the reason of the scheduler", "sacct -j JOBID --format=JobID,State,ExitCode,Reason")
PREEMPTED = "The scheduler gave the job's nodes to another job"
REQUEUE = (
    "Write checkpoints, and let the scheduler restart the job from the last one: `sbatch --requeue`. "
    "If it must not be interrupted, use another partition or priority."
)
NODE_LOST = "A node of the job failed"
EXCLUDE = (
    "Restart from the last checkpoint without that node: `sbatch --exclude=HOST`. "
    "Confirm with: `sinfo -R`, `scontrol show node HOST`."
)
LOG = (
    Line.of_end(Ended(("time limit", "node shut down")), final=True),
    Line.of_end(Ended(("preempted",)), final=True, told=PREEMPTED, fix=REQUEUE),
    Line.of_end(Ended(("node failure",)), final=True, told=NODE_LOST, fix=EXCLUDE),
    Line.of_end(
        Ended(("instance terminated",)),
        final=True,
        told=NODE_LOST,
        fix="Let the scheduler retry the job from its last checkpoint (AWS Batch: attempts). "
        "Confirm with: `aws batch describe-jobs --jobs ID`.",
    ),
    Line.of_end(Ended(("goes well",)), shows="noise", why="it reports normal progress"),
    Line.of_end(
        Ended(("cancelled",)),
        shows="symptom",
        why="scancel by a person or a script shows the same",
        told="A user cancelled the job",
        fix="If it was not intended, restart the job from its last checkpoint. If the job hung before, run "
        "`distdoctor hang` on one of its nodes before you cancel it. "
        "Confirm with: `sacct -j JOBID --format=JobID,State%30` (names who cancelled it).",
    ),
    Line.of_end(Ended(("held",)), shows="symptom", why="the line below it has HTCondor's reason"),
    Line.of_end(
        Ended(signals=(10, 12)),
        shows="symptom",
        why="a scheduler sends SIGUSR1 or SIGUSR2 as a warning; other programs send them, too",
    ),
    Line(  # sinfo -R, also with -l
        "Not responding ",
        r"^Not responding +\w{1,32}(?:\(\d+\))? +\d{4}-\d\d-\d\dT[\d:]{8} +(?:down\S{0,2} +)?"
        r"(?:(?P<host>[A-Za-z][\w.-]{0,63})\s*$)?",
        shows="hint",
        why="the node may not belong to the job",
        told="A node did not answer SLURM",
        fix=EXCLUDE,
    ),
    Line(
        ("termination is imminent", "interruption notice", "nterruption Notice", "preemption notice"),
        shows="symptom",
        why="the cloud takes the machine back; the job may have left it before",
    ),
)
