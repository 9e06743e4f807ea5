"""The schema of the report: complete, true of what is written, and of what was written before."""

from __future__ import annotations

import dataclasses
import json as plain
from typing import Any

import pytest

from distdoctor.cli.app import run
from distdoctor.model.findings import Finding, Fix, PossibleCause
from distdoctor.render import json
from distdoctor.render.json import document
from distdoctor.render.schema import MEANING, schema
from tests.helpers.namespaces import ROOT
from tests.helpers.report_schema import report_in, strict, validator
from tests.render import reports

OURS_ALONE = {Finding: {"incomplete", "of_its_own"}, Fix: {"unknown"}}
"""Fields that the engine and the renderers need and a reader of the document does not."""


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert plain.loads(capsys.readouterr().out) == schema()


@pytest.mark.parametrize("part", MEANING, ids=lambda part: part.__name__)
def test_every_field_is_told(part: type) -> None:
    known = {field.name for field in dataclasses.fields(part)} - OURS_ALONE.get(part, set())
    assert set(MEANING[part][1]) == known


def test_the_fields_stand_in_the_order_in_which_they_are_written() -> None:
    written: dict[str, Any] = document(reports.loopback())
    assert list(schema()["properties"]) == list(written)
    assert list(schema()["definitions"]["Finding"]["properties"]) == list(written["findings"][0])


pytest.importorskip("fastjsonschema")


def test_a_report_of_the_first_day_is_valid_and_one_that_lacks_more_is_not() -> None:
    first = plain.loads((ROOT / "tests/render/golden/first_day.json").read_text())
    valid = validator(schema())
    valid(first)
    valid({**first, "field_of_a_later_version": 1})
    for field in first:
        with pytest.raises(ValueError, match=field):
            valid({name: value for name, value in first.items() if name != field})


@pytest.mark.parametrize(
    ("where", "value"),
    [(("verdict",), "fine"), (("schema_version",), 2), (("nodes", 0, "ranks"), ["0"]), (("stages", 0, "status"), "ok"),
     (("findings", 0, "links"), [["a"]]), (("findings", 0, "fixes", 0, "env"), {"A": 1})],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_not_valid(where: tuple[str | int, ...], value: object) -> None:
    wrong = plain.loads(plain.dumps(document(reports.loopback())))
    validator(schema())(wrong)
    place: Any = wrong
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    with pytest.raises(ValueError):
        validator(schema())(wrong)


def test_this_version_writes_each_field_and_no_other() -> None:
    asked = PossibleCause("a/b", "why", "against", "next")
    whole = document(dataclasses.replace(reports.loopback(), candidates=(asked,)))
    report_in(plain.dumps(whole))
    assert strict()["additionalProperties"] is False
    for changed in ({**whole, "more": 1}, {name: value for name, value in whole.items() if name != "checks"}):
        with pytest.raises(AssertionError, match="distdoctor schema"):
            report_in(plain.dumps(changed))


def test_reports_that_tests_make_are_held_against_it() -> None:
    wrong: Any = "fine"
    with pytest.raises(AssertionError, match="verdict"):
        json.render(dataclasses.replace(reports.healthy(), verdict=wrong))
