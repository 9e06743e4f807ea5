"""Logs as tables: CSV, as Grafana, CloudWatch, OpenSearch, Azure, Datadog and Splunk give out what they gathered."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator
from datetime import datetime

from distdoctor.logs import bounded_json, json_lines, loki

TEXT = ("message", "line", "_raw", "logmessage", "logentry", "textpayload", "jsonpayload.message", "log")
"""The column of what was said, by which a table is known, with a time beside it."""
_COMMON = ("message", "log")
_TIME = ("timestamp", "time", "_time", "date", "timegenerated", "timegenerated [utc]", "receivetimestamp")
_HOST = (
    *("pod", "pod_name", "podname", "kubernetes.pod_name", "kubernetes.pod.name", "resource.labels.pod_name"),
    *("logstream", "node_name", "host", "hostname", "host.name", "computer"),
)
_KNOWN = {name: kind for kind, names in (("message", TEXT), ("time", _TIME), ("host", _HOST)) for name in names}
_TIMES = ("%b %d, %Y @ %H:%M:%S", "%m/%d/%Y, %I:%M:%S %p", "%m/%d/%Y %H:%M:%S", "%d/%b/%Y:%H:%M:%S")
"""How OpenSearch, Azure, spreadsheets and web servers write a time; without parts of a second."""
_PARTS = re.compile(r"(?<=:\d\d)\.\d{1,9}")
_LABELS = "labels"
"""A column of Grafana's, with an object in it."""
MOST_LABELS = 10_000
WIDEST = 4096
"""Characters of the names of all columns."""
LONGEST = 4 << 20
"""Bytes of a row that are read."""
MOST_ROWS = 500_000
"""Those of a larger table are read as they stand."""
_CARRIAGE = re.compile(r"(?<=\r)(?!\n|$)")


def gathered(head: bytes) -> Callable[[bytes], bytes] | None:
    """What makes a text of a file that begins so, where a logger has given it out as an array or as a table."""
    if json_lines.is_array(head):
        return json_lines.array_as_text
    if loki.is_answer(head):
        return loki.as_text
    return as_text if is_table(head) else None


def is_table(head: bytes) -> bool:
    """Whether what begins so is such a table: by the names of its columns."""
    columns = _columns(_first_row(head))
    return "message" in columns and "time" in columns


def is_gathered(head: bytes) -> bool:
    """Whether what begins so is a gatherer's by more than a time and a message, which data sets have, too."""
    names = _first_row(head)
    columns = _columns(names)
    if not is_table(head):
        return json_lines.is_array(head) or loki.is_answer(head)
    text = names[columns["message"]].strip()
    return "host" in columns or text.startswith("@") or text.lower() not in _COMMON


def as_text(data: bytes) -> bytes:
    """What each row says, behind whom it is from and when, on the line on which the row begins; what is no row, or is
    beyond MOST_ROWS, is left as it is."""
    names = _first_row(data)
    columns, lines = _columns(names), list[bytes]()
    stream = io.BytesIO(data.removeprefix(codecs.BOM_UTF8))
    separator = _separator(data[: data.find(b"\n") + 1 or WIDEST].decode("utf-8", "replace"))
    rows = csv.reader(_lines(stream), delimiter=separator)
    longest, end, at = csv.field_size_limit(LONGEST), 0, 0
    try:
        for row in rows:
            lines += [b""] * (end - len(lines))
            lines.append(_said(row, columns, names).encode("utf-8", "replace") if end else b"")
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
    """The lines of a table. Raises csv.Error at one that is too long."""
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
    """Which column has what; of several, the one whose name stands first in the lists above."""
    place = {name.strip().lstrip("@").lower(): number for number, name in enumerate(names)}
    found: dict[str, int] = {}
    for name, kind in _KNOWN.items():
        if name in place:
            found.setdefault(kind, place[name])
    return found


def _said(row: list[str], columns: dict[str, int], names: list[str]) -> str:
    value: dict[str, object] = {kind: row[place] for kind, place in columns.items() if place < len(row)}
    if "time" in value:
        value["time"] = _time(str(value["time"]))
    for name, cell in zip(names, row, strict=False):
        if name.strip().lower() == _LABELS and cell.startswith("{"):
            try:
                value[_LABELS] = bounded_json.loads(cell, MOST_LABELS)
            except (ValueError, RecursionError):
                continue
    return json_lines.said_by(value) or ""


def _time(text: str) -> str:
    """A time as JSON has it; one that is not known is left as it is."""
    for form in _TIMES if not text[:4].isdecimal() else ():
        try:
            told = datetime.strptime(_PARTS.sub("", text), form)
        except ValueError:
            continue
        part = _PARTS.search(text)
        return told.strftime("%Y-%m-%dT%H:%M:%S") + (part[0] if part else "")
    return text
