"""Detection of log lines that quote an error rather than report one: source code, or an environment, that a program
printed."""

from __future__ import annotations

import re

from distdoctor.logs.scanner import KnownLine

_NAME = r"(?:[a-z_][\w.:>-]*|[A-Z][A-Z0-9_]*)"
"""Names of functions and variables; exceptions and other classes begin differently, and so does their repr()."""
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_OPEN = re.compile(
    r"(?!.*: ).*(?:"
    rf"(?:^|\W){_NAME}(?<!rror)(?<!xception)(?<!xited)\((?:[^()]|\([^()]{{0,80}}\)){{0,400}}"
    r"|(?:^|\s)[\w.\])]{1,80} (?:[+:]?=|[=!]=|in|==|[+]) [^=]{0,80}|[\w)\]][=!]=\s?"  # assignment, comparison
    r"|(?:^|[\s\"'(|;&]|\$\()(?:[efz]?grep|[gm]?awk|sed|trap|echo|printf|logger|case|throw|perror|#define)\b.{0,400}"
    r"|\*|(?:^|[\s(,\[{])[rRfF]{1,2})$"  # shell pattern, expression
    r"|.*\b(?:sample|completion|generat(?:ed|ion)|prompt|question|pattern|regexp?)s?[ _#]?\d{0,6}[\]\"']?\s{0,3}[:=]"
    r"\s{0,3}$"
)
"""Text before a string that a program searches, prints or stores. Text behind a colon and a blank was reported, as by
an exception."""
_TEST = re.compile(r"\s*(?:if|elif|while|else if|\|\||&&|return|assert|case|def|class)\b(?!.*: )")
_OWN = re.compile(
    r"\s*(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exited|Timeout|OutOfMemory): \S"
)
"""Beginning of the last line of an exception, whatever it quotes."""
_PROGRAM = re.compile(
    r"[\w./@+-]{1,300}\.(?:py|pyx|c|cc|cpp|cu|h|hpp|rs|go|sh|md|rst|ya?ml|toml)[:-]\d{1,7}[:-](?:\s{2,}|\t)\S"
    rf"|(?:\s{{4,}}|\t+)#(?: \S|[^\s\d#])|\s*(?:/\*|// |\"{{3}}\S|'{{3}}\S)|\s*{_NAME} = [^#\"']{{1,200}}\s#\s"
)
"""Line of a program that grep found there, and a comment, also behind a statement."""
_VARIABLE = re.compile(r"(?:\+{1,4} )?(?:export |declare -x )?[A-Z_][A-Z0-9_]*=(?!.{0,400}?(?:Error|Exception)\b)")
"""Variable as env(1) and a shell's trace print it: a value says what somebody found before, not what failed."""


def is_program(text: str) -> bool:
    """Return whether the line ``text`` is of source code or of the environment, whatever it contains."""
    return _PROGRAM.match(text) is not None or _VARIABLE.match(text) is not None


def is_cited(text: str, known: KnownLine) -> bool:
    """Return whether the match of ``known`` stands only in strings of a statement."""
    if _OWN.match(text):
        return False
    spans = [span for span in _STRING.finditer(text[:2000]) if known.is_in(span[0].strip("'\""))]
    if not spans or known.is_in(_STRING.sub('""', text)):
        return False
    before = [_STRING.sub('""', text[: span.start()]) for span in spans]
    return any(_OPEN.match(one) or _TEST.match(one) for one in before)
