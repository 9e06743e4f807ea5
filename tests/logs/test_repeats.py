"""Repetitions of known lines are counted, and nothing that only one of them shows is lost."""

from __future__ import annotations

import gc
import math
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from distdoctor.judge.logs.findings import judge_logs
from distdoctor.logs import matches, scanner
from distdoctor.logs.collect import Collector
from distdoctor.logs.log_file import LogFile
from distdoctor.model.facts.logs import LogFacts
from tests.facts_builder import CHECKS
from tests.logs.judging import LOGS, TRACEBACK, judged
from tests.logs.large_logs import KINDS, write

REFUSED = "[W socket.cpp:6] [c10d] The client socket has failed to connect [n7]:{} (errno: 111 - Connection refused)."
PROGRAM = {"source": "step()", "who": "[rank1]: "}


def facts(path: Path, text: str) -> LogFacts:
    (path / "job.log").write_text(text)
    return Collector(LOGS).collect([path / "job.log"]).logs


def read_lines(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of lines that are read, not counted."""
    counted, line = Counter[str](), LogFile._line

    def count(*args: Any) -> Any:
        counted["read"] += 1
        return line(*args)

    monkeypatch.setattr(LogFile, "_line", count)
    facts(path, text)
    return counted["read"]


def test_every_repetition_counts(tmp_path: Path) -> None:
    text = "".join(f"[rank{n % 64}]: {REFUSED.format(20000 + n)}\nstep {n} loss 2.0\n" for n in range(6400))
    found = facts(tmp_path, text).matches
    assert {one.who.rank for one in found} == {*range(64)} and {one.count for one in found} == {100}
    assert {one.last_line for one in found} == {*range(6400 * 2 - 127, 6400 * 2, 2)}


@pytest.mark.parametrize("kind", [REFUSED.format(29500), REFUSED, "NCCL INFO Channel 00/0 : 0[0] -> {} via NET/IB/0"])
def test_repetitions_are_not_read(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"[rank1]: {kind.format(20000 + n)}\n" for n in range(1000))
    assert read_lines(tmp_path, text, monkeypatch) <= 16


def test_each_other_rank_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"[rank{n % 64}]: {REFUSED.format(20000 + n)}\n" for n in range(6400))
    assert read_lines(tmp_path, text, monkeypatch) <= 16 + 64


def test_a_rank_for_which_the_line_shows_something_else_is_read(tmp_path: Path) -> None:
    """Its exception is one that Python ignores, those of the others ended them."""
    fatal = TRACEBACK.replace("{who}", "[rank{0}]: ").replace("{source}", "f()").replace("{error}", "KeyError: 1")
    ignored = f"[rank70]: Exception ignored in: <function f>\n{fatal.format(70)}"
    found = facts(tmp_path, "".join(fatal.format(n) for n in range(60)) + ignored).matches
    assert {one.who.rank for one in found if one.exception} == {*range(60)}


@pytest.mark.parametrize("kind", ["half", "info", "tracebacks", "alike"])
def test_lines_that_are_read_grow_no_faster_than_the_log(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    once, twice = (read_lines(tmp_path, "".join(KINDS[kind](n)), monkeypatch) for n in (1500, 3000))
    assert once < twice < 2 * once or once == twice


@pytest.mark.parametrize("prefix", ["", "2026-01-01 12:00:{:02d},123 ", "[rank{}]: ", "n{}:4711:4712 [0] "])
def test_a_rank_that_a_line_names_is_its_own(tmp_path: Path, prefix: str) -> None:
    line = (
        "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran for 600000 ms"
    )
    text = "".join(f"{prefix.format(n)}{line.format(n)}\n" for n in range(60))
    assert {one.who.rank for one in facts(tmp_path, text).matches} >= {*range(60)}


def test_a_fatal_error_below_ignored_ones(tmp_path: Path) -> None:
    fatal = TRACEBACK.format(**PROGRAM, error="KeyError: 'x'")
    ignored = f"[rank1]: Exception ignored in: <function f>\n{fatal}"
    assert not judged(tmp_path, ignored * 40).findings
    assert [one.check for one in judged(tmp_path, ignored * 40 + "done\n" + fatal).findings] == ["process/exception"]


def test_an_exception_with_another_kind_of_name(tmp_path: Path) -> None:
    """Its type shows no error: only the end of the traceback does."""
    usual, odd = (TRACEBACK.format(**PROGRAM, error=one) for one in ("ValueError: bad", "mine.Diverged: loss is nan"))
    found = facts(tmp_path, usual * 40 + odd)
    assert "mine.Diverged" in {one.exception for one in found.matches}


def test_a_new_attempt_has_matches_of_its_own(tmp_path: Path) -> None:
    start = "Setting OMP_NUM_THREADS environment variable for each process to be 1\n"
    failed = (
        "E0101 10:00:00.000000 101 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) "
        "local_rank: 0 (pid: 4711) of binary: python\n"
    )
    line = f"[rank1]: {REFUSED.format(29500)}\n"
    found = facts(tmp_path, (start + line * 30 + failed) * 2).matches
    assert {one.attempt for one in found if "c10d" in one.text} == {0, 1}


def test_the_first_and_the_last_matches_of_a_file_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "FIRST", 20)
    monkeypatch.setattr(matches, "LAST", 10)
    words = ["".join(random.Random(n).choices("abcdefgh", k=9)) for n in range(100)]
    found = facts(tmp_path, "".join(f"[rank1]: ValueError: {word}\n" for word in words)).matches
    assert [one.values["message"] for one in found] == [*words[:20], *words[-10:]]


def test_what_all_ranks_write_leaves_room_for_a_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "FIRST", 20)
    monkeypatch.setattr(matches, "LAST", 10)
    lost = [f"[rank{rank}]: {REFUSED.format(29500)}\n" for rank in range(100)]
    found = facts(tmp_path, "".join([*lost[:50], "[rank7]: ValueError: bad\n", *lost[50:]])).matches
    assert [one.who.rank for one in found if one.exception == "ValueError"] == [7]
    assert len({one.who.rank for one in found if not one.exception}) < 50


def test_a_match_that_is_kept_anew_is_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "FIRST", 5)
    monkeypatch.setattr(matches, "LAST", 5)
    usual = f"[rank1]: {REFUSED.format(29500)}\n"
    words = ["".join(random.Random(n).choices("abcdefgh", k=9)) for n in range(20)]
    errors = "".join(f"[rank1]: ValueError: {word}\n" for word in words)
    assert read_lines(tmp_path, errors + usual * 9 + errors + usual * 99, monkeypatch) < 2 * len(words) + 2 * 16


def test_repetitions_use_up_no_literal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of many errors is read, too."""
    monkeypatch.setattr(scanner, "MOST", 50)
    found = facts(tmp_path, "[rank1]: ValueError: bad\n" * 500 + "[rank2]: ValueError: worse\n").matches
    assert {one.values["message"] for one in found} == {"bad", "worse"}


@pytest.mark.perf
@pytest.mark.parametrize(
    ("kind", "count"), [("half", 50_000), ("info", 50_000), ("tracebacks", 10_000), ("alike", 50_000)]
)
def test_the_time_grows_no_faster_than_the_log(tmp_path: Path, kind: str, count: int) -> None:
    """The least of up to three times counts for each: other processes of the machine only ever add to one."""
    assert kind in KINDS
    paths = [tmp_path / f"{number}.log" for number in (1, 2)]
    for number, path in enumerate(paths, 1):
        write(path, kind, number * count)
    least = [math.inf, math.inf]
    for _ in range(3):
        least = [min(time, seconds_for(path)) for time, path in zip(least, paths, strict=True)]
        if least[1] < 2.2 * least[0]:
            return
    raise AssertionError(f"twice the log takes {least[1] / least[0]:.2f} times the time")


def seconds_for(path: Path) -> float:
    """Return the seconds of a processor that a log takes, without those of a collection of older objects."""
    gc.collect()
    started = time.process_time()
    judge_logs(Collector(LOGS).collect([path]).logs, CHECKS)
    return time.process_time() - started
