"""The timeline of a dead job: around the first failure, by each rank's clock, with what is decisive."""

from __future__ import annotations

from typing import Any

from distdoctor.render import html
from distdoctor.render.timeline import LANES_MOST, LINES_MOST, Timeline, timeline
from tests.render import reports


def line(number: int, rank: int | None = 0, shows: str = "symptom", **more: Any) -> dict[str, Any]:
    known = {"file": f"rank{rank}.log", "line": number, "text": f"line {number}", "check": "process/exception"}
    return {**known, "rank": rank, "host": None, "count": 1, "why": "", "time": None, "shows": shows, **more}


def told(*lines: dict[str, Any]) -> Timeline:
    found = timeline(reports.report(plan={}, details={"logs": {}, "lines": list(lines)}))
    assert found is not None
    return found


def test_the_first_failure_is_where_the_clock_starts() -> None:
    found = told(
        line(5, 0, time=107.0),
        line(9, 1, "root cause", time=100.0),
        line(3, 2, "cause", time=100.25),
        line(7, 2),  # says no time: it was no earlier than the line before it
    )
    assert [(one.who, one.when, one.root) for one in found.lines] == [
        ("rank 1", "+0.000 s", True),
        ("rank 2", "+0.250 s", False),
        ("rank 2", "≈ +0.250 s", False),
        ("rank 0", "+7.0 s", False),
    ]
    assert [(lane.who, [(place, kind) for place, kind, _ in lane.marks]) for lane in found.lanes] == [
        ("rank 1", [("1.0", "root")]),
        ("rank 2", [("4.5", "cause"), ("4.5", "after")]),
        ("rank 0", [("99.0", "after")]),
    ]
    assert (found.begins, found.ends) == ("+0.000 s", "+7.0 s")


def test_places_in_code_and_noise_are_left_to_the_whole_list() -> None:
    found = told(
        line(1, text="Traceback (most recent call last):"),
        line(2, text='File "train.py", line 1, in <module>'),
        line(3, shows="noise"),
        line(4, shows="root cause", text="ValueError: x"),
    )
    assert [one.line["line"] for one in found.lines] == [4]


def test_without_times_the_order_is_that_of_the_logs_and_there_are_no_lanes() -> None:
    found = told(line(8, 1), line(2, 0, "root cause"), line(4, 0))
    assert [one.line["line"] for one in found.lines] == [8, 2, 4]
    assert found.lanes == [] and {one.when for one in found.lines} == {""}


def test_a_line_that_several_checks_know_is_told_once() -> None:
    found = told(line(8, 1), line(8, 1, "root cause", check="process/terminated"), line(8, 0))
    assert [(one.who, one.root, one.line["check"]) for one in found.lines] == [
        ("rank 1", True, "process/exception, process/terminated"),
        ("rank 0", False, "process/exception"),
    ]


def test_where_no_time_is_known_the_page_has_no_column_for_it() -> None:
    def page(**more: Any) -> str:
        return html.render(reports.report(plan={}, details={"logs": {}, "lines": [line(8, 1, "root cause", **more)]}))

    assert "<th>when</th>" in page(time=1.0) and "<th>when</th>" not in page()


def test_what_was_said_hours_before_does_not_squeeze_the_lanes() -> None:
    found = told(line(1, 0, time=0.0), line(2, 0, "root cause", time=9000.0), line(3, 1, time=9004.0))
    assert (found.begins, found.ends) == ("+0.000 s", "+4.0 s")
    assert len(found.lines) == 3


def test_of_many_lines_those_around_the_failure_are_shown() -> None:
    many = [line(n, n % 200, time=float(n)) for n in range(3000)]
    many[2000]["shows"] = "root cause"
    found = told(*many)
    assert len(found.lines) == LINES_MOST and found.left_out == 3000 - LINES_MOST
    assert any(one.root for one in found.lines)
    assert len(found.lanes) == LANES_MOST and found.more_lanes > 0
