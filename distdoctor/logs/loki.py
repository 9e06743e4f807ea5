"""What Loki answers to a query (``/loki/api/v1/query_range``): streams of lines with their labels, made one log in the
order of time."""

from __future__ import annotations

import re

from distdoctor.logs import bounded_json, json_lines

_BEGINS = re.compile(rb'\s*\{\s*"status"\s*:\s*"success"\s*,\s*"data"\s*:\s*\{\s*"resultType"\s*:\s*"streams"')


def is_answer(head: bytes) -> bool:
    """Whether what begins so is such an answer."""
    return _BEGINS.match(head) is not None


def as_text(data: bytes) -> bytes:
    """What the lines of all streams say, each behind whom it is from and when; what is no such answer, or was cut off,
    is left as it is."""
    try:
        streams = bounded_json.loads(data)["data"]["result"]
        said = [
            (
                int(value[0]),
                json_lines.said_by({"message": str(value[1]), "time": str(value[0]), "labels": one["stream"]}),
            )
            for one in streams
            for value in one["values"]
        ]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return data
    said.sort(key=lambda pair: pair[0])
    return "".join(f"{text}\n" for _, text in said if text).encode("utf-8", "replace")
