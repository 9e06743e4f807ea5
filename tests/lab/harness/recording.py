"""Keeps the facts of a run of the lab, so that they can be judged again without one.

    distdoctor diagnose tests/recorded/cases/127-0-1-1-on-both.json.gz

One file holds what all processes of a run saved. What is particular to the machine that the lab stood on, such as
where the checkout lies, is put into other words, the same everywhere.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.lab.harness.host import ROOT

RECORDED = ROOT / "tests" / "recorded"
"""Where the recorded facts lie: ``cases`` of the table, and ``healthy`` shapes."""
BOOT_ID = "00000000-0000-4000-8000-000000000000"
"""What stands for the boot id of the machine: all hosts of a lab share its kernel, but for those that a fault makes
machines of their own (``other_machines``), whose ids begin as this one."""


def slug(name: str) -> str:
    """The name of a case or shape as that of a file, without the ending."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def recorded(folder: Path, name: str) -> Path:
    """Return where the facts of the case or shape of that name are in ``folder``."""
    return folder / f"{slug(name)}.json.gz"


def record(folder: Path, name: str, saved: Mapping[str, bytes]) -> None:
    """Keep what the processes of a run saved (by file name) as the facts of that name. Raises OSError."""
    documents = [json.loads(_neutral(saved[file])) for file in sorted(saved)]
    document = {**documents[0], "facts": [facts for one in documents for facts in one["facts"]]}
    text = json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    recorded(folder, name).write_bytes(gzip.compress(text.encode(), mtime=0))


def _neutral(text: bytes) -> str:
    """The text of a facts file without the places and the boot id of this machine."""
    places = {ROOT: "/opt/distdoctor", Path(sys.prefix): "/opt/venv", Path(sys.base_prefix): "/opt/python"}
    neutral = re.sub(rf'("boot_id": ")(?!{BOOT_ID[:-12]})[^"]*', rf"\g<1>{BOOT_ID}", text.decode())
    for place, other in places.items():  # a virtual environment within the checkout stays within it
        if place not in (Path("/usr"), Path("/usr/local")):  # as on any machine
            neutral = neutral.replace(str(place), other)
    return neutral
