"""A site's own checks: whatever they do, the command ends, and says what it was."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.cli.output import with_checks
from distdoctor.render.style import PLAIN
from tests.cli.endings import one_document, site, started
from tests.helpers.commands import doctor
from tests.render import reports


class TestSitesChecks:
    @pytest.mark.parametrize(
        ("body", "says"),
        [
            ("sys.exit(0)", "SystemExit: 0"),
            ("raise KeyError(3)", "KeyError: 3"),
            ("raise BaseException('x')", "BaseException: x"),
            ("yield 3", "judge() yields a int, not a Finding"),
            ("yield Finding(summary='x', nodes='host0')", "Expected `array`"),
            ("yield Finding(summary='x', severity='grave')", "Invalid enum value"),
        ],
    )
    def test_one_that_breaks_is_a_note_and_no_pass(self, well: Path, tmp_path: Path, body: str, says: str) -> None:
        folder = site(tmp_path, body)
        done = doctor("diagnose", str(well), "--json", "--checks", str(folder))
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) == (3, "incomplete")
        assert len(document["notes"]) == 1 and says in document["notes"][0]

    @pytest.mark.parametrize(
        ("body", "line"),
        [
            ("return", "site checks: host/odd clear on 2 nodes"),
            ("yield Finding.about(cluster.nodes, 'Odd.'); return", "site checks: host/odd found"),
            ("{**cluster.nodes[0].variables}", "site checks: host/odd not judged"),
        ],
    )
    def test_its_result_is_a_line(self, well: Path, tmp_path: Path, body: str, line: str) -> None:
        folder = site(tmp_path, body)
        lines = doctor("diagnose", str(well), "--checks", str(folder)).stdout.splitlines()
        assert line in lines
        assert ("found" in line) == any(f"explain host/odd --checks {folder}" in line for line in lines)

    def test_a_node_without_its_folder_names_the_node_that_has_it(self, tmp_path: Path) -> None:
        report = replace(reports.warned(), findings=(replace(reports.warned().findings[0], check="host/odd"),))
        assert with_checks(PLAIN, [], report).unknown_checks == {"host/odd"}
        assert with_checks(PLAIN, [site(tmp_path, "return")], report).unknown_checks == set()
        assert with_checks(PLAIN, [], reports.warned()).unknown_checks == set()

    def test_what_one_prints_does_not_get_into_the_document(self, well: Path, tmp_path: Path) -> None:
        folder = site(tmp_path, "print('here'); return", top="print('there')")
        done = doctor("diagnose", str(well), "--json", "--checks", str(folder))
        assert (done.returncode, done.stderr) == (0, "there\nhere\n")
        one_document(done.stdout)

    @pytest.mark.parametrize(
        "body", ["time.sleep(3600)", pytest.param("while True: pass", marks=pytest.mark.scoreboard)]
    )
    def test_one_that_never_ends(self, well: Path, tmp_path: Path, body: str) -> None:
        folder = site(tmp_path, body)
        done = doctor("diagnose", str(well), "--json", "--checks", str(folder))
        assert done.returncode == 3
        assert "host/odd: it did not end within 5 s" in one_document(done.stdout)["notes"][0]

    def test_one_that_never_ends_is_not_run_again(self, tmp_path: Path) -> None:
        """A run judges several times, and has a deadline."""
        runs = tmp_path / "runs"
        folder = site(tmp_path, f"open({str(runs)!r}, 'a').write('x')\n    while True: pass")
        done = doctor("check", "--until", "network", "--json", "--checks", str(folder), "--wait", "9", "--timeout", "9")
        assert (done.returncode, one_document(done.stdout)["verdict"]) == (3, "incomplete")
        assert runs.read_text() == "x"

    def test_one_that_cannot_be_stopped_meets_the_deadline_of_the_run(self, tmp_path: Path) -> None:
        block = "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN)"
        folder = site(tmp_path, f"{block}\n    while True: pass")
        flags = ("--until", "host", "--json", "--checks", str(folder), "--wait", "1", "--timeout", "1")
        with started("check", *flags) as process:
            assert process.stderr is not None
            err = process.stderr.readline()  # the run has begun
            out, rest = process.communicate(timeout=100)
        document = one_document(out)
        assert (process.returncode, document["verdict"]) == (3, "incomplete")
        assert "did not finish within --wait and --timeout" in document["notes"][0]
        assert [(s["stage"], s["status"]) for s in document["stages"]] == [("environment", "pass"), ("host", "pass")]
        assert "could not finish within --wait + --timeout" in err + rest

    @pytest.mark.parametrize(
        "top",
        [
            "sys.exit(0)",
            "raise BaseException",
            "time.sleep(3600)",
            pytest.param("while True: pass", marks=pytest.mark.scoreboard),
            "import nowhere",
            "x =",
            "FOLLOWS = 3",
            "\0",
            "\udcff",
        ],
    )
    def test_one_that_cannot_be_loaded(self, well: Path, tmp_path: Path, top: str) -> None:
        folder = site(tmp_path, "return")
        path = folder / "host/odd.py"
        path.write_bytes(path.read_bytes() + top.encode(errors="surrogateescape") + b"\n")
        done = doctor("diagnose", str(well), "--json", "--checks", str(folder))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"{path}: " in one_document(done.stdout)["notes"][0]

    def test_folders_that_are_none(self, well: Path, tmp_path: Path) -> None:
        for folder in ("/nowhere", str(well), "/dev/null"):
            done = doctor("diagnose", str(well), "--checks", folder)
            assert (done.returncode, done.stderr) == (2, f"distdoctor: {folder} is not a folder of checks\n")

    def test_a_pipe_for_a_check_is_not_waited_for(self, well: Path, tmp_path: Path) -> None:
        (tmp_path / "checks/host").mkdir(parents=True)
        os.mkfifo(tmp_path / "checks/host/odd.py")
        done = doctor("diagnose", str(well), "--checks", str(tmp_path / "checks"))
        assert done.returncode == 2 and "did not end within 5 s" in done.stderr
