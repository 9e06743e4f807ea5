"""The command line as people and launchers write it, put into the form that the parser knows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from distdoctor.job.subprocess import INSIDE
from distdoctor.model.launch_settings import LOCAL_RANK
from distdoctor.plan import torchrun

COMMANDS = ("check", "run", "hang", "diagnose", "explain", "list", "schema", "help")
REMOTE = "remote"
"""What a run from one place starts on each host; nothing that people type."""
HIDDEN = (REMOTE, INSIDE)
TIMES = ("--wait", "--timeout", "--hang-after", "--watch")
"""Flags that take seconds, also written as 90s, 2m or 1h."""
_UNITS = {"s": 1, "m": 60, "h": 3600}
WATCH = 5
"""Seconds between the looks of ``--watch``, where it is not said."""


def normalized(arguments: Sequence[str]) -> list[str]:
    """``_`` for ``-`` in the names of long options, what a launcher put before the command moved behind it, and of a
    check without torchrun's options on which no stage depends.

    The deprecated torch.distributed.launch starts ``-m distdoctor --local-rank=N check``.
    """
    words: list[str] = []
    for place, word in enumerate(arguments):
        if word == "--":
            words.extend(arguments[place:])
            break
        words.append(_dashed(word))
    words = _with_seconds(words)
    if words[:1] == ["hang"]:
        words = _with_interval(words)
    moved = _take_local_rank(words)
    if words[:1] == ["check"]:  # torchrun's line may be taken as it is
        words = torchrun.without_rank_options(words)
    if moved and words and words[0] == "check":
        words[1:1] = moved
        return words
    return [*moved, *words]


def _with_seconds(words: Sequence[str]) -> list[str]:
    """Replace ``90s``, ``2m`` and ``1h`` after (or, behind ``=``, in) a flag of TIMES by seconds, up to ``--``."""
    replaced: list[str] = []
    own = len(words) if "--" not in words else words.index("--")
    for place, word in enumerate(words[:own]):
        flag, equals, value = word.partition("=")
        if flag in TIMES and equals:
            replaced.append(f"{flag}={_seconds(value)}")
        else:
            replaced.append(_seconds(word) if place and words[place - 1] in TIMES else word)
    return [*replaced, *words[own:]]


def _seconds(text: str) -> str:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh])", text, re.ASCII)
    return f"{float(found[1]) * _UNITS[found[2]]:.12g}" if found else text


def _with_interval(words: Sequence[str]) -> list[str]:
    """``--watch`` with a number behind it: it may stand alone, which the parser does not know of an option."""
    told: list[str] = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        told.append(word)
        if word == "--watch" and not re.fullmatch(r"\d+(\.\d*)?", following):
            told.append(str(WATCH))
    return told


def without_secrets(words: Sequence[str]) -> list[str]:
    """The words as they may be shown to others: what ``--token`` was given is left out."""
    told, hide = [], False
    for word in words:
        told.append("..." if hide else "--token=..." if word.startswith("--token=") else word)
        hide = word == "--token"
    return told


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` for the nearest of ``known``, empty where none is near."""
    names = sorted(known)
    prefixed = [name for name in names if wrong and name.startswith(wrong)]
    near = prefixed[:1] if len(prefixed) == 1 else get_close_matches(wrong, names, n=1, cutoff=0.6)
    near = near or [name for name in names if wrong and wrong in name][:1]
    return f"; did you mean {near[0]}?" if near else ""


def nearest(wrong: str, known: Iterable[str], most: int = 3) -> str:
    """``; did you mean A, B or C?``: those of ``known`` that are near as a whole or in a part, empty where none is."""
    names = sorted(known)
    parts: dict[str, list[str]] = {}
    for name in names:
        for part in {name, *name.split("/"), *name.rpartition("/")[2].split("-")}:
            parts.setdefault(part, []).append(name)
    near = [name for name in names if wrong and wrong in name]
    near += get_close_matches(wrong, names, n=most, cutoff=0.6)
    near += [name for part in get_close_matches(wrong, parts, n=most, cutoff=0.75) for name in parts[part]]
    near = near or [name for name in names if "/" in wrong and name.startswith(wrong.partition("/")[0] + "/")]
    found = list(dict.fromkeys(near))[:most]
    joined = " or ".join(part for part in (", ".join(found[:-1]), *found[-1:]) if part)
    return f"; did you mean {joined}?" if found else ""


def wants(words: Sequence[str], output: str) -> bool:
    """Return whether these words ask for a report as ``json`` (or another format) on stdout, also where the rest of
    them makes no sense."""
    if words and words[0] in ("list", "explain", "schema", "run"):
        return False  # they give no report, or have no stdout of their own
    pairs = zip(words, [*words[1:], ""], strict=True)
    return any(
        word in (f"--{output}", f"--output={output}")
        or re.fullmatch(rf"-[a-z]*o=?{output}", word) is not None
        or (following == output and (word == "--output" or re.fullmatch(r"-[a-z]*o", word) is not None))
        for word, following in pairs
    )


def _dashed(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def _take_local_rank(words: list[str]) -> list[str]:
    """The ``--local-rank N`` that stands before the command, removed from ``words``."""
    if words and words[0].startswith(f"{LOCAL_RANK.flag}="):
        return [words.pop(0)]
    if len(words) > 1 and words[0] == LOCAL_RANK.flag:
        taken = words[:2]
        del words[:2]
        return taken
    return []


def with_empty(complaint: str, words: Sequence[str]) -> str:
    """The parser's complaint; of a flag that was given nothing, as by a variable that is not set, that."""
    named = re.search(r"(?:^|for ')(--[\w-]+)", complaint)
    if named is not None and (f"{named[1]}=" in words or (named[1], "") in itertools.pairwise(words)):
        return f"{named[1]} is empty: is the variable set that stands there?"
    return complaint
