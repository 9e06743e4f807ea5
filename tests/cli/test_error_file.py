"""The cause in the file that torchrun's agent reads for its table of failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.cli.output import VARIABLE, leave_cause
from distdoctor.model.report import Report
from tests.render.reports import healthy, loopback

REPORTS = [loopback(), healthy()]


@pytest.mark.parametrize("report", REPORTS, ids=["failing", "passing"])
def test_torch_reads_it_as_a_failure_s_own_file(tmp_path: Path, report: Report) -> None:
    errors = pytest.importorskip("torch.distributed.elastic.multiprocessing.errors")
    path = tmp_path / "error.json"
    leave_cause({VARIABLE: str(path)}, report)
    failure = errors.ProcessFailure(local_rank=0, pid=4711, exitcode=1, error_file=str(path))
    root = next((f for f in report.findings if f.because_of is None), None)
    table = str(errors.ChildFailedError("train.py", {0: failure}))
    assert f"distdoctor: {f'{root.check}: {root.summary}' if root else 'the check is pass'}" in table
    assert failure.timestamp > 0


def test_without_an_agent_or_a_place_there_is_none(tmp_path: Path) -> None:
    leave_cause({}, REPORTS[0])
    leave_cause({VARIABLE: str(tmp_path / "gone" / "error.json")}, REPORTS[0])
    assert list(tmp_path.iterdir()) == []
