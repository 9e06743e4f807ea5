"""Whatever is in a report, a facts file or an error, nothing of it acts on the terminal that it is printed to."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from distdoctor import streams
from distdoctor.cli.app import run
from distdoctor.model.facts import FactsFile, encode
from distdoctor.render import json as json_renderer
from distdoctor.render import text as text_renderer
from distdoctor.render.formats import FORMATS
from distdoctor.render.progress import Plain, Terminal
from distdoctor.render.style import Style
from tests.facts_builder import healthy, loopback_name
from tests.render.reports import loopback

EVIL = "\x1b[2J\x1b]52;c;ZXZpbA==\x07\x9b2J\x9d0;x\x9c\r\x08\u202e\u2028\x7f"
OURS = re.compile(r"\r\x1b\[K|\x1b\[[0-9;]*m|\n")


def acts(text: str, *, drawn: bool = False) -> list[str]:
    """The characters of ``text`` that do something to a terminal, other than what we draw with."""
    rest = OURS.sub("", text) if drawn else text.replace("\n", "")
    return [char for char in rest if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")]


def hostile(value: Any) -> Any:
    """``value`` with something evil in every text of it, also in the names of what it holds."""
    if isinstance(value, str):
        return value + EVIL
    if isinstance(value, dict):
        return {hostile(key): hostile(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(hostile(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        kept = ("severity", "blame", "verdict", "status", "stage", "id", "because_of")
        return replace(value, **{f.name: hostile(getattr(value, f.name)) for f in fields(value) if f.name not in kept})
    return value


EVERYTHING = replace(loopback(), notes=("a note",), details={"nodes": {"host0": {"python": "3.11"}}})
"""A report with findings, fixes, notes and details."""


@pytest.mark.parametrize("verbose", [0, 2])
@pytest.mark.parametrize("width", [0, 60])
def test_no_field_of_a_report_acts_on_a_terminal(verbose: int, width: int) -> None:
    evil = hostile(EVERYTHING)
    evil = replace(evil, plan={name: hostile(value) for name, value in EVERYTHING.plan.items()})
    assert acts(text_renderer.render(evil, Style(verbose=verbose, width=width))) == []
    coloured = text_renderer.render(evil, Style(verbose=verbose, width=width, colour=True))
    assert acts(coloured, drawn=True) == [] and "\x1b[2J" not in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert plain == text_renderer.render(evil, Style(verbose=verbose, width=width))


@pytest.mark.parametrize("name", FORMATS)
def test_nor_in_any_other_format(name: str) -> None:
    evil = hostile(EVERYTHING)
    assert acts(FORMATS[name](evil, Style())) == []


def test_json_escapes_all_of_it() -> None:
    text = json_renderer.render(hostile(EVERYTHING))
    assert acts(text) == [] and text.isascii()
    assert json.loads(text)["distdoctor"].endswith(EVIL)


@pytest.mark.parametrize("kind", [Plain, Terminal])
def test_nothing_that_is_told_meanwhile_acts_on_a_terminal(kind: Any) -> None:
    written: list[str] = []
    observer = kind(written.append)
    observer.stage_started(EVIL)
    observer.note(EVIL)
    observer.announce(EVIL, 2)
    observer.waiting([EVIL, f"a{EVIL}"], 3, EVIL, 5.0)
    observer.stage_ended("gloo", "failed", 1.0, EVIL)
    if kind is Terminal:
        while not any("waiting" in text for text in written):
            pass  # until the spinner has drawn it
    observer.close()
    assert acts("".join(written), drawn=True) == []


@pytest.mark.parametrize("drawn", [False, True])
def test_the_stream_itself_lets_nothing_through(drawn: bool) -> None:
    stream = io.StringIO()
    streams.write(f"a{EVIL}\nb\x1b[31mred\x1b[0m\r\x1b[K", stream, drawn=drawn)
    assert acts(stream.getvalue(), drawn=drawn) == []
    assert ("\x1b[31mred" in stream.getvalue()) == drawn


def test_an_evil_facts_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tuple(loopback_name(one) for one in healthy(2))
    facts = tuple(
        replace(
            one,
            identity=replace(hostile(one.identity), hostname=one.identity.hostname + EVIL),
            variables={f"NCCL_DEBUG{EVIL}": EVIL},
            near_misses=(EVIL,),
            plan=replace(one.plan, sources=hostile(one.plan.sources), master_addr=EVIL),
            stages=tuple(replace(stage, reason=EVIL) for stage in one.stages),
        )
        for one in facts
    )
    path = tmp_path / f"f{EVIL.replace('/', '')}.json"
    path.write_bytes(encode(FactsFile(facts, EVIL)))
    assert run(["diagnose", str(path), "-vv"]) == 1
    shown = capsys.readouterr()
    assert acts(shown.out + shown.err) == []
    path.write_text("{")
    assert run(["diagnose", str(path)]) == 2
    assert acts(capsys.readouterr().err) == []
