"""The cause, where torchrun looks for it: its table of failures then names it, and not only an exit status.

In the form in which torch writes it (torch/distributed/elastic/multiprocessing/errors/error_handler.py,
record_exception), which the agent reads (errors/__init__.py, ProcessFailure).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from distdoctor.model.launch_variables import ERROR_FILE
from distdoctor.model.report import Report
from distdoctor.model.sanitize import clean

VARIABLE = ERROR_FILE


def leave_cause(env: Mapping[str, str], report: Report) -> None:
    """Write the root causes of ``report`` where an agent has asked this process to; where it cannot be, nothing is."""
    path = env.get(VARIABLE)
    if not path:
        return
    roots = [f for f in report.findings if f.because_of is None and f.severity == "fail"]
    roots = roots or [f for f in report.findings if f.because_of is None]
    told = [f"{finding.check}: {finding.summary}" for finding in roots] or list(report.notes[:1])
    text = f"distdoctor: {clean(' '.join(told) or f'the check is {report.verdict}')}"
    # The table prints the call stack and not the message (errors/__init__.py, _format_failure).
    message = {"message": text, "extraInfo": {"py_callstack": text, "timestamp": str(int(time.time()))}}
    try:
        with open(path, "w") as file:
            json.dump({"message": message}, file)
    except OSError:
        return
