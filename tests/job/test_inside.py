"""distdoctor.preflight() and distdoctor.explain(), as a script calls them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import distdoctor
from tests.helpers.runs import environment
from tests.helpers.servers import unused_port

IMPORT = """
import sys, time
before, began = set(sys.modules), time.process_time()
import distdoctor
took, new = time.process_time() - began, set(sys.modules) - before
print(*sorted(new))
began = time.process_time()
import asyncio
print(took / (time.process_time() - began))
"""
CALLER = """
import asyncio, json, os, signal, sys, threading
import distdoctor

def state():
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    return handlers, signal.pthread_sigmask(signal.SIG_BLOCK, ()), threading.active_count(), dict(os.environ)

def own(number, frame): pass

signal.signal(signal.SIGINT, own)
signal.signal(signal.SIGCHLD, own)

async def notebook():
    before = state()
    try:
        told = distdoctor.preflight("gloo", until="network")
    except distdoctor.PreflightError as err:
        told = err.diagnosis
    assert state() == before
    await asyncio.sleep(0)
    return told

told = asyncio.run(notebook())
print(json.dumps([told.verdict, [one["id"] for one in told.findings], told.report["plan"]["nnodes"], str(told)]))
"""
WORKER = """
import os, sys
import distdoctor

for turn in range(2):  # the agent's store is the same for both
    told = distdoctor.preflight("gloo", until="store", wait=60)
    lines = str(told).splitlines()
    sys.stdout.write(f"rank {os.environ['RANK']} {turn}: {told.report['plan']['world_size']} {len(lines) > 5}\\n")
    sys.stdout.flush()
"""
INITIALIZED = """
import sys
import torch, torch.distributed as dist
import distdoctor

rank, port = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
told = distdoctor.preflight("gloo", until="store")
long = len(str(told).splitlines()) > 5
sys.stdout.write(f"{rank} {told.verdict} {told.report['plan']['world_size']} {long}\\n")
dist.barrier()
"""
SPAWNED = """
import multiprocessing, sys
import distdoctor

def work(rank, port):
    try:
        told = distdoctor.preflight(
            "gloo", rank=rank, world_size=2, local_rank=rank, local_world_size=2, master_addr="127.0.0.1",
            master_port=port, until="store",
        )
    except distdoctor.PreflightError as err:
        told = err.diagnosis
    return told.verdict, [one["id"] for one in told.findings], told.report["plan"]["world_size"]

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.starmap(work, [(0, int(sys.argv[1])), (1, int(sys.argv[1]))], 1))
"""


def run(program: str, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(program)
    return subprocess.run(
        [sys.executable, *arguments[:2], str(script), *arguments[2:]],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
        env=environment(**variables),
    )


def test_importing_it_imports_nothing_else(tmp_path: Path) -> None:
    done = run(IMPORT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()[0].split()) <= {"distdoctor", "__future__"}


@pytest.mark.perf
def test_importing_it_costs_next_to_nothing(tmp_path: Path) -> None:
    """Beside asyncio, which every part of it needs."""
    assert float(run(IMPORT, tmp_path).stdout.splitlines()[1]) < 0.35


class TestPreflight:
    @pytest.mark.parametrize(
        ("variables", "expected"),
        [
            pytest.param({}, ["pass", []], marks=pytest.mark.scoreboard),
            ({"GLOO_SOCKET_IFNAME": "nosuch0"}, ["fail", ["gloo/interface-not-found"]]),
        ],
        ids=["healthy", "broken"],
    )
    def test_the_caller_stays_as_it_is(self, variables: dict[str, str], expected: list[object], tmp_path: Path) -> None:
        """In a running event loop, with signal handlers of its own, as in a notebook."""
        done = run(CALLER, tmp_path, **variables)
        assert done.returncode == 0, done.stderr
        verdict, found, nodes, text = json.loads(done.stdout.splitlines()[-1])
        found = [one for one in found if one != "host/dns-slow"]  # a machine that others keep busy
        assert [verdict if found or verdict == "fail" else "pass", found] == expected
        assert nodes == 1 and text.startswith(("FAIL  ", "PASS")) and (text.count("nosuch0") > 2) == (verdict == "fail")
        assert done.stderr == ""

    @pytest.mark.scoreboard
    def test_the_ranks_of_torchrun_have_one_report_each_time(self, tmp_path: Path) -> None:
        done = run(WORKER, tmp_path, "-m", "torch.distributed.run")
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.split("\n")[:-1]) == ["rank 0 0: 1 True", "rank 0 1: 1 True"]

    @pytest.mark.scoreboard
    def test_the_ranks_of_spawn_meet(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(SPAWNED)
        done = subprocess.run(
            [sys.executable, str(script), str(unused_port())],
            capture_output=True, text=True, check=False, timeout=150, env=environment(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told = ast.literal_eval(done.stdout.splitlines()[-1])
        assert [world for _, _, world in told] == [2, 2]
        assert all(verdict in ("pass", "warn") for verdict, _, _ in told), told  # its port is one of any program's

    def test_what_the_script_has_added_to_its_path_is_found(self, tmp_path: Path) -> None:
        """All of it, torch too: a Python that is started anew knows nothing of these folders."""
        here = Path(distdoctor.__file__).parents[1]
        folders = [entry for entry in sys.path if entry.endswith("site-packages")]
        code = f"import sys; sys.path.insert(1, {str(here)!r}); sys.path += {folders!r}; import pathlib\n"
        code += "sys.path.append(pathlib.Path('/added')); import distdoctor\n"
        code += "told = distdoctor.preflight('gloo', until='gloo')\nprint(told.verdict, told.report['plan']['backend'])"
        bare = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}"
        done = subprocess.run(
            [str(bare), "-S", "-c", code],
            capture_output=True, text=True, check=False, timeout=150, cwd=tmp_path, env={"PATH": "/usr/bin"},
        )  # fmt: skip
        assert done.stdout.split() in (["pass", "gloo"], ["warn", "gloo"]), done.stderr

    def test_a_group_that_is_up_already_is_not_told_as_anothers(self, tmp_path: Path) -> None:
        """As in a worker of Ray Train: the ranks of the check meet in the job's own store."""
        port = str(unused_port())
        (tmp_path / "script.py").write_text(INITIALIZED)
        ranks = [
            subprocess.Popen(
                [sys.executable, str(tmp_path / "script.py"), str(rank), port],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(),
            )
            for rank in (0, 1)
        ]
        for rank, process in enumerate(ranks):
            out, err = process.communicate(timeout=150)
            assert out == f"{rank} pass 2 {rank == 0}\n", err

    def test_a_group_without_a_store_to_meet_in(self, tmp_path: Path) -> None:
        code = "import torch.distributed as dist, distdoctor\n"
        code += "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
        code += "print(distdoctor.preflight('gloo', until='store').verdict, flush=True)\nimport os; os._exit(0)"
        done = run(code, tmp_path)
        assert done.stdout == "incomplete\n" and "before init_process_group()" in done.stderr, done.stderr

    def test_an_argument_that_makes_no_sense(self) -> None:
        with pytest.raises(ValueError, match="fail_on"):
            distdoctor.preflight(fail_on="sometimes")
        with pytest.raises(ValueError, match="'nowhere'"):
            distdoctor.preflight(until="nowhere")

    def test_a_job_that_meets_in_a_file_is_not_stopped_for_want_of_an_address(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MASTER_ADDR", raising=False)
        with pytest.warns(RuntimeWarning, match="master_addr="):
            told = distdoctor.preflight("gloo", init_method=f"file://{tmp_path}/init", rank=1, world_size=2)
        assert told.verdict == "incomplete"

    def test_a_doctor_that_fails_does_not_stop_the_job(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        with pytest.warns(RuntimeWarning, match="could not be started"):
            told = distdoctor.preflight(until="network")
        assert (told.verdict, told.findings) == ("incomplete", [])


class TestExplain:
    def test_an_exception_with_what_it_came_from(self) -> None:
        try:
            try:
                raise OSError("[../gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:41904: Connection refused")
            except OSError as err:
                raise RuntimeError("could not initialise") from err
        except RuntimeError as err:
            told = distdoctor.explain(err)
        assert told.verdict == "fail"
        assert [one["id"] for one in told.findings] == ["gloo/loopback-address"]
        assert "GLOO_SOCKET_IFNAME" in str(told)

    def test_what_only_shows_that_something_failed(self) -> None:
        told = distdoctor.explain("RuntimeError: Connection reset by peer")
        assert (told.verdict, told.findings) == ("incomplete", [])
        assert told.report["candidates"][0]["check"] == "process/peer-died" and "INCONCLUSIVE" in str(told)
