"""Table of the messages in which launchers, schedulers and shells report that a process or job ended.

All their wordings stand here and nowhere else; checks classify the :class:`ProcessExit` that a wording yields.

Named groups of an expression: ``code`` is an exit code, ``signal`` a signal's number, ``name`` its name (SIGKILL),
``word`` the text that a shell or SLURM uses for it; ``process`` and ``agent`` are a pid and a local rank that only the
ProcessExit gets. All other groups become values of the match.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import MappingProxyType

from distdoctor.model.facts.logs import ProcessExit
from distdoctor.model.log_line import Reason

KILLED_WORDS = (
    *("Killed", "killed", "Getötet", "已杀死", "Processus arrêté", "Terminado (killed)", "強制終了", "Ucciso", "Morto"),
    *("Убито", "죽었음"),
)
"""SIGKILL in the words of shells: en, zsh, de, zh, fr, es, ja, it, pt, ru, ko."""
SEGFAULT_WORDS = (
    *("Segmentation fault", "segmentation fault", "Speicherzugriffsfehler", "段错误", "Erreur de segmentation"),
    *("Violación de segmento", "Errore di segmentazione", "Falha de segmentação", "Ошибка сегментирования"),
)
"""SIGSEGV in the words of shells: en, zsh, de, zh, fr, es, it, pt, ru."""
SIGNALS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(KILLED_WORDS, 9),
        **dict.fromkeys(SEGFAULT_WORDS, 11),
        "Illegal instruction": 4,
        "Aborted": 6,
        "Bus error": 7,
        "Floating point exception": 8,
        "Terminated": 15,
    }
)
CODE = 128
"""Offset of a shell's exit code: 128 + n for a process that signal n ended."""
MEANT = (*range(1, 13), 15)
"""Signals that such a code stands for; 141 and 142 (SIGPIPE, SIGALRM) mean no more than another exit code."""
_INTERNAL = ("code", "signal", "name", "word", "process", "agent")
_ENDS_OTHERS = (("outside", (9, 15)),)
"""Mark of signals 9 and 15: the launcher ends the other ranks with them after one failed."""
_SENT = (("by_launcher", (15,)),)
_UNIT = r"systemd\[\d+\]: [^:]{0,80}(?:train|torch|py|job|run|slurm|docker)[^:]{0,200}: "
"""Unit of systemd in which a job may run."""
_STATE = r"(?:JobState=|^State: |Run time [\d:-]{5,20}, |^\d{1,12}(?:[_.+]\w{1,20}){0,2} .{0,300} )"
"""Text before SLURM's state of a job: in scontrol, seff, its mails and sacct's tables."""
_ROW = r"^\d{1,12}(?:[_.+]\w{1,20}){0,2} .{0,300} "
_MAIL = r"(?:JobState=|^State: |Run time [\d:-]{5,20}, )"
_STEP = r"(?:\*\*\* (?:JOB|STEP) \S{1,32} ON (?P<host>\S{1,64}) .{0,80})?DUE TO "
_PROGRAM = r"\b(?:[Jj]ob|[Tt]rain\w*|torchrun|python[\d.]*|[Cc]ontainer|[Cc]ommand|[Ss]cript)\b"
_POD = r"(?:^(?:[\w-]{1,63} +)?(?P<pod>[\w.-]{1,253}) +\d{1,3}/\d{1,3} +)?"


@dataclass(frozen=True)
class Wording:
    """Message with which a launcher reports an end."""

    literal: str | tuple[str, ...]
    """As in :class:`~distdoctor.model.log_line.Line`."""
    pattern: str = ""
    reason: Reason = ""
    signal: int | None = None
    """Signal, if the wording itself implies one."""
    marks: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Values that a match gets if one of these signals ended the process."""
    unless: str = ""
    launcher: str = ""

    @property
    def literals(self) -> tuple[str, ...]:
        """Return the literals as a tuple."""
        return (self.literal,) if isinstance(self.literal, str) else self.literal

    def read(self, text: str) -> Iterator[tuple[ProcessExit, dict[str, str]]]:
        """Yield the ends that ``text`` reports in this wording, each with the values of its match."""
        if self._unless is not None and self._unless.search(text):
            return
        each = self._pattern.finditer(text)
        for match in each if "code" in self._pattern.groupindex else islice(each, 1):
            groups = {name: value for name, value in match.groupdict().items() if value}
            end = self._end(groups)
            marks = {name: "yes" for name, signals in self.marks if end.signal in signals}
            yield end, {**{name: value for name, value in groups.items() if name not in _INTERNAL}, **marks}

    def _end(self, groups: Mapping[str, str]) -> ProcessExit:
        code = int(groups["code"]) if "code" in groups else None
        number = self.signal if code is None else _signal_of(code)
        if "signal" in groups:
            number = int(groups["signal"])
        elif "name" in groups:
            number = getattr(signal, groups["name"], None)
        elif "word" in groups:
            number = SIGNALS.get(groups["word"])
        return ProcessExit(
            rank=_whole_number(groups.get("rank")),
            host=groups.get("host"),
            code=code,
            signal=None if number is None else int(number),
            reason=self.reason,
            launcher=self.launcher,
            local_rank=_whole_number(groups.get("agent") or groups.get("local_rank")),
            pid=_whole_number(groups.get("process")),
            tasks=groups.get("tasks", ""),
        )

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.pattern or "|".join(map(re.escape, self.literals)))

    @cached_property
    def _unless(self) -> re.Pattern[str] | None:
        return re.compile(self.unless) if self.unless else None


def _whole_number(text: str | None) -> int | None:
    return int(text) if text else None


def _signal_of(code: int) -> int | None:
    """Return the signal that an exit code stands for: negative in Python, 128 + n in shells."""
    if -64 <= code < 0:
        return -code
    return code - CODE if code - CODE in MEANT else None


TABLE_RANK = re.compile(r"\brank\s*: (?P<rank>\d{1,6}) \(local_rank: (?P<local>\d{1,4})\)")
TABLE_HOST = re.compile(r"\bhost\s*: (?P<host>[\w.:-]{1,253})")
TABLE_TIME = re.compile(r"\btime\s*: (\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d)")
TABLE_CODE = b"exitcode"
TABLE_ROOT = b"Root Cause (first observed failure)"
"""Head of the entry of the first failed rank in torchrun's table of failures (ChildFailedError); the rows of an entry
follow in the order in which they stand in it."""
TORCHRUN = (
    # torch/distributed/elastic/multiprocessing: the agent's messages about each rank, the table's rows, its own signals
    Wording(
        "exitcode",
        r"exitcode *[:=]? *\(?(?P<code>-?\d{1,10})\b(?: \(pid: (?P<process>\d{1,10})\)"
        r"|\) local_rank: (?P<agent>\d{1,4})\b)?",
        marks=_SENT,
        launcher="torchrun",
    ),
    Wording("(SIG", r"Signal (?P<signal>\d{1,2}) \(SIG", marks=_SENT, launcher="torchrun"),
    Wording(
        "closing signal",
        r"(?:Sending process (?P<process>\d{1,10}) )?closing signal (?:Signals\.)?(?P<name>SIG[A-Z]{2,5})",
        reason="sent by launcher",
        marks=_SENT,
    ),
    Wording(
        "death signal",
        r"Received (?:(?P<signal>\d{1,2})|Signals\.(?P<name>SIG[A-Z]{2,5})) death signal",
        reason="launcher signalled",
        marks=_ENDS_OTHERS,
    ),
    Wording("got signal: ", r"got signal: (?P<signal>\d{1,2})\b", reason="launcher signalled", marks=_ENDS_OTHERS),
    Wording(
        "Received Signals.SIG",
        r"Received Signals\.(?P<name>SIG[A-Z]{2,5})(?! death)",
        reason="launcher signalled",
        marks=_ENDS_OTHERS,
    ),
    Wording("Received SIGHUP", reason="launcher signalled", signal=1),
    Wording("ChildFailedError", reason="failed", launcher="torchrun"),
    Wording("torchelastic.worker.status.FAILED", reason="failed"),
    # torch/distributed/elastic/timer: api.py and file_based_local_timer.py
    Wording(
        "uccessfully reaped worker=[",
        r"[Ss]uccessfully reaped worker=\[(?P<pid>\d+)\](?: with signal=(?P<signal>\d+))?",
        reason="timer expired",
    ),
    Wording(
        "because of expired timers",
        r"Terminating the server process=\[\d+\] because of expired timers",
        reason="timer expired",
    ),
)
SPAWNED = (
    # torch.multiprocessing.spawn, subprocess of Python's library, torch's data loader
    Wording(
        ("terminated with signal SIG", "<Signals.SIG"),
        r"(?:process (?P<local_rank>\d{1,4}) )?(?:terminated with signal |<Signals\.)(?P<name>SIG[A-Z]{2,5})",
    ),
    Wording("terminated with exit code", r"process (?P<rank>\d+) terminated with exit code (?P<code>-?\d{1,10})"),
    Wording(
        "killed by signal: ",
        r"killed by signal: (?P<word>Killed|Segmentation fault|Aborted|Bus error)",
        reason="data loader worker",
    ),
)
DEEPSPEED = (
    Wording(
        "exits with return code = ",
        r"exits with return code = \(?(?P<code>-?\d{1,10})\b",
        marks=_SENT,
        launcher="deepspeed",
    ),
    Wording("Killing subprocess ", r"sigkill_handler\] Killing subprocess \d|^Killing subprocess \d", "ends its ranks"),
)
SHELL = (
    # Messages of shells, make and scripts about a command that ended, also in other languages
    Wording("exit code", r"exit code *[:=]? *\(?(?P<code>-?\d{1,10})\b", marks=_SENT),
    Wording(
        "return code = ", r"return code = \(?(?P<code>-?\d{1,10})\b", marks=_SENT, unless="exits with return code = "
    ),
    Wording("] Error ", r"^make(?:\[\d{1,3}\])?: \*\*\* .{1,300}\] Error (?P<code>\d{1,10})\b", marks=_SENT),
    Wording(
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
        r"(?:\w{1,10} \d{1,7} ?[:：] +\d+ +|^)(?P<word>Killed|Getötet|已杀死|Processus arrêté|Terminado \(killed\)"
        r"|強制終了|Ucciso|Morto|Убито|죽었음)(?: {2,}|$|\s*\()",
        launcher="shell",
    ),
    Wording("killed  ", r"^(?:(?:zsh|fish): |\[\d{1,4}\] {1,8}[-+]? *\d{1,9} )(?P<word>killed) {2,}", launcher="shell"),
    Wording(
        (
            *("Speicherzugriffsfehler", " 段错误", "段错误 ", "Erreur de segmentation", "Violación de segmento"),
            *("Errore di segmentazione", "Falha de segmentação", "Ошибка сегментирования"),
        ),
        r"(?:[:：] ?\w{1,10} \d{1,7} ?[:：] +\d+ +|^)(?P<word>Speicherzugriffsfehler|段错误|Erreur de segmentation"
        r"|Violación de segmento|Errore di segmentazione|Falha de segmentação|Ошибка сегментирования)"
        r"(?: {2,}|$|\s*[(（])",
    ),
    Wording(
        "egmentation fault",
        "(?P<word>[Ss]egmentation fault)",
        unless="(?:exited on|Caught) signal 11|srun: error: .{1,300}: Segmentation|killed by signal: "
        "|(?:could|may|might) be caused|error: pyxis: ",  # enroot's hooks: no rank runs yet
    ),
    Wording("Aborted", r"(?:line \d+: +\d+ +|^)(?P<word>Aborted)\b(?: {2,}| *\(core|$)"),
    Wording("Terminated", r"(?:line \d+: +\d+ +|^|[\]\\|%\d])(?P<word>Terminated)\b(?: {2,}|$)"),
    Wording("Bus error", r"(?:^(?:.{0,80}\d+ )?(?P<word>Bus error)|Bus error ?\(core dumped\))", signal=7),
    Wording(
        ("Illegal instruction", "Floating point exception"),
        r"(?P<word>Illegal instruction|Floating point exception)(?: ?\(core dumped\)|.{0,80}SIGILL)",
    ),
    Wording("exit status ", r"\bexit status (?P<code>137)\b"),
)
HANDLERS = (
    # Handlers of signals in the process itself: UCX, Open MPI, glog and absl, gfortran and gdb
    Wording(
        "Caught signal ",
        r"(?:\[(?P<host>[\w.-]{1,64}):\d{1,9} {0,2}:\d{1,9}(?::\d{1,9})?\] )?Caught signal (?P<signal>\d{1,2})\b",
    ),
    Wording("Signal: ", r"Signal: (?:Aborted|Bus error) \((?P<signal>\d{1,2})\)"),
    Wording("*** SIG", r"\*\*\* (?P<name>SIG[A-Z]{2,5})\b.{0,40} received "),
    Wording("Program received signal SIG", r"Program received signal (?P<name>SIGABRT)"),
)
SLURM = (
    Wording(
        ("srun: error: ", "Exited with exit code", "Aborted", "Terminated"),
        r"(?:srun: error: (?P<host>[\w.-]{1,253}): )?\btasks? (?P<tasks>[\d,-]{1,400}): "
        r"(?:(?P<word>Killed|Terminated|Segmentation fault|Aborted|Bus error|Illegal instruction"
        r"|Floating point exception)\b|Exited with exit code (?P<code>\d{1,3})\b)",
        marks=(("outside", (9,)),),
        launcher="srun",
    ),
    Wording(
        "Out Of Memory",
        r"srun: error: (?P<host>[\w.-]{1,64}): tasks? (?P<tasks>[\d,-]{1,200}): Out Of Memory",
        "out of memory",
        launcher="srun",
    ),
    Wording(("oom_kill event", "oom-kill event"), "oom.kill event", "out of memory"),
    Wording(("exceeded memory limit", "xceeded job memory limit", "xceeded step memory limit"), "", "out of memory"),
    Wording(
        ("OUT_OF_MEMORY", "OUT_OF_ME+"),
        r"State['\"]?[=:] ?['\"]?OUT_OF_MEMORY\b|Run time [\d:-]{5,20}, OUT_OF_MEMORY\b|[│|] ?OUT_OF_MEMORY\b"
        rf"|{_ROW}OUT_OF_ME(?:MORY|\+)(?: |$)",
        "out of memory",
    ),
    Wording("DUE TO ", rf"{_STEP}(?:TIME LIMIT|DEADLINE)", "time limit"),
    Wording("DUE TO ", rf"{_STEP}(?:PREEMPTION|JOB REQUEUE)", "preempted", launcher="slurmstepd"),
    # ON names the host of who says it, which is another
    Wording("DUE TO ", "DUE TO (?:NODE FAILURE|NODE_?FAIL)", "node failure", launcher="slurmstepd"),
    Wording(
        ("JobState=", "State: ", "Run time ", " TIMEOUT ", " DEADLINE "),
        rf"{_STATE}(?:TIMEOUT|DEADLINE)(?:[ ,]|$)",
        "time limit",
    ),
    Wording("NODE_FAIL", rf"{_STATE}NODE_FAIL(?:[ ,]|$)", "node failure"),
    Wording("PREEMPTED", rf"{_STATE}PREEMPTED(?:[ ,]|$)", "preempted"),
    Wording(
        ("JobState=CANCELLED", "State: CANCELLED", ", CANCELLED, ExitCode ", " CANCELLED"),
        rf"{_MAIL}(?P<state>CANCELLED)(?:[ ,]|$)"
        rf"|{_ROW}(?P<of_table>CANCELLED)(?:\+| by \d{{1,10}})? +\d{{1,3}}:\d{{1,3}}(?: |$)",
        "cancelled",
    ),
    Wording(
        ("DUE TO TASK FAILURE", "FAILED (non", "JobState=FAILED", "State: FAILED", ", FAILED, ", " FAILED "),
        r" FAILED \(non-zero exit code|DUE TO TASK FAILURE|\bState[:= ]{1,2}FAILED .{0,40}\bExit ?Code"
        rf"|{_MAIL}(?P<state>FAILED)(?:[ ,]|$)|{_ROW}(?P<of_table>FAILED) +\d{{1,3}}:\d{{1,3}}(?: |$)",
        "failed",
    ),
    # A requeued job has a row of sacct -D for each time; the last one counts
    Wording(
        (" COMPLETED ", " RUNNING ", " PENDING "),
        r"^(?P<well>\d{1,12}(?:_\d{1,9})?) .{0,300} (?:COMPLETED|RUNNING|PENDING) +0:0(?: |$)",
        "goes well",
    ),
    Wording("Node failure on", r"(?:srun|salloc|sbatch): error: Node failure on (?P<host>\S{1,64})", "node failure"),
    Wording("Time limit exhausted for ", r"Time limit exhausted for (?:JobId|StepId|Job)[= ]", "time limit"),
    Wording("exceeded its time limit", "exceeded its time limit and its allocation has been revoked", "time limit"),
    Wording(
        "error: *** ",
        r"error: \*\*\* (?:JOB|STEP) \S{1,32} ON (?P<host>\S{1,64}) CANCELLED",
        "cancelled",
        unless="DUE TO (?:TIME|PREEMPTION|NODE|JOB R|DEADLINE)",
    ),
    Wording(
        ("Force Terminated", " STEPD TERMINATED ON "),
        r"Force Terminated (?:job|Step)|STEPD TERMINATED ON (?P<host>\S{1,64})",
        "cancelled",
    ),
    Wording("Job has been cancelled", "", "cancelled"),
    # Remaining output of the step's tasks comes after it
    Wording(
        ("Terminating StepId=", "Force Terminated StepId="),
        "^srun: (?:Terminating StepId=|Force Terminated StepId=)",
        "sent by launcher",
        launcher="srun",
    ),
)
MPI = (
    # Open MPI and PRRTE
    Wording(
        "exited on signal ",
        r"(?:process rank (?P<rank>\d{1,6}) with PID \d+ on node (?P<host>\S{1,253}) )?exited on signal "
        r"(?P<signal>\d{1,2})\b",
        launcher="mpirun",
    ),
    Wording(
        "Process name: [",  # of its fifth version behind the name of a daemon
        r"(?P<row>Process (?P<first>name)): \[(?:\[\d{1,9},\d{1,9}\]|[\w.-]{1,200}@\d{1,9}),(?P<rank>\d{1,6})\]",
        "first to fail",
        launcher="mpirun",
    ),
    Wording(
        (
            "MPI_ABORT was invoked",
            "application called MPI_Abort(",  # MPICH's
            "failed for some reason; your parallel process is",  # MPI_Init, pmix_init, orte_init
            "*** An error occurred in MPI_",  # Open MPI's ompi/errhandler
            "Local abort before MPI_INIT",
            "Local abort after MPI_FINALIZE",
            "Primary job  terminated normally, but",
            "noticed that process rank ",  # the next line may say how it ended
            "has exited due to process rank ",  # without MPI_Finalize; PRRTE's prterun says the same
            "plexec One of MPI processes was aborted.(",  # Fujitsu's, of PJM
            "components were able to be opened in the pml framework",
        ),
        r".{0,80}(?P<row>MPI_A)(?P<first>BORT was invoked on rank |bort\(MPI_COMM_WORLD, -?\d{1,9}\) - process )"
        r"(?P<rank>\d{1,6})|.",
        "gave up",
    ),
    Wording("time limit for job execution has been reached", "", "time limit"),  # mpirun --timeout, MPIEXEC_TIMEOUT
    Wording(
        ("lost communication with a remote daemon", "daemon has unexpectedly failed after launch"), "", "daemon lost"
    ),
    # Hydra of MPICH and Intel MPI
    Wording("KILLED BY SIGNAL: ", r"KILLED BY SIGNAL: (?P<signal>\d{1,2})\b", marks=_ENDS_OTHERS),
    Wording("EXIT CODE: 1", r"EXIT CODE: (?P<code>1[34]\d)\b"),
    Wording("EXIT STRING: ", r"EXIT STRING: (?P<word>Segmentation fault)"),
    Wording("BAD TERMINATION OF ONE OF YOUR", "", "failed"),
    # HPE's mpiexec (PALS)
    Wording(
        (" died from signal ", " exited with code "),
        r"^(?:(?P<host>[\w.-]{1,253}): )?rank (?P<rank>\d{1,6}) (?:died from signal (?P<signal>\d{1,2})"
        r"|exited with code (?P<code>\d{1,3}))\b",
        launcher="pals",
    ),
    Wording(
        "shepherd died from signal",  # one on each node
        r"^(?:(?P<host>[\w.-]{1,253}): )?shepherd died from signal \d",
        "launcher died",
    ),
)
BATCH = (
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
)
SYSTEMD = (
    Wording(
        ("code=killed, status=", "code=dumped, status=", "code=exited, status="),
        rf"{_UNIT}Main process exited, code=(?:(?:killed|dumped), status=(?P<signal>\d{{1,2}})/"
        r"|exited, status=(?P<code>[1-9]\d{0,2}))",
        launcher="systemd",
    ),
    Wording(
        ("by the OOM killer", "result 'oom-kill'"),
        r"systemd\[\d+\]: [^:]{0,80}(?:train|torch|py|job|run|slurm|docker|cri-|kubepods|session|user)[^:]{0,200}"
        r"\.(?:service|scope|slice): (?:A|Failed)",
        "out of memory",
    ),
)
CONTAINERS = (
    # Docker, docker compose, Kubernetes; 143 is a container that somebody took down
    Wording(" exited with code ", r"^(?P<pod>[\w.-]{1,128}[-_]\d{1,4}) exited with code (?!143)(?P<code>\d{1,3})$"),
    Wording(" exited with code ", rf"{_PROGRAM}.{{0,60}} exited with code (?!143)(?P<code>\d{{1,3}})\b"),
    Wording('"ExitCode": ', r'"ExitCode": (?P<code>137)\b'),
    Wording("Exit Code:", r"Exit Code: {1,12}(?P<code>\d{1,3})\b", launcher="kubectl"),
    Wording(
        ("OOMKilled", "OOM Killed"),
        rf"{_POD}OOM ?Killed",
        "out of memory",
        unless=r"OOMKilled['\"]?[:=] ?['\"]?(?:false|0)\b",
    ),
    Wording(
        ("low on resource: memory", "MemoryPressure"),
        r"low on resource: memory|had condition: \[MemoryPressure",
        "out of memory",
    ),
    Wording(
        ("Preempted by", "Preempted in order to admit"),
        r"Preempted (?:by (?:a |pod \S|\S{1,120}/|\S{1,120} on node)|in order to admit)",
        "preempted",
    ),
    Wording("in response to imminent node shutdown", "", "node shut down"),
    Wording(
        ("active longer than specified deadline", "DeadlineExceeded"),  # of activeDeadlineSeconds
        r"was active longer than specified deadline|Reason: {1,12}DeadlineExceeded",
        "time limit",
    ),
    Wording(
        ("CrashLoopBackOff", "Back-off restart", "specified backoff limit", "BackoffLimitE", " Error ", " Evicted "),
        r"^(?:[\w-]{1,63} +)?(?P<pod>[\w.-]{1,253}) +\d/\d +(?:CrashL|Error|Evicted)"
        r"|CrashL|Back-off r|backoff l|BackoffLimitE",
        "container failed",
    ),
)
SERVICES = (
    Wording(
        ("PreemptionError", "got pre-empted", "pre-emption warning"),  # Azure's
        r"PreemptionError: |[Nn]odes? of this job got pre-?empted",
        "preempted",
    ),
    Wording("Host EC2 (instance ", r"Host EC2 \(instance \S{1,40}\) terminated", "instance terminated"),  # AWS Batch's
    Wording("ran out-of-memory and exited", "", "out of memory"),  # Vertex AI's
    Wording(  # SageMaker's, and Vertex AI's
        ("ExecuteUserScriptError", "AlgorithmError: framework error", "exited with a non-zero status of "),
        r"ExecuteU|AlgorithmE|replica \S{1,80} exited with a non-zero status of \d",
        "failed",
    ),
    Wording(
        (
            "an exception on one of the ranks",
            "Error: failed to run torchrun",  # ColossalAI's
            "failed with return code list: [",  # SkyPilot's
        ),
        "",
        "failed",
    ),
    Wording(  # messages of wrappers, Go programs, W&B and Ray about the end of a job
        (
            *(" with status ", "exit status ", "exit_status=", ", rc=", "=FAILED", ": FAILED", " (failed ", "' failed"),
            " failed with",
        ),
        r"\b(?:job|run|training|torchrun|python[\d.]*|script|launcher)\b.{0,60}\b(?:ended|finished|exited|completed"
        r"|terminated|done|failed)\b.{0,40}(?:\bwith (?:exit )?status|exit_status=|\brc=)[: ]?[1-9]"
        r"|\b(?:[Jj]ob|[Rr]un|[Tt]raining)\b.{0,60}\b(?:state|[Ss]tatus)(?:=|: )FAILED\b"
        r"|^wandb: .{0,80}(?:\(failed |Program failed with code )[1-9]"
        r"|(?:^|: )exit status (?!137)(?P<code>[1-9]\d{0,2})$|^Job 'raysubmit_\w{1,40}' failed",
        "failed",
    ),
)
CHILDREN = (
    # subprocess of Python's library, with which launchers start their ranks; 255 is ssh's own
    Wording(
        "CalledProcessError: ",
        r"returned non-zero exit status (?!255)(?P<code>\d{1,3})"
        r"|died with <Signals\.SIG(?:TERM|ABRT|INT|HUP|PIPE|USR[12]|QUIT)",
        "failed",
        unless=r"^[\w.]{1,200}(?:Error|Exception): [\w.]{0,80}CalledProcessError: ",  # the program's own, which says so
    ),
    Wording(
        "returned non-zero exit status",  # of a command that was wrapped
        r"^\s{0,8}(?:[^ ]{0,40}['\]]+ )?returned non-zero exit status (?!0|255)(?P<code>\d{1,3})\.",
        "command failed",
    ),
)
RAY = (
    Wording(
        "killed due to memory",  # the raylet's: where the line was broken, the rest is on the next one
        r"[1-9]\d* Workers (?:\(tasks / actors\) )?killed due to memory(?:.{0,300}, IP: (?P<host>[\w.:-]{1,64})\))?",
        "out of memory",
    ),
    Wording(("due to the node running low on memory", "OutOfMemoryError: Task was killed"), "", "out of memory"),
    Wording(
        "exceeds the memory usage threshold of",
        r"Memory on the node \(IP: (?P<host>[\w.:-]{1,64})[,)].{0,600}exceeds the memory usage threshold of",
        "out of memory",
    ),
    Wording(("Worker unexpectedly exit", "actor died unexpectedly"), "", "actor died"),
    Wording("by an unexpected system error", "", "worker crashed"),
    Wording("marked dead because", "", "node dead"),
    Wording(("NodeDiedError", "Raylet is terminated. Termination is unexpected"), "", "node lost"),
    Wording(("actor is dead because its", "ActorDiedError", "RayActorError", "WorkerCrashedError"), "", "actor lost"),
    Wording(
        "ray.exceptions.",
        r"ray\.exceptions\.(?:Actor|RayActor|Worker|Node|Owner|Object|ReferenceCounting|LocalRaylet|Raylet)\w{0,40}Error",
        "actor lost",
    ),
)
WORDINGS = (
    *(*TORCHRUN, *SPAWNED, *DEEPSPEED, *SHELL, *HANDLERS, *SLURM, *MPI, *BATCH, *SYSTEMD, *CONTAINERS, *SERVICES),
    *(*CHILDREN, *RAY),
)
