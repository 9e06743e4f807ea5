"""Input as it really is: compressed, without line ends, with NUL bytes, colours, progress bars, of any encoding."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import LogJudgement, judge_logs
from distdoctor.logs.collect import Collector
from distdoctor.logs.flight_recorder import BadDump, load
from distdoctor.logs.reading import budget, reader
from distdoctor.logs.scanner import MOST, Scanner
from distdoctor.model.log_line import Line
from tests.facts_builder import CHECKS
from tests.logs.judging import LOGS

LINE = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
ROOT = Path(__file__).resolve().parents[2]


def judged(*paths: Path) -> LogJudgement:
    return judge_logs(Collector(LOGS).collect(paths).logs, CHECKS)


@pytest.mark.parametrize(
    "content",
    [
        f"a\n{LINE}\n".encode(),
        gzip.compress(f"a\n{LINE}\n".encode()),
        lzma.compress(f"a\n{LINE}\n".encode()),
        bz2.compress(f"a\n{LINE}\n".encode()),
        f"a\n{LINE}\n".encode("utf-16"),
        b"a\0\0\n" + LINE.encode() + b"\0\n",
        b"\xff\xfe\xfa caf\xe9\n" + LINE.encode() + b"\n",
        f"a\n\x1b[31m{LINE[:20]}\x1b[0m{LINE[20:]}\x1b[K\n".encode(),
        ("".join(f"\r {n}% done" for n in range(100)) + f"\r{LINE}\n").encode(),
        f"a\r\n{LINE}\r\n".encode(),
        f"a\n{LINE}".encode(),
    ],
    ids=["plain", "gzip", "xz", "bzip2", "utf-16", "nul", "latin", "ansi", "bars", "crlf", "no newline"],
)
def test_any_form(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.log").write_bytes(content)
    (finding,) = judged(tmp_path / "x.log").findings
    assert (finding.check, finding.ranks) == ("gpu/out-of-memory", (3,))


def test_torchruns_folders_say_whose_log_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "none_x/attempt_0/5"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text("ValueError: no\n")
    found = Collector(LOGS).collect([tmp_path]).logs
    assert [match.who.local_rank for match in found.matches] == [5]


def test_an_error_file_of_torchelastic(tmp_path: Path) -> None:
    stack = 'Traceback (most recent call last):\n  File "t.py", line 3, in main\n    f()\nZeroDivisionError: by zero\n'
    message = {"message": "ZeroDivisionError: by zero", "extraInfo": {"py_callstack": stack, "timestamp": "1"}}
    (tmp_path / "error.json").write_text(json.dumps({"message": message}))
    (finding,) = judged(tmp_path).findings
    assert finding.check == "process/exception" and "raised at t.py:3 in main" in finding.evidence


def dump(numbers: list[int], sizes: int = 4) -> dict[str, object]:
    entries = [
        {
            "collective_seq_id": number,
            "process_group": ("0", "default_pg"),
            "profiling_name": "nccl:all_reduce",
            "input_sizes": [[sizes]],
            "output_sizes": [[sizes]],
            "state": "scheduled",
            "retired": False,
        }
        for number in numbers
    ]
    return {"version": "2.10", "pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": entries}


def test_flight_recorders_name_the_rank_that_is_absent(tmp_path: Path) -> None:
    for rank, numbers in ((0, [1, 2, 3]), (1, [1, 2])):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump(numbers), protocol=2))
    (finding,) = judged(tmp_path).findings
    assert (finding.check, finding.ranks) == ("collective/rank-missing", (1,))
    assert "never called all_reduce number 3, in which rank 0 waits" in finding.evidence[0]


def test_flight_recorders_name_the_rank_that_differs(tmp_path: Path) -> None:
    for rank, sizes in ((0, 4), (1, 4), (2, 8)):
        (tmp_path / f"trace_{rank}.json").write_text(json.dumps(dump([1], sizes)))
    (finding,) = judged(tmp_path).findings
    assert (finding.check, finding.ranks) == ("collective/mismatch", (2,))


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch /nowhere",)


@pytest.mark.parametrize("value", [Evil(), {"entries": [Evil()]}, b"x" * 10, 3])
def test_a_dump_runs_nothing(value: object) -> None:
    with pytest.raises(BadDump):
        load("x", pickle.dumps(value))


def test_memory_is_bounded_on_a_line_without_end(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"0.12345 " * (1 << 17))
        file.write(f"\n{LINE}\n".encode())
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from distdoctor.cli.app import main; main(['diagnose', sys.argv[1]])",
            path,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20)),
    )
    assert done.returncode == 1 and "gpu/out-of-memory" in done.stdout, done.stderr


def test_what_is_empty_in_a_folder_is_not_spoken_of(tmp_path: Path) -> None:
    for rank in range(8):
        (tmp_path / f"rank{rank}.err").touch()
    (tmp_path / "rank0.out").write_text("step 1 loss 2\nstep 2 loss 1\n")
    os.mkfifo(tmp_path / "pipe")
    assert [source.name for source in Collector(LOGS).collect([tmp_path]).logs.sources] == [str(tmp_path / "rank0.out")]
    assert judged(tmp_path).notes == (
        f"no failure in {tmp_path}/rank0.out; it ends at line 2, last seen doing: step 2 loss 1",
    )
    assert judged(tmp_path / "rank0.out", tmp_path / "rank0.err").verdict != "incomplete"


def test_more_files_than_a_job_leaves_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_FILES", 3)
    for number in range(4):
        (tmp_path / f"{number}.log").write_text("step 1\n")
    with pytest.raises(reader.Unreadable, match="more than 3 files"):
        reader.find([tmp_path])
    (tmp_path / "3.log").unlink()
    assert len(reader.find([tmp_path])) == 3


def test_what_could_not_be_read_may_hold_the_failure(tmp_path: Path) -> None:
    log, broken, picture = tmp_path / "a.log", tmp_path / "b.gz", tmp_path / "c.png"
    log.write_text("step 1 loss 2\nstep 2 loss 1\ntraining finished\n")
    assert judged(log).verdict == "pass"
    broken.write_bytes(gzip.compress(LINE.encode())[:5])
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    for unread in (broken, picture):
        found = judged(log, unread)
        assert found.verdict == "incomplete" and found.notes[-1].startswith(f"{unread}: ")
    broken.unlink()
    assert judged(tmp_path).verdict == "pass"  # a picture that lies beside the logs


@pytest.mark.parametrize("steps", [10, 100_000], ids=["small", "large"])
@pytest.mark.parametrize("line", [f"{LINE}\n", ""], ids=["failed", "no failure"])
def test_of_a_compressed_file_that_was_cut_off_what_is_there_is_told(tmp_path: Path, steps: int, line: str) -> None:
    """However small it is; and it is not as if the log had ended there."""
    text = "".join(f"step {number} loss 1\n" for number in range(steps)) + line
    log, packed = tmp_path / "x.log.gz", gzip.compress(text.encode() + os.urandom(3000).hex().encode())
    log.write_bytes(packed[:-1000])
    found = judged(log)
    assert [one.check for one in found.findings] == ["gpu/out-of-memory"] * bool(line)
    assert found.verdict == ("fail" if line else "incomplete")
    assert f"{log}: not read to its end: the compressed file was cut off" in found.notes


def test_a_small_file_that_holds_a_great_deal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read for ever; what is read of it is told, and that it is not all."""
    monkeypatch.setattr(budget, "SPARE", 4 << 20)
    log = tmp_path / "x.log.gz"
    log.write_bytes(gzip.compress(b"step 1 loss 1\n" * (2 << 20)))
    found, collected = judged(log), Collector({}).collect([log]).logs
    assert collected.sources[0].bytes < 16 << 20
    assert found.verdict == "incomplete"
    size = collected.sources[0].bytes
    assert f"{log}: {size / 1e6:.0f} MB unpacked, the rest was not read" in found.notes


def test_a_log_that_packs_as_logs_do_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SPARE", 1 << 10)
    log = tmp_path / "x.log.gz"
    steps = "".join(
        f"2026-01-02 03:04:{number % 60:02} step {number} loss {1 / number}\n" for number in range(1, 50_000)
    )
    log.write_bytes(gzip.compress(f"{steps}{LINE}\n".encode()))
    assert [one.check for one in judged(log).findings] == ["gpu/out-of-memory"] and not judged(log).notes


@pytest.mark.parametrize("head", [b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh91AY&SY"], ids=["zstd", "xz", "bzip2"])
def test_what_is_no_file_of_that_kind(tmp_path: Path, head: bytes) -> None:
    """It is not read, and the others are."""
    (tmp_path / "x.packed").write_bytes(head + bytes(range(60, 99)))
    (tmp_path / "y.log").write_text(f"{LINE}\n")
    found = judged(tmp_path)
    assert [one.check for one in found.findings] == ["gpu/out-of-memory"]
    assert any("x.packed: " in note for note in found.notes)


@pytest.mark.parametrize("steps", [10, 100_000], ids=["small", "large"])
@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress], ids=["xz", "bzip2"])
def test_xz_and_bzip2_stream_after_stream(tmp_path: Path, pack: Callable[[bytes], bytes], steps: int) -> None:
    """As of two logs that were appended; one that was cut off says so, and what is there is told."""
    text = "".join(f"step {number} loss 1\n" for number in range(steps))
    log = tmp_path / "x.log.packed"
    whole = b"".join(pack(part.encode()) for part in (text, f"{LINE}\n", os.urandom(999).hex()))
    log.write_bytes(whole)
    assert [one.check for one in judged(log).findings] == ["gpu/out-of-memory"] and not judged(log).notes
    log.write_bytes(whole[:-500])
    cut = judged(log)
    assert [one.check for one in cut.findings] == ["gpu/out-of-memory"]
    assert f"{log}: not read to its end: the compressed file was cut off" in cut.notes


def test_xz_that_asks_for_more_memory_than_logs_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MEMORY", 1 << 20)
    (tmp_path / "x.log.xz").write_bytes(lzma.compress(f"{LINE}\n".encode(), preset=6))  # which looks 8 MiB back
    found = judged(tmp_path)
    assert found.verdict == "incomplete" and "emory" in found.notes[-1]


@pytest.mark.parametrize("steps", [10, 100_000], ids=["small", "large"])
def test_zstd_frame_after_frame(tmp_path: Path, steps: int) -> None:
    """As of two logs that were appended; one that was cut off says so, and what is there is told."""
    zstandard = pytest.importorskip("zstandard")
    text = "".join(f"step {number} loss 1\n" for number in range(steps))
    log = tmp_path / "x.log.zst"
    whole = b"".join(zstandard.compress(part.encode()) for part in (text, f"{LINE}\n", os.urandom(999).hex()))
    log.write_bytes(whole)
    assert [one.check for one in judged(log).findings] == ["gpu/out-of-memory"] and not judged(log).notes
    log.write_bytes(whole[:-500])
    cut = judged(log)
    assert [one.check for one in cut.findings] == ["gpu/out-of-memory"]
    assert f"{log}: not read to its end: the compressed file was cut off" in cut.notes


@pytest.mark.scoreboard
def test_what_zstd_makes_of_much_is_not_held_at_once(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    log = tmp_path / "x.log.zst"
    log.write_bytes(zstandard.compress(bytes(200 << 20) + f"\n{LINE}\n".encode()))
    done = subprocess.run(
        [sys.executable, "-m", "distdoctor", "diagnose", log],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (350 << 20, 350 << 20)),
    )
    assert done.returncode == 1 and "gpu/out-of-memory" in done.stdout, done.stderr


def test_many_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.pickle").write_bytes(b"\x80\x02X\x07\0\0\0entriesbroken")
    notes = judged(tmp_path).notes
    assert len(notes) == 4 and notes[-1] == "and 17 more files like this"


def test_nothing_of_a_log_reaches_the_terminal_raw(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("RuntimeError: \x1b]0;title\x07\x9b31m evil \u202e\n")
    done = subprocess.run(
        [sys.executable, "-m", "distdoctor", "diagnose", tmp_path / "x.log"],
        cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    assert not any(byte in done.stdout for byte in (b"\x1b", b"\x07", b"\xc2\x9b", "\u202e".encode()))


def test_a_literal_on_every_line_does_not_hide_a_rare_one() -> None:
    """What stands on every line of a large log is searched for no longer; the rest is, and keeps its number."""
    scanner = Scanner({"a/often": (Line("often"),), "b/rare": (Line("rare"),)}, ("every",))
    search, found = scanner.begin(), []
    for number in range(6):
        block = b"every line, often\n" * 8000 + (b"a rare one\n" if number == 5 else b"")
        found += [known.check for _, _, lines in scanner.lines(block, search) for known in lines]
    assert found.count("b/rare") == 1 and found.count("a/often") == MOST
    assert [scanner.literals[number] for number in search.numbers] == [b"rare"]


def test_the_older_parts_of_a_log_come_before_it(tmp_path: Path) -> None:
    names = ["a.log", "a.log.1", "a.log.10.gz", "a.log.2", "b.log", "b.log-20261120", "b.log-20261121.gz", "rank.0"]
    for name in names:
        (tmp_path / name).write_text("x\n")
    assert [source.name.rsplit("/", 1)[1] for source in reader.oldest_first(reader.find([tmp_path]))] == [
        *("a.log.10.gz", "a.log.2", "a.log.1", "a.log"),
        *("b.log-20261120", "b.log-20261121.gz", "b.log", "rank.0"),
    ]


@pytest.mark.parametrize("escape", ["\x1b", "^[", "\ufffd", "\\x1b", "\\u001b", "\\033", "#033", "\u241b", ""])
def test_a_colour_of_which_the_escape_character_is_shown_or_lost(tmp_path: Path, escape: str) -> None:
    """Ray, vLLM and Buildkite colour the prefix of a line, and a page that a log is copied from may show how."""
    name, level, plain = (f"{escape}[{code}m" for code in ("36", "1;31", "0"))
    error = f"{level}ValueError:{plain} the rate [5m] of [1m 3s] is too low"
    (tmp_path / "x.log").write_text(f"{name}(RayWorkerWrapper pid=4183, ip=10.3.32.122){plain} {error}\n")
    (finding,) = judged(tmp_path / "x.log").findings
    assert finding.nodes == ("10.3.32.122",)
    assert finding.evidence[0].endswith(": ValueError: the rate [5m] of [1m 3s] is too low")
