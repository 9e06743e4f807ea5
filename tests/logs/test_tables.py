"""Logs as tables, as those who gather logs give them out; what is a data set."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from distdoctor.logs.reading import formats
from tests.logs.test_folders import OUT_OF_MEMORY, STEPS, judged_folder
from tests.logs.test_gathered import LINES, TRACE
from tests.logs.test_reader import judged

STAMPS = {
    "grafana": ("Time", "2026-01-01 10:{:02d}:{:02d}.5"),
    "insights": ("@timestamp", "2026-01-01 10:{:02d}:{:02d}.500"),
    "azure": ("TimeGenerated [UTC]", "1/1/2026, 10:{:02d}:{:02d}.123 AM"),
    "datadog": ("Date", "2026-01-01T10:{:02d}:{:02d}.000Z"),
    "opensearch": ("@timestamp", "Jan 1, 2026 @ 10:{:02d}:{:02d}.000"),
    "splunk": ("_time", "2026-01-01T10:{:02d}:{:02d}.000+0000"),
}
OTHERS = {
    "grafana": ("Line", "labels", '{"app": "t", "pod": "gke-a-2"}'),
    "insights": ("@message", "@logStream", "job/gke-a-2"),
    "azure": ("LogMessage", "PodName", "gke-a-2"),
    "datadog": ("Message", "pod_name", "gke-a-2"),
    "opensearch": ("message", "kubernetes.pod_name", "gke-a-2"),
    "splunk": ("_raw", "host", "gke-a-2"),
}


def table(rows: Sequence[Sequence[str]], separator: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(rows)
    return text.getvalue()


def given_out(by: str, lines: Sequence[str]) -> list[list[str]]:
    (when, stamp), (what, who, host) = STAMPS[by], OTHERS[by]
    rows = [[stamp.format(number // 60, number % 60), host, line] for number, line in enumerate(lines)]
    return [[when, who, what], *rows]


@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("by", [*STAMPS])
def test_who_gives_out_tables(tmp_path: Path, by: str, newest_first: bool) -> None:
    head, *rows = given_out(by, LINES)
    (tmp_path / "logs.csv").write_text("\ufeff" + table([head, *(rows[::-1] if newest_first else rows)]))
    finding = judged(tmp_path).findings[0]
    assert (finding.check, finding.nodes) == ("gpu/out-of-memory", ("gke-a-2",))
    number = 2 if newest_first else len(LINES) + 1
    assert finding.evidence[0].startswith(f"{tmp_path}/logs.csv:{number}: {OUT_OF_MEMORY}")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_message_of_several_lines_stands_where_its_row_begins(tmp_path: Path, separator: str) -> None:
    head, *rows = given_out("opensearch", [STEPS, TRACE])
    (tmp_path / "x.csv").write_text(table([head, *rows], separator))
    finding = judged(tmp_path / "x.csv").findings[0]
    assert (finding.check, finding.nodes) == ("gpu/out-of-memory", ("gke-a-2",))
    assert finding.evidence[0].startswith(f"{tmp_path}/x.csv:{STEPS.count(chr(10)) + 3}: {OUT_OF_MEMORY}")


@pytest.mark.parametrize("names", ["timestamp,message,label", "date,log", "text,label"])
def test_a_data_set_beside_a_log_says_nothing_of_the_job(tmp_path: Path, names: str) -> None:
    rows = f"{names}\n2026-01-01 10:00:00,why do I get {OUT_OF_MEMORY}?,bug\n"
    found = judged_folder(tmp_path, train__csv=rows * 5, out__log=f"{STEPS}Training finished.\n")
    assert (found.verdict, found.findings) == ("pass", ())


def test_a_table_that_is_given_by_its_name_is_a_log(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(table([["time", "message"], ["2026-01-01 10:00:00", TRACE]]))
    assert [one.check for one in judged(tmp_path / "x.csv").findings] == ["gpu/out-of-memory"]


@pytest.mark.parametrize("head", [b"", b"time,\rmessage\n1,2\n", b'time,"mess\0age\n', b"Traceback (most recent\n"])
def test_what_is_no_table(head: bytes) -> None:
    assert not formats.is_table(head) and formats.gathered(head) is None
