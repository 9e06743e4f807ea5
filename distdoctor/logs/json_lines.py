"""Logs of JSON objects: one a line, as structlog, python-json-logger, Docker and Kubernetes write them; or an array of
them, as clouds' loggers give them out (``gcloud logging read --format=json``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from time import gmtime, strftime
from typing import Any

from distdoctor.logs import bounded_json

ARRAY = 64 << 20
"""Bytes of an array that are read."""
MOST_OBJECTS = 500_000
OBJECT = (16 << 10, 1 << 20)
"""Characters in which the end of an object is looked for: those that most have, then those that any has."""
_DECODER = json.JSONDecoder()
TEXTS = ("message", "msg", "event", "log", "text", "MESSAGE", "textPayload", "line", "body")
"""Where the text stands: logging's formatters and bunyan; structlog; Docker's json-file; loguru; journald; others."""
RAISED = ("exception", "exc_info", "exc_text", "stack_info", "stack_trace", "traceback", "stack", "error")
"""Where an exception stands beside it."""
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
"""Objects within it that hold some of these, or in their own ``labels``."""
_LINE = re.compile(rb'^\{[ \t]?"[^\n]*\}[ \t]*\r?$', re.M)
_TAGGED = re.compile(rb"^[\dT:.+Z -]{10,40}\t[\w.-]{1,200}\t(\{\"[^\n]*\})[ \t]*\r?$", re.M)
"""A line of fluentd's files: time, tag, object."""
_TEED = re.compile(rb"^(\[[A-Za-z]\w{0,30}?\d{1,4}\]: ?)(\{\"[^\n]*\})[ \t]*\r?$", re.M)
"""A line of torchrun --tee."""
_PAIRS = re.compile(
    rb"^(?=[\w.@/-]{1,40}=)(?=[^\n]{0,2000}?\bmsg=\")"
    rb"(?:[\w.@/-]{1,40}=(?:\"(?:[^\"\\\n]|\\[^\n])*\"|[^\s\"]*)(?: |(?=\r?$))){3,40}\r?$",
    re.M,
)
"""A line in logfmt, as promtail, Grafana's agents and Go's daemons write it."""
_PAIR = re.compile(r"([\w.@/-]{1,40})=(\"(?:[^\"\\]|\\.)*\"|[^\s\"]*)")
_KEY = re.compile(rb'"(?:%s)"[ \t]{0,4}:[ \t]{0,4}"' % "|".join(TEXTS).encode())
_ARRAY = re.compile(rb"\s*(?:\{\s*\"(?:events|hits|logs|data)\"\s*:\s*)?\[\s*\{\s*\"")
_OBJECT = re.compile(r"[\s,]*(?=\{)")
_TIMED = re.compile(rb'"(?:timestamp|@timestamp|receiveTimestamp|time|ts|asctime|__REALTIME_TIMESTAMP)"\s*:')
_HOST = re.compile(r"(?:[\w.-]{1,200}/)?([A-Za-z0-9][\w.-]{0,63})")
"""Of a log stream, what is behind the job's name."""
_TASK = re.compile(r"workerpool\d{1,3}-\d{1,5}")
"""Vertex AI's name of one of a job's machines (of other things a task may be anything)."""
_EPOCH = re.compile(r"(\d{10})(?:(\d{3})(?:\d{3}){0,2})?(?:\.(\d{1,3})\d*)?")
"""Seconds since 1970, also as that many milliseconds, microseconds, nanoseconds."""
COLOURS = r"\x1b(?:\[[0-9;?]{0,24}[ -/]?[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\-_])"
"""What a terminal takes for colours and the like."""
_COLOURS = re.compile(COLOURS)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
_ENDS = re.compile(r"[\r\n]+")


def is_log(head: bytes) -> bool:
    """Whether what begins so is such a log."""
    lines = _LINE.findall(head)
    if not lines and b"\n" not in head:  # the first line goes on
        key = _KEY.search(head)
        return key is not None and head.startswith(b"{") and head.count(b"{", 0, key.start()) == 1
    return any(text_of(line) is not None for line in lines[:8])


def is_array(head: bytes) -> bool:
    """Whether what begins so is an array of such objects, with a time in each: a data set has none."""
    begins = _ARRAY.match(head) is not None
    return begins and _KEY.search(head) is not None and _TIMED.search(head) is not None


def array_as_text(data: bytes) -> bytes:
    """What the objects of the array say that ``data`` begins with, each on the line on which it begins, and a line each
    where all of them are on one; what is no such object, or is beyond MOST_OBJECTS, is left as it is.
    """
    text, lines, at = data.decode("utf-8", "replace"), list[bytes](), 0
    at = text.find("[") + 1
    many = text.count("\n") > text.count("},")
    gap = text[:at]
    while len(lines) < MOST_OBJECTS and (found := _OBJECT.match(text, at)) is not None:
        value, end = _object(text, found.end())
        if end < 0:
            break
        said = said_by(value) if isinstance(value, dict) else None
        gap += found[0]
        before = "\n" * gap.count("\n") if many else "\n" if lines else ""
        lines.append((before + (said or text[found.end() : end])).encode("utf-8", "replace"))
        gap, at = text[found.end() : end], end
    return b"".join([*lines, text[at:].encode("utf-8", "replace")])


def _object(text: str, at: int) -> tuple[Any, int]:
    """The object that begins at ``at``, and where it ends: -1 where it has no end, or is too large."""
    for size in OBJECT:
        try:
            value, length = _DECODER.raw_decode(text[at : at + size])
            return value, at + length
        except (ValueError, RecursionError):
            if len(text) <= at + size:
                break
    return None, -1


def as_text(block: bytes) -> bytes:
    """``block`` with what these lines say in place of each of them; other lines are left as they are.

    What is on one line stays on one, so that lines are counted as in the file.
    """
    if b' msg="' in block:
        block = _PAIRS.sub(_paired, block)
    if b"{" not in block:  # one byte is found far sooner than two
        return block
    if b"]:{" in block:
        block = _TEED.sub(_behind, block)
    if b"\t{" in block:
        block = _TAGGED.sub(_replaced, block)
    return _LINE.sub(_replaced, block) if block.startswith(b"{") or b"\n{" in block else block


def _behind(match: re.Match[bytes]) -> bytes:
    """The same where torchrun has put the local rank before the object."""
    text = text_of(match[2])
    return match[0] if text is None else match[1] + text.encode("utf-8", "replace").replace(b"\r", b"\r" + match[1])


def _replaced(match: re.Match[bytes]) -> bytes:
    text = text_of(match[match.lastindex or 0])
    return match[0] if text is None else text.encode("utf-8", "replace")


def _paired(match: re.Match[bytes]) -> bytes:
    """Of a line in logfmt what it says, where it tells a process or a host."""
    value: dict[str, object] = {}
    for name, said in _PAIR.findall(match[0].decode("utf-8", "replace")):
        try:
            value[name] = json.loads(said) if said.startswith('"') else said
        except ValueError:
            value[name] = said[1:-1]
    text = said_by(value) if any(_first(value, WHO[kind], (str,)) for kind in ("rank", "local_rank", "host")) else None
    return match[0] if text is None else text.encode("utf-8", "replace")


def text_of(line: bytes | str, wrapped: bool = False) -> str | None:
    """What a line says, behind whom it is from and when; None where it is no object with a text in it.

    The line ends within it become carriage returns.
    ``wrapped``: it is itself the text of such a line, as where a container logs JSON.
    """
    try:
        value = bounded_json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said_by(value, wrapped)


def said_by(value: Any, wrapped: bool = False) -> str | None:
    """What an object says, as :func:`text_of`."""
    said = _first(value, TEXTS, (str, list)) if isinstance(value, dict) else None
    if said is None:
        return None
    said = _COLOURS.sub("", said) if "\x1b" in said else said
    if said.startswith("{") and not wrapped:
        said = text_of(said, wrapped=True) or said
    raised = [text for name in RAISED if (text := _text(value.get(name))) and text not in said]
    before, pieces = _before(value), _ENDS.split("\n".join([said.rstrip(), *raised]))
    return before + f"\r{before}".join(pieces)


def _before(value: Mapping[str, Any]) -> str:
    """In the words that the readers of prefixes know."""
    found = {kind: _first(value, names, (str, int, float)) for kind, names in WHO.items()}
    task = _TASK.fullmatch(_first(value, ("task_name",), (str,)) or "") if found["host"] is None else None
    time, host = _time(found["time"] or ""), _HOST.fullmatch(found["host"] or (task[0] if task is not None else ""))
    parts = [
        f"[{time}] " if time else "",
        f"[host={host[1]}] " if host else "",
        f"[rank{found['rank']}]: " if (found["rank"] or "").isdecimal() else "",
        f"[local_rank{found['local_rank']}]: " if (found["local_rank"] or "").isdecimal() else "",
    ]
    return "".join(parts)


def _time(text: str) -> str:
    """A time as lines begin with it; empty where ``text`` is none."""
    told, epoch = _TIME.match(text), _EPOCH.fullmatch(text)
    if told is not None or epoch is None:
        return told[0] if told is not None else ""
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(int(epoch[1]))) + f".{epoch[2] or epoch[3] or 0}"


def _first(value: Mapping[str, Any], names: tuple[str, ...], kinds: tuple[type, ...]) -> str | None:
    inner = [one for one in map(value.get, _INNER) if isinstance(one, dict)]
    inner += [one["labels"] for one in inner if isinstance(one.get("labels"), dict)]
    for place in (value, *inner):
        for name in names:
            found = place.get(name)
            if isinstance(found, list):  # journald gives a text with colours in it as its bytes
                whole = all(isinstance(one, int) and 0 <= one < 256 for one in found)
                found = bytes(found).decode("utf-8", "replace") if whole else None
            if isinstance(found, kinds) and found != "":
                return str(found)
    return None


def _text(value: object) -> str:
    """A text, also in pieces; of an object (bunyan's error), its stack or its message."""
    if isinstance(value, dict):
        value = value.get("stack") or value.get("stack_trace") or value.get("message") or value.get("msg")
    if isinstance(value, (list, tuple)):
        value = "\n".join(item for item in value if isinstance(item, str))
    return value if isinstance(value, str) else ""
