"""Lines of shells, of make, of handlers of signals in a process, and of launchers that run commands."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import KILLED_WORDS, SENT, Dialect, Wording

_HELPER = r"\s{1,40}\(?\s*(?:while|until|sleep|tail|watch|nvidia-smi)\s"
"""Command of a script's helper that a shell reports as ended: a loop that watches the job, and is no process of it."""
DIALECT = Dialect(
    ends=(
        # Messages of shells, make and scripts about a command that ended, also in other languages
        Wording("exit code", r"exit code {0,8}[:=]? {0,8}\(?(?P<code>-?\d{1,10})\b", marks=SENT),
        Wording(
            "return code = ", r"return code = \(?(?P<code>-?\d{1,10})\b", marks=SENT, unless="exits with return code = "
        ),
        Wording("] Error ", r"^make(?:\[\d{1,3}\])?: \*\*\* .{1,300}\] Error (?P<code>\d{1,10})\b", marks=SENT),
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
            unless=rf"\d (?:{'|'.join(KILLED_WORDS)}){_HELPER}",
            launcher="shell",
        ),
        Wording(
            "killed  ", r"^(?:(?:zsh|fish): |\[\d{1,4}\] {1,8}[-+]? *\d{1,9} )(?P<word>killed) {2,}", launcher="shell"
        ),
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
        Wording("Hangup", r"line \d+: +\d+ +(?P<word>Hangup)(?: {2,}|$)", launcher="shell"),
        Wording(
            "Terminated",
            r"(?:line \d+: +\d+ +|^|[\]\\|%\d])(?P<word>Terminated)\b(?: {2,}|$)",
            unless=f"Terminated{_HELPER}",
        ),
        Wording("Bus error", r"(?:^(?:.{0,80}\d+ )?(?P<word>Bus error)|Bus error ?\(core dumped\))", signal=7),
        Wording(
            ("Illegal instruction", "Floating point exception"),
            r"(?P<word>Illegal instruction|Floating point exception)(?: ?\(core dumped\)|.{0,80}SIGILL)",
        ),
        Wording("exit status ", r"\bexit status (?P<code>137)\b"),
        # Handlers of signals in the process itself: UCX, Open MPI, glog and absl, gfortran and gdb
        Wording(
            "Caught signal ",
            r"(?:\[(?P<host>[\w.-]{1,64}):\d{1,9} {0,2}:\d{1,9}(?::\d{1,9})?\] )?Caught signal (?P<signal>\d{1,2})\b",
        ),
        Wording("Signal: ", r"Signal: (?:Aborted|Bus error) \((?P<signal>\d{1,2})\)"),
        Wording("*** SIG", r"\*\*\* (?P<name>SIG[A-Z]{2,5})\b.{0,40} received "),
        Wording("Program received signal SIG", r"Program received signal (?P<name>SIGABRT)"),
        # subprocess of Python's library, with which launchers start their ranks; 255 is ssh's own
        Wording(
            "CalledProcessError: ",
            r"returned non-zero exit status (?!255)(?P<code>\d{1,3})"
            r"|died with <Signals\.SIG(?:TERM|ABRT|INT|HUP|PIPE|USR[12]|QUIT)",
            "failed",
            unless=r"^[\w.]{1,200}(?:Error|Exception): [\w.]{0,80}CalledProcessError: ",  # of the program itself
        ),
        Wording(
            "returned non-zero exit status",  # of a command that was wrapped
            r"^\s{0,8}(?:[^ ]{0,40}['\]]+ )?returned non-zero exit status (?!0|255)(?P<code>\d{1,3})\.",
            "command failed",
        ),
    )
)
