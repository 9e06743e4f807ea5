"""Fixes as lines to paste: equal ones merged, grouped by the nodes they are for."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distdoctor.model.findings import Finding, Fix
from distdoctor.model.report import Report
from distdoctor.model.stages import spoken
from distdoctor.model.text import clean
from distdoctor.render.page import Page, Piece
from distdoctor.render.words import fold, ranks

LABEL = 13
"""Columns before the values of a finding."""
INDENT = " " * (LABEL + 2)


def label(name: str) -> Piece:
    """The name of a value of a finding, as wide as all of them."""
    return f"  {name:<{LABEL - 2}}", "dim"


def write_fixes(page: Page, report: Report, finding: Finding) -> None:
    """Write the remedies of ``finding``: the best first, alternatives as ``or``, further steps of one as ``and``."""
    options: dict[int, list[Fix]] = {}
    for fix in finding.fixes:
        options.setdefault(fix.option, []).append(fix)
    for place, option in enumerate(sorted(options)):
        heading = "fix" if place == 0 else "or"
        for text, fixes in _by_text(options[option]).items():
            _write_one(page, report, heading, text, fixes)
            heading = "and"
        said = _tried(report, finding, option, options[option])
        if said:
            page.prose((f"{'':{LABEL}}{said[1]}", said[0]), hang=LABEL)


def lines(fix: Fix) -> list[str]:
    """Return what to paste, one line each, ready for a shell."""
    exports = [
        f"unset {clean(name)}" if value is None else f"export {clean(name)}={clean(shlex.quote(value))}"
        for name, value in fix.env.items()
    ]
    flags = [
        f"leave {clean(name)} out" if value is None else f"{clean(name)} {clean(shlex.quote(value))}"
        for name, value in fix.flags.items()
    ]
    return [*exports, *(clean(command) for command in fix.commands), *flags]


@dataclass(frozen=True)
class Remedy:
    """A fix as a page shows it: the same for several nodes is one."""

    word: str
    """``Fix``; ``And`` for what belongs to the one before it; ``Or`` for another way."""
    on: str
    """For which nodes; empty for all."""
    text: str
    lines: tuple[str, ...]
    tried: bool | None


def remedies(finding: Finding) -> list[Remedy]:
    """The fixes of ``finding``, the best first."""
    listed: list[Remedy] = []
    for option in sorted({fix.option for fix in finding.fixes}):
        word = "Or" if listed else "Fix"  # the fixes of one option are one remedy
        for text, fixes in _by_text([fix for fix in finding.fixes if fix.option == option]).items():
            same: dict[tuple[tuple[str, ...], bool | None], list[str]] = {}
            for fix in fixes:
                same.setdefault((tuple(lines(fix)), fix.verified), []).extend(fix.nodes)
            for (pasted, tried), nodes in same.items():
                said = clean(with_names(text, list(dict.fromkeys(nodes))))
                listed.append(Remedy(word, fold(nodes), said[:1].upper() + said[1:], pasted, tried))
                word = "And"
    return listed


def _by_text(fixes: Sequence[Fix]) -> dict[str, list[Fix]]:
    """The fixes of one option by what they say, the node's own name aside."""
    groups: dict[str, list[Fix]] = {}
    same = Counter(fix.text for fix in fixes)  # what several say word for word means one node, and not each its own
    for fix in fixes:
        own = len(fix.nodes) == 1 and same[fix.text] == 1
        text = without_own_name(fix.text, fix.nodes[0]) if own else fix.text
        # The line says already for which nodes it is, and that it is another way.
        text = re.sub(rf"^(?:Or,? |On {OWN}, )+", "", text)
        groups.setdefault(text, []).append(fix)
    return groups


def _write_one(page: Page, report: Report, heading: str, text: str, fixes: Sequence[Fix]) -> None:
    same: dict[tuple[str, ...], list[str]] = {}
    for fix in fixes:
        same.setdefault(tuple(lines(fix)), []).extend(fix.nodes)
    everyone = list(dict.fromkeys(node for nodes in same.values() for node in nodes))
    said = re.sub(r"^[A-Z](?=[a-z]+\b(?![(.]\w))", lambda first: first[0].lower(), clean(with_names(text, everyone)))
    if len(same) == 1:
        on = _for(everyone, report)
        page.prose(label(heading), f"{on}: {said}" if on else _capital(said), hang=LABEL)
    else:
        page.prose(label(heading), _capital(said), hang=LABEL)
    for commands, nodes in same.items():
        if len(same) > 1 and nodes:
            page.line(f"{'':{LABEL}}on {fold(nodes)}:")
        for command in commands:
            page.line((INDENT + command, "bold"))


def _for(nodes: Sequence[str], report: Report) -> str:
    everyone = {node.name for node in report.nodes}
    if not nodes or len(everyone) == 1:
        return ""
    return f"on every node ({fold(nodes)})" if set(nodes) == everyone else f"on {fold(nodes)}"


def _capital(text: str) -> str:
    """A sentence begins with a capital, but for a name of code."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+\b(?![(.]\w|[_=/-])", text) else text


def _tried(report: Report, finding: Finding, option: int, fixes: Sequence[Fix]) -> tuple[str, str] | None:
    """The style and the words for what came of trying this option, None where it was not tried."""
    outcomes = {fix.verified for fix in fixes if fix.env}
    if not outcomes or outcomes == {None}:
        return None
    if False in outcomes:
        return "yellow", "tested here: it does not help"
    # What was exported in one shell is gone with it.
    several = len({line for fix in fixes for line in lines(fix)}) > 1
    keep = f"Keep {'these lines' if several else 'this line'} in the job's script."
    for trial in report.details.get("trials", ()):
        if (trial.get("check"), trial.get("option")) == (finding.check, option) and trial.get("stages"):
            stages = [clean(spoken(stage)) for stage in trial["stages"]]
            joined = " and ".join(part for part in (", ".join(stages[:-1]), stages[-1]) if part)
            return "green", f"tested here: {joined} {'pass' if len(stages) > 1 else 'passes'} with it. {keep}"
    return "green", f"tested here: what failed passes with it. {keep}"


# Evidence of many nodes, gathered: equal lines once, the minority set against the majority.


OWN = "\0"
"""Stands for the node's own name in a text that is compared with those of other nodes."""
_COMMAND = re.compile(r"`[^`]*`")


def gathered(lines: Sequence[str], nodes: Sequence[str]) -> list[str]:
    """``host0: text`` and ``host0 rank 1: text`` lines that say the same as one line of several nodes and ranks.

    Where some nodes say the same and others something else, the fewest come first: they are the odd ones. Lines
    that name no node at their start stay in front.
    """
    known = set(nodes)
    common: list[str] = []
    groups: dict[str, list[tuple[str, int | None]]] = {}
    for line in dict.fromkeys(lines):
        source, colon, text = line.partition(": ")
        node, rank = _source(source)
        if colon and node in known:
            groups.setdefault(without_own_name(text, node), []).append((node, rank))
        else:
            common.append(line)
    entries = list(groups.items())
    if any(len(_names(members)) > 1 for _, members in entries):
        entries.sort(key=lambda entry: len(_names(entry[1])))
    return common + [_line(text, members, len(nodes)) for text, members in entries]


def without_own_name(text: str, node: str) -> str:
    """``text`` with :data:`OWN` in place of the node's name, so that it can be compared with those of other nodes."""
    return re.sub(rf"(?<![\w.-]){re.escape(node)}(?![\w-]|\.\w)", OWN, text)


def with_names(text: str, nodes: Iterable[str]) -> str:
    """The text again, for all of ``nodes`` at once; a command in it is that of the first, so that it can be pasted."""
    names = list(nodes)
    if len(names) > 1:
        first = clean(names[0])
        text = _COMMAND.sub(
            lambda it: f"{it[0].replace(OWN, first)} (the others alike)" if OWN in it[0] else it[0], text
        )
    return text.replace(OWN, fold(names))


def _source(text: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"(.+) rank (\d{1,9})", text)
    return (match[1], int(match[2])) if match else (text, None)


def _names(members: Sequence[tuple[str, int | None]]) -> list[str]:
    return list(dict.fromkeys(node for node, _ in members))


def _line(text: str, members: Sequence[tuple[str, int | None]], of_all: int) -> str:
    names = _names(members)
    numbers = [rank for _, rank in members if rank is not None]
    share = f" ({len(names)} of {of_all} nodes)" if of_all > 2 and len(names) < of_all else ""
    return f"{fold(names)}{' ' + ranks(numbers) if numbers else ''}{share}: {with_names(text, names)}"
