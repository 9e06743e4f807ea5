"""The command line as a user meets it: real processes, their output and their status."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor import __version__
from distdoctor.cli.app import run
from distdoctor.model.facts import FactsFile, encode
from distdoctor.model.launch_settings import LAUNCH_VARIABLES
from tests.facts_builder import CHECKS, healthy, loopback_name, waited_in_vain
from tests.helpers.commands import doctor, environment
from tests.helpers.pace import cost


@pytest.fixture
def sick(tmp_path: Path) -> Path:
    path = tmp_path / "sick.json"
    path.write_bytes(encode(FactsFile(tuple(loopback_name(f) for f in healthy(2)), __version__)))
    return path


def test_a_slash_makes_a_folder_of_what_is_saved(tmp_path: Path) -> None:
    done = doctor("check", "--until", "host", "--json", "--save", f"{tmp_path}/facts/")
    assert done.returncode in (0, 1), done.stderr
    assert [path.suffix for path in (tmp_path / "facts").iterdir()] == [".json"]


class TestStartUp:
    @pytest.mark.parametrize(
        "arguments",
        [["--help"], ["list"], ["explain", "gloo/loopback-address"], ["check", "--help"], ["diagnose", "{log}"]],
    )
    def test_without_torch_asyncio_rich_and_pydantic(self, arguments: list[str], tmp_path: Path) -> None:
        (tmp_path / "log").write_text("epoch 1\n")
        code = (
            "import contextlib, io, sys\n"
            "from distdoctor.cli.app import run\n"
            "with contextlib.redirect_stderr(io.StringIO()): run(sys.argv[1:])\n"
            "print(sorted({'torch', 'asyncio', 'rich', 'ClusterShell', 'psutil', 'pydantic'} & set(sys.modules)),"
            " file=sys.stderr)"
        )
        words = [word.format(log=tmp_path / "log") for word in arguments]
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment(), check=False
        )
        assert (done.returncode, done.stderr) == (0, "[]\n")

    @pytest.mark.parametrize(
        "arguments", [["--help"], ["--version"], ["check", "--nnodes", "2", "--wait", "7", "--until", "x"]]
    )
    def test_what_looks_at_nothing_needs_no_facts(self, arguments: list[str]) -> None:
        """Their dataclasses take as long to make as all the rest of --help."""
        code = (
            "import sys; from distdoctor.cli.app import run; run(sys.argv[1:])\n"
            "sys.exit(bool({'msgspec', 'pydantic'} & set(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, env=environment(), check=False
        )
        assert done.returncode == 0

    def test_diagnose_does_not_import_torch(self, well: Path) -> None:
        code = "import sys; from distdoctor.cli.app import run; run(sys.argv[1:]); sys.exit('torch' in sys.modules)"
        arguments = [sys.executable, "-c", code, "diagnose", str(well)]
        assert subprocess.run(arguments, capture_output=True, env=environment(), check=False).returncode == 0

    @pytest.mark.perf
    def test_help_is_quick(self) -> None:
        """It costs no more than three imports of the library that prints it."""

        def least(*arguments: str) -> float:
            return min(cost([sys.executable, *arguments], environment()) for _ in range(5))

        assert least("-m", "distdoctor", "--help") < 3 * least("-c", "import typer")


class TestTeaching:
    def test_without_arguments(self) -> None:
        done = doctor()
        assert done.returncode == 2
        assert done.stdout == doctor("--help").stdout

    def test_help_shows_examples_and_statuses(self) -> None:
        text = doctor("--help").stdout
        for part in (
            "distdoctor check --nnodes 2",
            "torchrun --nnodes 2",
            "-m distdoctor check",
            "Exit status:",
            "128+n",
        ):
            assert part in text

    def test_version(self) -> None:
        assert doctor("--version").stdout == f"distdoctor {__version__}\n"

    def test_list_names_every_check(self) -> None:
        text = doctor("list").stdout
        for check in CHECKS:
            assert check.id in text
        entries = json.loads(doctor("list", "--json").stdout)
        assert [entry["id"] for entry in entries] == [check.id for check in CHECKS]

    def test_explain(self) -> None:
        whole = doctor("explain", "gloo/loopback-address")
        assert whole.returncode == 0
        assert "What you see" in whole.stdout
        assert doctor("explain", "loopback-address").stdout == whole.stdout
        assert doctor("explain", "gloo/loopback_address").stdout == whole.stdout
        assert doctor("explain", "gloo/loopback-address#2").stdout == whole.stdout


class TestBadCommandLines:
    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["chek"], "did you mean check?"),
            (["check", "--master-addr", "--nnodes", "2"], "--master-addr needs a value before --nnodes"),
            (["check", "train.py"], "unexpected argument 'train.py'"),
            (["check", "--nnode", "2"], "did you mean --nnodes?"),
            (["check", "--node-rank", "x"], "distdoctor: --node-rank needs a whole number\n"),
            (["check", "--wait", "x"], "distdoctor: --wait needs a time, such as 60, 60s or 2m\n"),
            (["check", "--node-rank", ""], "--node-rank is empty: is its variable set?"),
            (["check", "--master-port="], "--master-port is empty"),
            (["check", "--nnodes", "two"], "--nnodes 'two'"),
            (["check", "--nnodes", "2", "--node-rank", "1"], "--master-addr"),
            (["check", "--nnodes", "2", "--standalone"], "--standalone"),
            (["check", "--nnodes", "2", "--master-addr", "tcp://a:1"], "did you mean a?"),
            (["check", "--until", "glooo"], "did you mean gloo?"),
            (["check", "--until", "x"], "one of environment"),
            (["check", "--fail-on", "failure"], "did you mean fail?"),
            (["check", "-o", "pdf"], "one of text, json"),
            (["check", "--ignore", "gloo/loopback-adress"], "did you mean gloo/loopback-address?"),
            (["check", "--checks", "/nowhere"], "/nowhere"),
            (["check", "--wait", "0"], "--wait 0 is not a number of seconds above 0"),
            (["check", "--wait", "nan"], "--wait nan"),
            (["check", "--timeout", "-1"], "--timeout -1"),
            (["check", "-q", "-v"], "-q and -v"),
            (["check", "--save", "/nowhere/f.json"], "no folder /nowhere"),
            (["check", "--backend", "glo"], "--backend 'glo'"),
            (["check", "train.py"], "unexpected argument 'train.py' (a check does not run the job's script"),
            (["schema", "extra"], "unexpected argument 'extra'\n"),
            (["diagnose"], "FILE"),
            (["diagnose", "/nowhere.json"], "/nowhere.json"),
            (["diagnose", "/dev/null"], "/dev/null"),
            (["explain", "gloo/loopbak"], "did you mean gloo/loopback-address?"),
            (["explain"], "ID"),
        ],
    )
    def test_one_clear_line_and_status_2(
        self, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in LAUNCH_VARIABLES:
            monkeypatch.delenv(name, raising=False)
        assert run(arguments) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("distdoctor: ")
        assert shown.err.count("\n") == 1
        assert says in shown.err

    def test_in_a_process_too(self) -> None:
        done = doctor("check", "--nnodes", "two")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "distdoctor: --nnodes 'two': not a number of nodes (N, or MIN:MAX)\n"


class TestDiagnose:
    def test_status_and_pages(self, sick: Path, well: Path) -> None:
        assert doctor("diagnose", str(well)).returncode == 0
        done = doctor("diagnose", str(sick))
        assert (done.returncode, done.stderr) == (1, "")
        assert "      export GLOO_SOCKET_IFNAME=eth0\n" in done.stdout
        assert "\x1b" not in done.stdout
        assert doctor("diagnose", str(sick), "--fail-on", "never").returncode == 0

    def test_json_and_ignore(self, sick: Path) -> None:
        document = json.loads(
            doctor("diagnose", str(sick), "--json", "--ignore", "gloo/*", "--ignore", "host/*").stdout
        )
        assert (document["verdict"], document["findings"]) == ("pass", [])
        assert "gloo/loopback-address" in [finding["id"] for finding in document["ignored"]]

    def test_only_a_missing_node_is_status_3(self, tmp_path: Path) -> None:
        path = tmp_path / "f.json"
        path.write_bytes(encode(FactsFile((waited_in_vain(healthy(2)[0]),), __version__)))
        done = doctor("diagnose", str(path), "--json")
        document = json.loads(done.stdout)
        assert (done.returncode, document["verdict"]) == (3, "incomplete")
        assert [node["arrived"] for node in document["nodes"]] == [True, False]

    def test_ascii_terminal_and_no_colour(self, sick: Path) -> None:
        done = doctor("diagnose", str(sick), PYTHONIOENCODING="ascii", FORCE_COLOR="1")
        assert done.stdout.isascii()
        assert "[gloo/loopback-address]" in done.stdout
        assert "\x1b" not in done.stdout

    def test_a_sites_own_checks(self, well: Path, tmp_path: Path) -> None:
        (tmp_path / "checks/host").mkdir(parents=True)
        (tmp_path / "checks/host/odd_name.py").write_text(
            '"""Odd name.\n\n## What you see\nx\n\n## Why it happens\nx\n\n## Fix\nx\n\n'
            '## Confirm with\nx\n"""\n'
            "from distdoctor.check_api import Finding\n\nSEVERITY = 'warn'\n\n\ndef judge(cluster):\n"
            "    yield Finding(summary='odd', nodes=(cluster.nodes[0].name,))\n"
        )
        done = doctor("diagnose", str(well), "--checks", str(tmp_path / "checks"), "--fail-on", "warn")
        assert done.returncode == 1
        assert "WARN  odd  [host/odd-name]" in done.stdout
        assert sorted(p.name for p in (tmp_path / "checks/host").iterdir()) == ["odd_name.py"]


class TestOurOwnFaults:
    def test_a_crash_is_one_line_and_status_3(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken(*_: object) -> int:
            raise RuntimeError("two\nlines")

        monkeypatch.setattr("distdoctor.cli.explain.list_checks", lambda *_, **__: broken())
        monkeypatch.delenv("DISTDOCTOR_DEBUG", raising=False)
        assert run(["list"]) == 3
        shown = capsys.readouterr().err
        assert shown.startswith("distdoctor: crashed: RuntimeError: two lines (please report")
        assert shown.count("\n") == 1
        monkeypatch.setenv("DISTDOCTOR_DEBUG", "1")
        assert run(["list"]) == 3
        assert "Traceback" in capsys.readouterr().err

    def test_a_crashed_run_still_gives_one_document(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("boom")

        monkeypatch.setattr("distdoctor.cli.check._real_runner", lambda: broken)
        assert run(["check", "--json", "--nnodes", "1"]) == 3
        document = json.loads(capsys.readouterr().out)
        assert (document["verdict"], document["notes"]) == ("incomplete", ["distdoctor crashed: RuntimeError: boom"])

    @pytest.mark.parametrize("arguments", ["list", "--help", "explain loopback-address"])
    def test_a_reader_that_leaves_is_no_error(self, arguments: str) -> None:
        command = f"{shlex.quote(sys.executable)} -m distdoctor {arguments} | true; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env=environment(), check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")

    def test_closed_streams(self) -> None:
        done = subprocess.run(
            ["bash", "-c", f"{shlex.quote(sys.executable)} -m distdoctor list >&- 2>&-"],
            env=environment(),
            check=False,
            timeout=60,
        )
        assert done.returncode == 0


class TestRealRuns:
    """The whole, on this machine; what clusters do is in tests/lab."""

    def test_the_stages_that_need_no_torch(self, tmp_path: Path) -> None:
        done = doctor("check", "--until", "network", "--json", "--save", str(tmp_path / "facts.json"))
        document = json.loads(done.stdout)
        assert done.returncode == 0
        assert [stage["stage"] for stage in document["stages"]] == ["environment", "host", "gpu", "network"]
        again = doctor("diagnose", str(tmp_path), "--json")
        assert json.loads(again.stdout)["findings"] == document["findings"]

    def test_this_machine(self) -> None:
        pytest.importorskip("torch")
        done = doctor("check", "--nproc_per_node=2")
        assert done.returncode == 0
        lines = done.stdout.splitlines()
        assert lines[0].startswith("PASS: this node is ready for the job")
        assert lines[1].startswith("1 node x 2 ranks") and f", distdoctor {__version__}" in lines[1]
        assert any(line.startswith("passed") and "collective" in line for line in lines)
        assert lines[-1].endswith(" --nproc-per-node 2 your_script.py")
        assert "distdoctor: collective: ok" in done.stderr

    def test_quiet_says_little(self) -> None:
        done = doctor("check", "--until", "host", "-q")
        assert done.stderr == ""
        assert done.stdout.startswith("PASS up to host: ") and done.stdout.count("\n") == 1
