"""What comes from outside, made fit for facts: text that can be encoded, and no passwords in addresses.

The kernel gives bytes (variables, user names, the command lines of other users' processes), and Python hands those that
are no UTF-8 on as lone surrogates, which no JSON encoder takes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from distdoctor.model.launch_settings import MASTER_ADDR, RDZV_ENDPOINT

T = TypeVar("T")

ADDRESS_VARIABLES = (*MASTER_ADDR.all_variables, *RDZV_ENDPOINT.all_variables)
_USERINFO = re.compile(r"[^\s/@]*@")


def encodable(value: T) -> T:
    r"""``value`` (text, or plain data or dataclasses that hold some) with each byte that was no UTF-8 as ``\xff``."""
    changed: T | None = _changed(value)
    return value if changed is None else changed


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The variables as they may be told: encodable, and those that hold an address without ``user:password@``."""
    told = {encodable(name): encodable(value) for name, value in env.items()}
    for name in ADDRESS_VARIABLES:
        if name in told:
            told[name] = without_userinfo(told[name])
    return told


def without_userinfo(address: str) -> str:
    """``user:password@host`` as ``***@host``: an address may be told to others, a password may not."""
    return _USERINFO.sub("***@", address) if "@" in address else address


def _changed(value: Any) -> Any:
    """What ``value`` has to become; None where it can stay as it is."""
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
    if 0xDC80 <= code <= 0xDCFF:  # what PEP 383 makes of a byte
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else char


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder text or cannot be printed."""


def clean(text: object) -> str:
    r"""``text`` with everything that could act on a terminal written out (``\x1b``): data comes from other nodes."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(_shown(char) if unicodedata.category(char) in _HIDDEN else char for char in text)


def fit(text: str, most: int = 255) -> str:
    """``text`` from somebody who is not trusted, for a fact: cleaned, and no more than ``most`` characters of it."""
    return clean(text[:most])[:most]


def _shown(char: str) -> str:
    code = ord(char)
    if char == "\t":
        return "    "
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
