"""Commands that are run to their end, and the one document that they print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers.commands import environment

SECONDS = 60


def started(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "distdoctor", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        **options,
    )


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """A shell line in which ``$D`` is the command."""
    command = f"D='{sys.executable} -m distdoctor'; {line}"
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment(), timeout=SECONDS, check=False
    )


def one_document(text: str) -> Any:
    """The only document in ``text``, with the fields that every document has."""
    document = json.loads(text)
    assert document["schema_version"] == 1 and {"verdict", "findings", "notes", "stages", "plan"} <= set(document)
    return document


def site(folder: Path, body: str, top: str = "") -> Path:
    """A folder with one check of a site; ``body`` is its judge()."""
    (folder / "checks/host").mkdir(parents=True)
    (folder / "checks/host/odd.py").write_text(
        '"""Odd.\n\n## What you see\nx\n\n## Why it happens\nx\n\n## Fix\nx\n\n'
        '## Confirm with\nx\n"""\n'
        f"import sys, time\nfrom distdoctor.check_api import Finding\nSEVERITY = 'warn'\n{top}\n"
        f"def judge(cluster):\n    {body}\n    yield\n"
    )
    return folder / "checks"
