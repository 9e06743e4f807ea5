"""What is run first on a machine with a GPU: its table names what there is."""

from __future__ import annotations

import runpy
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
