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

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = (
    "what the rank wrote to stderr before it was aborted, or its core dump",
    "coredumpctl gdb",
)
LOG = (
    Line.of_exit_code("-11|139", shows="end"),
    Line(
        "Signal 11",
        r"Signal 11 \(SIGSEGV\)",
        shows="end",
    ),
    Line(
        "signal SIGSEGV",
        r"(?:process (?P<local_rank>\d{1,4}) )?terminated with signal SIGSEGV",
        shows="end",
    ),
    Line("Signals.SIGSEGV", shows="end"),
    Line(
        "egmentation fault",
        r"srun: error: (?P<host>[\w.-]{1,64}): tasks? (?P<tasks>[\d,-]{1,200}): Segmentation fault",
        shows="end",
    ),
    Line(
        # what bash makes of the signal in other languages: de, zh, fr, es, it, pt, ru
        (
            "Speicherzugriffsfehler",
            " 段错误",
            "段错误 ",
            "Erreur de segmentation",
            "Violación de segmento",
            "Errore di segmentazione",
            "Falha de segmentação",
            "Ошибка сегментирования",
        ),
        r"(?:[:：] ?\w{1,10} \d{1,7} ?[:：] +\d+ +|^)(?:Speicherzugriffsfehler|段错误|Erreur de segmentation"
        r"|Violación de segmento|Errore di segmentazione|Falha de segmentação|Ошибка сегментирования)"
        r"(?: {2,}|$|\s*[(（])",
        shows="end",
    ),
    Line(
        "exited on signal 11",
        r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S{1,64}) exited on signal 11\b|exited on signal 11",
        shows="end",
    ),
    Line(
        "Caught signal 11",  # UCX's
        r"\[(?P<host>[\w.-]{1,64}):\d{1,9} {0,2}:\d{1,9}(?::\d{1,9})?\] Caught signal 11|Caught signal 11",
        shows="end",
    ),
    Line(
        "egmentation fault",
        "[Ss]egmentation fault",
        unless="(?:exited on|Caught) signal 11|srun: error: .{1,300}: Segmentation|(?:could|may|might) be caused"
        "|error: pyxis: ",  # what enroot's hooks said while it made the container: no rank runs yet
        shows="end",
    ),
    Line(
        "Segfault encountered",
        shows="end",
    ),
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
        "Aborted",
        r"(?:tasks? [\d,-]{1,200}: |line \d+: +\d+ +|^)Aborted\b(?: {2,}| *\(core|$)"
        r"|(?:exited on signal 6|Signal: Aborted) \((?:Aborted|6)\)",
        shows="symptom",
        why="who called abort() says why above it: NCCL's watchdog does after a timeout",
    ),
    Line(
        (
            "Worker unexpectedly exits",
            "by an unexpected system error",
            "actor died unexpectedly",
            "marked dead because",
        ),
        shows="symptom",
        why="the kernel's want of memory, a lost network and somebody who ended it look the same to Ray",
    ),
    Line(
        "killed by signal: ",
        "killed by signal: (?:Segmentation fault|Aborted)",
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
        (" died from signal ", " exited with code ", "l termination (signal "),  # HPE's mpiexec (PALS); HTCondor
        r"^(?:(?P<host>[\w.-]{1,253}): )?rank (?P<rank>\d{1,6}) "
        r"(?:died from signal (?:4|8|11)|exited with code 13[269])\b|\(0\) Abnormal.{1,30} (?:4|7|8|11)\)",
        shows="end",
    ),
    Line(
        (" died from signal 6", " exited with code 134", "l termination (signal 6)"),
        r"^(?:(?P<host>[\w.-]{1,253}): )?rank (?P<rank>\d{1,6}) (?:died from signal 6|exited with code 134)\b|\(0\) A",
        shows="symptom",
        why="who called abort() says why above it: NCCL's watchdog does after a timeout",
    ),
    Line(
        "Memory access fault by GPU",  # AMD's ROCR-Runtime, which then calls abort()
        shows="end",
        told="AMD's runtime ended a process: its GPU touched memory that is not its own",
        fix="Start with AMD_SERIALIZE_KERNEL=3 to see which kernel it is; where any program shows it, the GPU or its "
        "driver is at fault (the kernel's log of that host).",
    ),
    Line(
        ("Illegal instruction", "Floating point exception"),
        r"(?:Illegal instruction|Floating point exception) ?\(core dumped\)|SIGILL",
        shows="end",
    ),
    Line.of_exit_code(
        "-6|134",
        shows="symptom",
        why="who called abort() says why above it: NCCL's watchdog does after a timeout",
    ),
    Line(
        ("Signal 6", "signal SIGABRT"),
        r"Signal 6 \(SIGABRT\)|(?:process (?P<local_rank>\d{1,4}) )?terminated with signal SIGABRT",
        shows="symptom",
        why="who called abort() says why above it: NCCL's watchdog does after a timeout",
    ),
    Line(
        "exits: rank",
        r"^exits: rank (?P<ranks>\d{1,6})(?: on (?P<host>\S+))? ended first, with code (?:-6|134);",
        shows="end",
        why="who called abort() says why on its standard error",
    ),
    Line(
        ("EXIT CODE: 139", "EXIT STRING: Segmentation fault"),  # Hydra's, of MPICH and Intel MPI
        shows="end",
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
        "code=dumped, status=",
        r"systemd\[\d+\]: [^:]{0,80}(?:train|torch|py|job|run|slurm|docker)[^:]{0,200}: Main .{0,40}=(?:4|7|8|11)/",
        shows="end",
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
        "*** SIG",  # glog's, absl's and TPU's account of a signal
        r"\*\*\* SIG(?:SEGV|BUS|ILL|FPE)\b.{0,40} received ",
        shows="end",
    ),
    Line(
        "*** SIGABRT",
        r"\*\*\* SIGABRT\b.{0,40} received ",
        shows="symptom",
        why="who called abort() says why above it: NCCL's watchdog does after a timeout",
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
    Line(
        "Program received signal SIGABRT",  # gfortran's and gdb's
        shows="symptom",
        why="who called abort() says why above it",
    ),
    Line.of_exit_code(
        # of traps, illegal instructions and divisions; Windows' NTSTATUS
        "-[458]|13[236]|3221225477|3221225501|3221225725|3221226356|-1073741819|-1073741795|-1073741571|-1073740940",
        shows="end",
    ),
    Line.of_exit_code(
        "3221226505|-1073740791",  # Windows' abort()
        shows="symptom",
        why="who called abort() says why above it",
    ),
    Line(
        ("terminated with signal SIG", "died with <Signals.SIG"),
        r"(?:process (?P<local_rank>\d{1,4}) )?(?:terminated with signal|died with <Signals\.) ?SIG(?:FPE|ILL|TRAP)",
        shows="end",
    ),
    Line(
        "Windows fatal exception: ",
        "exception: (?:access violation|stack overflow|code 0xc000)",
        shows="end",
    ),
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
    Line(
        "Exit Code:",  # kubectl's
        r"Exit Code: {1,12}(?:139|13[26])\b",
        shows="end",
    ),
    Line(
        ("exited on signal 4", "exited on signal 8"),
        r"(?:process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S{1,64}) )?exited on signal [48]\b",
        shows="end",
    ),
)
