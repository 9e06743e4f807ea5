"""What NCCL makes of the values of its settings: on which it ends, and which it takes for something else. Pure.

Source: NCCL src/graph/tuning.cc (``parseList``, ``ncclTopoTuneModel``), src/enqueue.cc (``topoGetAlgoInfo``) and
src/misc/param.cc (``ncclLoadParam``), read in versions 2.18 to 2.30; nothing here was tried on a GPU.

NCCL_ALGO and NCCL_PROTO are lists of names, of any case and with no blank between. Before 2.24 a name that NCCL does
not know is passed over, and what has no algorithm left gets the ring. From 2.24 on ``function:names`` parts may follow
after a semicolon; NCCL ends with ncclInvalidUsage on a name or function that it does not know as the group is made, and
on a function without an algorithm as it is called.

A number is what C's strtoll() with base 0 makes of the text: of a word 0, of ``4M`` 4, and neither is told as an error.
"""

from __future__ import annotations

import re

from distdoctor.knowledge.nccl import Version

NAMES = {
    "NCCL_ALGO": ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"),
    "NCCL_PROTO": ("LL", "LL128", "Simple"),
}
FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
STRICT: Version = (2, 24)
"""From which an unknown name ends it."""
READ: Version = (2, 30)
"""The newest that was read: a later one may know more names."""
_GATHER = frozenset({"ring", "pat", "nvls", "collnetdirect"})
_SERVED_BY = {
    "Broadcast": frozenset({"ring"}),
    "Reduce": frozenset({"ring"}),
    "AllGather": _GATHER,
    "ReduceScatter": _GATHER,
    "AllReduce": frozenset(name.lower() for name in NAMES["NCCL_ALGO"]) - {"pat"},
}
"""Function -> the algorithms that there are for it at all; some need hardware that has them."""
_NUMBERS = re.compile(
    r"NCCL_(?!STORK_|CHECKS_)(?:\w+_(?:DISABLE|ENABLE|INDEX|TIMEOUT|RETRY_CNT|NTHREADS|NCHANNELS|TC|SL|CTAS)"
    r"|(?:LL_|LL128_)?BUFFSIZE|P2P_(?:NET|PCI|NVL)_CHUNKSIZE|NTHREADS|CROSS_NIC|IB_PKEY|IB_QPS_PER_CONNECTION)"
)
_SWITCH = re.compile(r"\w+_(?:DISABLE|ENABLE)")
_LED = re.compile(r"\s*([+-]?(?:0[xX][0-9a-fA-F]+|\d+))(.*)", re.DOTALL)
_UNIT = re.compile(r"\s?([KMG])i?B?\s*", re.IGNORECASE)
_ON = ("true", "yes", "on", "y", "t", "enable", "enabled")
_OFF = ("false", "no", "off", "n", "f", "disable", "disabled")


def refused(name: str, value: str, version: Version) -> str:
    """What is wrong with a value on which this NCCL ends as a group is made; empty where it does not, or is not
    known."""
    if name not in NAMES or not STRICT <= version <= READ:
        return ""
    known = [one.lower() for one in NAMES[name]]
    functions = [one.lower() for one in FUNCTIONS]
    for number, part in enumerate(one for one in value.split(";") if one):
        function, names = _part(part)
        if not function and (number or value.startswith(";")):
            return f"has {part!r} after a semicolon, and no function before it"
        for one in names:
            if one.lower() not in known:
                return f"names {one!r}, which is none of {', '.join(NAMES[name])}"
        if function and function.lower() not in functions:
            return f"names the function {function!r}, which is none of {', '.join(FUNCTIONS)}"
    return ""


def mended(name: str, value: str) -> str | None:
    """The same without blanks and quotes, where that is a value that NCCL takes."""
    text = re.sub(r"[\s'\x22]", "", value)
    return text if text and text != value and not refused(name, text, READ) else None


def left_without(value: str, version: Version) -> tuple[str, ...]:
    """The functions for which NCCL_ALGO=``value`` leaves no algorithm: this NCCL ends where one of them is called."""
    if not STRICT <= version <= READ or refused("NCCL_ALGO", value, version):
        return ()
    enabled = {function: {one.lower() for one in NAMES["NCCL_ALGO"]} for function in FUNCTIONS}
    for part in (one for one in value.split(";") if one):
        function, names = _part(part)
        listed = {one.lower() for one in names}
        every = {one.lower() for one in NAMES["NCCL_ALGO"]}
        for one in FUNCTIONS:
            if not function or function.lower() == one.lower():
                enabled[one] = every - listed if _excludes(part) else listed
    return tuple(one for one in FUNCTIONS if not enabled[one] & _SERVED_BY[one])


def misread(name: str, value: str) -> tuple[int, str | None] | None:
    """(the number that NCCL takes a value for, the value that was meant where that can be told), where the two differ;
    None where NCCL reads what was meant, or no number."""
    if not value or not _NUMBERS.fullmatch(name):
        return None
    found = _LED.match(value)
    if found:
        unit = _UNIT.fullmatch(found[2])
        if unit is None:
            return None
        number = int(found[1], 16 if "x" in found[1].lower() else 10)
        return number, str(number << {"K": 10, "M": 20, "G": 30}[unit[1].upper()])
    word = value.strip().strip("'\x22").lower()
    if _SWITCH.fullmatch(name):
        return None if word in (*_OFF, "0", "") else (0, "1" if word in (*_ON, "1") else None)
    return 0, word if re.fullmatch(r"\d+", word) and word != "0" else None


def _part(text: str) -> tuple[str, list[str]]:
    """(the function, empty where there is none; the names) of one part, as strtok_r() takes it apart."""
    words = [word for word in text.split(":") if word]
    function, names = (words[0], words[1]) if len(words) > 1 else ("", words[0] if words else "")
    return function, [one for one in names.removeprefix("^").split(",") if one]


def _excludes(text: str) -> bool:
    words = [word for word in text.split(":") if word]
    return bool(words) and words[1 if len(words) > 1 else 0].startswith("^")
