"""A rank's program raised an exception.

What you see
------------
A Python traceback on one rank; `ChildFailedError` with `exitcode: 1` from torchrun; errors about closed connections on
the other ranks.

Why it happens
--------------
The script, or a library it calls, raised an error that nobody caught. The launcher then ends the other ranks, and their
errors follow from that. Where nobody ends them (env:// by hand, srun without --kill-on-bad-exit), they wait for ever.

Fix
---
Mend what the last line of the traceback of the first rank to fail says.

Where torchrun shows no traceback, decorate main() with torch.distributed.elastic.multiprocessing.errors.record, or
start with --log-dir and --tee 3. Where the others waited for ever, start with torchrun or srun --kill-on-bad-exit=1.

When it is harmless
-------------------
Where the program caught it and went on.

See also
--------
process/peer-died, process/crashed
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = (
    "the traceback of the rank that the launcher names, in its own log (torchrun --log-dir DIR --tee 3, mpirun "
    "--output-filename DIR, mpiexec -outfile-pattern and srun --output job-%t.log keep one each)",
    "",
)
CONTAINER = "what the container said last is in its own log (kubectl logs --previous)"
LOG = (
    Line(("Error: ", "Exception: "), shows="exception"),
    Line(
        "Traceback (most recent call last)",
        shows="symptom",
        why="the last line of the traceback, which says what it was, is not in it",
        head=True,
    ),
    Line(
        "open file",
        r"python\S{0,40}: can.?t open file .{1,300}\[Errno",
        told="Python cannot open the script",
        fix="Name the script by a path that is there on this host, and in the folder that the launcher starts it in.",
    ),
    Line(("device-side assert triggered", "what():  CUDA error: an illegal memory access")),
    Line.of_end(
        Ended(("failed", "first to fail", "gave up")),
        shows="symptom",
        why="a launcher tells only that a process failed",
    ),
    Line.of_end(
        Ended(("command failed",)), shows="symptom", why="a launcher tells only that its child failed", alone=True
    ),
    Line.of_end(
        Ended(failed=True),
        shows="symptom",
        why="the exit code says nothing of the reason",
        unless="exit code 255 .{0,20}ssh",
    ),
    Line.of_end(Ended(("container failed",)), shows="symptom", why=CONTAINER),
    Line.of_end(
        Ended(("ends its ranks",)),
        shows="symptom",
        why="DeepSpeed's launcher ends all ranks of its node when one has failed, or when it is ended itself",
    ),
    Line.of_end(
        Ended(signals=(6,), launchers=("torchrun",)),
        shows="symptom",
        why="an error in native code that nobody catches ends so; its text is above it",
    ),
    Line(
        (
            " has been marked as ready twice",
            "rror(s) in loading state_dict for ",
            ":Unexpected result nan on rank ",
            ":Unexpected result inf on rank ",
        ),
        shows="symptom",
        why="the exception that comes of it is not in it",
    ),
    Line(
        "srun: error: Timed out waiting for job step to complete",
        shows="hint",
        why="tasks were left over: a rank that raised an exception may have been missed by the others",
    ),
    Line("To enable traceback see:", shows="hint", why="torchrun was not told the traceback"),
    Line(
        ("Exception ignored in", "can only test a child process"),  # the latter of a DataLoader that is tidied up
        shows="noise",
        why="Python goes on after it",
    ),
    Line(("raise CalledProcessError", "raise ChildFailedError"), shows="noise", why="a line of source in a traceback"),
    Line(
        '", line ',
        r'^\s*File "[^"]{1,400}", line \d{1,7}, in \S',
        shows="symptom",
        why="the last line of the traceback, which says what it was, is not in it",
        head=True,
        source=True,
    ),
    Line(
        ("│ ❱ ", "─ locals ─"),  # rich's tracebacks
        r"❱ {0,6}\d{1,7} │|─ locals ─",
        shows="symptom",
        why="the last line of the traceback, which says what it was, is not in it",
        head=True,
        source=True,
        alone=True,
    ),
    Line(
        "an illegal memory access was encountered",
        r"terminated with exception: |NCCL WARN",
        shows="symptom",
        why="a kernel touched memory that is not its own: whose it was, CUDA_LAUNCH_BLOCKING=1 says",
    ),
    Line(
        # argparse's, and click's
        (": error: ", "Error: No such ", "Error: Invalid value for", "Error: Missing ", "Error: Got unexpected extra"),
        r"^(?:usage: )?[\w./-]{1,80}: error: (?:the following arguments are required|unrecognized arguments|argument \S"
        r"|ambiguous option|too few arguments)|^Error: (?:No such (?:opt|com)|Inv|Missing (?:opt|arg|par)|Got)",
        unless=r"--local[-_]rank",
        told="The program does not know its own command line",
        fix="Correct the command line: the line says which argument it is.",
    ),
    Line(
        "execve(): ",
        r"(?:slurmstepd: |^)error: execve\(\): \S",
        told="The program cannot be started",
        fix="Name the program by a path that is there on every node (srun looks in the PATH that the job was given).",
    ),
    Line("] Assertion `", r"block: ?\[.{0,80}\] Assertion `.{1,300}` failed"),
    Line(
        ("compilation subprocess exited unexpectedly", "Attempting to use a closed pool", "compile-worker future for"),
        shows="symptom",
        why="how the process that compiles ended is not said: for want of memory, as a rule, or of a crash",
    ),
    Line("Pin memory thread exited unexpectedly", shows="symptom", why="what that thread raised stands above it"),
    Line(
        # torch's, Ray's and Spark's
        ("ProcessRaisedException", "ray.exceptions.RayTaskError", "Py4JJavaError: An error occurred while calling "),
        r"ProcessRaised|ray\.exceptions\.RayTaskError(?:\(\w{1,80}\))?: .{0,20}ray::.{1,300}\(pid=\d|Py4JJavaError: ",
        shows="symptom",
        why="what the process or task itself raised is below it",
    ),
    Line(
        "was unable to ",  # Open MPI's
        r"(?:mpirun|mpiexec|prterun|prun) was unable to (?:find|launch) the specified (?:executable|application)",
        told="The program cannot be started",
        fix="Name the program by a path that is there on every host, and executable.",
    ),
    Line(
        "error while loading shared libraries: ",  # ld.so's; that of a helper need not be why a job ended
        r"\b(?:python|torchrun|mpirun|mpiexec|prterun|orted|prted|hydra_|srun|deepspeed|accelerate|apptainer|singularity)"
        r"[^\s:]{0,40}: error while",
        told="A program cannot be started: a library that it needs is not found",
        fix="Have the library's folder in LD_LIBRARY_PATH, or load its module, in the job on every node: `ldd PROGRAM` "
        "shows there what is not found.",
    ),
    Line(
        (
            "error messages above",
            "stack trace above",
            "error messages for a cause",
            "errors above",
            "Training failed due to worker errors",
            "DeadLock detected from rank",
            "UncompletedJobError",  # submitit's, where the job was begun
            "FailedJobError",
        ),
        shows="symptom",
        why="it says itself that the reason is elsewhere",
    ),
)
