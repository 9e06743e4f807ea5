"""Form of a dialect: the wordings in which one framework, launcher or scheduler writes, as data.

Named groups of a :class:`Wording`'s expression: ``code`` is an exit code, ``signal`` a signal's number, ``name`` its
name (SIGKILL), ``word`` the text that a shell or SLURM uses for it; ``process`` and ``agent`` are a pid and a local
rank that only the ProcessExit gets. All other groups become values or marks of the match.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import MappingProxyType

from distdoctor.model.facts.logs import LineMark, ProcessExit
from distdoctor.model.log_line import Reason

ERROR = r"(?:\w{1,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception)(?:: |$)"
PROGRAM = r"(?!kernel|systemd|slurm|earlyoom)[\w./-]{1,32}\[(?P<pid>\d{1,9})\]: "
"""Prefix of a line from a job's program; daemons are recognized by name."""
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
        "Hangup": 1,
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
ENDS_OTHERS: tuple[tuple[LineMark, tuple[int, ...]]] = (("outside", (9, 15)),)
"""Mark of signals 9 and 15: the launcher ends the other ranks with them after one failed."""
SENT: tuple[tuple[LineMark, tuple[int, ...]]] = (("by_launcher", (15,)),)


@dataclass(frozen=True)
class Wording:
    """Message with which a launcher reports an end."""

    literal: str | tuple[str, ...]
    """As in :class:`~distdoctor.model.log_line.Line`."""
    pattern: str = ""
    reason: Reason = ""
    signal: int | None = None
    """Signal, if the wording itself implies one."""
    marks: tuple[tuple[LineMark, tuple[int, ...]], ...] = ()
    """Marks that a match gets if one of these signals ended the process."""
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
            marks: dict[str, str] = {name: "yes" for name, signals in self.marks if end.signal in signals}
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


@dataclass(frozen=True)
class Mark:
    """Wording without values: a literal that is looked for in every line, and an expression that must then match."""

    literal: str
    pattern: str = ""

    def is_in(self, text: str) -> bool:
        """Return whether ``text`` has it."""
        return self.literal in text and re.search(self.pattern, text) is not None


@dataclass(frozen=True)
class OwnWords:
    """Account that a library gives of its failure, near a line that only refers to it."""

    library: str
    failed: str
    """Expression for such a line, whoever wrote it."""
    above: bytes = b"(?!)"
    """Expression for the library's last line above it; its group is the text."""
    below: bytes = b"(?!)"
    """The same for the first line from there on, which counts more."""
    advice: bytes = b"(?!)"
    """Expression for the remedy below it."""

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
        """Return the expressions, in this order."""
        return re.compile(self.failed), re.compile(self.above), re.compile(self.below), re.compile(self.advice)


@dataclass(frozen=True)
class Dialect:
    """Everything that distdoctor knows of how one framework, launcher or scheduler writes.

    A new engine is one file with a Dialect.
    """

    prefixes: tuple[tuple[str, str], ...] = ()
    """Prefixes of its lines, as expressions that name the speaker, each with the characters that it may begin with:
    ``a`` for any letter, ``0`` for any digit."""
    places: tuple[str, ...] = ()
    """Expressions with which a line names its own process behind its prefix: ``rank``, ``local_rank``, ``pid``."""
    ends: tuple[Wording, ...] = ()
    """Reports of the end of a process, a node or the job."""
    begins: tuple[Mark, ...] = ()
    """Start of a run, in a log that may have several."""
    success: tuple[Mark, ...] = ()
    """Reports that the whole job has succeeded, by somebody who knows."""
    stops: tuple[Mark, ...] = ()
    """Reports of a program that it ends because somebody asked it to."""
    over: str = ""
    """Expression for a report that the job, or the reporter's part of it, is over without a failure."""
    wrappers: str = ""
    """Expression for an exception that only wraps, or refers to, another one."""
    own_port: str = ""
    """Expression for a line that names a ``port`` which the engine picked itself, and not the user."""
    port_fix: str = ""
    """Remedy if another program took such a port before the engine bound it."""
    own_words: OwnWords | None = None
