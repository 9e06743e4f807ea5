"""What is run first on a machine with a GPU: its table names what there is."""

from __future__ import annotations

import runpy
import signal
import tarfile
from pathlib import Path

from distdoctor.judge.catalog import load

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def test_what_is_to_be_found_is_a_check_and_what_is_run_a_program() -> None:
    facts, programs = (
        runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name=name) for name in ("gpu_facts", "gpu_programs")
    )
    wanted = {check for case in facts["CASES"] for check in case.expected}
    assert wanted and wanted <= {check.id for check in load()}
    run = {*facts["FIRST"], *facts["THEN"], *(case.beside[0] for case in facts["CASES"] if case.beside)}
    assert run - {"take"} == set(programs["PROGRAMS"])
    assert facts["PROGRAMS"] == SCRIPTS / "gpu_programs.py"


def test_a_part_that_breaks_or_never_ends_takes_no_other_with_it(tmp_path: Path) -> None:
    facts = runpy.run_path(str(SCRIPTS / "gpu_facts.py"), run_name="gpu_facts")
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
