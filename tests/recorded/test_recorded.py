"""Every case of the lab's table, and every healthy shape, judged again from the facts that a real run of it saved.

Where the table has a new row, ``scripts/scoreboard.py --only NAME --record`` runs it in the lab and keeps its facts
(``scripts/healthy_runs.py --only NAME --record`` for a shape).
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from distdoctor.judge.saved import diagnose
from distdoctor.model.facts.files import read
from distdoctor.render import json as json_renderer
from tests.facts_builder import CHECKS
from tests.lab.cases import ALL_CASES
from tests.lab.cases.healthy import SHAPES
from tests.lab.harness.case import Case
from tests.lab.harness.exact import misjudged
from tests.lab.harness.recording import BOOT_ID, RECORDED, recorded
from tests.lab.harness.runner import JSON
from tests.lab.harness.shape import Shape


def judged(path: Path) -> JSON:
    report: JSON = json.loads(json_renderer.render(diagnose(read([path]), CHECKS)))
    return report


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    facts = recorded(RECORDED / "cases", case.name)
    assert facts.exists(), f"make scoreboard ONLY={case.name!r} RECORD=1 runs it in the lab and keeps its facts"
    report = judged(facts)
    assert misjudged(case, report) == []
    assert report["verdict"] == case.verdict


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_healthy(shape: Shape) -> None:
    report = judged(recorded(RECORDED / "healthy", shape.name))
    assert (report["verdict"], report["findings"]) == (shape.verdict, [])


def files(folder: str) -> dict[str, str]:
    return {path.name: gzip.decompress(path.read_bytes()).decode() for path in (RECORDED / folder).iterdir()}


def test_no_other_facts_are_kept() -> None:
    """A case that was renamed or taken out leaves none behind."""
    assert set(files("cases")) == {recorded(RECORDED, case.name).name for case in ALL_CASES}
    assert set(files("healthy")) == {recorded(RECORDED, shape.name).name for shape in SHAPES}


def test_they_are_small() -> None:
    """Each by itself, for there are more with every cluster that was seen; and all that is cloned."""
    sizes = [path.stat().st_size for path in RECORDED.rglob("*.gz")]
    assert max(sizes) < 24_000 and sum(sizes) < 4_000_000


def test_nothing_in_them_is_of_the_machine_that_the_lab_stood_on() -> None:
    """Paths are those of an installation below /opt and of the lab's own hosts, or keys of distdoctor's store; hosts
    have made-up boot ids: one, or each the one that a fault gave it (``other_machines``)."""
    made_up = {BOOT_ID, *(f"{BOOT_ID[:-12]}{number:012d}" for number in (1, 2))}
    place = re.compile(
        r"(?<![\w.:/])/(?!opt/|run/|dev/|mnt/|etc/|proc/|usr/|distdoctor/[0-9a-f]{16}/)[a-z][\w.-]*/[^\s\"]*"
    )
    for name, text in {**files("cases"), **files("healthy")}.items():
        assert place.findall(text) == [], name
        assert set(re.findall(r'"boot_id":"([^"]*)', text)) <= made_up, name
