"""A rank's program raised an exception.

What you see
------------
A Python traceback on one rank; `ChildFailedError` with `exitcode: 1` from torchrun; errors about closed connections on
the other ranks.

Why it happens
--------------
The script, or a library it calls, raised an error that nobody caught. The launcher then ends the other ranks, and their
errors follow from that.

Fix
---
Mend what the last line of the traceback of the first rank to fail says.

Where torchrun shows no traceback, decorate main() with torch.distributed.elastic.multiprocessing.errors.record, or
start with --log-dir and --tee 3.

When it is harmless
-------------------
Where the program caught it and went on.

See also
--------
process/peer-died, process/crashed
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = (
    "the traceback of the rank that the launcher names, in its own log (torchrun --log-dir DIR --tee 3, mpirun "
    "--output-filename DIR, mpiexec -outfile-pattern and srun --output job-%t.log keep one each)",
    "",
)
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
    Line(
        "ChildFailedError",
        shows="symptom",
        why="torchrun's summary says who failed first, not why",
    ),
    Line(
        # HTCondor's, too, and systemd's, of a unit whose name may be a job's
        ("exitcode", "exit code", "return code = ", "(1) Normal termination (", "code=exited, status=", "] Error "),
        r"(?:(?:exit ?code|return code) *[:=]? *\(?|^make(?:\[\d+\])?: \*\*\* .{1,300}\] Error )[1-9]\d*\b"
        r"|Normal termination \(return value [1-9]"
        r"|systemd\[\d+\]: [^:]{0,80}(?:train|torch|py|job|run|slurm|docker)[^:]{0,200}: Main .{0,30}, status=[1-9]",
        shows="symptom",
        why="exit code 1 says nothing of the reason",
        unless=r"(?:exit ?code *[:=]? *\(?|\] Error )(?:129|134|135|137|139|143)\b|exit code 255 .{0,20}ssh",
    ),
    Line(  # what wrappers, programs in Go, W&B and Ray say of how the job ended
        (
            " with status ",
            "exit status ",
            "exit_status=",
            ", rc=",
            "=FAILED",
            ": FAILED",
            " (failed ",
            "' failed",
            " failed with",
        ),
        r"\b(?:job|run|training|torchrun|python[\d.]*|script|launcher)\b.{0,60}\b(?:ended|finished|exited|completed"
        r"|terminated|done|failed)\b.{0,40}(?:\bwith (?:exit )?status|exit_status=|\brc=)[: ]?[1-9]"
        r"|\b(?:[Jj]ob|[Rr]un|[Tt]raining)\b.{0,60}\b(?:state|[Ss]tatus)(?:=|: )FAILED\b"
        r"|^wandb: .{0,80}(?:\(failed |Program failed with code )[1-9]"
        r"|(?:^|: )exit status (?!137)[1-9]\d{0,2}$|^Job 'raysubmit_\w{1,40}' failed",
        shows="symptom",
        why="that it failed says nothing of the reason",
    ),
    Line(
        "CalledProcessError: ",
        r"returned non-zero exit status (?!255)\d+|died with <Signals\.SIG(?:TERM|ABRT|INT|HUP|PIPE|USR[12]|QUIT)",
        unless=r"^[\w.]{1,200}(?:Error|Exception): [\w.]{0,80}CalledProcessError: ",  # the program's own, which says so
        shows="symptom",
        why="the launcher tells only that its child failed",
    ),
    Line(
        "returned non-zero exit status",
        r"^\s{0,8}(?:[^ ]{0,40}['\]]+ )?returned non-zero exit status (?!0|255)\d+\.",  # of a command that was wrapped
        shows="symptom",
        why="the launcher tells only that its child failed",
        alone=True,
    ),
    Line(
        ("Exited with exit code", "terminated with exit code"),
        r"process (?P<rank>\d+) terminated with exit code \d+"
        r"|(?:srun: error: (?P<host>[\w.-]{1,64}): )?tasks? (?P<tasks>[\d,-]{1,200}): Exited with exit code",
        shows="symptom",
        why="the exit code says nothing of the reason",
    ),
    Line(
        " exited with code ",  # of HPE's mpiexec (PALS), of docker compose
        r"^(?:(?:(?P<host>[\w.-]{1,63}): )?rank (?P<rank>\d{1,6})|(?P<pod>[\w.-]+[-_]\d+)) exited with code [1-9]"
        r"|\b(?:[Jj]ob|[Tt]rain\w*|torchrun|python[\d.]*|[Cc]ontainer|[Cc]ommand|[Ss]cript)\b.{0,60} exited with code "
        r"[1-9]",
        unless="code (?:13[245679]|143)$",
        shows="symptom",
        why="the exit code says nothing of the reason",
    ),
    Line(
        (
            "MPI_ABORT was invoked",
            "application called MPI_Abort(",  # MPICH's
            "failed for some reason; your parallel process is",  # MPI_Init, pmix_init, orte_init
            "*** An error occurred in MPI_",  # Open MPI's ompi/errhandler
            "Local abort before MPI_INIT",
            "Local abort after MPI_FINALIZE",
            "Primary job  terminated normally, but",
            "noticed that process rank ",  # how it ended may stand on the next line
            "has exited due to process rank ",  # without MPI_Finalize; PRRTE's prterun says the same
            "plexec One of MPI processes was aborted.(",  # Fujitsu's, of PJM
            "components were able to be opened in the pml framework",
        ),
        r".{0,80}(?P<row>MPI_A)(?P<first>BORT was invoked on rank |bort\(MPI_COMM_WORLD, -?\d{1,9}\) - process )"
        r"(?P<rank>\d{1,6})|.",
        shows="symptom",
        why="mpirun tells only that a process gave up",
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
    Line("To enable traceback see:", shows="hint", why="torchrun was not told the traceback"),
    Line(
        ("Exception ignored in", "can only test a child process"),  # the latter of a DataLoader that is tidied up
        shows="noise",
        why="Python goes on after it",
    ),
    Line(
        ("raise CalledProcessError", "raise ChildFailedError"),
        shows="noise",
        why="a line of source in a traceback",
    ),
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
        "Killing subprocess ",
        r"sigkill_handler\] Killing subprocess \d|^Killing subprocess \d",
        shows="symptom",
        why="DeepSpeed's launcher ends all ranks of its node when one has failed, or when it is ended itself",
    ),
    Line(
        "an illegal memory access was encountered",
        r"terminated with exception: |NCCL WARN",
        shows="symptom",
        why="a kernel touched memory that is not its own: whose it was, CUDA_LAUNCH_BLOCKING=1 says",
    ),
    Line(
        ("Signal 6", "exitcode"),
        r"Signal 6 \(SIGABRT\)|exitcode *[:=]? *-6\b",
        shows="symptom",
        why="an error in native code that nobody catches ends so; its text is above it",
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
    Line(  # SLURM's words, and its state of a job: scontrol's, seff's, its mails', sacct's tables
        ("DUE TO TASK FAILURE", "JobState=FAILED", "State: FAILED", ", FAILED, ", " FAILED "),
        r" FAILED \(non-zero exit code|DUE TO TASK FAILURE|\bState[:= ]{1,2}FAILED .{0,40}\bExit ?Code"
        r"|(?:JobState=|^State: |Run time [\d:-]{5,20}, )(?P<state>FAILED)(?:[ ,]|$)"
        r"|^\d{1,12}(?:[_.+]\w{1,20}){0,2} .{0,300} (?P<of_table>FAILED) +\d{1,3}:\d{1,3}(?: |$)",
        shows="symptom",
        why="the scheduler tells only that a task failed",
    ),
    Line(
        (
            "BAD TERMINATION OF ONE OF YOUR",
            "torchelastic.worker.status.FAILED",
            "an exception on one of the ranks",
            "Error: failed to run torchrun",  # ColossalAI's
            "failed with return code list: [",  # SkyPilot's
        ),
        shows="symptom",
        why="the launcher tells only that a process failed",
    ),
    Line(
        "] Assertion `",
        r"block: ?\[.{0,80}\] Assertion `.{1,300}` failed",
    ),
    Line(  # SageMaker's, and Vertex AI's
        ("ExecuteUserScriptError", "AlgorithmError: framework error", "exited with a non-zero status of "),
        r"ExecuteU|AlgorithmE|replica \S{1,80} exited with a non-zero status of \d",
        shows="symptom",
        why="the service tells only that the script failed",
    ),
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
        "Process name: [",  # Open MPI's: the first that ended so; of its fifth version behind the name of a daemon
        r"(?P<row>Process (?P<first>name)): \[(?:\[\d{1,9},\d{1,9}\]|[\w.-]{1,200}@\d{1,9}),(?P<rank>\d{1,6})\]",
        shows="symptom",
        why="mpirun tells only that a process failed",
    ),
    Line(
        "Exit Code:",  # kubectl's
        r"Exit Code: {1,12}[1-9]\d{0,2}\b",
        shows="symptom",
        why="what the container said last is in its own log (kubectl logs --previous)",
        unless="13[2679]\\b",
    ),
    Line(
        ("CrashLoopBackOff", "Back-off restart", "specified backoff limit", "BackoffLimitE", " Error ", " Evicted "),
        r"^(?:[\w-]{1,63} +)?(?P<pod>[\w.-]{1,253}) +\d/\d +(?:CrashL|Error|Evicted)"
        r"|CrashL|Back-off r|backoff l|BackoffLimitE",
        shows="symptom",
        why="what the container said last is in its own log (kubectl logs --previous)",
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
