"""One word for each concept in what people read: README, docs and help. Reports and pages have tests of their own."""

from __future__ import annotations

import re

import pytest

from distdoctor.cli import help as help_texts
from distdoctor.cli.options import OPTIONS
from tests.helpers.namespaces import ROOT

FORBIDDEN = {
    r"CANNOT TELL|cannot be told|cannot tell": "INCONCLUSIVE",
    r"\bHANGS\b|\bMOVES\b|\bSTARTS\b|\bWAITS\b": "HANG, RUNNING, WAITING",
    r"\bNO FAILURE SEEN\b": "NO FAILURE FOUND",
    r"\bnever (?:came|come)\b|\bmay come yet\b": "did not join",
    r"\bmend\w*|\bcures?\b|\bcured\b": "fix",
    r"\bwitness\w*": "evidence",
    r"\bmade anew\b|\bmake anew\b": "recreate",
    r"\b(?:for|in) want of\b": "out of, too little",
    r"\bits like\b": "peers, the other GPUs",
    r"\bfrom one place\b": "remote run, --hosts",
    r"\bladder\b|\bclimb\w*": "stages run",
    r"\bparticipants?\b": "rank",
    r"\bfollows from it\b": "consequence",
    r"\bblam\w+": "affected",
    r"\bastray\b|\bwhose part\b": "plain words",
    r"\b(?:is|are|was|were) told\b|\btells? of\b": "report, print",
}
"""Words of the right column of the vocabulary, each with the word to use."""
DOCS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md")))
}
HELPS = {
    **{name: text for name, text in vars(help_texts).items() if name.isupper() and isinstance(text, str)},
    **{f"--{name}": option.help for name, option in OPTIONS.items() if option.help},
}
TEXTS: dict[str, str] = {**DOCS, **HELPS}
LONGEST = {**dict.fromkeys(DOCS, 30), **dict.fromkeys(HELPS, 25)}
"""Words of a sentence."""


def prose(text: str) -> str:
    """Return the text without code: blocks, spans, tables and the lists of the help."""
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    text = "\n\n".join(part for part in text.split("\n\n") if not part.startswith("\b"))
    return re.sub(r"`[^`]*`", "CODE", re.sub(r"(?m)^(?: {4}|\|).*$", "\n", text))


def sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.:;?!])[*_)\]]*\s+(?=[\W_]*[A-Za-z0-9])|\n\s*\n|\n(?=[-#]|\d\. )|\s·\s", prose(text))
    return [" ".join(part.split()) for part in parts]


@pytest.mark.parametrize("name", TEXTS)
def test_the_words_are_those_of_the_vocabulary(name: str) -> None:
    text = prose(TEXTS[name])
    found = {use: match.group() for words, use in FORBIDDEN.items() if (match := re.search(words, text))}
    assert found == {}, "use the word on the left"


@pytest.mark.parametrize("name", TEXTS)
def test_no_sentence_is_long(name: str) -> None:
    long = [one for one in sentences(TEXTS[name]) if len(one.split()) > LONGEST[name]]
    assert long == []


def test_a_long_sentence_and_an_old_word_would_be_seen() -> None:
    assert len(sentences("One two. Three four: five. `a. b` six")) == 4
    assert prose("Text\n\n    CANNOT TELL\n\nmore").split() == ["Text", "more"]
    assert re.search(next(iter(FORBIDDEN)), prose("CANNOT TELL: this"))
