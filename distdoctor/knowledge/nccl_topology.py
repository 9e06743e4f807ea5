"""Whether NCCL's reader of topology files, and of those of graphs, would stop at one, and why.

It is no XML parser, and refuses much that is XML: a declaration (``<?xml ...?>``), a tab between elements, a line break
within a tag, a value without quotes. Elements that it does not know are passed over, so a file of another kind may be
read as nothing. Source: NCCL src/graph/xml.cc (``xmlGetNode``, ``xmlGetToken``, ``xmlLoadSub``,
``ncclTopoXmlLoadSystem``, ``ncclTopoXmlGraphLoadGraphs``; the version is NCCL_TOPO_XML_VERSION and
NCCL_GRAPH_XML_VERSION of xml.h). What it wants of the elements within is found out later and not looked at here.
"""

from __future__ import annotations

import re

VERSION = "1"
MAX_TEXT = 255
"""Characters of a name or a value (MAX_STR_LEN of xml.h, with its end)."""
MAX_NAMED = 80
_BLANK = re.compile(r"[ \n\r]*")
_NAME = re.compile(r"[^ >/\n\r=]*")
_ATTRIBUTE = re.compile(r" ([^ >/\n\r=]*)(?:=(?:\"([^\"]*)\"|'([^']*)')|(?=[ >/\n\r]))")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def refusal(text: str, root: str = "system") -> str:
    """What NCCL's reader says where it stops, with the line; empty where it reads to the end. ``root``: the element
    that it looks for, ``graphs`` in a file of graphs."""
    place, opened = 0, list[str]()
    while True:
        place = _end(_BLANK, text, place)
        comment = _COMMENT.match(text, place)
        if comment:
            place = comment.end()
            continue
        if place == len(text):
            return f"unterminated {opened[-1]}" if opened else ""
        error, place = _element(text, place, opened, root)
        if error:
            return f"{error} (line {text.count(chr(10), 0, place) + 1})"


def _element(text: str, place: int, opened: list[str], root: str) -> tuple[str, int]:
    """The tag at ``place``: why it is refused, or where what follows it begins."""
    if text[place] != "<":
        return f"expecting '<', got {text[place]!r}", place
    closes = text.startswith("</", place)
    start = place + 2 if closes else place + 1
    end = _end(_NAME, text, start)
    name = text[start:end]
    if text.startswith("!--", start) or end == len(text):
        return ("unterminated comment" if end != len(text) else "unexpected end of the file"), place
    if len(name) > MAX_TEXT:
        return "a name is too long", place
    if closes:
        if text[end] != ">":
            return f"unexpected trailing {text[end]!r} in closing tag {name[:MAX_NAMED]}", place
        if opened and opened.pop() != name:
            return f"closing tag of {name[:MAX_NAMED]} where another was open", place
        return "", end + 1
    attributes: dict[str, str] = {}
    found = _ATTRIBUTE.match(text, end)
    while found:
        attributes[found[1]] = found[2] or found[3] or ""
        end = found.end()
        found = _ATTRIBUTE.match(text, end)
    single = text.startswith("/", end)
    end += single
    if not text.startswith(">", end):
        got = repr(text[end]) if end < len(text) else "the end of the file"
        return f"expected '>' in the tag {name[:MAX_NAMED]}, got {got}", place
    if not opened and name == root and attributes.get("version") != VERSION:
        version = attributes.get("version")
        return (f"version {version[:MAX_NAMED]}, {VERSION} is needed" if version else f"{root} has no version"), place
    if not single:
        opened.append(name)
    return "", end + 1


def _end(expression: re.Pattern[str], text: str, place: int) -> int:
    found = expression.match(text, place)
    return found.end() if found else place
