"""Checks read a node's facts through views that are never None."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PART = re.compile(r"\.facts\.(host|network|meeting|mesh)\b")


def test_no_check_asks_whether_a_part_of_the_facts_is_none() -> None:
    for path in (*ROOT.glob("checks/*/*.py"), *ROOT.glob("distdoctor/check_api/*.py")):
        assert not PART.search(path.read_text()), f"{path}: use the node's view (node.network, node.saw('network'))"
