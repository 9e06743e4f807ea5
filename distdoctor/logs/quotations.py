"""Detection of log lines that quote an error rather than report one: source code, grep output, patches."""

from __future__ import annotations

import itertools
import re

from distdoctor.logs.attribution import readable, split
from distdoctor.logs.scanner import KnownLine

_NAME = r"(?:[a-z_][\w.:>-]*|[A-Z][A-Z0-9_]*)"
"""Names of functions and variables; exceptions and other classes begin differently, and so does their repr()."""
_FILES = r"(?:py|pyx|c|cc|cpp|cu|cuh|h|hpp|rs|go|java|js|ts|sh|sbatch|slurm|md|rst|ya?ml|toml|patch|diff)"
_FOUND = re.compile(rf"(?:[\w./@+-]{{1,300}}\.{_FILES}[:-])?\d{{1,7}}[:-](?=\s{{2,}}|\t|\S)")
"""Prefix of grep -n; the indentation is the line's own."""
_IN_FILE = re.compile(rf"[\w./@+-]{{1,300}}\.{_FILES}[:-]\d{{1,7}}[:-](?:\s{{2,}}|\t)\S")
_TEXT_FOUND = re.compile(r"[\w./@+-]{1,300}\.(?:md|rst)[:-]\d{1,7}[:-]")
_ASSIGNED = re.compile(rf"\s*{_NAME} = [\w.>()-]{{1,80}};\s*$")
"""Assignment in C."""
_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_SPAN = re.compile(_STRING)
_CODE_SPAN = re.compile(r"``?[^`]{1,1000}``?")
"""Text between quotation marks."""
_WORD = re.compile(r"(?<![\w.-])[A-Za-z]{2,20}(?![\w(])")
_OPEN = re.compile(
    r"(?!.*: ).*(?:"
    rf"(?:^|\W){_NAME}(?<!rror)(?<!xception)(?<!xited)\((?:[^()]|\([^()]{{0,80}}\)){{0,400}}"
    r"|(?:^|\s)[\w.\])]{1,80} (?:[+:]?=|[=!]=|in|==|[+]) [^=]{0,80}|[\w)\]][=!]=\s?"  # assignment, comparison
    r"|(?:^|[\s\"'(|;&]|\$\()(?:[efz]?grep|[gm]?awk|sed|trap|echo|printf|logger|case|throw|perror|#define)\b.{0,400}"
    r"|\*|(?:^|[\s(,\[{])[rRfF]{1,2})$"  # shell pattern, expression
    r"|.*\b(?:pattern|regexp?)[\"']?: ?$"
    # prompt or output of a model
    r"|.*\b(?:sample|completion|generat(?:ed|ion)|prompt|question)s?[ _#]?(?:\d{1,6})?\]?\s{0,3}[:=]\s{0,3}$"
)
"""Text before a string that a program searches, prints or stores. Text behind a colon and a blank was reported, as by
an exception."""
_TEST = re.compile(r"\s*(?:if|elif|while|else if|\|\||&&|return|assert|case|def|class)\b")
_PAIRS = re.compile(rf"\s*(?:(?:{_STRING})\s*[,:]\s*)*(?:{_STRING})\s*(?:,|[)\]}}]+[,;:])\s*(?:(?:#|//).*)?$")
"""Strings of a list, or with names, which logs in JSON have, too."""
_OPENED = re.compile(r"\s*[!*&]?[A-Za-z_@][^\"']*(?<!: )[\[({]\s*(?:(?:#|//).*)?$")
"""Line of a program that opens the brackets around the lines below it."""
_BRACKET = re.compile(r"\s*(?:[A-Z]\w{0,60}[a-z]\w{0,60})?[\[({]\s*$")
"""Brackets alone, or of a class, which its repr() has, too: the surroundings decide."""
_CLOSED = re.compile(r"\s*[)\]}]+[,;]?\s*$")
_DELIMITER = re.compile(r"\"{3}|'{3}")
_BEFORE_STRING = re.compile(r"(?:[=(,\[{:+]|\b(?:return|in))\s{0,4}$")
"""Text before a multi-line string that begins behind something else."""
_LETTERS = "rRbBuUfF"
"""Prefixes of a string in Python."""
_ECHO = re.compile(rb"[^\n]{0,120}?\+{1,6} echo (?:-[en]{1,2} )?([^\n]{1,1000})\r?\n[^\n]{0,120}\Z")
"""Traced echo command in the line above."""
_PLACEHOLDER = re.compile(r"(?<![\w%-])%(?:\d{0,3}(?:\.\d{1,3})?)(?:ll?|z)?[dsuxi](?!\w)")
"""Placeholder of printf."""
_QUOTE = re.compile(r"[\"']")
_CHANGE = re.compile(
    r"(?:[-*] )?(?:[0-9a-f]{7,40} )?(?:Fix|Avoid|Prevent|Handle|Explain|Document|Resolve)(?:e?s|d|ed)?\b.{0,200}[\"'`]"
)
"""Entry of a change log."""
_RAISES = re.compile(r"\s{4,}(?:\w{1,60}\.){0,6}\w{0,60}(?:Error|Exception): (?:[Ii]f|[Ww]hen|[Rr]aised|On|For)\b")
"""Description of the errors that a function raises."""
_OWN = re.compile(
    r"\s*(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exited|Timeout|OutOfMemory): \S"
)
"""Beginning of the last line of an exception, whatever it quotes."""
_COMMENT = re.compile(
    rf"(?:\s{{4,}}|\t+)#(?: \S|[^\s\d#])|\s*(?:/\*|// |\"{{3}}\S|'{{3}}\S)|\s*{_NAME} = [^#\"']{{1,200}}\s#\s"
)
"""Comment, also behind a statement."""
_NUMBER_SIGN = re.compile(r"\s*#{1,6}!?(?:\s|$)")
_BANNER = re.compile(r"\s*#{1,80}\s?[#=*~_-]{7,}\s*$")
_STATEMENT = re.compile(
    r"\s*(?:(?:def|class|import|from|return|export|for|if|elif|while|with|raise|try|except)\b.*[:\w)]$"
    rf"|{_NAME} \+?= ?\S|@?{_NAME}\(.*\),?$|#SBATCH|fi$|done$|else:?$)"
)
"""Line of a program, next to which a comment stands."""
_HUNK = re.compile(rb"^@@ -\d{1,7}(?:,\d{1,7})? \+\d{1,7}(?:,\d{1,7})? @@[^\n]*\n(?:[ +\\-][^\n]*\n|\n)*\Z", re.M)
"""Head of a hunk of a patch, followed by nothing but its lines."""
_RULE = re.compile(rb"^\|(?: ?:?-{2,}:? ?\|){2,}[ \r]*\n(?:\|[^\n]*\n)*\Z", re.M)
"""Head of a Markdown table, followed by nothing but its rows."""
NEAR = 6000
"""Bytes before a line that are searched for these."""
LONG = 20_000
"""Bytes after a line within which a multi-line string ends."""
WORDS = 2
"""Words outside the quotation that make a sentence."""
STRINGS = 60
"""Lines that are read to find the surroundings of a string."""
BESIDE = 3
"""Lines on each side of a possible comment that are read."""


def is_program(text: str, context: bytes, at: int) -> bool:
    """Return whether the whole line ``text``, at ``at`` of ``context``, is part of source code, a patch or a table that
    explains errors."""
    first = context[at : at + 1]
    if first in b"+- " and first and _HUNK.search(context[max(at - NEAR, 0) : at]):
        return True
    if first == b"|" and _RULE.search(context[max(at - NEAR, 0) : at]):
        return True
    if _is_in_string(context, at):
        return True
    bare = _bare(text)
    if _TEXT_FOUND.match(text) or _COMMENT.match(bare) or _RAISES.match(bare) or _CHANGE.match(text):
        return True
    if _OWN.match(bare):
        return False
    if _IN_FILE.match(text) or _is_form(bare[:1000]) or _ASSIGNED.match(bare[:200]):
        return True
    return bool(_NUMBER_SIGN.match(bare)) and _is_comment(context, at)


def is_cited(text: str, known: KnownLine, context: bytes, at: int) -> bool:
    """Return whether the match of ``known`` stands only between quotation marks, in a sentence or in source code."""
    bare = _bare(text)
    if _OWN.match(bare):
        return False
    if _between(_CODE_SPAN, bare, known) and len(_WORD.findall(_CODE_SPAN.sub("``", bare))) >= WORDS:
        return True
    before = _between(_SPAN, bare, known)
    return bool(before) and (
        any(_OPEN.match(one) or (_TEST.match(one) and ": " not in one) for one in before)
        or bare.endswith(" \\")
        or _is_within(context, at)
        or (bool(_PAIRS.match(bare[:1000])) and _is_closed(context, at))
    )


def _between(marks: re.Pattern[str], text: str, known: KnownLine) -> list[str]:
    """Return the text before each quotation that contains the match of ``known``; none if it also stands outside."""
    spans = [span for span in marks.finditer(text[:2000]) if known.is_in(span[0].strip("`'\""))]
    if not spans or known.is_in(marks.sub('""', text)):
        return []
    return [marks.sub('""', text[: span.start()]) for span in spans]


def _bare(text: str) -> str:
    """Return a line without grep's prefix."""
    found = _FOUND.match(text)
    return text[found.end() :] if found else text


def is_echoed(text: str, context: bytes, at: int) -> bool:
    """Return whether a traced shell has just printed the echo command for ``text``, which a script contains."""
    above = context[context.rfind(b"\n", max(at - NEAR, 0), max(at - 1, 0)) + 1 : at]
    echo = _ECHO.match(above) if b"+ echo " in above else None
    return echo is not None and _unquoted(echo[1].decode("utf-8", "replace")) == _unquoted(text)


def _unquoted(text: str) -> str:
    return re.sub(r"[\"'\\]", "", text).strip()


def _is_form(text: str) -> bool:
    """Return whether a string of a program has placeholders that are not filled in."""
    first, form = _QUOTE.search(text), _PLACEHOLDER.search(text)
    return bool(first and form and first.start() < form.start() and _QUOTE.search(text, form.end()))


def _is_within(context: bytes, at: int) -> bool:
    """Return whether the line is within brackets of source code: the less indented line above opens them."""
    lines = context[max(at - NEAR, 0) : at].decode("utf-8", "replace").splitlines()
    indent = _indent(context[at : at + 400].decode("utf-8", "replace"))
    for line in reversed(lines):
        if line.strip() and _indent(line) < indent:
            indent = _indent(line)
            if not _BRACKET.match(line):
                quote = _QUOTE.search(line[:1000])
                return bool(_OPENED.match(line[:1000]) or (quote and _OPEN.match(line[: quote.start()])))
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _is_closed(context: bytes, at: int) -> bool:
    """Return whether the strings on consecutive lines from ``at`` end as in source code: in JSON none ends with a comma
    there."""
    lines = context[at : at + NEAR].decode("utf-8", "replace").splitlines()[:STRINGS]
    for above, line in itertools.pairwise(lines):
        if not _PAIRS.match(line[:1000]):
            return above.rstrip().endswith(",") and bool(_CLOSED.match(line))
    return False


def _is_in_string(context: bytes, at: int) -> bool:
    """Return whether the line begins within a multi-line string of Python source."""
    first = max(at - NEAR, 0)
    if context.find(b'"""', first, at) < 0 and context.find(b"'''", first, at) < 0:
        return False
    opened, above = "", ""
    for line in context[first:at].decode("utf-8", "replace").splitlines():
        for mark in _DELIMITER.finditer(line[:1000]):
            if opened:
                opened = "" if mark[0] == opened else opened
            elif _may_begin(line[: mark.start()], above):
                opened = mark[0]
        above = line if line.strip() else above
    if not opened or context.find(opened.encode(), at, at + LONG) < 0:
        return False
    who, _ = split(readable(context[at : at + 400].partition(b"\n")[0]))  # a program that prints a model's output
    return who.rank is None and who.time is None


def _may_begin(before: str, above: str) -> bool:
    """Return whether a string behind ``before``, below the line ``above``, belongs to source code: a string on a line
    of its own has a statement above it, or nothing."""
    before, above = before.rstrip(_LETTERS), above.rstrip()
    if before.strip():
        return bool(_BEFORE_STRING.search(before[-40:]))
    return not above or above[-1] in "(,=" or bool(_STATEMENT.match(above[:1000]))


def _is_comment(context: bytes, at: int) -> bool:
    """Return whether a line that begins with a number sign is a comment of source code, and no heading, by the lines
    around it."""
    before = context[max(at - NEAR, 0) : at].decode("utf-8", "replace").splitlines()[-BESIDE:]
    after = context[at : at + NEAR].decode("utf-8", "replace").splitlines()[1 : BESIDE + 1]
    if any(_BANNER.match(line) for line in (*before, *after)):
        return False
    neighbours = (*before[-1:], *after[:1])
    return any(map(_NUMBER_SIGN.match, neighbours)) or any(
        _STATEMENT.match(line.rstrip()) for line in (*before, *after)
    )
