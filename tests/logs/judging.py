"""What is said of logs with given contents, and contents that many tests need."""

from __future__ import annotations

from pathlib import Path

from distdoctor.judge.logs.findings import LogJudgement, judge_logs
from distdoctor.logs.collect import Collector
from tests.facts_builder import CHECKS

LOGS = {check.id: check.log for check in CHECKS}
TRACEBACK = """{who}Traceback (most recent call last):
{who}  File "/home/u/train.py", line 12, in <module>
{who}    main()
{who}  File "/home/u/train.py", line 8, in main
{who}    {source}
{who}{error}
"""
CLOSED = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:219, remote process exited or there was a "
    "network error, NCCL version 2.20.5"
)
TABLE = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-01_10:00:01
  host      : gpu02
  rank      : 9 (local_rank: 1)
  exitcode  : -15 (pid: 102)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 102
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_10:00:00
  host      : gpu02
  rank      : 8 (local_rank: 0)
  exitcode  : {code} (pid: 101)
  error_file: <N/A>
  traceback : {told}
============================================================
"""


def judged(path: Path, *texts: str) -> LogJudgement:
    """Return what is said of logs with these contents, each a file."""
    names = []
    for number, text in enumerate(texts):
        names.append(path / f"part{number}.log")
        names[-1].write_text(text)
    return judge_logs(Collector(LOGS).collect(names).logs, CHECKS)


def judged_files(folder: Path) -> LogJudgement:
    """Return what is said of all that lies in ``folder``."""
    return judge_logs(Collector(LOGS).collect([folder]).logs, CHECKS)


def raised(who: str, error: str, source: str = "step()") -> str:
    """The traceback of an exception, each line behind ``who``."""
    return TRACEBACK.format(who=who, error=error, source=source)


def roots(path: Path, *texts: str) -> list[tuple[str, tuple[int, ...]]]:
    """The checks that are roots, each with its ranks."""
    found = judged(path, *texts)
    return [(finding.check, finding.ranks) for finding in found.findings if finding.because_of is None]
