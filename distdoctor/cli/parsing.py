"""The command line as people and launchers write it, changed into the parser's form."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from distdoctor.job.subprocess import INSIDE
from distdoctor.model.launch_settings import LOCAL_RANK
from distdoctor.plan import torchrun

COMMANDS = ("check", "run", "hang", "diagnose", "explain", "list", "schema", "mcp", "health", "help")
REMOTE = "remote"
"""Command that a remote run starts on each host; people do not type it."""
HIDDEN = (REMOTE, INSIDE)
TIMES = ("--wait", "--timeout", "--hang-after", "--watch", "--every")
"""Flags that take seconds, also written as 90s, 2m or 1h."""
_UNITS = {"s": 1, "m": 60, "h": 3600}
WATCH = 5
"""Seconds between two looks of ``--watch`` without a value."""


def normalized(arguments: Sequence[str]) -> list[str]:
    """Return the words as the parser reads them.

    ``_`` in names of long options becomes ``-``, times become seconds, a launcher's option before the command moves
    behind it, and a check loses torchrun's options that no stage depends on.
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
        words = _with_default(words, "--watch", r"\d+(\.\d*)?", str(WATCH))
    words = _with_default(words, "--ray", r"auto|ray://\S+|[\w.:\[\]-]+:\d+", "auto")
    moved = _take_local_rank(words)
    if words[:1] == ["check"]:  # torchrun's line may be taken as it is
        words = torchrun.without_rank_options(words)
    if moved and words and words[0] == "check":
        words[1:1] = moved
        return words
    return [*moved, *words]


def split_line(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of a check, and the start line of the job behind its ``--``; all words for other commands."""
    own = [*arguments, "--"].index("--")
    if "check" not in arguments[:own] or arguments[:1] == ["run"]:
        return [*arguments], []
    return [*arguments[:own]], [*arguments[own + 1 :]]


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
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh])", text, re.ASCII)
    return f"{float(match[1]) * _UNITS[match[2]]:.12g}" if match else text


def _with_default(words: Sequence[str], flag: str, value: str, default: str) -> list[str]:
    """Add the default to a flag without a value like this pattern: the parser has no options with an optional value."""
    complete: list[str] = []
    own = words[: words.index("--")] if "--" in words else words
    for word, following in itertools.pairwise([*own, ""]):
        complete.append(word)
        if word == flag and not re.fullmatch(value, following):
            complete.append(default)
    return [*complete, *words[len(own) :]]


def without_secrets(words: Sequence[str]) -> list[str]:
    """Return the words without the value of ``--token``, to be shown to others."""
    shown, hide = [], False
    for word in words:
        shown.append("..." if hide else "--token=..." if word.startswith("--token=") else word)
        hide = word == "--token"
    return shown


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` for the nearest of ``known``, empty if none is near."""
    names = sorted(known)
    prefixed = [name for name in names if wrong and name.startswith(wrong)]
    near = prefixed[:1] if len(prefixed) == 1 else get_close_matches(wrong, names, n=1, cutoff=0.6)
    near = near or [name for name in names if wrong and wrong in name][:1]
    return f"; did you mean {near[0]}?" if near else ""


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return ``; did you mean A, B or C?``: those of ``known`` that are near as a whole or in a part, empty if none
    is."""
    names = sorted(known)
    parts: dict[str, list[str]] = {}
    for name in names:
        for part in {name, *name.split("/"), *name.rpartition("/")[2].split("-")}:
            parts.setdefault(part, []).append(name)
    near = [name for name in names if wrong and wrong in name]
    near += get_close_matches(wrong, names, n=3, cutoff=0.6)
    near += [name for part in get_close_matches(wrong, parts, n=3, cutoff=0.75) for name in parts[part]]
    near = near or [name for name in names if "/" in wrong and name.startswith(wrong.partition("/")[0] + "/")]
    nearest_names = list(dict.fromkeys(near))[:3]
    joined = " or ".join(part for part in (", ".join(nearest_names[:-1]), *nearest_names[-1:]) if part)
    return f"; did you mean {joined}?" if nearest_names else ""


def wants(words: Sequence[str], output: str) -> bool:
    """Return whether these words ask for a report in this format (``json``) on stdout, even if the rest is wrong."""
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
    """Return the ``--local-rank N`` that stands before the command, removed from ``words``."""
    if words and words[0].startswith(f"{LOCAL_RANK.flag}="):
        return [words.pop(0)]
    if len(words) > 1 and words[0] == LOCAL_RANK.flag:
        taken = words[:2]
        del words[:2]
        return taken
    return []


def with_empty(complaint: str, words: Sequence[str]) -> str:
    """Return the parser's complaint, or that a flag's value is empty, as an unset variable makes it."""
    named = re.search(r"(?:^|for ')(--[\w-]+)", complaint)
    if named is not None and (f"{named[1]}=" in words or (named[1], "") in itertools.pairwise(words)):
        return f"{named[1]} is empty: is its variable set?"
    return complaint
