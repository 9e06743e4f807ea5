"""The kernel killed a process because memory ran out.

## What you see
`exitcode: -9`, `Signal 9 (SIGKILL)`, `Killed`, `oom_kill event`, `OOMKilled`, exit code 137, without an error of the
program itself.

## Why it happens
The host, or the cgroup of the container or of the scheduler's job, ran out of memory, and the kernel killed the
largest process.

## Fix
Request more memory (`sbatch --mem 128G`, `bsub -M 128G`, resources.limits.memory of the pod), or use less: fewer
DataLoader workers, no dataset in every rank's memory.

## Confirm with
`journalctl -k --since -1h | grep -iE "oom|killed process"` on that host (names the process).

## When it is harmless
Never.

## See also
process/killed-by-scheduler, host/shared-memory-small
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Ended, FailedRank, Finding, Fix, Line, died_ranks, names_of, ranks_text

SEVERITY = "fail"
PREVENTS = "results right"
LOOKS_AT = ("host.kernel_log",)
CLOCK_SECONDS = 60.0
"""Tolerance for the separate clock of the kernel log."""
NEXT = ("the kernel's log of that host", "dmesg -T | grep -i -e oom -e killed")
KILLED = "A process was killed by signal 9, often because memory ran out; this log shows no cause"
REFUSED = "A process requested more memory than it can get"
BY_WHOM = "a user's kill -9, a scheduler and a launcher after its grace period send the same signal"
LOG = (
    Line.of_end(Ended(("out of memory",))),
    Line.of_end(Ended(("", "data loader worker"), signals=(9,)), shows="end", why=BY_WHOM, told=KILLED),
    Line.of_end(
        Ended(("actor died", "engine died", "worker crashed", "node dead")),
        shows="symptom",
        why="a crash, a lost network and a kill show the same",
    ),
    Line(
        ("Out of memory: Kill", "Memory cgroup out of memory"),
        r"ut of memory: Kill(?:ed)? process (?P<pid>\d+) \((?P<program>[^)]{1,32})\)",
    ),
    Line("invoked oom-killer", r"(?<!\S)(?P<program>\S{1,32}) invoked oom-killer: "),
    Line("oom_reaper: reaped process", r"oom_reaper: reaped process (?P<pid>\d+) \((?P<program>[^)]{1,32})\)"),
    Line(
        "oom-kill:constraint=",
        # dump_oom_summary() in mm/oom_kill.c
        r"oom-kill:constraint=(?P<constraint>\w{1,40}),.{0,400}?(?:,oom_memcg=(?P<cgroup>[^,]{1,200}))?"
        r"(?:,task_memcg=[^,]{1,300})?,task=(?P<program>[^,]{1,32}),pid=(?P<pid>\d+)",
    ),
    Line("DefaultCPUAllocator: can", "can.?t allocate memory: you tried to allocate", told=REFUSED),
    Line("Cannot allocate memory", r"\[Errno 12\] Cannot allocate memory", told=REFUSED),
    Line(
        "unable to mmap ",
        r"unable to mmap \d+ bytes from file .{1,300}Cannot allocate memory",
        shows="symptom",
        why="a process at the limit of vm.max_map_count shows the same",
    ),
    Line(
        ("Failed to malloc ", "Unrecoverable error detected: malloc"),
        r"NCCL WARN (?:Failed to malloc \d+ bytes|Unrecoverable error detected: malloc)",
        shows="symptom",
        why="a limited address space (ulimit -v) shows the same",
    ),
    Line(
        # of systemd-oomd and earlyoom
        ("due to memory used", "due to memory pressure for ", "sending SIGKILL to process"),
        r"systemd-oomd\[\d+\]: Killed \S|earlyoom\[\d+\]: .{0,200}sending SIGKILL to process (?P<pid>\d+)",
    ),
    Line("Unable to allocate", "MemoryError: Unable to allocate|_ArrayMemoryError: Unable to allocate", told=REFUSED),
    Line("MemoryError", r"^MemoryError\b", told=REFUSED),
    Line("std::bad_alloc", told=REFUSED),
    Line(
        ("allocate more memory than is available", "crashed after using all available RAM"),  # of Kaggle and Colab
        "^Your (?:notebook|session) ",
    ),
    Line(
        ("WinError 1455", "paging file is too small"),
        r"\[WinError 1455\]|paging file is too small for this operation",
        told="The Windows paging file is full",
        fix="Enlarge the paging file (System Properties, Advanced, Performance), or use fewer DataLoader workers.",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about ranks that the kernel log of their host names as killed."""
    lines = [(rank, text) for rank in died_ranks(cluster) if (text := kernel_line(rank))]
    if not lines:
        return
    nodes = list(dict.fromkeys(rank.node for rank, _ in lines))
    ranks = [rank.rank.rank for rank, _ in lines if rank.rank.rank is not None]
    yield Finding.about(
        nodes,
        f"{ranks_text(ranks, 'Ranks')} on {names_of(nodes)} {'was' if len(lines) == 1 else 'were'} killed by the "
        "kernel: out of memory.",
        ranks=ranks,
        evidence=(f"{rank.node.name}: kernel log: {text}" for rank, text in lines),
        fixes=(
            Fix.on(
                nodes,
                "Request more memory for the job (--mem, or the limit of the container or pod), or end other users "
                "of memory. Confirm with:",
                commands=("dmesg -T | grep -i -e oom -e killed",),
            ),
        ),
    )


def kernel_line(rank: FailedRank) -> str:
    """Return the line of the kernel log that names this rank's process during the check; empty without one.

    The kernel writes host pids; those of a container differ, so it has no line there.
    """
    lines = (
        line.text
        for line in rank.node.host.kernel_log or ()
        if line.check == "process/killed-by-oom"
        and line.values.get("pid") == str(rank.rank.pid)
        and line.at >= rank.node.facts.started_at - CLOCK_SECONDS
    )
    return next(lines, "")
