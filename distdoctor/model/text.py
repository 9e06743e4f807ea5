"""Text of durations, times, errors and foreign input."""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from time import gmtime
from typing import Any, TypeVar

from distdoctor.model.launch_settings import MASTER_ADDR, RDZV_ENDPOINT

A_YEAR = 1972
"""Stand-in for the year of a time without one; a leap year, so that every day of it exists."""


def duration_text(seconds: float) -> str:
    """Return the duration in the unit that people would use."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def duration_to_second(seconds: float) -> str:
    """Return a duration to the second, and from an hour on to the minute: ``9 min 15 s``."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    parts = ((hours, "h"), (minutes, "min"), (0 if hours else rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def in_a_year(time: float) -> float:
    """Return the same day and hour in the stand-in year."""
    there = gmtime(time)
    return calendar.timegm((A_YEAR, *there[1:6])) + time % 1


# Errors on one line: without the source paths of the machine that built PyTorch, and with their end.


_PATH = re.compile(r"(?:/[\w.+~-]+){2,}/([\w.+-]+\.(?:c|cc|cpp|cu|cuh|h|hpp|py)\b)")
_TRACE = re.compile(r"(?s)\s*(?:Exception raised from |C\+\+ CapturedTraceback:|\(no backtrace available\)).*")
_ADVICE = re.compile(r"\s*This is typically caused by a remote worker crashing\.(?:(?!\]).)*")
"""Advice that gloo (transport/tcp/pair.cc) appends to every closed connection: it names nobody."""
_CUDA_ADVICE = re.compile(
    r"\s*(?:Search for `\w+' in https://\S+ for more information\.|For debugging consider passing \w+=\d\.?|"
    r"(?:CUDA|HIP) kernel errors might be asynchronously reported at some other API call,? so the stacktrace below "
    r"might be incorrect\.|Compile with `TORCH_USE_\w+_DSA` to enable device-side assertions\.|"
    r"Device-side assertion tracking was not enabled by user\.)"
)
"""Advice that torch (c10/cuda/CUDAMiscFunctions.cpp, CUDAException.cpp) appends to every error of CUDA."""
_GAP = " ... "


def first_of(names: Sequence[object], most: int) -> str:
    """Return ``a, b and 3 more``: the first ``most`` names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def one_line(text: str) -> str:
    """Return ``text`` on one line, without its C++ backtrace and general advice, source paths cut to
    ``ProcessGroupGloo.cpp:123``."""
    said = _CUDA_ADVICE.sub("", _ADVICE.sub("", _TRACE.sub("", text)))
    return " ".join(_PATH.sub(r"\1", said).split())


def shortened(text: str, most: int) -> str:
    """Return ``text`` on one line of at most ``most`` characters, without its middle: a C++ error starts with its
    source and ends with what happened."""
    line = one_line(text)
    if len(line) <= most:
        return line
    room = most - len(_GAP)
    head = room // 3
    start, end = line[:head], line[-(room - head) :]
    # Whole words, if there are any near the cut.
    start = start[:cut] if (cut := start.rfind(" ")) > head // 2 else start
    end = end[cut + 1 :] if 0 <= (cut := end.find(" ")) < 20 else end
    return start.rstrip() + _GAP + end.lstrip()


# Foreign input as facts: encodable text, without passwords in addresses. The kernel gives bytes (variables, user names,
# the command lines of other users' processes), and Python passes those that are no UTF-8 on as lone surrogates, which
# no JSON encoder takes.


T = TypeVar("T")

ADDRESS_VARIABLES = (*MASTER_ADDR.all_variables, *RDZV_ENDPOINT.all_variables)
_USERINFO = re.compile(r"[^\s/@]*@")


def encodable(value: T) -> T:
    r"""Return ``value`` (text, or plain data or dataclasses that hold some) with each byte that was no UTF-8 as
    ``\xff``."""
    changed: T | None = _changed(value)
    return value if changed is None else changed


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables as they may be shown: encodable, and addresses without ``user:password@``."""
    variables = {encodable(name): encodable(value) for name, value in env.items()}
    for name in ADDRESS_VARIABLES:
        if name in variables:
            variables[name] = without_userinfo(variables[name])
    return variables


def without_userinfo(address: str) -> str:
    """Return ``user:password@host`` as ``***@host``: an address may be shown to others, a password may not."""
    return _USERINFO.sub("***@", address) if "@" in address else address


def _changed(value: Any) -> Any:
    """Return the replacement of ``value``; None if it can stay as it is."""
    if isinstance(value, str):
        return None if _has_utf8(value) else "".join(map(_spelled, value))
    if isinstance(value, Mapping):
        if all(_changed(key) is None and _changed(item) is None for key, item in value.items()):
            return None
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return None if all(_changed(item) is None for item in value) else type(value)(encodable(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        changes = {f.name: new for f in fields(value) if (new := _changed(getattr(value, f.name))) is not None}
        return replace(value, **changes) if changes else None
    return None


def _has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _spelled(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # PEP 383's stand-in for a byte
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else char


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder text or cannot be printed."""


def clean(text: object) -> str:
    r"""Return ``text`` with everything that could act on a terminal written out (``\x1b``): data comes from other
    nodes."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(_shown(char) if unicodedata.category(char) in _HIDDEN else char for char in text)


def fit(text: str, most: int = 255) -> str:
    """Return ``text`` from an untrusted source for a fact: cleaned, and at most ``most`` characters of it."""
    return clean(text[:most])[:most]


def _shown(char: str) -> str:
    code = ord(char)
    if char == "\t":
        return "    "
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
