"""A program's text that quotes an error: source code, what grep found in it, a patch. Nobody said what it says."""

from __future__ import annotations

import itertools
import re

from distdoctor.logs.attribution import readable, split
from distdoctor.logs.scanner import KnownLine

_NAME = r"(?:[a-z_][\w.:>-]*|[A-Z][A-Z0-9_]*)"
"""As functions and variables are called; exceptions and other classes begin otherwise, and so does their repr()."""
_FILES = r"(?:py|pyx|c|cc|cpp|cu|cuh|h|hpp|rs|go|java|js|ts|sh|sbatch|slurm|md|rst|ya?ml|toml|patch|diff)"
_FOUND = re.compile(rf"(?:[\w./@+-]{{1,300}}\.{_FILES}[:-])?\d{{1,7}}[:-](?=\s{{2,}}|\t|\S)")
"""What grep -n puts before a line; the indentation is the line's own."""
_IN_FILE = re.compile(rf"[\w./@+-]{{1,300}}\.{_FILES}[:-]\d{{1,7}}[:-](?:\s{{2,}}|\t)\S")
_TEXT_FOUND = re.compile(r"[\w./@+-]{1,300}\.(?:md|rst)[:-]\d{1,7}[:-]")
_ASSIGNED = re.compile(rf"\s*{_NAME} = [\w.>()-]{{1,80}};\s*$")
"""What C gives a name."""
_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_SPAN = re.compile(_STRING)
_CODE_SPAN = re.compile(r"``?[^`]{1,1000}``?")
"""What stands between marks of quotation."""
_WORD = re.compile(r"(?<![\w.-])[A-Za-z]{2,20}(?![\w(])")
_OPEN = re.compile(
    r"(?!.*: ).*(?:"
    rf"(?:^|\W){_NAME}(?<!rror)(?<!xception)(?<!xited)\((?:[^()]|\([^()]{{0,80}}\)){{0,400}}"
    r"|(?:^|\s)[\w.\])]{1,80} (?:[+:]?=|[=!]=|in|==|[+]) [^=]{0,80}|[\w)\]][=!]=\s?"  # given a name, compared
    r"|(?:^|[\s\"'(|;&]|\$\()(?:[efz]?grep|[gm]?awk|sed|trap|echo|printf|logger|case|throw|perror|#define)\b.{0,400}"
    r"|\*|(?:^|[\s(,\[{])[rRfF]{1,2})$"  # a shell's pattern, an expression
    r"|.*\b(?:pattern|regexp?)[\"']?: ?$"
    # what a model was asked, or has written
    r"|.*\b(?:sample|completion|generat(?:ed|ion)|prompt|question)s?[ _#]?(?:\d{1,6})?\]?\s{0,3}[:=]\s{0,3}$"
)
"""What stands before a string that a program is to look for, to say, or to keep. What stands behind a colon and a blank
was said, as by an exception."""
_TEST = re.compile(r"\s*(?:if|elif|while|else if|\|\||&&|return|assert|case|def|class)\b")
_PAIRS = re.compile(rf"\s*(?:(?:{_STRING})\s*[,:]\s*)*(?:{_STRING})\s*(?:,|[)\]}}]+[,;:])\s*(?:(?:#|//).*)?$")
"""Strings of a list, or with names, as logs in JSON have them, too."""
_OPENED = re.compile(r"\s*[!*&]?[A-Za-z_@][^\"']*(?<!: )[\[({]\s*(?:(?:#|//).*)?$")
"""The line of a program that opens the brackets in which the lines below it are."""
_BRACKET = re.compile(r"\s*(?:[A-Z]\w{0,60}[a-z]\w{0,60})?[\[({]\s*$")
"""Brackets alone, or of a class, as its repr() has them, too: what they are in says whose they are."""
_CLOSED = re.compile(r"\s*[)\]}]+[,;]?\s*$")
_DELIMITER = re.compile(r"\"{3}|'{3}")
_BEFORE_STRING = re.compile(r"(?:[=(,\[{:+]|\b(?:return|in))\s{0,4}$")
"""What stands before a string over several lines, where it begins behind something else."""
_LETTERS = "rRbBuUfF"
"""What a program may put before a string."""
_ECHO = re.compile(rb"[^\n]{0,120}?\+{1,6} echo (?:-[en]{1,2} )?([^\n]{1,1000})\r?\n[^\n]{0,120}\Z")
"""What such a shell is about to say, in the line above."""
_PLACEHOLDER = re.compile(r"(?<![\w%-])%(?:\d{0,3}(?:\.\d{1,3})?)(?:ll?|z)?[dsuxi](?!\w)")
"""What printf would put a value for."""
_QUOTE = re.compile(r"[\"']")
_CHANGE = re.compile(
    r"(?:[-*] )?(?:[0-9a-f]{7,40} )?(?:Fix|Avoid|Prevent|Handle|Explain|Document|Resolve)(?:e?s|d|ed)?\b.{0,200}[\"'`]"
)
"""What somebody changed, as a history of changes has it."""
_RAISES = re.compile(r"\s{4,}(?:\w{1,60}\.){0,6}\w{0,60}(?:Error|Exception): (?:[Ii]f|[Ww]hen|[Rr]aised|On|For)\b")
"""What a function raises, and when, as its description has it."""
_OWN = re.compile(
    r"\s*(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exited|Timeout|OutOfMemory): \S"
)
"""How the own line of an exception begins, whatever it quotes."""
_COMMENT = re.compile(
    rf"(?:\s{{4,}}|\t+)#(?: \S|[^\s\d#])|\s*(?:/\*|// |\"{{3}}\S|'{{3}}\S)|\s*{_NAME} = [^#\"']{{1,200}}\s#\s"
)
"""Also one behind a statement."""
_NUMBER_SIGN = re.compile(r"\s*#{1,6}!?(?:\s|$)")
_BANNER = re.compile(r"\s*#{1,80}\s?[#=*~_-]{7,}\s*$")
_STATEMENT = re.compile(
    r"\s*(?:(?:def|class|import|from|return|export|for|if|elif|while|with|raise|try|except)\b.*[:\w)]$"
    rf"|{_NAME} \+?= ?\S|@?{_NAME}\(.*\),?$|#SBATCH|fi$|done$|else:?$)"
)
"""A line of a program, beside which a comment stands."""
_HUNK = re.compile(rb"^@@ -\d{1,7}(?:,\d{1,7})? \+\d{1,7}(?:,\d{1,7})? @@[^\n]*\n(?:[ +\\-][^\n]*\n|\n)*\Z", re.M)
"""In what stands before a line: the head of a part of a patch, and nothing but its lines since."""
_RULE = re.compile(rb"^\|(?: ?:?-{2,}:? ?\|){2,}[ \r]*\n(?:\|[^\n]*\n)*\Z", re.M)
"""The same of a table of Markdown."""
NEAR = 6000
"""Bytes before a line in which these are looked for."""
LONG = 20_000
"""Bytes behind it in which a string over several lines ends."""
WORDS = 2
"""Words beside what is quoted that make a sentence."""
STRINGS = 60
"""Lines that are looked at, to see in what they stand."""
BESIDE = 3
"""Lines on each side of what may be a comment that are looked at."""


def is_program(text: str, context: bytes, at: int) -> bool:
    """Return whether all of the line ``text``, which begins at ``at`` of ``context``, is of a program's text, a
    patch or a table that explains errors."""
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
    """Return whether what ``known`` knows of the line stands between marks of quotation and nowhere else, in a
    sentence or in a program's text."""
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
    """Return what stands before each quotation that has what ``known`` knows, where it stands nowhere else."""
    spans = [span for span in marks.finditer(text[:2000]) if known.is_in(span[0].strip("`'\""))]
    if not spans or known.is_in(marks.sub('""', text)):
        return []
    return [marks.sub('""', text[: span.start()]) for span in spans]


def _bare(text: str) -> str:
    """A line without what grep puts before it."""
    found = _FOUND.match(text)
    return text[found.end() :] if found else text


def is_echoed(text: str, context: bytes, at: int) -> bool:
    """Return whether a shell that traces itself has just told that it is about to say ``text``, which a script has
    in it."""
    above = context[context.rfind(b"\n", max(at - NEAR, 0), max(at - 1, 0)) + 1 : at]
    told = _ECHO.match(above) if b"+ echo " in above else None
    return told is not None and _unquoted(told[1].decode("utf-8", "replace")) == _unquoted(text)


def _unquoted(text: str) -> str:
    return re.sub(r"[\"'\\]", "", text).strip()


def _is_form(text: str) -> bool:
    """Return whether a string of a program stands there with what has still to be filled in."""
    first, form = _QUOTE.search(text), _PLACEHOLDER.search(text)
    return bool(first and form and first.start() < form.start() and _QUOTE.search(text, form.end()))


def _is_within(context: bytes, at: int) -> bool:
    """Return whether the line is in brackets of a program: the line above it that is less indented opens them."""
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
    """Return whether the strings that stand one below the other from ``at`` on end as a program's: in JSON none ends
    with a comma there."""
    lines = context[at : at + NEAR].decode("utf-8", "replace").splitlines()[:STRINGS]
    for above, line in itertools.pairwise(lines):
        if not _PAIRS.match(line[:1000]):
            return above.rstrip().endswith(",") and bool(_CLOSED.match(line))
    return False


def _is_in_string(context: bytes, at: int) -> bool:
    """Return whether the line begins within a string over several lines, as programs in Python have them."""
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
    who, _ = split(readable(context[at : at + 400].partition(b"\n")[0]))  # a program that prints what a model wrote
    return who.rank is None and who.time is None


def _may_begin(before: str, above: str) -> bool:
    """Return whether a string that stands behind ``before``, below the line ``above``, is of a program: what is on a
    line of its own has a statement above it, or nothing."""
    before, above = before.rstrip(_LETTERS), above.rstrip()
    if before.strip():
        return bool(_BEFORE_STRING.search(before[-40:]))
    return not above or above[-1] in "(,=" or bool(_STATEMENT.match(above[:1000]))


def _is_comment(context: bytes, at: int) -> bool:
    """Return whether a line that begins with a number sign is a comment of a program, and no heading: by the lines
    around."""
    before = context[max(at - NEAR, 0) : at].decode("utf-8", "replace").splitlines()[-BESIDE:]
    after = context[at : at + NEAR].decode("utf-8", "replace").splitlines()[1 : BESIDE + 1]
    if any(_BANNER.match(line) for line in (*before, *after)):
        return False
    beside = (*before[-1:], *after[:1])
    return any(map(_NUMBER_SIGN.match, beside)) or any(_STATEMENT.match(line.rstrip()) for line in (*before, *after))
