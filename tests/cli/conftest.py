from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor import __version__
from distdoctor.model.facts import FactsFile, encode
from tests.facts_builder import healthy


@pytest.fixture
def well(tmp_path: Path) -> Path:
    path = tmp_path / "well.json"
    path.write_bytes(encode(FactsFile(healthy(2), __version__)))
    return path
