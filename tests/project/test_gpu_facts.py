"""Tests of what is run first on a machine with a GPU: its table names what there is."""

from __future__ import annotations

import errno
import os
import runpy
import signal
import tarfile
from pathlib import Path

import pytest

from distdoctor.judge.catalog import load

GPU = Path(__file__).resolve().parents[1] / "gpu"


def test_what_is_to_be_found_is_a_check_and_what_is_run_a_program() -> None:
    facts, programs = (runpy.run_path(str(GPU / f"{name}.py"), run_name=name) for name in ("facts", "programs"))
    wanted = {check for case in facts["CASES"] for check in case.expected}
    assert wanted and wanted <= {check.id for check in load()}
    run = {*facts["FIRST"], *facts["THEN"], *(case.beside[0] for case in facts["CASES"] if case.beside)}
    assert run - {"take"} == set(programs["PROGRAMS"])
    assert facts["PROGRAMS"] == GPU / "programs.py"


def test_a_part_that_breaks_or_never_ends_takes_no_other_with_it(tmp_path: Path) -> None:
    facts = runpy.run_path(str(GPU / "facts.py"), run_name="facts")
    run, into = facts["run"], tmp_path / "said"
    assert run(["sh", "-c", "echo begun; sleep 60 & sleep 60"], into, 0.5) is None
    assert into.read_text().startswith("begun") and "ended after 0 s" in into.read_text()
    assert run([str(tmp_path / "none")], into, 5) is None and "No such file" in into.read_text()
    facts["main"].__globals__.update(
        COMMANDS=(("sh", "-c", "echo first"),),
        CASES=(facts["Case"]("of a value that is none", (), env={"X": "{none}"}),),
        FIRST=("none",),
        THEN=(),
        AFTER=(("sh", "-c", "echo last"),),
        own_name=lambda: 1 / 0,
        with_wheels=lambda place: 1 / 0,
    )
    keep, full = facts["keep"], iter([True, True])

    def on_a_full_disk(*given: object) -> None:
        if next(full, False):
            raise OSError(errno.ENOSPC, "No space left on device")
        keep(*given)

    facts["main"].__globals__["keep"] = on_a_full_disk
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert facts["main"]([str(tmp_path / "out")]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)
    said = (tmp_path / "out/summary.txt").read_text()
    assert "OTHER    of a value that is none: KeyError" in said
    with tarfile.open(tmp_path / "out/gpu-facts.tar.gz") as archive:
        names = archive.getnames()
    assert {"gpu-facts/command-0.txt", "gpu-facts/program-none.txt", "gpu-facts/after-0.txt"} <= set(names)


def test_a_driver_that_says_nothing_and_a_listener_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts = runpy.run_path(str(GPU / "facts.py"), run_name="facts")
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2; exit 9\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert facts["own_name"]() == "0"
    reading, writing = os.pipe()
    os.close(reading)
    with monkeypatch.context() as there, os.fdopen(os.dup(writing), "w") as gone:
        there.setattr("sys.stdout", gone)
        facts["tell"]("one line")
        os.dup2(os.open(os.devnull, os.O_WRONLY), gone.fileno())
    os.close(writing)
