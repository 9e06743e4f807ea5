"""A process was killed for want of memory.

What you see
------------
`exitcode: -9`, `Signal 9 (SIGKILL)`, `Killed`, `oom_kill event`, `OOMKilled`, exit code 137, with no error of the
program's own.

Why it happens
--------------
The host, or the cgroup of the container or the scheduler's job, ran out of memory, and the kernel killed the largest
process.

Fix
---
Ask for more memory (SLURM's --mem, LSF's bsub -M, HTCondor's request_memory, resources.limits.memory), or use less:
fewer DataLoader workers, no dataset in every rank's memory. The kernel's log of that host (dmesg) names the process.

When it is harmless
-------------------
Never.

See also
--------
process/killed-by-scheduler, host/shared-memory-small
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, FailedRank, Finding, Fix, Line, died_ranks, names_of, ranks_said

SEVERITY = "fail"
PREVENTS = "results right"
LOOKS_AT = ("host.kernel_log",)
CLOCK_SECONDS = 60.0
"""The kernel's log has a clock of its own."""
NEXT = (
    "the kernel's log of that host",
    "dmesg -T | grep -i -e oom -e killed",
)
KILLED = "A process was killed by signal 9: want of memory is the commonest reason, and nothing here shows it"
REFUSED = "A process asked for more memory than it can have"
BY_WHOM = "somebody's kill -9, a scheduler, and a launcher that waited in vain for an end send the same signal"
LOG = (
    Line(("oom_kill event", "oom-kill event"), "oom.kill event"),
    Line(
        ("OOMKilled", "OOM Killed"),
        r"(?:^(?:[\w-]{1,63} +)?(?P<pod>[\w.-]{1,253}) +\d{1,3}/\d{1,3} +)?OOM ?Killed",
        unless=r"OOMKilled['\"]?[:=] ?['\"]?(?:false|0)\b",
    ),
    Line(
        ("Out of memory: Kill", "Memory cgroup out of memory"),
        r"ut of memory: Kill(?:ed)? process (?P<pid>\d+) \((?P<program>[^)]{1,32})\)",
    ),
    Line(
        "invoked oom-killer",
        r"(?P<program>\S{1,32}) invoked oom-killer: ",
    ),
    Line(
        "oom_reaper: reaped process",
        r"oom_reaper: reaped process (?P<pid>\d+) \((?P<program>[^)]{1,32})\)",
    ),
    Line(
        "oom-kill:constraint=",
        r"oom-kill:constraint=(?P<constraint>\w+)(?:.{0,400}oom_memcg=(?P<cgroup>[^,]{1,200}))"
        r"?.{0,400}task=(?P<program>[^,]{1,32}),pid=(?P<pid>\d+)",
    ),
    Line(("exceeded memory limit", "xceeded job memory limit", "xceeded step memory limit")),
    Line("gone over ", r"gone over (?:cgroup )?memory limit of \d+ (?:Mb|megabytes)"),  # HTCondor, by its version
    Line(
        "Out Of Memory",
        r"srun: error: (?P<host>[\w.-]{1,64}): tasks? (?P<tasks>[\d,-]{1,200}): Out Of Memory",
    ),
    Line(
        ("OUT_OF_MEMORY", "OUT_OF_ME+"),  # SLURM's state of a job: scontrol's, seff's, its mails', sacct's tables
        r"State['\"]?[=:] ?['\"]?OUT_OF_MEMORY\b|Run time [\d:-]{5,20}, OUT_OF_MEMORY\b|[│|] ?OUT_OF_MEMORY\b"
        r"|^\d{1,12}(?:[_.+]\w{1,20}){0,2} .{0,300} OUT_OF_ME(?:MORY|\+)(?: |$)",
    ),
    Line(
        ("low on resource: memory", "MemoryPressure"),
        r"low on resource: memory|had condition: \[MemoryPressure",
    ),
    Line(("TERM_MEMLIMIT", "job killed: mem", "job killed: vmem")),
    Line(
        "killed due to memory",  # Ray's raylet: where the line was broken, the rest is on the next one
        r"[1-9]\d* Workers (?:\(tasks / actors\) )?killed due to memory(?:.{0,300}, IP: (?P<host>[\w.:-]{1,64})\))?",
    ),
    Line("due to the node running low on memory"),
    Line(
        "exceeds the memory usage threshold of",  # what Ray's raylet and its exceptions tell
        r"Memory on the node \(IP: (?P<host>[\w.:-]{1,64})[,)].{0,600}exceeds the memory usage threshold of",
    ),
    Line("OutOfMemoryError: Task was killed"),
    Line(
        "killed by signal: Killed",  # of a DataLoader's worker
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        "DefaultCPUAllocator: can",
        "can.?t allocate memory: you tried to allocate",
        told=REFUSED,
    ),
    Line(
        "Cannot allocate memory",
        r"\[Errno 12\] Cannot allocate memory",
        told=REFUSED,
    ),
    Line(
        "unable to mmap ",
        r"unable to mmap \d+ bytes from file .{1,300}Cannot allocate memory",
        shows="symptom",
        why="a process with as many mappings as vm.max_map_count lets it have shows the same",
    ),
    Line(
        ("Failed to malloc ", "Unrecoverable error detected: malloc"),
        r"NCCL WARN (?:Failed to malloc \d+ bytes|Unrecoverable error detected: malloc)",
        shows="symptom",
        why="an address space that is limited (ulimit -v) shows the same",
    ),
    Line(
        # systemd-oomd's and earlyoom's
        ("due to memory used", "due to memory pressure for ", "sending SIGKILL to process"),
        r"systemd-oomd\[\d+\]: Killed \S|earlyoom\[\d+\]: .{0,200}sending SIGKILL to process (?P<pid>\d+)",
    ),
    Line("ran out-of-memory and exited"),  # Vertex AI's
    Line(  # systemd's, of a unit in which a job may be
        ("by the OOM killer", "result 'oom-kill'"),
        r"systemd\[\d+\]: [^:]{0,80}(?:train|torch|py|job|run|slurm|docker|cri-|kubepods|session|user)[^:]{0,200}"
        r"\.(?:service|scope|slice): (?:A|Failed)",
    ),
    Line(
        "code=killed, status=9",
        r"systemd\[\d+\]: [^:]{0,80}(?:train|torch|py|job|run|slurm|docker)[^:]{0,200}: Main process exited",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        "Unable to allocate",
        "MemoryError: Unable to allocate|_ArrayMemoryError: Unable to allocate",
        told=REFUSED,
    ),
    Line(
        "MemoryError",
        r"^MemoryError\b",
        told=REFUSED,
    ),
    Line(
        "std::bad_alloc",
        told=REFUSED,
    ),
    Line.of_exit_code("-9|137", shows="end", why=BY_WHOM, told=KILLED),
    Line(
        "Signal 9",
        r"Signal 9 \(SIGKILL\)",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        "signal SIGKILL",
        r"(?:process (?P<local_rank>\d{1,4}) )?terminated with signal SIGKILL",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        "Signals.SIGKILL",
        r"died with <Signals\.SIGKILL",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(  # what bash makes of the signal, also in other languages: de, zh, fr, es, ja, it, pt, ru, ko
        (
            "Killed",
            "Getötet",
            " 已杀死",
            "已杀死 ",
            "Processus arr",
            "Terminado (k",
            "強制終了",
            "Ucciso",
            "Morto",
            "Убито",
            "죽었음 ",
        ),
        r"(?:\w{1,10} \d{1,7} ?[:：] +\d+ +|^)(?:Killed|Getötet|已杀死|Processus arrêté|Terminado \(killed\)|強制終了"
        r"|Ucciso|Morto|Убито|죽었음)(?: {2,}|$|\s*\()",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        "Killed",
        r"srun: error: (?P<host>[\w.-]{1,64}): (?P<outside>tasks?) (?P<tasks>[\d,-]{1,200}): Killed\b",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        ("exited on signal 9", "Exited with signal t", "Exited by signal 9"),  # LSF's, the latter
        r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S{1,64}) exited on signal 9\b|exited on signal 9\b"
        r"|^Exited (?:with signal termination: (?:9|Killed)\b|by signal 9\b)",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        # HPE's mpiexec (PALS); HTCondor; docker compose
        (" died from signal 9", " exited with code 137", "l termination (signal 9)"),
        r"^(?:(?P<host>[\w.-]{1,253}): )?rank (?P<rank>\d{1,6}) (?:died from signal 9|exited with code 137)\b|\(0\) A"
        r"|^(?P<pod>[\w.-]{1,128}[-_]\d{1,4}) exited with code 137$"
        r"|\b(?:[Jj]ob|[Tt]rain\w*|torchrun|python[\d.]*|[Cc]ontainer|[Cc]ommand|[Ss]cript)\b.{0,60} exited with code "
        r"137\b",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        "KILLED BY SIGNAL: 9",
        r"(?P<outside>KILLED BY SIGNAL: 9)\b",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        "Exit Code:",  # kubectl's
        r"Exit Code: {1,12}137\b",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        ("killed  ", "exit status 137", '"ExitCode": 137'),
        r"\"ExitCode\": 137\b|^(?:zsh|fish): killed {2,}|^\[\d{1,4}\] {1,8}[-+]? *\d{1,9} killed {2,}"
        r"|\bexit status 137\b",
        shows="end",
        why=BY_WHOM,
        told=KILLED,
    ),
    Line(
        ("allocate more memory than is available", "crashed after using all available RAM"),  # Kaggle's and Colab's
        "^Your (?:notebook|session) ",
    ),
    Line(
        ("WinError 1455", "paging file is too small"),
        r"\[WinError 1455\]|paging file is too small for this operation",
        told="Windows has no room left in its paging file",
        fix="Let Windows make the paging file larger, or use fewer DataLoader workers: each loads CUDA's libraries.",
    ),
    Line(
        ("Worker unexpectedly exit", "by an unexpected system error", "actor died unexpectedly", "marked dead because"),
        shows="symptom",
        why="a crash, a lost network and somebody who ended it look the same to Ray",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    """The kernel's log of a rank's host names its process."""
    lines = [(one, text) for one in died_ranks(cluster) if (text := said(one))]
    if not lines:
        return
    nodes = list(dict.fromkeys(one.node for one, _ in lines))
    ranks = [one.rank.rank for one, _ in lines if one.rank.rank is not None]
    yield Finding.about(
        nodes,
        f"{ranks_said(ranks, 'Ranks')} on {names_of(nodes)} {'was' if len(lines) == 1 else 'were'} killed for want of "
        "memory.",
        ranks=ranks,
        evidence=(f"{one.node.name}: the kernel's log: {text}" for one, text in lines),
        fixes=(
            Fix.on(
                nodes,
                "Give the job more memory there (--mem, the container's or pod's limit), or end what else uses it.",
                commands=("dmesg -T | grep -i -e oom -e killed",),
            ),
        ),
    )


def said(one: FailedRank) -> str:
    """The line that names this rank's process, and was written during the check; nothing where there is none.

    The kernel writes the numbers that it has for processes, which in a container are others: there it says nothing.
    """
    lines = (
        line.text
        for line in one.node.system.kernel_log or ()
        if line.check == "process/killed-by-oom"
        and line.values.get("pid") == str(one.rank.pid)
        and line.at >= one.node.facts.started_at - CLOCK_SECONDS
    )
    return next(lines, "")
