"""The sample report: what docs/report.json, a real report, gives today, as the README's picture and as text."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("picture", ROOT / "scripts/picture.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(svg: str) -> str:
    """The text in a picture, whatever version of rich has drawn it."""
    texts = [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    return "".join(texts).replace("\N{NO-BREAK SPACE}", " ")


def test_the_recording_shows_what_is_printed_now(picture: ModuleType) -> None:
    """``python scripts/picture.py`` draws it anew."""
    kept = picture.RECORDING.read_text()
    assert shown(picture.recording()) == shown(kept)
    assert all(f"$ {command}" in shown(kept) for command in (picture.COMMAND, *picture.RECORDED))
    assert "export GLOO_SOCKET_IFNAME=eth0" in shown(kept)
    assert "HANG" in shown(kept) and "url(http" not in kept and len(kept) < 150_000


def test_the_text_in_the_guide_too(picture: ModuleType) -> None:
    assert picture.GUIDE.read_text().endswith("\n\n" + picture.block())
