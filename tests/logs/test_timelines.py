"""Root causes by time, speaker and causal edge: the last words of engines, wrapped errors, and ends of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import LogJudgement
from distdoctor.logs.collect import Collector
from tests.logs.judging import LOGS, judged, judged_files, raised

FOLDER = Path(__file__).parent / "timelines"
SUCCESS = '0: {"event_type": "INTERVAL_END", "key": "run_stop", "value": 1, "metadata": {"status": "success"}}\n'
WATCHDOG = "[2025-03-10 07:07:11 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"
SIGQUIT = "[2025-03-10 07:07:16] Received sigquit from a child process. It usually means the child failed.\n"


def about(name: str) -> LogJudgement:
    return judged_files(FOLDER / f"{name}.log")


@pytest.mark.parametrize(
    ("name", "check", "ranks", "nodes", "words", "fix"),
    [
        ("cuda-error-before-python-timeout", "process/exception", (1,), (), "invalid memory", "CUDA_LAUNCH_BLOCKING"),
        ("stats-line-after-fatal-traceback", "process/exception", (), (), "pyarrow", "pip install pyarrow"),
        ("setup-line-repeated-after-fatal-traceback", "collective/backend-lacks-device", (), (), "device", "cpu:gloo"),
        ("success-then-abort-then-time-limit", "nccl/init-failed", (7,), (), "vNic 4", "NCCL_IB_HCA"),
        ("wrapped-exception", "process/exception", (), ("10.0.0.3",), "cupy", "on 10.0.0.3: `pip install cupy`"),
        ("segfault-frames-in-nccl", "process/crashed", (), ("10.0.0.3",), "inside ncclAllReduce (process 911", "NCCL"),
        ("engine-port-taken", "network/engine-port-in-use", (), (), "port 32847", "VLLM_PORT"),
        ("nccl-level-error", "nccl/nvls-fabric-manager", (), ("node1",), "NVLS", "NCCL_NVLS_ENABLE=0"),
        ("oneccl-device-files", "gpu/none-visible", (), (), "/dev/dri", "--device /dev/dri"),
    ],
)
def test_the_root_cause(
    name: str, check: str, ranks: tuple[int, ...], nodes: tuple[str, ...], words: str, fix: str
) -> None:
    (root,) = [one for one in about(name).findings if one.because_of is None]
    assert (root.check, root.ranks, root.nodes) == (check, ranks, nodes)
    assert words in root.summary and fix in root.fixes[0].text
    assert "MASTER_PORT" not in root.summary and "PYTHONFAULTHANDLER" not in root.fixes[0].text


@pytest.mark.parametrize(
    ("name", "candidate", "next_place"),
    [
        ("engine-watchdog-then-sigquit", "process/timer-expired", ""),
        ("engine-watchdog-then-killed", "process/timer-expired", ""),
        ("store-key-names-missing-rank", "store/nodes-missing", "rank 0"),
    ],
)
def test_a_symptom_is_no_headline(name: str, candidate: str, next_place: str) -> None:
    found = about(name)
    assert (found.verdict, found.findings) == ("incomplete", ())
    first = found.candidates[0]
    assert first.check == candidate and next_place in first.next
    assert len(found.candidates) <= 3


@pytest.mark.parametrize("name", ["success-then-accept-failed", "success-then-recv-value-warnings"])
def test_teardown_after_success(name: str) -> None:
    found = about(name)
    assert (found.verdict, found.findings, found.candidates) == ("pass", (), ())
    assert "after the job had succeeded" in found.notes[0]


def test_a_crash_after_success_is_a_failure(tmp_path: Path) -> None:
    crashed = "srun: error: node1: task 3: Segmentation fault (core dumped)\n"
    assert judged(tmp_path, SUCCESS + crashed).verdict == "fail"
    assert judged(tmp_path, SUCCESS + "srun: error: node1: task 0: Terminated\n").verdict == "pass"
    assert judged(tmp_path, SUCCESS + raised("[rank1]: ", "KeyError: 'x'")).findings[0].ranks == (1,)
    again = '0: {"event_type": "INTERVAL_START", "key": "run_start", "value": null}\n'
    assert judged(tmp_path, SUCCESS + again + raised("", "KeyError: 'x'")).verdict == "fail"


def test_an_engine_kills_its_own_processes(tmp_path: Path) -> None:
    assert not judged(tmp_path, WATCHDOG + SIGQUIT + "Killed\n").findings
    killed = judged(tmp_path, SIGQUIT.replace("sigquit", "a letter") + "Killed\n")
    assert killed.findings[0].check == "process/killed-by-oom"
    assert judged(tmp_path, WATCHDOG.replace("=False", "=True")).verdict == "warn"


@pytest.mark.parametrize(
    "line", ["Total steps: 210\n", "Avg generation throughput: 0.0 tokens/s\n", "GET /health 200\n"]
)
def test_a_line_that_is_no_step(tmp_path: Path, line: str) -> None:
    assert judged(tmp_path, raised("", "KeyError: 'x'") + line * 40).findings
    working = "".join(f"step {number} loss 2.{number}\n" for number in range(20))
    assert not judged(tmp_path, raised("", "KeyError: 'x'") + working).findings


@pytest.mark.parametrize(
    ("speaker", "key", "ranks"),
    [
        ("[rank2]: ", "/default_pg/0//cpu//0/1", (1,)),  # device/peer
        ("[rank2]: ", "/default_pg/0//cpu//0/2", (0,)),  # peer/self
        ("", "/default_pg/0//cpu//0/1", ()),
    ],
)
def test_only_who_waited_tells_which_rank_of_a_key_is_missing(
    tmp_path: Path, speaker: str, key: str, ranks: tuple[int, ...]
) -> None:
    text = f"{speaker}torch.distributed.DistStoreError: wait timeout after 600000ms, keys: {key}\n"
    (tmp_path / "job.log").write_text(text)
    found = Collector(LOGS).collect([tmp_path / "job.log"]).logs.matches
    assert {one.check: one.ranks for one in found}["store/nodes-missing"] == ranks
