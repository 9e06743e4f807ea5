"""Each principle by which logs are judged, on the fewest lines that show it, and a look-alike that it must not take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from distdoctor.judge.logs import harmless
from distdoctor.judge.logs.clocks import lines_about_other_processes
from distdoctor.judge.logs.lifelines import Timeline
from distdoctor.logs.collect import Collector
from distdoctor.model.facts.logs import Match
from tests.logs.judging import CLOSED, LOGS, TABLE, judged, raised, roots

SUCCESS = '0: {"event_type": "INTERVAL_END", "key": "run_stop", "value": 1, "metadata": {"status": "success"}}\n'
TIME_LIMIT = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***\n"
CRASH = "srun: error: n1: task 3: Segmentation fault (core dumped)\n"
STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(20))
KEY = raised("", "KeyError: 'x'")
OOM = "[Mon Nov  2 08:00:00 2026] Out of memory: Killed process {pid} ({name}) total-vm:9kB, anon-rss:6kB\n"
LATE = TABLE.replace("time      : 2026-01-01_10:00:01", "time      : 2026-01-01_10:00:40").replace("-15 ", "-9 ")
LOGGED = "2026-11-02 10:00:00,000 ERROR train: no tracker\n" + raised("", "OSError: x")
INFO = "2026-11-02 10:00:09,000 INFO train: next\n"
WATCHDOG = "[2025-03-10 07:07:11 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"
STOP = "(APIServer pid=9) INFO 07-15 07:27:55 [launcher.py:100] [shutdown] API server: shutdown triggered\n"
TO_CORE = "(EngineCore pid=8) INFO 07-15 07:27:55 [core.py:13] [shutdown] EngineCore: trigger received signal=SIGTERM\n"
CORE_ENDS = TO_CORE.replace(
    "trigger received signal=SIGTERM", "request processing complete; starting resource teardown"
)
DEAD = raised("(APIServer pid=9) ", "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.")
CANCEL = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T10:00:00 ***\n"
REFUSED = '(APIServer pid=9) INFO:     10.0.0.9:40780 - "POST /v1/completions HTTP/1.1" {status}\n'
REQUEST = raised("(APIServer pid=9) ERROR 07-15 07:26:00 [serving_chat.py:200] ", "ValueError: too many tokens")
ANSWERED = "".join(REFUSED.replace("40780", f"408{number:02}").format(status="200 OK") for number in range(9))
METRICS = " - ".join(f"response_length/{number}:{number}.25" for number in range(250))
LONG = "".join(f"(TaskRunner pid=5) step:{number} - {METRICS} - timing_s/gen:6.{number}\n" for number in range(9))
IN_WORKER = raised("(Worker pid=6) ", "ValueError: not a number")
RANKS_ERROR = "[2025-03-10 07:07:11 TP0] Scheduler hit an exception: " + raised("", "ValueError: no such weight")
START = "$ torchrun --nproc-per-node 2 train.py\n"
RETRY = "srun: job 7 queued and waiting for resources\nsrun: job 7 has been allocated resources\n"


def timeline(path: Path, *texts: str) -> Timeline:
    """Return the timeline of logs with these contents."""
    for number, text in enumerate(texts):
        (path / f"rank{number}.log").write_text(text)
    return Timeline.of(Collector(LOGS).collect([path]).logs)


@pytest.mark.parametrize(
    ("principle", "text", "harmless_ones"),
    [
        (harmless.after_success, SUCCESS + TIME_LIMIT, {"process/killed-by-scheduler"}),
        (harmless.after_success, KEY + SUCCESS + CRASH, {"process/exception"}),  # the crash is a failure
        (harmless.after_success, TIME_LIMIT, set()),
        (harmless.survived, KEY + STEPS, {"process/exception"}),
        (harmless.survived, STEPS + KEY, set()),
        (harmless.survived, KEY + "GET /health 200\n" * 40, set()),  # that counts nothing
        (harmless.survived, KEY + "training stopped, see above\n" * 2000, set()),  # much text is no step
        (
            harmless.after_a_stop,
            STEPS + TO_CORE + STOP + DEAD,
            {"process/terminated", "process/exception", "process/peer-died"},
        ),
        (
            harmless.obeyed,
            STEPS + TO_CORE + CORE_ENDS + KEY,
            {"process/terminated"},
        ),  # another program's error below it
        (harmless.obeyed, STEPS + TO_CORE + CORE_ENDS.replace("=8", "=9"), set()),
        (harmless.obeyed, TO_CORE + DEAD, set()),
        (harmless.after_a_stop, KEY + TO_CORE + STOP, {"process/terminated"}),  # the error stands above the order
        (harmless.after_a_stop, TO_CORE + DEAD, set()),  # the program may have ended its engine itself
        (harmless.survived, LONG + IN_WORKER + LONG + KEY, {"process/exception"}),  # steps of 6 KiB each
        (harmless.survived, REQUEST + ANSWERED, {"process/exception"}),
        (harmless.survived, REQUEST + ANSWERED.replace("POST", "GET"), set()),
        (harmless.logged, REQUEST + REFUSED.format(status="400 Bad Request"), {"process/exception"}),
        (harmless.logged, REQUEST + REFUSED.format(status="500 Internal Server Error"), set()),
        (harmless.logged, REQUEST + REFUSED.format(status="400 Bad Request").replace("=9", "=8"), set()),
        # a rank's error, while the server answers somebody else
        (
            harmless.logged,
            RANKS_ERROR + REFUSED.format(status="400 Bad Request").replace("(APIServer pid=9) ", ""),
            set(),
        ),
        (harmless.logged, STEPS + LOGGED + INFO, {"process/exception"}),
        (harmless.logged, STEPS + raised("", "OSError: x") + INFO, set()),  # no logger wrote it
        (harmless.ended_by_launcher, LATE.format(code=1, told="x"), {"process/killed-by-oom"}),
        (harmless.ended_by_launcher, TABLE.format(code=-9, told="x"), set()),
        (harmless.ended_by_monitor, WATCHDOG + "Killed\n", set()),  # only the engine's own kill takes the shell's word
    ],
)
def test_what_a_principle_sets_aside(
    tmp_path: Path, principle: Callable[[Timeline], list[Match]], text: str, harmless_ones: set[str]
) -> None:
    assert {match.check for match in principle(timeline(tmp_path, text))} == harmless_ones


def test_each_principle_sees_what_the_ones_before_it_left(tmp_path: Path) -> None:
    found = harmless.set_aside(timeline(tmp_path, SUCCESS + LOGGED + INFO))
    assert found["after_success"] and not found["logged"]
    assert [*found] == [principle.__name__ for principle in harmless.PRINCIPLES]


def test_another_speaker_shows_no_survival(tmp_path: Path) -> None:
    """Rank 0 wrote its steps, and rank 1 failed: output that rank 0 kept back may come below."""
    steps = "".join(f"[rank0]: {line}\n" for line in STEPS.splitlines())
    closed = raised("[rank0]: ", CLOSED)
    assert roots(tmp_path, raised("[rank1]: ", "KeyError: 'x'") + steps + closed) == [("process/exception", (1,))]
    own = steps.replace("rank0", "rank1")
    assert roots(tmp_path, raised("[rank1]: ", "KeyError: 'x'") + own + closed) == []


@pytest.mark.parametrize(
    ("logs", "root"),
    [
        # the earliest fatal event of a speaker that no earlier one of another explains
        ((raised("[rank1]: ", "KeyError: 'x'"), raised("[rank0]: ", CLOSED)), [("process/exception", (1,))]),
        ((raised("[rank0]: ", CLOSED),), []),  # a symptom is no headline
        # a launcher's account beats a guess from silence
        ((STEPS, STEPS, CRASH), [("process/crashed", (3,))]),
    ],
)
def test_the_root(tmp_path: Path, logs: tuple[str, ...], root: list[tuple[str, tuple[int, ...]]]) -> None:
    assert roots(tmp_path, *logs) == root


@pytest.mark.parametrize(("name", "pid", "aside"), [("java", 9, True), ("python", 9, False), ("java", 102, False)])
def test_a_process_that_is_not_of_this_job(tmp_path: Path, name: str, pid: int, aside: bool) -> None:
    console = TABLE.format(code=1, told="x").replace("2026-01-01", "2026-11-02")
    whole = timeline(tmp_path, console)
    (tmp_path / "dmesg.log").write_text(OOM.format(name=name, pid=pid) * 2)
    whole = Timeline.of(Collector(LOGS).collect([tmp_path]).logs)
    assert bool(lines_about_other_processes(whole)) is aside


@pytest.mark.parametrize(
    ("log", "root"),
    [
        (STEPS + CANCEL + KEY, "process/killed-by-scheduler"),  # by a command (slurmstepd/req.c), whoever gave it
        (CANCEL + KEY, []),  # inconclusive: it may have hung at its start
        (STEPS + KEY + CANCEL, [("process/exception", ())]),
        (STEPS + raised("", "KeyboardInterrupt") + KEY, "process/terminated"),
        (raised("", "KeyboardInterrupt") + KEY, []),
        (TO_CORE + DEAD, [("process/terminated", ())]),
        (STEPS + TO_CORE + CORE_ENDS + KEY, [("process/exception", ())]),  # of what ran after the engine
        (KEY + TO_CORE + DEAD, [("process/exception", ())]),
        (
            STEPS + CANCEL + raised("[rank2]: ", "OSError: [Errno 28] No space left on device"),
            [("host/disk-full", (2,))],
        ),
        (
            STEPS + "991|train|TIMEOUT|0:0|02:00:10\n991.0|python|CANCELLED|0:15|02:00:11\n",
            "process/killed-by-scheduler",
        ),
        (STEPS + "991|train|NODE_FAIL|1:0|02:00:10\n", "process/killed-by-scheduler"),
        (STEPS + "991|train|CANCELLED by 1001|0:0|02:00:10\n", "process/killed-by-scheduler"),
    ],
)
def test_whoever_was_asked_to_stop_did_not_fail(tmp_path: Path, log: str, root: object) -> None:
    found = roots(tmp_path, log)
    assert found == ([(root, ())] if isinstance(root, str) else root)
    assert found or judged(tmp_path, log).verdict == "incomplete"


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (START + raised("", "ImportError: x") + START + KEY, "KeyError"),
        # by the shell of another node
        (START.replace("$", "+") + raised("", "ImportError: x") + START.replace("$", "+"), "ImportError"),
        (START + raised("", "ImportError: x") + START.replace("train", "other") + KEY, "ImportError"),
        (raised("", "ImportError: x") + START + KEY, "ImportError"),  # nothing shows that it was started before
        (START + raised("", "ImportError: x") + START + STEPS, ""),
    ],
)
def test_a_shell_that_starts_the_same_program_again(tmp_path: Path, log: str, error: str) -> None:
    found = judged(tmp_path, log)
    assert [error in one.summary for one in found.findings] == ([True] if error else [])


def test_at_most_three_candidates_are_those_of_most_lines(tmp_path: Path) -> None:
    waited = "torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients. 1/2 clients joined.\n"
    refused = "[c10d] The client socket has timed out after 8000ms while trying to connect to (host0, 29500).\n"
    retried = "[c10d] TCP client failed to connect/validate to host host0:29500 - retrying (try=0, timeout=8000ms)\n"
    error = f"torch.distributed.DistNetworkError: {refused.removeprefix('[c10d] ')}"
    found = judged(tmp_path, retried + waited + refused + error)
    # An exception names store/nodes-missing; network/port-refused stands only in the line that tries again.
    assert {one.check for one in found.candidates} == {
        "network/master-not-node0",
        "network/port-filtered",
        "store/nodes-missing",
    }
