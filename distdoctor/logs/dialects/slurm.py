"""Lines of SLURM: srun, slurmstepd, sacct, scontrol, seff and mails."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Wording

_STATE = r"(?:JobState=|^State: |Run time [\d:-]{5,20}, |^\d{1,12}(?:[_.+]\w{1,20}){0,2}[ |].{0,300}[ |])"
"""Text before SLURM's state of a job: in scontrol, seff, its mails and sacct's tables."""
_ROW = r"^\d{1,12}(?:[_.+]\w{1,20}){0,2}[ |].{0,300}[ |]"
_MAIL = r"(?:JobState=|^State: |Run time [\d:-]{5,20}, )"
_STEP = r"(?:\*\*\* (?:JOB|STEP) \S{1,32} ON (?P<host>\S{1,64}) .{0,80})?DUE TO "
DIALECT = Dialect(
    prefixes=(
        ("0", r"(?P<task>\d{1,6}): (?=\S)"),  # srun --label: a rank, or a node's launcher
        # of SLURM built with --enable-multiple-slurmd, as Debian's
        ("a", r"slurmstepd-(?P<host>[\w.-]{1,64}): (?=error: )"),
    ),
    ends=(
        Wording(
            ("srun: error: ", "Exited with exit code", "Aborted", "Terminated"),
            r"(?:srun: error: (?P<host>[\w.-]{1,253}): )?\btasks? (?P<tasks>[\d,-]{1,400}): "
            r"(?:(?P<word>Killed|Terminated|Segmentation fault|Aborted|Bus error|Illegal instruction"
            r"|Floating point exception)\b|Exited with exit code (?P<code>\d{1,3})\b)",
            marks=(("outside", (9,)),),
            launcher="srun",
        ),
        Wording(
            "Out Of Memory",
            r"srun: error: (?P<host>[\w.-]{1,64}): tasks? (?P<tasks>[\d,-]{1,200}): Out Of Memory",
            "out of memory",
            launcher="srun",
        ),
        Wording(("oom_kill event", "oom-kill event"), "oom.kill event", "out of memory"),
        Wording(
            ("exceeded memory limit", "xceeded job memory limit", "xceeded step memory limit"), "", "out of memory"
        ),
        Wording(
            ("OUT_OF_MEMORY", "OUT_OF_ME+"),
            r"State['\"]?[=:] ?['\"]?OUT_OF_MEMORY\b|Run time [\d:-]{5,20}, OUT_OF_MEMORY\b|[│|] ?OUT_OF_MEMORY\b"
            rf"|{_ROW}OUT_OF_ME(?:MORY|\+)(?:[ |]|$)",
            "out of memory",
        ),
        Wording("DUE TO ", rf"{_STEP}(?:TIME LIMIT|DEADLINE)", "time limit"),
        Wording("DUE TO ", rf"{_STEP}(?:PREEMPTION|JOB REQUEUE)", "preempted", launcher="slurmstepd"),
        # ON names the host of who says it, which is another
        Wording("DUE TO ", "DUE TO (?:NODE FAILURE|NODE_?FAIL)", "node failure", launcher="slurmstepd"),
        Wording(
            ("JobState=", "State: ", "Run time ", " TIMEOUT ", "|TIMEOUT|", " DEADLINE ", "|DEADLINE|"),
            rf"{_STATE}(?:TIMEOUT|DEADLINE)(?:[ ,|]|$)",
            "time limit",
        ),
        Wording("NODE_FAIL", rf"{_STATE}NODE_FAIL(?:[ ,|]|$)", "node failure"),
        Wording("PREEMPTED", rf"{_STATE}PREEMPTED(?:[ ,|]|$)", "preempted"),
        Wording(
            ("JobState=CANCELLED", "State: CANCELLED", ", CANCELLED, ExitCode ", " CANCELLED", "|CANCELLED"),
            rf"{_MAIL}(?P<state>CANCELLED)(?:[ ,]|$)"
            rf"|{_ROW}(?P<of_table>CANCELLED)(?:\+| by \d{{1,10}})?[ |]{{1,20}}\d{{1,3}}:\d{{1,3}}(?:[ |]|$)",
            "cancelled",
        ),
        Wording(
            (
                "DUE TO TASK FAILURE",
                "FAILED (non",
                "JobState=FAILED",
                "State: FAILED",
                ", FAILED, ",
                " FAILED ",
                "|FAILED|",
            ),
            r" FAILED \(non-zero exit code|DUE TO TASK FAILURE|\bState[:= ]{1,2}FAILED .{0,40}\bExit ?Code"
            rf"|{_MAIL}(?P<state>FAILED)(?:[ ,]|$)|{_ROW}(?P<of_table>FAILED)[ |]{{1,20}}\d{{1,3}}:\d{{1,3}}(?:[ |]|$)",
            "failed",
        ),
        # A requeued job has a row of sacct -D for each time; the last one counts
        Wording(
            (" COMPLETED ", " RUNNING ", " PENDING ", "|COMPLETED|", "|RUNNING|", "|PENDING|"),
            r"^(?P<well>\d{1,12}(?:_\d{1,9})?)[ |].{0,300}[ |](?:COMPLETED|RUNNING|PENDING)[ |]{1,20}0:0(?:[ |]|$)",
            "goes well",
        ),
        Wording(
            "Node failure on", r"(?:srun|salloc|sbatch): error: Node failure on (?P<host>\S{1,64})", "node failure"
        ),
        Wording("Time limit exhausted for ", r"Time limit exhausted for (?:JobId|StepId|Job)[= ]", "time limit"),
        Wording("exceeded its time limit", "exceeded its time limit and its allocation has been revoked", "time limit"),
        Wording(
            "error: *** ",
            r"error: \*\*\* (?:JOB|STEP) \S{1,32} ON (?P<host>\S{1,64}) CANCELLED",
            "cancelled",
            unless="DUE TO (?:TIME|PREEMPTION|NODE|JOB R|DEADLINE)",
        ),
        Wording(
            ("Force Terminated", " STEPD TERMINATED ON "),
            r"Force Terminated (?:job|Step)|STEPD TERMINATED ON (?P<host>\S{1,64})",
            "cancelled",
        ),
        Wording("Job has been cancelled", "", "cancelled"),
        # Remaining output of the step's tasks comes after it
        Wording(
            ("Terminating StepId=", "Force Terminated StepId="),
            "^srun: (?:Terminating StepId=|Force Terminated StepId=)",
            "sent by launcher",
            launcher="srun",
        ),
    ),
    over=r"\b(?:Job)?State[:=] ?COMPLETED\b",
)
