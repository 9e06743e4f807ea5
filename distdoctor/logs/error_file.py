"""torchelastic's error files (TORCHELASTIC_ERROR_FILE): the exception of one rank, as JSON."""

from __future__ import annotations

from typing import Any

from distdoctor.logs import bounded_json

MAX_BYTES = 16 << 20


def as_log(data: bytes) -> bytes:
    """The traceback in an error file, as the rank's log would have it; the file as it is where it has none.

    ``{"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "1"}}}``, or
    a text in place of the inner object (torch/distributed/elastic/multiprocessing/errors/error_handler.py).
    """
    try:
        message: Any = bounded_json.loads(data)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return data
    if isinstance(message, dict):
        info = message.get("extraInfo")
        stack = info.get("py_callstack") if isinstance(info, dict) else None
        message = stack if isinstance(stack, str) and stack.strip() else message.get("message")
    return str(message).rstrip().encode("utf-8", "replace") + b"\n"
