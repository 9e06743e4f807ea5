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

from distdoctor.check_api import Cluster, Ended, FailedRank, Finding, Fix, Line, died_ranks, names_of, ranks_text

SEVERITY = "fail"
PREVENTS = "results right"
LOOKS_AT = ("host.kernel_log",)
CLOCK_SECONDS = 60.0
"""The kernel's log has a clock of its own."""
NEXT = ("the kernel's log of that host", "dmesg -T | grep -i -e oom -e killed")
KILLED = "A process was killed by signal 9: want of memory is the commonest reason, and nothing here shows it"
REFUSED = "A process asked for more memory than it can have"
BY_WHOM = "somebody's kill -9, a scheduler, and a launcher that waited in vain for an end send the same signal"
LOG = (
    Line.of_end(Ended(("out of memory",))),
    Line.of_end(Ended(("", "data loader worker"), signals=(9,)), shows="end", why=BY_WHOM, told=KILLED),
    Line.of_end(
        Ended(("actor died", "worker crashed", "node dead")),
        shows="symptom",
        why="a crash, a lost network and somebody who ended it look the same to Ray",
    ),
    Line(
        ("Out of memory: Kill", "Memory cgroup out of memory"),
        r"ut of memory: Kill(?:ed)? process (?P<pid>\d+) \((?P<program>[^)]{1,32})\)",
    ),
    Line("invoked oom-killer", r"(?P<program>\S{1,32}) invoked oom-killer: "),
    Line("oom_reaper: reaped process", r"oom_reaper: reaped process (?P<pid>\d+) \((?P<program>[^)]{1,32})\)"),
    Line(
        "oom-kill:constraint=",
        r"oom-kill:constraint=(?P<constraint>\w+)(?:.{0,400}oom_memcg=(?P<cgroup>[^,]{1,200}))"
        r"?.{0,400}task=(?P<program>[^,]{1,32}),pid=(?P<pid>\d+)",
    ),
    Line("DefaultCPUAllocator: can", "can.?t allocate memory: you tried to allocate", told=REFUSED),
    Line("Cannot allocate memory", r"\[Errno 12\] Cannot allocate memory", told=REFUSED),
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
    Line("Unable to allocate", "MemoryError: Unable to allocate|_ArrayMemoryError: Unable to allocate", told=REFUSED),
    Line("MemoryError", r"^MemoryError\b", told=REFUSED),
    Line("std::bad_alloc", told=REFUSED),
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
        f"{ranks_text(ranks, 'Ranks')} on {names_of(nodes)} {'was' if len(lines) == 1 else 'were'} killed for want of "
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
        for line in one.node.host.kernel_log or ()
        if line.check == "process/killed-by-oom"
        and line.values.get("pid") == str(one.rank.pid)
        and line.at >= one.node.facts.started_at - CLOCK_SECONDS
    )
    return next(lines, "")
