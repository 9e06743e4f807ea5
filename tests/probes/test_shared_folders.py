"""Files that nodes leave in folders they have in common: seen by others, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distdoctor.probes.host import files
from distdoctor.probes.resolver import Asker
from tests.helpers.namespaces import ROOT

LEAVES = """
import asyncio, sys, time
from distdoctor.probes.host import files
print(asyncio.run(files.leave_marks([sys.argv[1]], None))[0].mark, flush=True)
time.sleep(60)
"""


@pytest.fixture
def asker(monkeypatch: pytest.MonkeyPatch) -> Asker:
    one = Asker()
    monkeypatch.setattr(files, "ASKER", one)
    return one


def test_a_file_is_there_until_the_end_and_then_gone(asker: Asker, tmp_path: Path) -> None:
    async def both() -> None:
        found = await files.leave_marks([str(tmp_path), f"{tmp_path}/none"], f"file://{tmp_path}/init")
        assert found is not None
        here, none = found
        assert [(one.by, one.error, bool(one.mark)) for one in found] == [
            ("--shared", "", True),
            ("--shared", "ENOENT", False),
        ]
        assert os.listdir(tmp_path) == [here.mark] and files.MARK_NAME.fullmatch(here.mark)
        (seen,) = await files.look_for_marks([here], {here.path: here.mark})
        (other,) = await files.look_for_marks([here], {here.path: here.mark[:-1] + "g"})
        assert (seen.node0, other.node0) == ("", "ENOENT")
        (tmp_path / here.mark).write_text("of somebody else")
        assert (await files.look_for_marks([here, none], {here.path: here.mark}))[0].node0 == "EIO"
        assert (await files.look_for_marks([here], {}))[0].node0 is None

    asyncio.run(both())
    asker.stop()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda one: one.name)
def test_nothing_is_left_where_the_process_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    run = [sys.executable, "-c", LEAVES, str(tmp_path)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert os.listdir(tmp_path) == [name]
        process.send_signal(number)
    end = time.monotonic() + 5
    while os.listdir(tmp_path) and time.monotonic() < end:
        time.sleep(0.01)
    assert os.listdir(tmp_path) == []


def test_without_a_folder_nothing_is_asked(asker: Asker) -> None:
    assert asyncio.run(files.leave_marks([], "tcp://host0:29500")) is None
    assert asker._process is None
