"""Converters of log formats to plain lines: JSON lines and arrays, Loki answers, CSV tables, newest-first logs, LSF
reports.

JSON objects come one per line, as structlog, python-json-logger, Docker and Kubernetes write them, or as an array, as
cloud loggers export them (``gcloud logging read --format=json``).
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from time import gmtime, strftime
from typing import Any

from distdoctor.logs.attribution import readable, split
from distdoctor.logs.endings import PROGRESS
from distdoctor.logs.reading import budget, nvidia_smi
from distdoctor.model.facts.logs import LineOrigin

ARRAY = 64 << 20
"""Most bytes of an array that are read."""
MOST_OBJECTS = 500_000
OBJECT = (16 << 10, 1 << 20)
"""Characters within which the end of an object is searched: enough for most objects, then enough for any."""
_DECODER = json.JSONDecoder()
TEXTS = ("message", "msg", "event", "log", "text", "MESSAGE", "textPayload", "line", "body")
"""Keys of the text: logging's formatters and bunyan; structlog; Docker's json-file; loguru; journald; others."""
RAISED = ("exception", "exc_info", "exc_text", "stack_info", "stack_trace", "traceback", "stack", "error")
"""Keys of an exception next to it."""
WHO = {
    "rank": ("rank", "global_rank", "rank_id"),
    "local_rank": ("local_rank",),
    "host": ("host", "hostname", "node", "node_name", "_HOSTNAME", "pod", "pod_name", "k8s.pod.name", "logStreamName"),
    "time": ("timestamp", "time", "@timestamp", "asctime", "ts", "__REALTIME_TIMESTAMP"),
}
_INNER = (
    *("jsonPayload", "record", "extra", "fields", "kubernetes", "labels", "resource", "resources", "attributes"),
    *("_source", "content"),
)
"""Keys of inner objects that hold some of these, directly or in their own ``labels``."""
_LINE = re.compile(rb'^\{[ \t]?"[^\n]*\}[ \t]*\r?$', re.M)
_TAGGED = re.compile(rb"^[\dT:.+Z -]{10,40}\t[\w.-]{1,200}\t(\{\"[^\n]*\})[ \t]*\r?$", re.M)
"""Line of fluentd's files: time, tag, object."""
_TEED = re.compile(rb"^(\[[A-Za-z]\w{0,30}?\d{1,4}\]: ?)(\{\"[^\n]*\})[ \t]*\r?$", re.M)
"""Line of torchrun --tee."""
_PAIRS = re.compile(
    rb"^(?=[\w.@/-]{1,40}=)(?=[^\n]{0,2000}?\bmsg=\")"
    rb"(?:[\w.@/-]{1,40}=(?:\"(?:[^\"\\\n]|\\[^\n])*\"|[^\s\"]*)(?: |(?=\r?$))){3,40}\r?$",
    re.M,
)
"""Line in logfmt, as promtail, Grafana's agents and Go's daemons write it."""
_PAIR = re.compile(r"([\w.@/-]{1,40})=(\"(?:[^\"\\]|\\.)*\"|[^\s\"]*)")
_KEY = re.compile(rb'"(?:%s)"[ \t]{0,4}:[ \t]{0,4}"' % "|".join(TEXTS).encode())
_ARRAY = re.compile(rb"\s*(?:\{\s*\"(?:events|hits|logs|data)\"\s*:\s*)?\[\s*\{\s*\"")
_OBJECT = re.compile(r"[\s,]*(?=\{)")
_TIMED = re.compile(rb'"(?:timestamp|@timestamp|receiveTimestamp|time|ts|asctime|__REALTIME_TIMESTAMP)"\s*:')
_JSON_HOST = re.compile(r"(?:[\w.-]{1,200}/)?([A-Za-z0-9][\w.-]{0,63})")
"""Host in the name of a log stream, behind the job's name."""
_TASK = re.compile(r"workerpool\d{1,3}-\d{1,5}")
"""Vertex AI's name of one of a job's machines (elsewhere a task may be anything)."""
_EPOCH = re.compile(r"(\d{10})(?:(\d{3})(?:\d{3}){0,2})?(?:\.(\d{1,3})\d*)?")
"""Seconds since 1970, also in milliseconds, microseconds or nanoseconds."""
COLOURS = r"\x1b(?:\[[0-9;?]{0,24}[ -/]?[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\-_])"
"""Escape sequences of a terminal, such as colours."""
SHOWN_COLOURS = (
    rb"(?:\^\[|#033|\\(?:x1b|u001b|033|e)|\xef\xbf\xbd|\xe2\x90\x9b)\[[0-9;]{0,24}m"
    rb"|(?m:^|(?<=[\sm]))\[[1-9][0-9;]{0,24}m(?=[^\s\]])|(?<=\S)\[0m"
)
"""The same of colours, where a web page, a pager or a collector shows the escape character as text, or drops it."""
_COLOURS = re.compile(COLOURS)
_JSON_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
_ENDS = re.compile(r"[\r\n]+")


def is_json_log(head: bytes) -> bool:
    """Return whether a file that begins so is a log of JSON objects."""
    lines = _LINE.findall(head)
    if not lines and b"\n" not in head:  # the first line goes on
        key = _KEY.search(head)
        return key is not None and head.startswith(b"{") and head.count(b"{", 0, key.start()) == 1
    return any(text_of(line) is not None for line in lines[:8])


def is_array(head: bytes) -> bool:
    """Return whether a file that begins so is an array of such objects, each with a time: a data set has none."""
    begins = _ARRAY.match(head) is not None
    return begins and _KEY.search(head) is not None and _TIMED.search(head) is not None


def array_as_text(data: bytes) -> bytes:
    """Return the texts of the objects in the array at the start of ``data``, each on the line on which its object
    begins.

    An array on a single line gets one line per object. Other objects, and those beyond MOST_OBJECTS, stay as they are.
    """
    text, lines, at = data.decode("utf-8", "replace"), list[bytes](), 0
    at = text.find("[") + 1
    many = text.count("\n") > text.count("},")
    gap = text[:at]
    while len(lines) < MOST_OBJECTS and (found := _OBJECT.match(text, at)) is not None:
        value, end = _object(text, found.end())
        if end < 0:
            break
        message = message_of(value) if isinstance(value, dict) else None
        gap += found[0]
        before = "\n" * gap.count("\n") if many else "\n" if lines else ""
        lines.append((before + (message or text[found.end() : end])).encode("utf-8", "replace"))
        gap, at = text[found.end() : end], end
    return b"".join([*lines, text[at:].encode("utf-8", "replace")])


def _object(text: str, at: int) -> tuple[Any, int]:
    """Return the object that begins at ``at`` and its end: -1 if it has no end, or is too large."""
    for size in OBJECT:
        try:
            value, length = _DECODER.raw_decode(text[at : at + size])
            return value, at + length
        except (ValueError, RecursionError):
            if len(text) <= at + size:
                break
    return None, -1


def json_as_text(block: bytes) -> bytes:
    """Replace each JSON line of ``block`` by its text; other lines stay as they are.

    Each line stays one line, so that line numbers are those of the file.
    """
    if b' msg="' in block:
        block = _PAIRS.sub(_paired, block)
    if b"{" not in block:  # searching one byte is far faster than two
        return block
    if b"]:{" in block:
        block = _TEED.sub(_behind, block)
    if b"\t{" in block:
        block = _TAGGED.sub(_replaced, block)
    return _LINE.sub(_replaced, block) if block.startswith(b"{") or b"\n{" in block else block


def _behind(match: re.Match[bytes]) -> bytes:
    """Return the text of an object behind the local rank that torchrun printed."""
    text = text_of(match[2])
    return match[0] if text is None else match[1] + text.encode("utf-8", "replace").replace(b"\r", b"\r" + match[1])


def _replaced(match: re.Match[bytes]) -> bytes:
    text = text_of(match[match.lastindex or 0])
    return match[0] if text is None else text.encode("utf-8", "replace")


def _paired(match: re.Match[bytes]) -> bytes:
    """Return the text of a line in logfmt, if it names a process or a host."""
    value: dict[str, object] = {}
    for name, word in _PAIR.findall(match[0].decode("utf-8", "replace")):
        try:
            value[name] = json.loads(word) if word.startswith('"') else word
        except ValueError:
            value[name] = word[1:-1]
    text = (
        message_of(value) if any(_first(value, WHO[kind], (str,)) for kind in ("rank", "local_rank", "host")) else None
    )
    return match[0] if text is None else text.encode("utf-8", "replace")


def text_of(line: bytes | str, wrapped: bool = False) -> str | None:
    """Return the text of a line behind its speaker and time; None if it is no object with a text.

    Line ends within it become carriage returns. ``wrapped``: the line is itself the text of such a line, as when a
    container logs JSON.
    """
    try:
        value = budget.loads(line)
    except (ValueError, RecursionError):
        return None
    return message_of(value, wrapped)


def message_of(value: Any, wrapped: bool = False) -> str | None:
    """Return the text of an object, as :func:`text_of` does."""
    message = _first(value, TEXTS, (str, list)) if isinstance(value, dict) else None
    if message is None:
        return None
    message = _COLOURS.sub("", message) if "\x1b" in message else message
    if message.startswith("{") and not wrapped:
        message = text_of(message, wrapped=True) or message
    raised = [text for name in RAISED if (text := _text(value.get(name))) and text not in message]
    before, pieces = _before(value), _ENDS.split("\n".join([message.rstrip(), *raised]))
    return before + f"\r{before}".join(pieces)


def _before(value: Mapping[str, Any]) -> str:
    """Return speaker and time as the readers of prefixes expect them."""
    found = {kind: _first(value, names, (str, int, float)) for kind, names in WHO.items()}
    task = _TASK.fullmatch(_first(value, ("task_name",), (str,)) or "") if found["host"] is None else None
    time, host = (
        _json_time(found["time"] or ""),
        _JSON_HOST.fullmatch(found["host"] or (task[0] if task is not None else "")),
    )
    parts = [
        f"[{time}] " if time else "",
        f"[host={host[1]}] " if host else "",
        f"[rank{found['rank']}]: " if (found["rank"] or "").isdecimal() else "",
        f"[local_rank{found['local_rank']}]: " if (found["local_rank"] or "").isdecimal() else "",
    ]
    return "".join(parts)


def _json_time(text: str) -> str:
    """Return a time in the form in which lines begin with it; empty if ``text`` is none."""
    known, epoch = _JSON_TIME.match(text), _EPOCH.fullmatch(text)
    if known is not None or epoch is None:
        return known[0] if known is not None else ""
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(int(epoch[1]))) + f".{epoch[2] or epoch[3] or 0}"


def _first(value: Mapping[str, Any], names: tuple[str, ...], kinds: tuple[type, ...]) -> str | None:
    inner = [one for one in map(value.get, _INNER) if isinstance(one, dict)]
    inner += [one["labels"] for one in inner if isinstance(one.get("labels"), dict)]
    for place in (value, *inner):
        for name in names:
            found = place.get(name)
            if isinstance(found, list):  # journald has a text with colours as its bytes
                whole = all(isinstance(one, int) and 0 <= one < 256 for one in found)
                found = bytes(found).decode("utf-8", "replace") if whole else None
            if isinstance(found, kinds) and found != "":
                return str(found)
    return None


def _text(value: object) -> str:
    """Return a text, joined from pieces; of an object (bunyan's error), its stack or its message."""
    if isinstance(value, dict):
        value = value.get("stack") or value.get("stack_trace") or value.get("message") or value.get("msg")
    if isinstance(value, (list, tuple)):
        value = "\n".join(item for item in value if isinstance(item, str))
    return value if isinstance(value, str) else ""


# Loki's answer to a query (``/loki/api/v1/query_range``): streams of labelled lines, merged into one log by time.


_BEGINS = re.compile(rb'\s*\{\s*"status"\s*:\s*"success"\s*,\s*"data"\s*:\s*\{\s*"resultType"\s*:\s*"streams"')


def is_loki_answer(head: bytes) -> bool:
    """Return whether a file that begins so is such an answer."""
    return _BEGINS.match(head) is not None


def loki_as_text(data: bytes) -> bytes:
    """Return the lines of all streams, each behind its speaker and time; other or truncated data stay as they are."""
    try:
        streams = budget.loads(data)["data"]["result"]
        timed = [
            (int(value[0]), message_of({"message": str(value[1]), "time": str(value[0]), "labels": one["stream"]}))
            for one in streams
            for value in one["values"]
        ]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return data
    timed.sort(key=lambda pair: pair[0])
    return "".join(f"{text}\n" for _, text in timed if text).encode("utf-8", "replace")


# Logs as CSV tables, exported from Grafana, CloudWatch, OpenSearch, Azure, Datadog and Splunk.


TEXT = ("message", "line", "_raw", "logmessage", "logentry", "textpayload", "jsonpayload.message", "log")
"""Column of the text, which identifies a log table together with a time."""
_COMMON = ("message", "log")
_TIME_COLUMNS = ("timestamp", "time", "_time", "date", "timegenerated", "timegenerated [utc]", "receivetimestamp")
_HOST_COLUMNS = (
    *("pod", "pod_name", "podname", "kubernetes.pod_name", "kubernetes.pod.name", "resource.labels.pod_name"),
    *("logstream", "node_name", "host", "hostname", "host.name", "computer"),
)
_KNOWN = {
    name: kind
    for kind, names in (("message", TEXT), ("time", _TIME_COLUMNS), ("host", _HOST_COLUMNS))
    for name in names
}
_TIMES = ("%b %d, %Y @ %H:%M:%S", "%m/%d/%Y, %I:%M:%S %p", "%m/%d/%Y %H:%M:%S", "%d/%b/%Y:%H:%M:%S")
"""Time formats of OpenSearch, Azure, spreadsheets and web servers, without fractions of a second."""
_PARTS = re.compile(r"(?<=:\d\d)\.\d{1,9}")
_LABELS = "labels"
"""Column of Grafana's that holds an object."""
MOST_LABELS = 10_000
WIDEST = 4096
"""Most characters of all column names."""
LONGEST = 4 << 20
"""Most bytes of a row that are read."""
MOST_ROWS = 500_000
"""Most rows that are converted; those beyond stay as they are."""
_CARRIAGE = re.compile(r"(?<=\r)(?!\n|$)")


def gathered(head: bytes) -> Callable[[bytes], bytes] | None:
    """Return the converter of a file that begins so, if a log service exported it as an array or a table, or
    nvidia-smi wrote it."""
    if is_array(head):
        return array_as_text
    if nvidia_smi.is_query(head):
        return nvidia_smi.query_as_text
    if is_loki_answer(head):
        return loki_as_text
    return table_as_text if is_table(head) else None


def is_table(head: bytes) -> bool:
    """Return whether a file that begins so is such a table, by its column names."""
    columns = _columns(_first_row(head))
    return "message" in columns and "time" in columns


def is_gathered(head: bytes) -> bool:
    """Return whether it is an export of a log service by more than a time and a message, which data sets have, too."""
    names = _first_row(head)
    columns = _columns(names)
    if not is_table(head):
        return is_array(head) or is_loki_answer(head)
    text = names[columns["message"]].strip()
    return "host" in columns or text.startswith("@") or text.lower() not in _COMMON


def table_as_text(data: bytes) -> bytes:
    """Return the text of each row behind its speaker and time, on the line on which the row begins.

    Anything that is no row, or is beyond MOST_ROWS, stays as it is.
    """
    names = _first_row(data)
    columns, lines = _columns(names), list[bytes]()
    stream = io.BytesIO(data.removeprefix(codecs.BOM_UTF8))
    separator = _separator(data[: data.find(b"\n") + 1 or WIDEST].decode("utf-8", "replace"))
    rows = csv.reader(_lines(stream), delimiter=separator)
    longest, end, at = csv.field_size_limit(LONGEST), 0, 0
    try:
        for row in rows:
            lines += [b""] * (end - len(lines))
            lines.append(_row_text(row, columns, names).encode("utf-8", "replace") if end else b"")
            end, at = rows.line_num, stream.tell()
            if len(lines) > MOST_ROWS:
                break
        else:
            return b"\n".join([*lines, b""])
    except csv.Error:
        lines += [b""] * (end - len(lines))
    finally:
        csv.field_size_limit(longest)
    stream.seek(at)
    return b"\n".join([*lines, stream.read()])


def _lines(stream: io.BytesIO) -> Iterator[str]:
    """Yield the lines of a table. Raises csv.Error at a line that is too long."""
    while line := stream.readline(LONGEST):
        if len(line) == LONGEST:
            raise csv.Error("a line without end")
        text = line.decode("utf-8", "replace")
        yield from _CARRIAGE.split(text) if "\r" in text[:-2] else (text,)


def _first_row(head: bytes) -> list[str]:
    line = head.partition(b"\n")[0].decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r")
    try:
        return next(csv.reader([line], delimiter=_separator(line)), []) if len(line) < WIDEST else []
    except csv.Error:
        return []


def _separator(line: str) -> str:
    return max(",;\t", key=line.count)


def _columns(names: list[str]) -> dict[str, int]:
    """Return the column of each value; of several, the one whose name stands first in the lists above."""
    place = {name.strip().lstrip("@").lower(): number for number, name in enumerate(names)}
    found: dict[str, int] = {}
    for name, kind in _KNOWN.items():
        if name in place:
            found.setdefault(kind, place[name])
    return found


def _row_text(row: list[str], columns: dict[str, int], names: list[str]) -> str:
    value: dict[str, object] = {kind: row[place] for kind, place in columns.items() if place < len(row)}
    if "time" in value:
        value["time"] = _table_time(str(value["time"]))
    for name, cell in zip(names, row, strict=False):
        if name.strip().lower() == _LABELS and cell.startswith("{"):
            try:
                value[_LABELS] = budget.loads(cell, MOST_LABELS)
            except (ValueError, RecursionError):
                continue
    return message_of(value) or ""


def _table_time(text: str) -> str:
    """Return a time in JSON's form; one in an unknown form stays as it is."""
    for form in _TIMES if not text[:4].isdecimal() else ():
        try:
            moment = datetime.strptime(_PARTS.sub("", text), form)
        except ValueError:
            continue
        part = _PARTS.search(text)
        return moment.strftime("%Y-%m-%dT%H:%M:%S") + (part[0] if part else "")
    return text


# Logs with their newest line first, as ``gcloud logging read`` and Loki export them: reversed here.


LARGEST = 64 << 20
"""Most bytes of a log that is reversed; a larger one is read as it is."""
MOST_LINES = 1_000_000
DROPS = 2
"""Fewest times that are earlier than the one before: fewer can come from two clocks that differ."""


def is_newest_first(head: bytes) -> bool:
    """Return whether the log that begins with these whole lines has its newest line first.

    No line is later than the one before, and all but those within a text have a time.
    """
    times = [time for line in head.split(b"\n")[:400] if (time := _line_time(line)) is not None]
    drops = sum(later < earlier for earlier, later in pairwise(times))
    rises = any(later > earlier for earlier, later in pairwise(times))
    return drops >= DROPS and not rises and times[0] - times[-1] >= 1


def oldest_first(text: bytes) -> tuple[bytes, list[int]]:
    """Return the lines of ``text`` in reverse order with their original line numbers.

    Lines without a time stay behind the line that they follow.
    """
    groups = [*_groups(text)][::-1]
    lines = [(number, line) for group in groups for number, line in group]
    return b"".join(line + b"\n" for _, line in lines), [number for number, _ in lines]


def _groups(text: bytes) -> Iterator[list[tuple[int, bytes]]]:
    group: list[tuple[int, bytes]] = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        if group and _line_time(line) is not None:
            yield group
            group = []
        group.append((number, line))
    if group:
        yield group


def _line_time(line: bytes) -> float | None:
    return split(readable(line[:300]))[0].time if line else None


# Logs in which LSF puts its report of the job's end above the job's output (``bsub -o``): moved behind it here.


_BEGIN = b"Sender: LSF System <"
_REPORT = re.compile(
    rb"^Sender: LSF System <(?:[^\n]*\n){1,400}?-{40,}[ \r]*\n(?P<how>(?:[^\n]*\n){1,9}?Resource usage summary:"
    rb"(?:[^\n]*\n){1,40}?The output \(if any\) follows:[^\n]*\n?)",
    re.M,
)
"""LSF's report; the group ``how`` is below the lines of the job's script."""


def is_report_first(head: bytes) -> bool:
    """Return whether a log that begins with ``head`` begins with such a report."""
    before, begin, _ = head.partition(_BEGIN)
    return bool(begin) and not before.strip(b"- \r\n")


def report_last(text: bytes) -> tuple[bytes, list[int]]:
    """Return the lines of ``text`` with each job's report behind its output, and their original line numbers."""
    spans = [found.span("how") for found in _REPORT.finditer(text)]
    ends = [text.rfind(_BEGIN, 0, start) for start, _ in spans] + [len(text)]
    lines, above = list[tuple[int, bytes]](), 0
    for (start, end), until in zip(spans, ends[1:], strict=True):
        lines += [*_numbered(text, above, start), *_numbered(text, end, until), *_numbered(text, start, end)]
        above = until
    lines += _numbered(text, above, len(text))
    return b"".join(line + b"\n" for _, line in lines), [number for number, _ in lines]


def _numbered(text: bytes, start: int, end: int) -> list[tuple[int, bytes]]:
    """Return the lines that begin between ``start`` and ``end``, each with its number."""
    lines = text[start:end].split(b"\n")
    return [*enumerate(lines if lines[-1] else lines[:-1], text.count(b"\n", 0, start) + 1)]


# Mark that a harness or viewer put before every line of a log: the comment sign of TAP, or a line number.


FEWEST = 8
"""Fewest lines from which a common mark is inferred."""
_COMMENT = re.compile(rb"^(?:#|//)(?: |$)", re.M)
_NUMBER = re.compile(rb"^ {0,6}(\d{1,7})[\t:]", re.M)
"""Prefix of ``cat -n`` and ``grep -n``."""


def common_mark(head: bytes) -> re.Pattern[bytes] | None:
    """Return the mark before nearly all lines of a log that begins with ``head``, if it is not their own."""
    whole = head[: head.rfind(b"\n") + 1] or head
    lines = [line for line in whole.splitlines() if line.strip()]
    if len(lines) < FEWEST:
        return None
    marked = [line for line in lines if _COMMENT.match(line)]
    if len(marked) * 5 >= len(lines) * 4 and any(_is_logs(_COMMENT.sub(b"", line)) for line in marked):
        return _COMMENT
    numbers = [int(found[1]) for found in map(_NUMBER.match, lines) if found]
    rising = all(one < other for one, other in pairwise(numbers))
    return _NUMBER if rising and len(numbers) == len(lines) else None


def _is_logs(line: bytes) -> bool:
    """Return whether a job writes such a line, rather than a program has it as a comment."""
    who, text = split(readable(line[:300]))
    return who != LineOrigin() or PROGRESS.search(text) is not None
