"""Lines of LSF, PBS, Torque, Moab and HTCondor."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Wording

DIALECT = Dialect(
    ends=(
        # LSF
        Wording(
            ("Exited with signal t", "Exited by signal "),
            r"^Exited (?:with signal termination:|by signal) (?:(?P<signal>\d{1,2})|(?P<word>Killed))\b",
        ),
        Wording("TERM_MEMLIMIT", "", "out of memory"),
        Wording(
            ("TERM_RUNLIMIT", "TERM_CPULIMIT", "TERM_DEADLINE", "TERM_PROCESSLIMIT"),
            "TERM_(?:RUNLIMIT|CPULIMIT|DEADLINE|PROCESSLIMIT)",
            "time limit",
        ),
        Wording("TERM_PREEMPT", "", "preempted"),
        Wording(("TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER"), r"TERM_\w{5,12}: job killed by", "cancelled"),
        # PBS, Torque and Moab
        Wording(("job killed: mem", "job killed: vmem"), "", "out of memory"),
        Wording("job killed: walltime", "", "time limit"),
        Wording(
            "exceeded limit", r"\bwalltime \d{1,12} exceeded limit \d{1,12}", "time limit"
        ),  # of PBS's MoM, by tracejob
        Wording(
            ("walltime limit", "wallclock limit", "wall clock limit", "wall time limit"),
            r"[Ee]xceeded (?:its |the )?wall ?(?:time|clock|clock time) limit",
            "time limit",
        ),
        Wording("job preempted (node failure)", "", "node failure"),
        # HTCondor
        Wording("l termination (signal ", r"\(0\) Abnormal termination \(signal (?P<signal>\d{1,2})\)"),
        Wording("(1) Normal termination (", r"Normal termination \(return value (?P<code>[1-9]\d{0,2})"),
        Wording("gone over ", r"gone over (?:cgroup )?memory limit of \d+ (?:Mb|megabytes)", "out of memory"),
        Wording("Job was held.", r"^012 \(.{1,80} Job was held\.$", "held"),
    ),
    over=r"^\(1\) Normal termination \(return value 0\)|^Successfully completed\.$",
)
