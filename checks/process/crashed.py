"""A rank's process crashed.

What you see
------------
`exitcode: -11`, `Signal 11 (SIGSEGV)`, `Segmentation fault (core dumped)` on one rank; the others lose their
connections.

Why it happens
--------------
Native code of torch, NCCL, the driver or an extension touched memory that is not there, or called abort().

Fix
---
Start with PYTHONFAULTHANDLER=1 to get the Python stack of the crash, and look at the core dump (coredumpctl gdb);
extensions that were built for another torch are the commonest reason.

When it is harmless
-------------------
Never.

See also
--------
process/exception, process/killed-by-oom
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("what the rank wrote to stderr before it was aborted, or its core dump", "coredumpctl gdb")
ABORTED = "who called abort() says why above it: NCCL's watchdog does after a timeout"
LOG = (
    Line.of_end(
        # Of crashes, traps, illegal instructions and divisions; of Windows' NTSTATUS the same
        Ended(
            signals=(4, 5, 8, 11),
            codes=(
                *(3221225477, 3221225501, 3221225725, 3221226356),
                *(-1073741819, -1073741795, -1073741571, -1073740940),
            ),
        ),
        shows="end",
    ),
    Line.of_end(Ended(("data loader worker",), signals=(6, 11)), shows="end"),
    Line.of_end(Ended(signals=(6,)), shows="symptom", why=ABORTED),
    Line.of_end(
        Ended(codes=(3221226505, -1073740791)),  # Windows' abort()
        shows="symptom",
        why="who called abort() says why above it",
    ),
    Line.of_end(
        Ended(("actor died", "worker crashed", "node dead")),
        shows="symptom",
        why="the kernel's want of memory, a lost network and somebody who ended it look the same to Ray",
    ),
    Line("Segfault encountered", shows="end"),
    Line(  # glibc's malloc.c and debug/, before it calls abort()
        (
            "(): invalid ",
            "(): corrupted ",
            "(): memory corruption",
            "(): unaligned ",
            "(): unsorted ",
            "(): double free",
            "double free or corruption",
            "corrupted size vs. prev_size",
            "corrupted double-linked list",
            "smashing detected",
            "overflow detected",
        ),
        r"(?:^|[\s:`'])(?:(?P<what>(?:malloc|free|realloc|munmap_chunk|malloc_consolidate)\(\): (?:invalid|corrupted"
        r"|memory corruption|unaligned|unsorted|double free).{0,60}?|double free or corruption \(\S{1,10}\)"
        r"|corrupted (?:size vs\. prev_size|double-linked list).{0,30}?)(?:: 0x[0-9a-f]+ \*\*\*)?"
        r"|\*\*\* (?:stack smashing|buffer overflow) detected \*\*\*.{0,40})\s*$",
        shows="end",
    ),
    Line(
        "Fatal Python error: ",
        r"Fatal Python error: (?P<what>[^\n]{1,80})",
        shows="end",
        unless="Aborted|Terminated|init_import_site|Killed",
    ),
    Line(
        "segfault at",
        r"(?P<program>\S{1,64})\[(?P<pid>\d+)\]: segfault at .{0,120} in (?P<library>[^\s\[]{1,120})",
        unless=r"\b(?:sshd|systemd[\w-]*|crond?|rsyslogd|dbus-daemon|snapd|sssd\w*|nscd|polkitd|NetworkManager|chronyd"
        r"|ntpd|irqbalance|agetty|Xorg|gnome-[\w-]+)\[\d+\]: segfault",  # daemons of the host, no part of a job
        shows="end",
    ),
    Line(
        "Memory access fault by GPU",  # AMD's ROCR-Runtime, which then calls abort()
        shows="end",
        told="AMD's runtime ended a process: its GPU touched memory that is not its own",
        fix="Start with AMD_SERIALIZE_KERNEL=3 to see which kernel it is; where any program shows it, the GPU or its "
        "driver is at fault (the kernel's log of that host).",
    ),
    Line(
        "exits: rank",
        r"^exits: rank (?P<ranks>\d{1,6})(?: on (?P<host>\S+))? ended first, with code (?:-6|134);",
        shows="end",
        why="who called abort() says why on its standard error",
    ),
    Line(
        "Fatal Python error: ",
        "Fatal Python error: Aborted",
        shows="symptom",
        why="who called abort() says why above it: NCCL's watchdog does after a timeout",
    ),
    Line(
        "HSA_STATUS_ERROR",  # ROCm's runtime, of a queue of the GPU
        r"aborting with error ?: HSA_STATUS_ERROR",
        shows="symptom",
        why="a kernel touched memory that is not its own, or the GPU has a fault: dmesg says which",
    ),
    Line(
        '", line ',
        r'^\s*File "[^"]{1,400}", line \d{1,7} in \S',  # faulthandler's, which has no comma
        shows="symptom",
        why="what the process was ended by stands above it and is not in it",
        source=True,
        alone=True,
    ),
    Line(
        "frame #",
        r"^frame #\d{1,4}: \S.{0,1900} \(0x[0-9a-f]{6,16} in /|^frame #\d{1,4}: (?:c10\w*|gloo)::",
        shows="symptom",
        why="what the frames are of stands above them and is not in it",
        alone=True,
    ),
    Line(
        "terminate called after throwing",
        shows="symptom",
        why="what it threw says why: NCCL's watchdog throws after a timeout",
    ),
    Line(
        ("Assertion `", "Assertion '"),  # the C library's assert()
        r"^(?:\S{1,200}: )?\S{1,300}:\d{1,7}: .{1,500}: Assertion [`'].{1,500}' failed\.",
        shows="end",
    ),
    Line(
        "failed assertion",  # Apple's
        r"\.(?:mm?|c|cpp|swift):\d{1,7}: failed assertion [`']",
        shows="end",
    ),
    Line("Windows fatal exception: ", "exception: (?:access violation|stack overflow|code 0xc000)", shows="end"),
    Line(
        "Kernel crashed while executing code",  # Jupyter's, of its own process
        shows="symptom",
        why="want of memory ends it so as well",
    ),
    Line(
        "traps: ",  # the kernel's
        r"traps: (?P<program>\S{1,64})\[(?P<pid>\d+)\] (?:general protection|trap \w)",
        shows="end",
    ),
    Line(
        "due to hardware memory corruption",  # the kernel's mm/memory-failure.c
        r"(?:Killing|Sending SIGBUS to) (?P<program>\S{1,32}):(?P<pid>\d+) due to hardware memory corruption",
        told="The kernel ended a process because the host's memory is broken where it had its data",
        fix="Take that node out of use: a memory module is broken (the kernel's log and `edac-util` say which).",
    ),
)
