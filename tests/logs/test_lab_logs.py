"""Logs of real jobs, recorded in the lab: the cause that was injected is named where the logs show it, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import judge_logs
from distdoctor.logs.collect import Collector
from tests.facts_builder import CHECKS
from tests.lab.harness.recording import recorded
from tests.lab.logged.job import HEALTHY, UNKNOWN
from tests.lab.logged.jobs import JOBS
from tests.lab.logged.recorder import LOGS, read
from tests.lab.logged.views import View, views

WORDINGS = {check.id: check.log for check in CHECKS}
VIEWS = [view for job in JOBS if recorded(LOGS, job.name).exists() for view in views(job, read(job))]


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_what_is_said_of_a_job(tmp_path: Path, view: View) -> None:
    for name, text in view.files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    judged = judge_logs(Collector(WORDINGS).collect([tmp_path]).logs, CHECKS)
    roots = [finding for finding in judged.findings if finding.because_of is None and finding.severity == "fail"]
    said = "+".join(finding.id for finding in roots) or (UNKNOWN if judged.verdict == "incomplete" else HEALTHY)
    assert said in view.answers, judged
    job = view.job
    if said == job.check and roots:
        if job.rank is not None:
            named = roots[0].ranks or ((job.rank,) if f"ocal rank {job.rank}" in roots[0].summary else ())
            assert named == (job.rank,), roots[0]
        if job.host and view.name == "each console":
            assert roots[0].nodes == (job.host,), roots[0]
    if said == UNKNOWN:
        assert judged.candidates and all(candidate.next for candidate in judged.candidates)
        if job.may_be and view.whole:
            assert {candidate.check for candidate in judged.candidates} & {*job.may_be}, judged.candidates


def test_there_are_enough() -> None:
    assert len(VIEWS) >= 300
    assert sum(view.answers == {UNKNOWN} for view in VIEWS) >= 80
    assert sum(view.answers == {HEALTHY} for view in VIEWS) >= 40


def test_there_are_logs_of_every_job() -> None:
    assert [job.name for job in JOBS if not recorded(LOGS, job.name).exists()] == []
