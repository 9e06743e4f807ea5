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

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
RESTART = "yes"
NEXT = (
    "who cancelled the job",
    "sacct -j JOBID --format=JobID,State,ExitCode,Reason",
)
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
    Line(
        "DUE TO ",
        r"(?:\*\*\* (?:JOB|STEP) \S{1,32} ON (?P<host>\S{1,64}) .{0,80})?DUE TO (?P<reason>TIME LIMIT|DEADLINE)",
        final=True,
    ),
    Line(
        "DUE TO ",
        r"(?:\*\*\* (?:JOB|STEP) \S{1,32} ON (?P<host>\S{1,64}) .{0,80})?DUE TO (?P<reason>PREEMPTION|JOB REQUEUE)",
        final=True,
        told=PREEMPTED,
        fix=AGAIN,
    ),
    Line(
        "DUE TO ",
        r"DUE TO (?P<reason>NODE FAILURE|NODE_?FAIL)",  # ON names the host of who says it, which is another
        final=True,
        told=NODE_LOST,
        fix=ELSEWHERE,
    ),
    Line(
        ("JobState=", "State: ", "Run time ", " TIMEOUT ", " DEADLINE "),
        # SLURM's state of a job: scontrol's, seff's, its mails', sacct's tables
        r"(?:JobState=|^State: |Run time [\d:-]{5,20}, |^\d{1,12}(?:[_.+]\w{1,20}){0,2} .{0,300} )"
        r"(?P<reason>TIMEOUT|DEADLINE)(?:[ ,]|$)",
        final=True,
    ),
    Line(  # a job that was queued again has a row of sacct -D for each time: the last one tells of it
        (" COMPLETED ", " RUNNING ", " PENDING "),
        r"^(?P<well>\d{1,12}(?:_\d{1,9})?) .{0,300} (?:COMPLETED|RUNNING|PENDING) +0:0(?: |$)",
        shows="noise",
        why="it is how well a job goes",
    ),
    Line(
        "NODE_FAIL",
        r"(?:JobState=|^State: |Run time [\d:-]{5,20}, |^\d{1,12}(?:[_.+]\w{1,20}){0,2} .{0,300} )NODE_FAIL(?:[ ,]|$)",
        final=True,
        told=NODE_LOST,
        fix=ELSEWHERE,
    ),
    Line(
        "PREEMPTED",
        r"(?:JobState=|^State: |Run time [\d:-]{5,20}, |^\d{1,12}(?:[_.+]\w{1,20}){0,2} .{0,300} )PREEMPTED(?:[ ,]|$)",
        final=True,
        told=PREEMPTED,
        fix=AGAIN,
    ),
    Line(
        "Node failure on",
        r"(?:srun|salloc|sbatch): error: Node failure on (?P<host>\S{1,64})",
        final=True,
        told=NODE_LOST,
        fix=ELSEWHERE,
    ),
    Line(
        "job preempted (node failure)",  # Moab's and Torque's mails
        final=True,
        told=NODE_LOST,
        fix=ELSEWHERE,
    ),
    Line(
        "Time limit exhausted for ",  # slurmctld's own log
        r"Time limit exhausted for (?:JobId|StepId|Job)[= ]",
        final=True,
    ),
    Line(
        "exceeded its time limit",
        "exceeded its time limit and its allocation has been revoked",
        final=True,
    ),
    Line(
        ("Preempted by", "Preempted in order to admit"),
        r"Preempted (?:by (?:a |pod \S|\S{1,120}/|\S{1,120} on node)|in order to admit)",
        final=True,
        told=PREEMPTED,
        fix=AGAIN,
    ),
    Line(
        ("TERM_RUNLIMIT", "TERM_PREEMPT", "TERM_CPULIMIT", "TERM_DEADLINE", "TERM_PROCESSLIMIT"),
        "TERM_(?P<reason>RUNLIMIT|PREEMPT|CPULIMIT|DEADLINE|PROCESSLIMIT)",
    ),
    Line(
        "job killed: walltime",
    ),
    Line(  # what PBS's MoM writes of it into its own log, as tracejob shows it
        "exceeded limit",
        r"\bwalltime \d{1,12} exceeded limit \d{1,12}",
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
        ("walltime limit", "wallclock limit", "wall clock limit", "wall time limit"),
        r"[Ee]xceeded (?:its |the )?wall ?(?:time|clock|clock time) limit",
    ),
    Line(
        "time limit for job execution has been reached",  # Open MPI's, of mpirun --timeout and MPIEXEC_TIMEOUT
        final=True,
    ),
    Line(
        "in response to imminent node shutdown",  # the kubelet's, of a pod on a node that is shut down
        final=True,
    ),
    Line(
        ("termination is imminent", "interruption notice", "nterruption Notice", "preemption notice"),
        shows="symptom",
        why="a cloud takes machines back so; whether the job was still on it is not said",
    ),
    Line(
        "error: *** ",
        r"error: \*\*\* (?:JOB|STEP) \S{1,32} ON (?P<host>\S{1,64}) CANCELLED",
        shows="symptom",
        unless="DUE TO (?:TIME|PREEMPTION|NODE|JOB R|DEADLINE)",
        why="scancel, by a person or a script, shows the same",
    ),
    Line(
        ("JobState=CANCELLED", "State: CANCELLED", ", CANCELLED, ExitCode ", " CANCELLED"),
        r"(?:JobState=|^State: |Run time [\d:-]{5,20}, )(?P<state>CANCELLED)(?:[ ,]|$)"
        r"|^\d{1,12}(?:[_.+]\w{1,20}){0,2} .{0,300} (?P<of_table>CANCELLED)(?:\+| by \d{1,10})?"
        r" +\d{1,3}:\d{1,3}(?: |$)",
        shows="symptom",
        why="scancel, by a person or a script, shows the same",
    ),
    Line(
        "Job was held.",  # HTCondor's
        r"^012 \(.{1,80} Job was held\.$",
        shows="symptom",
        why="the line below it says why HTCondor, or somebody, has stopped it",
    ),
    Line(
        "Job has been cancelled",
        shows="symptom",
        why="it does not say by whom",
    ),
    Line(
        ("Force Terminated", " STEPD TERMINATED ON "),
        r"Force Terminated (?:job|Step)|STEPD TERMINATED ON (?P<host>\S{1,64})",
        shows="symptom",
        why="scancel, by a person or a script, shows the same",
    ),
    Line(
        ("PreemptionError", "got pre-empted", "pre-emption warning"),  # Azure's
        r"PreemptionError: |[Nn]odes? of this job got pre-?empted",
        final=True,
        told=PREEMPTED,
        fix=AGAIN,
    ),
    Line.of_exit_code(
        "-10|-12|138|140",
        shows="symptom",
        why="a scheduler that warns before the end sends SIGUSR1 or SIGUSR2, and whoever wants may do so",
    ),
    Line(
        ("active longer than specified deadline", "DeadlineExceeded"),  # Kubernetes', of activeDeadlineSeconds
        r"was active longer than specified deadline|Reason: {1,12}DeadlineExceeded",
        final=True,
    ),
    Line(
        "Host EC2 (instance ",  # AWS Batch's
        r"Host EC2 \(instance \S{1,40}\) terminated",
        final=True,
        told=NODE_LOST,
        fix="Let the job be tried again (AWS Batch: attempts), from its last checkpoint.",
    ),
    Line(
        ("TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER"),
        r"TERM_\w{5,12}: job killed by",
        shows="symptom",
        why="why somebody ended it is not said",
    ),
)
