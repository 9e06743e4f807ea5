"""A rank's program raised an exception.

## What you see
A Python traceback on one rank; `ChildFailedError` with `exitcode: 1` from torchrun; errors about closed connections on
the other ranks.

## Why it happens
The script, or a library that it calls, raised an error that no code caught. The launcher then ends the other ranks;
their errors are consequences. Without such a launcher (env:// by hand, srun without --kill-on-bad-exit) they hang.

## Fix
Fix the error in the last line of the traceback of the rank that failed first (`grep -n "Error" logs/*`).

If torchrun shows no traceback, start with `torchrun --log-dir logs --tee 3 ...`, or decorate main() with
torch.distributed.elastic.multiprocessing.errors.record. If the other ranks hang, start with torchrun, or with
`srun --kill-on-bad-exit=1`.

## Confirm with
`distdoctor diagnose LOGS...` (names the rank that failed first).

## When it is harmless
When the program caught it and continued.

## See also
process/peer-died, process/crashed
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = (
    "the traceback of the rank that the launcher names, from its own log (torchrun --log-dir DIR --tee 3, mpirun "
    "--output-filename DIR, srun --output job-%t.log)",
    "",
)
LAUNCHERS = "accelerate|deepspeed|horovodrun|llamafactory-cli|mpiexec|mpirun|python3?|ray|srun|swift|vllm"
"""Programs that a script starts a job with."""
CONTAINER = "the container's own log has its last lines (kubectl logs --previous)"
LOG = (
    Line(("Error: ", "Exception: "), shows="exception"),
    Line(
        "Traceback (most recent call last)",
        shows="symptom",
        why="the last line of the traceback, with the error, is not in the log",
        head=True,
    ),
    Line(
        "open file",
        r"python\S{0,40}: can.?t open file .{1,300}\[Errno",
        told="Python cannot open the script",
        fix="Use a script path that exists on this host, relative to the launcher's folder. "
        "Confirm with: `ls -l SCRIPT`.",
    ),
    Line(
        "device-side assert triggered",
        told="A GPU kernel of this rank stopped at a failed assertion",
        fix="Correct the input of that kernel: most often an index or a label is out of range. "
        "Confirm with: `CUDA_LAUNCH_BLOCKING=1 python train.py`, whose traceback names the call.",
    ),
    Line("what():  CUDA error: an illegal memory access"),
    Line.of_end(
        Ended(("failed", "first to fail", "gave up")),
        shows="symptom",
        why="the launcher reports only that a process failed",
    ),
    Line.of_end(
        Ended(("command failed",)), shows="symptom", why="the launcher reports only that its child failed", alone=True
    ),
    Line.of_end(
        Ended(failed=True),
        shows="symptom",
        why="the exit code does not show the cause",
        unless="exit code 255 .{0,20}ssh",
    ),
    Line.of_end(Ended(("container failed",)), shows="symptom", why=CONTAINER),
    Line.of_end(
        Ended(("ends its ranks",)),
        shows="symptom",
        why="a launcher or an engine ends all its processes after one failed, or when it is ended itself",
    ),
    Line.of_end(
        Ended(signals=(6,), launchers=("torchrun",)),
        shows="symptom",
        why="an uncaught error in native code shows the same; its text is above it",
    ),
    Line(
        (
            " has been marked as ready twice",
            "rror(s) in loading state_dict for ",
            ":Unexpected result nan on rank ",
            ":Unexpected result inf on rank ",
        ),
        shows="symptom",
        why="the resulting exception is not in the log",
    ),
    Line(
        "srun: error: Timed out waiting for job step to complete",
        shows="hint",
        why="tasks were left over; perhaps because another rank raised an exception",
    ),
    Line("To enable traceback see:", shows="hint", why="torchrun did not get the traceback"),
    Line(
        ("Exception ignored ", "can only test a child process"),  # the latter from the cleanup of a DataLoader
        shows="noise",
        why="Python continues after it",
    ),
    Line(("raise CalledProcessError", "raise ChildFailedError"), shows="noise", why="a line of source in a traceback"),
    Line(
        '", line ',
        r'^\s*File "[^"]{1,400}", line \d{1,7}, in \S',
        shows="symptom",
        why="the last line of the traceback, with the error, is not in the log",
        head=True,
        source=True,
    ),
    Line(
        ("│ ❱ ", "─ locals ─"),  # tracebacks of rich
        r"❱ {0,6}\d{1,7} │|─ locals ─",
        shows="symptom",
        why="the last line of the traceback, with the error, is not in the log",
        head=True,
        source=True,
        alone=True,
    ),
    Line(
        "an illegal memory access was encountered",
        r"terminated with exception: CUDA error: ",
        told="A GPU kernel of this rank accessed invalid memory",
        fix="Fix the kernel's access: run once with CUDA_LAUNCH_BLOCKING=1, so that the traceback names the call. "
        "Confirm with: `compute-sanitizer --tool memcheck python train.py`.",
    ),
    Line(
        "an illegal memory access was encountered",
        r"NCCL WARN",
        shows="symptom",
        why="a GPU kernel accessed invalid memory; CUDA_LAUNCH_BLOCKING=1 shows which",
    ),
    Line(
        # of argparse and click
        (": error: ", "Error: No such ", "Error: Invalid value for", "Error: Missing ", "Error: Got unexpected extra"),
        r"^(?:usage: )?[\w./-]{1,80}: error: (?:the following arguments are required|unrecognized arguments|argument \S"
        r"|ambiguous option|too few arguments)|^Error: (?:No such (?:opt|com)|Inv|Missing (?:opt|arg|par)|Got)",
        unless=r"--local[-_]rank",
        told="The program rejected its command line",
        fix="Correct the argument that the line names. Confirm with: `python SCRIPT --help`.",
    ),
    Line(
        "execve(): ",
        r"(?:slurmstepd: |^)error: execve\(\): \S",
        told="The program cannot be started",
        fix="Use a program path that exists on every node (srun searches the job's PATH). "
        "Confirm with: `srun which PROGRAM`.",
    ),
    Line(
        ("command not found", ": not found"),  # of shells; torchrun is environment/torch-missing's
        rf"(?:\bline \d+|\b(?:ba|da|k|z)?sh(?::(?: line)? ?\d+)?): (?:command not found: (?:{LAUNCHERS})\b"
        rf"|(?:{LAUNCHERS}): (?:command )?not found)",
        told="The program cannot be started",
        fix="Activate the job's environment (conda, venv, module, container) in the script, before it starts the "
        "program. Confirm with: `srun which PROGRAM`.",
    ),
    Line("] Assertion `", r"block: ?\[.{0,80}\] Assertion `.{1,300}` failed"),
    Line(
        ("compilation subprocess exited unexpectedly", "Attempting to use a closed pool", "compile-worker future for"),
        shows="symptom",
        why="the compile process usually ran out of memory, or crashed",
    ),
    Line("Pin memory thread exited unexpectedly", shows="symptom", why="the error of that thread is above it"),
    Line(
        # of torch, Ray and Spark
        ("ProcessRaisedException", "ray.exceptions.RayTaskError", "Py4JJavaError: An error occurred while calling "),
        r"ProcessRaised|ray\.exceptions\.RayTaskError(?:\(\w{1,80}\))?: .{0,20}ray::.{1,300}\(pid=\d|Py4JJavaError: ",
        shows="symptom",
        why="the error of the process or task is below it",
    ),
    Line(
        "was unable to ",  # of Open MPI
        r"(?:mpirun|mpiexec|prterun|prun) was unable to (?:find|launch) the specified (?:executable|application)",
        told="The program cannot be started",
        fix="Use the path of an executable program that exists on every host. Confirm with: `ls -l PROGRAM` there.",
    ),
    Line(
        "error while loading shared libraries: ",  # of ld.so; that of a helper does not always end a job
        r"\b(?:python|torchrun|mpirun|mpiexec|prterun|orted|prted|hydra_|srun|deepspeed|accelerate|apptainer|singularity)"
        r"[^\s:]{0,40}: error while",
        told="A program cannot be started: one of its libraries is missing",
        fix="Add the library's folder to LD_LIBRARY_PATH, or load its module, in the job on every node. "
        "Confirm with: `ldd PROGRAM | grep 'not found'`.",
    ),
    Line(
        (
            "error messages above",
            "stack trace above",
            "error messages for a cause",
            "errors above",
            "Training failed due to worker errors",
            "DeadLock detected from rank",
            "UncompletedJobError",  # of submitit, on the submitting host
            "FailedJobError",
        ),
        shows="symptom",
        why="it refers to another message for the cause",
    ),
)
