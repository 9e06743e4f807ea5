"""A program's text that quotes an error: source code, what grep found in it, a patch. Nobody said what it says."""

from __future__ import annotations

import re

_NAME = r"(?:[a-z_][\w.:>-]*|[A-Z][A-Z0-9_]*)"
"""As functions and variables are called; exceptions and other classes begin otherwise, and so does their repr()."""
_FILES = r"(?:py|pyx|c|cc|cpp|cu|cuh|h|hpp|rs|go|java|js|ts|sh|sbatch|slurm|md|rst|ya?ml|toml|patch|diff)"
_FOUND = re.compile(rf"(?:[\w./@+-]{{1,300}}\.{_FILES}[:-])?\d{{1,7}}[:-](?=\s{{2,}}|\t|\S)")
"""What grep -n puts before a line; the indentation is the line's own."""
_IN_FILE = re.compile(rf"[\w./@+-]{{1,300}}\.{_FILES}[:-]\d{{1,7}}[:-](?:\s{{2,}}|\t)\S")
_TEXT_FOUND = re.compile(r"[\w./@+-]{1,300}\.(?:md|rst)[:-]\d{1,7}[:-]")
_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_CALL = (
    rf"(?:(?:async )?with )?@?{_NAME}(?<!rror)(?<!xception)(?<!xited)"
    r"\([^\"'()]{0,120}(?:\([^\"'()]{0,60}\)[^\"'()]{0,60})?[\"']"
)
_WORDS = r"(?:if|else|for|and|or|not|is|in|as|of|while|with|from|where|then|do|unless|until|const|override|noexcept)\b"
_ANSWER = rf"(?!.*[\"'][^\"'()]{{0,80}}\)+(?: ?(?:: ?\w|= -?\d|failed|returned)| (?!{_WORDS})[a-z]{{3}}))"
"""A call with a string in it; what an exception looks like as a value is none, and so is what tells how a call went."""
_GIVEN = (
    rf"(?:export |const |static |local |auto )?(?:[a-z]\w* )?{_NAME}(?:\[[^\]]{{0,40}}\])? [+:]?= [^\"']{{0,80}}[\"']"
    r"|(?:export |local )?\w{1,60}=[\"']?\$\(|\w{1,60}=[rf]?[\"'].*[\"'](?:,|\)+,?)\s*$"
    r"|.{0,80}\b(?:pattern|regexp?)[\"']?: ?[\"']"
    rf"|{_NAME} = [\w.>()-]{{1,80}};\s*$"
)
"""A string that is given a name; with a blank on each side, as loggers do not write it."""
_ITEM = rf"(?:[(\[{{] ?)?(?:(?:{_STRING})\s*,\s*)*(?:{_STRING})\s*(?:,|[)\]}}]+[,;:]|\)+|\\)?\s*(?:(?:#|//).*)?$"
"""A string of a list, or on a line of its own, as logs in JSON have them, too."""
_OPENED = re.compile(r"\s*[!*&]?[A-Za-z_@][^\"']*[\[({,]\s*$")
"""What stands before the first of them in a program."""
_ASKED = (
    r"(?:(?:if|elif|while|else if)\b|\|\||&&).{0,400}[\"'].*(?::|\{|; then)\s*$|\(?\*[\"'].*\*\)"
    r"|(?:(?!: ).)*?(?:[=!]= ?|\b[efz]?grep (?:-{1,2}[\w=-]+ ){0,6})[\"'].*"
)
"""What is asked of a text. What stands behind a colon and a blank was said, as by an exception."""
_SAID = (
    r"\(?(?:[rfR]|rf|fr)[\"']|(?:#define|throw|perror|f?printf|echo)\b[ (].*[\"';]"
    r"|(?:case [\w.:\"']{1,80}|def \w+|class \w+) ?[(:)]|//"
)
_TRACED = (
    r"\+{1,6} (?:\w{1,60}=\S{0,200} )?(?:[\w./-]{0,200}/)?"
    r"(?:[efz]?grep|[gm]?awk|sed|trap|echo|printf|logger|for|case|\[\[?) .{0,400}[\"']"
)
"""What a shell that traces itself (set -x) is about to look for, or to say."""
_ECHO = re.compile(rb"[^\n]{0,120}?\+{1,6} echo (?:-[en]{1,2} )?([^\n]{1,1000})\r?\n[^\n]{0,120}\Z")
"""What such a shell is about to say, in the line above."""
_GENERATED = (
    r"(?:sample|completion|generat(?:ed|ion)|prompt|question)s?[ _#]?(?:\d{1,6})?\]?\s{0,3}[:=]\s{0,3}"
    r"(?:\".*\"|'.*')\s*$"
)
"""What a model was asked, or has written."""
_CODE = re.compile(rf"\s*(?:{_ANSWER}{_CALL}|{_GIVEN}|{_ASKED}|{_SAID}|{_TRACED}|{_GENERATED})")
_STRINGS = re.compile(rf"\s*(?:{_ITEM})")
_PLACEHOLDER = re.compile(r"(?<![\w%-])%(?:\d{0,3}(?:\.\d{1,3})?)(?:ll?|z)?[dsuxi](?!\w)")
"""What printf would put a value for."""
_QUOTE = re.compile(r"[\"']")
_PASTED = re.compile(r"\)\s?(?:(?:[\w.]{1,80}\.)?[A-Z]\w{0,60}(?:Error|Exception): |Traceback \()")
"""What a rank has written behind what another one did not end."""
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
_COMMENT = re.compile(r"(?:\s{4,}|\t+)#(?: \S|[^\s\d#])|\s*/\*")
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
_MARKS = ("'", '"', "//", "$(", ";")
"""One of these stands in each of them."""
NEAR = 6000
"""Bytes before a line in which these are looked for."""
STRINGS = 60
"""Lines of strings that are looked at, to see what they begin with."""
BESIDE = 3
"""Lines on each side of what may be a comment that are looked at."""


def is_program(text: str, context: bytes, at: int) -> bool:
    """Whether the line ``text``, which begins at ``at`` of ``context``, is of a program's text, a patch or a table that
    explains errors."""
    first = context[at : at + 1]
    if first in b"+- " and first and _HUNK.search(context[max(at - NEAR, 0) : at]):
        return True
    if first == b"|" and _RULE.search(context[max(at - NEAR, 0) : at]):
        return True
    found = _FOUND.match(text)
    bare = text[found.end() :] if found else text
    if _TEXT_FOUND.match(text) or _COMMENT.match(bare) or _RAISES.match(bare) or _CHANGE.match(text):
        return True
    if _OWN.match(bare):
        return False
    if _IN_FILE.match(text) or _is_form(bare[:1000]):
        return True
    if _NUMBER_SIGN.match(bare):
        return _is_comment(context, at)
    if _PASTED.search(bare[:1000]) or not any(mark in bare for mark in _MARKS):
        return False
    return bool(_CODE.match(bare[:1000])) or (bool(_STRINGS.match(bare[:1000])) and _is_opened(context, at))


def is_echoed(text: str, context: bytes, at: int) -> bool:
    """Whether a shell that traces itself has just told that it is about to say ``text``, which a script has in it."""
    above = context[context.rfind(b"\n", max(at - NEAR, 0), max(at - 1, 0)) + 1 : at]
    told = _ECHO.match(above) if b"+ echo " in above else None
    return told is not None and _bare(told[1].decode("utf-8", "replace")) == _bare(text)


def _bare(text: str) -> str:
    return re.sub(r"[\"'\\]", "", text).strip()


def _is_form(text: str) -> bool:
    """Whether a string of a program stands there with what has still to be filled in."""
    first, form = _QUOTE.search(text), _PLACEHOLDER.search(text)
    return bool(first and form and first.start() < form.start() and _QUOTE.search(text, form.end()))


def _is_opened(context: bytes, at: int) -> bool:
    """Whether the strings that stand one below the other before ``at`` begin in a program."""
    for line in reversed(context[max(at - NEAR, 0) : at].decode("utf-8", "replace").splitlines()[-STRINGS:]):
        if line.strip() and not _STRINGS.match(line[:1000]):
            return bool(_OPENED.match(line[:1000]) or _CODE.match(line[:1000]))
    return False


def _is_comment(context: bytes, at: int) -> bool:
    """Whether a line that begins with a number sign is a comment of a program, and no heading: by the lines around."""
    before = context[max(at - NEAR, 0) : at].decode("utf-8", "replace").splitlines()[-BESIDE:]
    after = context[at : at + NEAR].decode("utf-8", "replace").splitlines()[1 : BESIDE + 1]
    if any(_BANNER.match(line) for line in (*before, *after)):
        return False
    beside = (*before[-1:], *after[:1])
    return any(map(_NUMBER_SIGN.match, beside)) or any(_STATEMENT.match(line.rstrip()) for line in (*before, *after))
