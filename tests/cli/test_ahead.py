"""The import of torch is begun before a check loads anything else, and never outlives what turned out to be none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from distdoctor.cli.preload import stage_of
from distdoctor.model.launch_settings import LEAST_LENGTH, VARIABLE
from distdoctor.model.stages import STAGES
from distdoctor.ranks.zygote_start import abandon, begin, take
from tests.cli.endings import SECONDS, site
from tests.helpers.commands import environment

TORCH = """
import os, time
with open({begun!r} + ".part", "w") as file:
    file.write(f"{{os.getpid()}}")
os.rename({begun!r} + ".part", {begun!r})
time.sleep(60)
"""
"""A torch whose import says which process it goes on in, and takes long."""
WAITS = """
import os
end = time.monotonic() + 4
while time.monotonic() < end and not os.path.exists({begun!r}):
    time.sleep(0.01)
{then}
"""
"""Code that a site's check runs while it is loaded."""


def loading(folder: Path, then: str, *words: str) -> tuple[subprocess.Popen[str], Path]:
    """A check, which loads a site's check that waits for the import of torch; and the file that tells of that."""
    begun = folder / "begun"
    (folder / "torch.py").write_text(TORCH.format(begun=str(begun)))
    checks = site(folder, "return", WAITS.format(begun=str(begun), then=then))
    process = subprocess.Popen(
        [sys.executable, "-m", "distdoctor", "check", "--standalone", "--checks", str(checks), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "PYTHONPATH": f"{folder}:{environment().get('PYTHONPATH', '')}"},
    )
    return process, begun


def ended(begun: Path) -> bool:
    """Return whether the process that imports torch was there, and is gone or on its way."""
    pid = int(begun.read_text())
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def children() -> set[str]:
    """The processes that this thread has started."""
    return set(Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children").read_text().split())


def test_a_usage_error_while_torch_is_imported(tmp_path: Path) -> None:
    """It was begun before the checks were loaded, and is gone when the answer is there."""
    process, begun = loading(
        tmp_path, f"assert os.path.exists({str(tmp_path / 'begun')!r}), 'not begun'\nraise ValueError('no check')"
    )
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 2 and "no check" in said, said
    assert not Path(f"/proc/{begun.read_text()}").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_one_that_is_ended_while_it_loads(number: signal.Signals, tmp_path: Path) -> None:
    process, begun = loading(tmp_path, "time.sleep(4)")
    end = time.monotonic() + SECONDS
    while not begun.exists() and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=SECONDS)
    assert process.returncode == (128 + number if number == signal.SIGINT else -number)
    assert ended(begun)


@pytest.mark.parametrize(
    ("words", "until"),
    [
        (["check"], STAGES[-1]),
        (["--local-rank=1", "check", "--nnodes", "2"], STAGES[-1]),
        (["check", "--until", "store", "-v"], "store"),
        (["check", "--until=store"], "store"),
        (["check", "--until", "store", "--until", "network"], "network"),
        (["check", "--until"], ""),
        (["check", "--dry_run"], None),
        (["check", "--hosts", "a,b"], None),
        (["check", "--hostfile=hosts"], None),
        (["check", "--help"], None),
        (["remote", "--until", "store"], "store"),
        (["remote"], None),
        (["diagnose", "check"], None),
        (["--version"], None),
        ([], None),
    ],
)
def test_what_the_words_ask_for(words: list[str], until: str | None) -> None:
    assert stage_of(words) == until


def test_what_was_begun_for_the_same_job_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host of a run from one place, which knows its job once its order has come."""
    (tmp_path / "torch.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    before = children()
    begin()
    first = children() - before
    begin()
    kept = children() - before
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    begin()
    other = children() - before
    abandon()
    assert len(first) == 1 and kept == first and len(other) == 1 and other != first


def test_it_is_that_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe begun early is used if the job is still the same; the token is no part of the job."""
    (tmp_path / "torch.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "x" * LEAST_LENGTH)
    before = children()
    begin()
    first = take()
    begin()
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    second = take()
    begin()
    monkeypatch.chdir(tmp_path)
    third = take()
    begin()
    abandon()
    try:
        seen = [Path(f"/proc/{one.process.pid}/environ").read_bytes().split(b"\0") for one in (first, second)]
        assert [b"OMP_NUM_THREADS=3" in one for one in seen] == [False, True]
        assert not any(entry.startswith(VARIABLE.encode()) for one in seen for entry in one)
        assert Path(f"/proc/{third.process.pid}/cwd").resolve() == tmp_path.resolve()
        assert children() - before == {str(one.process.pid) for one in (first, second, third)}
    finally:
        for one in (first, second, third):
            one.kill()
