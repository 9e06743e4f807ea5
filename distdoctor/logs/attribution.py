"""Attribution of log lines to ranks and hosts, by the prefixes of launchers, torch, NCCL and schedulers and by file
paths."""

from __future__ import annotations

import calendar
import html
import re
from dataclasses import replace
from functools import lru_cache

from distdoctor.logs.dialects import PLACES, PREFIXES
from distdoctor.logs.dialects.dialect import ERROR, PROGRAM
from distdoctor.model.facts.logs import LineOrigin
from distdoctor.model.text import A_YEAR, in_a_year

_NOBODY = LineOrigin()
_PREFIXES = tuple(
    (starts, re.compile(pattern))
    for starts, pattern in (
        *PREFIXES,
        ("[", r"\[host=(?P<host>[\w.-]{1,64})\] "),  # what json_lines makes of a field
        ("a0", r"[\w.-]{1,64}/\d{1,6} (?=\[(?:[A-Za-z_]\w{0,30}?)?\d{1,4}\]:)"),  # torchx's, and NeMo-Run's, before it
        # mpiexec -l of MPICH and Intel MPI, before what nothing but a program that fails writes
        ("[", rf"\[(?P<task>\d{{1,6}})\] (?=\[rank\d|Traceback \(|  File \"|{ERROR})"),
        # the prefix that torchrun was configured with (TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE), before the same
        ("[", rf"\[(?=[^\]]{{0,40}}\d)[\w.|=-]{{1,48}}\]: ?(?=Traceback \(|  File \"|{ERROR})"),
        ("[", r"\[\d{1,9},(?P<rank>\d{1,6})\](?:<std(?:out|err|diag)>)?: ?"),  # mpirun --tag-output
        ("[", r"\[(?P<rank>\d{1,6})\]<std(?:out|err)>: ?"),  # horovodrun's
        # SageMaker's
        ("[", r"\[\d{1,9},mpirank:(?P<rank>\d{1,6}),(?P<host>[\w.-]{1,63})\](?:<std(?:out|err|diag)>)?: ?"),
        ("[", r"\[pod/(?P<host>[a-z0-9][a-z0-9.-]{0,252})/[a-z0-9-]{1,63}\] "),  # kubectl logs --prefix
        # docker compose: the name of a container ends in its number
        ("a", r"(?P<host>(?!rank|step|epoch|iter|batch|layer|loss)[a-z][\w.-]{0,62}[-_]\d{1,4}) {1,60}\| "),
        # docker service logs: a task of a service, and its node
        ("a0", r"[\w.-]{1,128}\.\d{1,5}\.[a-z0-9]{4,25}@(?P<host>[\w.-]{1,64}) {1,60}\| "),
        ("a[", r"\[?Rank[ :=]?(?P<rank>\d{1,6})\]?[:|] ?"),
        (
            "[0",
            r"\[?(?P<date>\d{4}[-/]\d\d[-/]\d\d)[T_ -](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
            r"(?:Z|[+-]\d\d:?\d\d)?\]?,?[ \t]?(?:[-|] ?)?",
        ),
        # Airflow's, before and behind the time
        ("[", r"\[(?P<date>\d{4}-\d\d-\d\d), (?P<clock>\d\d:\d\d:\d\d) [A-Z]{2,5}\] ?"),
        ("{", r"\{[\w.-]{1,80}\.py:\d{1,6}\} [A-Z]{4,8} - "),
        # Loki's: logcli, behind the time
        (
            "{",
            r"\{(?=[a-z_]\w{0,60}=\")(?:[^{}]{0,800}?\b(?:pod|node_name|hostname|instance)=\"(?P<host>[\w.-]{1,128})\")?"
            r"[^{}]{0,800}\} ?",
        ),
        ("[0", r"\[?\d\d:\d\d:\d\d[.,]\d{3,9}\]? (?=\S)"),  # a clock without a day, which orders nothing
        (
            "<a",
            r"(?:<\d{1,3}>)?[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})? (?P<host>[A-Za-z0-9][\w.-]{0,63}) "
            rf"(?:{PROGRAM}|(?=[\w./-]{{1,32}}(?:\[\d{{1,9}}\])?: ))",  # syslog's and the journal's
        ),
        # the same behind a time of another form, as rsyslog and journalctl -o short-iso write it
        (
            "a0",
            r"(?!(?:TRACE|DEBUG|INFO|NOTICE|WARN\w*|ERR\w*|CRIT\w*|FATAL) )"
            r"(?P<host>(?=[\w.-]{0,63}[A-Za-z])\w[\w.-]{0,63}) "
            rf"(?:{PROGRAM}|(?=(?:kernel|systemd|slurm\w{{1,8}})(?:\[\d{{1,9}}\])?: ))",
        ),
        # a time in syslog's form without a host: ts of moreutils
        ("a", r"[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})? (?=.)"),
        ("0", r"(?P<host>(?:\d{1,3}\.){3}\d{1,3}) \[\d{1,5}\] (?=.)"),  # torch_xla's xla_dist, behind the time
        # CloudWatch's, of a stream: aws logs tail
        ("a0", r"(?:[\w.-]{1,200}/)?(?P<host>algo-\d{1,5})[-/][\w-]{1,64} (?=.)"),
        ("[", r"\[\s*\d{1,9}\.\d{3,6}\] "),  # the kernel's
        ("a", r"(?:std(?:out|err)|[FP]) (?=\S)"),  # a container's own log
        ("a0.-[", r"(?:[\w.-]{1,80} )?\[(?:std(?:out|err))\]:? ?"),
        ("a0 |", r"(?:[0-9a-f]{8})? {0,12}\|\| ?"),  # Determined's, of a container
        ("<", r"<(?:\w{1,9})?> {1,12}(?=\[\d{4}-)"),
        ("|│┃", r"[|│┃] ?"),  # rich's boxes
        (" ", rf" {{2,32}}\| (?={ERROR})"),  # Python's, of one exception of a group
        (">", r"(?:> ){1,3}"),
        ("a", r"(?:stdout|stderr): "),
        # prefixes that loggers and hooks put before an exception: source position, level, rank
        ("a0./", rf"[\w./-]{{1,120}}\.py:\d{{1,6}}:[ \t]{{1,2}}(?=(?:[Rr]ank \d{{1,6}}: )?{ERROR}|Traceback \()"),
        ("a", rf"(?:FATAL|CRITICAL)[ :|-]{{1,4}}(?=(?:[Rr]ank[ =:]\d{{1,6}}:? )?{ERROR})"),
        ("a", rf"[Rr]ank[ =:](?P<rank>\d{{1,6}}):? (?={ERROR}|Traceback \()"),
    )
)
"""Prefixes, each with the characters that it may begin with: ``a`` for any letter, ``0`` for any digit."""
_BY_PROGRAM = re.compile(
    rf"(?:\.py:\d{{1,6}}:[ \t]|\b(?:FATAL|CRITICAL)\b|\b[Rr]ank[ =:]\d{{1,6}}:? )[^\"']{{0,40}}?{ERROR}"
)
"""Line in which a program itself reports an exception that it caught."""
_HOST = re.compile(r"(?P<host>[A-Za-z][A-Za-z0-9-]*[0-9-][\w.-]{0,60}|(?:\d{1,3}\.){3}\d{1,3}|localhost): (?=\s*\S)")
"""Hostname that pdsh (DeepSpeed) puts before each line; words without a digit or dash are something else."""
_ADDRESS = re.compile(r"[\d.]+")
_NO_HOST = re.compile(
    r"(?:Error|Exception|Warning|Interrupt|Exit|Iteration|\.(?:py|sh|cc?|cpp|cu|log|out))$|^(?:sm|step|epoch|v)\d|^E(?:[A-Z]|RR)\d{4,5}$|-(?:cli|smi|killer)$"
    r"|^python[\d.]*$",
    re.I,
)
_TEXT_RANK = re.compile(
    r"\[(?:PG (?:ID )?[\w() :-]{1,80} )?[Rr]ank:? ?(?P<rank>\d{1,6})\]|\bon rank (?P<also>\d{1,6})\b|"
    r"(?<![Ll]ocal )(?<![Ll]ocal_)\brank[ =:](?P<third>\d{1,6})\b(?! and| to|,? which)|"
    r"\bMPI_Abort\(MPI_COMM_WORLD, -?\d{1,10}\) - process (?P<mpich>\d{1,6})"
)
_PLACES = tuple(map(re.compile, PLACES))
_PATHS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"attempt_\d+/(?P<local_rank>\d{1,4})/(?:std(?:out|err)\.log|error\.json)$",
        r"(?:^|[/._-])rank[._-]?(?P<rank>\d{1,6})(?:[._-]|$)",
        r"/rank[._-]?(?P<rank>\d{1,6})/",  # mpirun --output-filename
        r"(?:^|/)\d{1,12}(?:_\d{1,9})?_(?P<rank>\d{1,6})_log\.(?:out|err)$",  # submitit's
        r"(?:^|[/._-])local[._-]?rank[._-]?(?P<local_rank>\d{1,4})(?:[._-]|$)",
        r"(?:^|[/._-])global[._-]?rank[._-]?(?P<rank>\d{1,6})(?:[._-]|$)",  # NeMo's, in the same folder
        r"(?:^|[/._-])(?P<host>(?:node|host|worker|gpu|pod)[a-z]*[._-]?\d{1,5}|(?:node|host)[_-]?[a-rt-z]|(?:worker|gpu|pod)[_-][a-rt-z]|nid\d{3,8}|(?<=/)n\d{1,5})(?:[._-](?:\w{1,8}[._-])?(?:log|out|err|txt|dmesg|kmsg|journal)|/)",
    )
)
_LOCAL_IN_PATH = re.compile(r"local[._-]?rank", re.I)


@lru_cache(maxsize=4096)
def _prefixes(first: str) -> tuple[re.Pattern[str], ...]:
    """Return the prefixes that may begin with the character ``first``."""
    kind = "0" if first.isdigit() else "a" if first.isalnum() or first == "_" else first
    return tuple(pattern for starts, pattern in _PREFIXES if kind in starts)


@lru_cache(maxsize=4096)
def split(line: str) -> tuple[LineOrigin, str]:
    """Split ``line`` into its speaker and the text without prefixes.

    Cached: the lines above an exception are read for each exception below them.
    """
    who, text = _NOBODY, line
    for turn in range(8):
        bare = text.lstrip() if turn == 0 else text
        for prefix in _prefixes(bare[:1]) if bare else ():
            match = prefix.match(bare)
            if match:
                who, text = _merged(who, match.groupdict()), bare[match.end() :]
                break
        else:
            host = _HOST.match(bare) if who.host is None else None
            if host is None or _NO_HOST.search(host["host"]):
                break
            who, text = replace(who, host=host["host"]), bare[host.end() :]
    return who, text


def is_by_program(context: bytes, at: int) -> bool:
    """Return whether a program itself wrote the line of an exception that begins at ``at``, so it caught the
    exception."""
    return _BY_PROGRAM.search(readable(context[at : at + 300].partition(b"\n")[0])) is not None


def mentioned(who: LineOrigin, text: str) -> LineOrigin:
    """Return ``who`` with the rank that the text names as its own, as torch's watchdog does."""
    for place in _PLACES:
        if (named := place.search(text, 0, 300)) is not None:
            who = _merged(who, named.groupdict())
    if who.rank is not None:
        return who
    match = _TEXT_RANK.search(text, 0, 300)
    number = next((group for group in match.groups() if group), None) if match else None
    return who if number is None else replace(who, rank=int(number))


def of_file(name: str) -> LineOrigin:
    """Return the speaker of a whole file by its path: the part nearest to its end counts."""
    who = LineOrigin()
    for pattern in _PATHS:
        match = next(iter(reversed([*pattern.finditer(name)])), None)
        named = match is not None and "global" in match[0].lower()
        if match and (named or not ("rank" in pattern.groupindex and _LOCAL_IN_PATH.search(name))):
            who = _merged(who, match.groupdict())
    return who


def within(who: LineOrigin, file: LineOrigin) -> LineOrigin:
    """Return ``who``, completed by the speaker of the file."""
    if file.rank is None and file.local_rank is None and not file.host and file.task is None:
        return who
    return replace(
        who,
        rank=who.rank if who.rank is not None else file.rank,
        local_rank=who.local_rank if who.local_rank is not None else file.local_rank,
        host=who.host or file.host,
        task=who.task if who.task is not None else file.task,
    )


def _merged(who: LineOrigin, values: dict[str, str | None]) -> LineOrigin:
    if not any(values.values()):
        return who
    return LineOrigin(
        rank=_first(who.rank, values.get("rank")),
        local_rank=_first(who.local_rank, values.get("local_rank")),
        host=_host(who, values),
        pid=_first(who.pid, values.get("pid")),
        time=who.time if who.time is not None else _time(values),
        task=_first(who.task, values.get("task")),
    )


def _first(known: int | None, text: str | None) -> int | None:
    return known if known is not None or not text else int(text)


def _host(who: LineOrigin, values: dict[str, str | None]) -> str | None:
    """Return the first host given; NCCL's own name precedes the address that pdsh was given."""
    host = values.get("host")
    by_address = who.host is not None and who.pid is None and _ADDRESS.fullmatch(who.host)
    return host if host and values.get("pid") and by_address else who.host or host


def _time(values: dict[str, str | None]) -> float | None:
    clock = values.get("clock")
    if not clock:
        return None
    hours, minutes, seconds = clock.replace(",", ".").split(":")
    date = values.get("date")
    year, month, day = (int(part) for part in re.split(r"[-/:]", date)) if date else (A_YEAR, 1, 1)
    if values.get("mm"):
        year, month, day = A_YEAR, int(values["mm"] or 1), int(values["dd"] or 1)
    if not (1970 <= year < 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    return calendar.timegm((year, month, day, int(hours), int(minutes), 0)) + float(seconds)


_SYSLOG = re.compile(rb"(?:<\d{1,3}>)?([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)")


def of_syslog(context: bytes, at: int) -> float | None:
    """Return the time in syslog form of the line that begins at ``at``, in an unknown year."""
    found = _SYSLOG.match(context, at)
    if found is None or (month := b"JanFebMarAprMayJunJulAugSepOctNovDec".find(found[1])) % 3:
        return None
    day, hours, minutes, seconds = map(int, found.groups()[1:])
    return float(calendar.timegm((A_YEAR, month // 3 + 1, day, hours, minutes, seconds)))


def earlier(time: float, since: float) -> bool:
    """Return whether ``time`` is before ``since``; where either has no year, the year is ignored."""
    known = min(time, since) >= _REAL_YEARS
    return time < since if known else in_a_year(time) < in_a_year(since)


_REAL_YEARS = calendar.timegm((A_YEAR + 1, 1, 1, 0, 0, 0))


def readable(raw: bytes) -> str:
    """Return a log line as text, with HTML escapes undone and line endings replaced."""
    text = raw.decode("utf-8", "replace").rstrip()
    return html.unescape(text) if "&" in text and ";" in text else text
