"""A rank's process crashed.

## What you see
`exitcode: -11`, `Signal 11 (SIGSEGV)`, `Segmentation fault (core dumped)` on one rank; the others lose their
connections.

## Why it happens
Native code of torch, NCCL, the driver or an extension accessed invalid memory, or called abort().

## Fix
Rebuild the extensions for this torch (`pip install --force-reinstall --no-binary :all: flash-attn`), the most common
cause. Start with `export PYTHONFAULTHANDLER=1` to get the Python stack of the crash.

## Confirm with
`coredumpctl gdb` (then `bt`), and `dmesg | grep segfault` (names the library).

## When it is harmless
Never.

## See also
process/exception, process/killed-by-oom
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the rank's standard error before the abort, or its core dump", "coredumpctl gdb")
ABORTED = "the lines above it name the cause; NCCL's watchdog aborts after a timeout"
LOG = (
    Line.of_end(
        # Crashes, traps, illegal instructions and divisions; the same of Windows' NTSTATUS
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
        Ended(codes=(3221226505, -1073740791)),  # abort() on Windows
        shows="symptom",
        why="the lines above it name the cause of the abort",
    ),
    Line.of_end(
        Ended(("actor died", "worker crashed", "node dead")),
        shows="symptom",
        why="out of memory, a lost network and a kill show the same",
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
        r"(?<!\S)(?P<program>\S{1,64})\[(?P<pid>\d+)\]: segfault at .{0,120} in (?P<library>[^\s\[]{1,120})",
        unless=r"\b(?:sshd|systemd[\w-]*|crond?|rsyslogd|dbus-daemon|snapd|sssd\w*|nscd|polkitd|NetworkManager|chronyd"
        r"|ntpd|irqbalance|agetty|Xorg|gnome-[\w-]+)\[\d+\]: segfault",  # daemons of the host, not of a job
        shows="end",
    ),
    Line(
        "Memory access fault by GPU",  # AMD's ROCR-Runtime, which then calls abort()
        shows="end",
        told="AMD's runtime ended a process: its GPU accessed invalid memory",
        fix="Run with AMD_SERIALIZE_KERNEL=3, and fix the GPU kernel that it names. If every program fails, replace "
        "the GPU or its driver. Confirm with: `dmesg | grep amdgpu`.",
    ),
    Line(
        "exits: rank",
        r"^exits: rank (?P<ranks>\d{1,6})(?: on (?P<host>\S+))? ended first, with code (?:-6|134);",
        shows="end",
        why="its standard error names the cause of the abort",
    ),
    Line("Fatal Python error: ", "Fatal Python error: Aborted", shows="symptom", why=ABORTED),
    Line(
        "HSA_STATUS_ERROR",  # of ROCm's runtime, about a GPU queue
        r"aborting with error ?: HSA_STATUS_ERROR",
        shows="symptom",
        why="an invalid access of a GPU kernel and a faulty GPU show the same; dmesg tells them apart",
    ),
    Line(
        '", line ',
        r'^\s*File "[^"]{1,400}", line \d{1,7} in \S',  # of faulthandler, which has no comma
        shows="symptom",
        why="the cause was printed above it, and is not in the log",
        source=True,
        alone=True,
    ),
    Line(
        "frame #",
        r"^frame #\d{1,4}: \S.{0,1900} \(0x[0-9a-f]{6,16} in /|^frame #\d{1,4}: (?:c10\w*|gloo)::",
        shows="symptom",
        why="the cause was printed above the frames, and is not in the log",
        alone=True,
    ),
    Line(
        "terminate called after throwing",
        shows="symptom",
        why="the exception names the cause; NCCL's watchdog throws after a timeout",
    ),
    Line(
        ("Assertion `", "Assertion '"),  # the C library's assert()
        r"^(?:\S{1,200}: )?\S{1,300}:\d{1,7}: .{1,500}: Assertion [`'].{1,500}' failed\.",
        shows="end",
    ),
    Line(
        "failed assertion",  # of Apple
        r"\.(?:mm?|c|cpp|swift):\d{1,7}: failed assertion [`']",
        shows="end",
    ),
    Line("Windows fatal exception: ", "exception: (?:access violation|stack overflow|code 0xc000)", shows="end"),
    Line(
        "Kernel crashed while executing code",  # of Jupyter, about its own process
        shows="symptom",
        why="out of memory shows the same",
    ),
    Line(
        "traps: ",  # of the kernel
        r"traps: (?P<program>\S{1,64})\[(?P<pid>\d+)\] (?:general protection|trap \w)",
        shows="end",
    ),
    Line(
        "due to hardware memory corruption",  # Linux: mm/memory-failure.c
        r"(?:Killing|Sending SIGBUS to) (?P<program>\S{1,32}):(?P<pid>\d+) due to hardware memory corruption",
        told="The kernel ended a process because its memory on the host is faulty",
        fix="Remove that node from the job, and replace the faulty memory module. Confirm with: `edac-util -v`.",
    ),
)
