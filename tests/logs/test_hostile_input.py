"""Input made to take all memory or all time: what is read of it is bounded, and the report says what was not read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import random
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, STDOUT, run
from typing import Any

import pytest

from distdoctor.judge.logs.findings import judge_logs
from distdoctor.logs import flight_recorder
from distdoctor.logs.collect import Collector
from distdoctor.logs.reading import formats, reader, tar
from distdoctor.logs.reading.reader import Unreadable
from tests.facts_builder import CHECKS
from tests.helpers.pace import yardstick
from tests.logs.judging import LOGS, judged_files
from tests.logs.test_flight_recorder import nccl

ROOT = Path(__file__).resolve().parents[2]
LINE = b"step 1 loss 2.0\n"
MEMORY = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
MOST_BYTES, MOST_YARDSTICKS = 600 << 20, 80.0
MANY = 1 << 24


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """The header of a member that says it has ``size`` bytes."""
    one = tarfile.TarInfo(name)
    one.size, one.type = size, kind
    return one.tobuf(tarfile.GNU_FORMAT)[:512]


def many_times(block: bytes, times: int, *before: bytes) -> bytes:
    """``block``, so many times, compressed by gzip in as many parts."""
    return b"".join([*map(gzip.compress, before), gzip.compress(block, 6) * times])


def nested(depth: int, width: int) -> bytes:
    """A dump of less than a kilobyte whose sizes are lists of the same list, of the same list, and so on."""
    value: Any = [1] * 4
    for _ in range(depth):
        value = [value] * width
    sides = {f"{side}_{what}": value for side in ("input", "output") for what in ("sizes", "dtypes")}
    frame = {"filename": value, "line": value, "name": value}
    entry = {"collective_seq_id": 1, "process_group": ("0", "d"), **sides, "frames": [frame] * width}
    return pickle.dumps({"entries": [entry] * width, "pg_config": {}, "pg_status": {}}, protocol=2)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "name.tar.gz": lambda: many_times(b"a" * MANY, 192, header("././@LongLink", 192 * MANY, tarfile.GNUTYPE_LONGNAME)),
    "pax.tar.gz": lambda: many_times(b"a" * MANY, 192, header("x", 192 * MANY, tarfile.XHDTYPE)),
    "eight.tar.gz": lambda: many_times(LINE * (1 << 20), 512, header("x.log", 512 * MANY)),
    "hidden.tar.gz": lambda: many_times(LINE * (1 << 20), 512, header(".x.log", 512 * MANY)),
    "members.tar.gz": lambda: many_times(header("x", 0, tarfile.DIRTYPE) * 4096, 400),
    "bomb.log.gz": lambda: many_times(LINE * (1 << 20), 512),
    "empty.log.gz": lambda: many_times(b"", 500_000, LINE),
    "endless.log.gz": lambda: b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * (300 << 20),
    "bomb.log.bz2": lambda: bz2.compress(LINE * (1 << 20)) * 512,
    "bomb.log.xz": lambda: lzma.compress(LINE * (1 << 20)) * 512,
    "trace_rank_0.pickle": lambda: nested(8, 20),
    "wide_rank_0.pickle": lambda: nested(3, 200),
    "lists_rank_0.pickle": lambda: b"\x80\x02}X\x07\0\0\0entries](" + b"}" * 5_900_000 + b"es.",
    "pairs_rank_0.pickle": lambda: b"\x80\x02}X\x07\0\0\0entries](" + b"]Na" * 1_900_000 + b"es.",
    "tensors_rank_0.pickle": lambda: b"\x80\x02}X\x07\0\0\0entries](" + b"}" + b"2" * 5_900_000 + b"es.",
    "short.csv": lambda: b"timestamp,message,host\n" + b"1,a,b\n" * 10_000_000,
    "blank.csv": lambda: b"timestamp,message,host\n" + b"\n" * 60_000_000,
    "commas.csv": lambda: b"timestamp,message,host\n1,a,b" + b"," * 60_000_000,
    "quote.csv": lambda: b'timestamp,message,host\n1,"' + b"\n" * 60_000_000,
    "labels.csv": lambda: b"timestamp,message,labels\n" + b'1,a,"{""pod"":[[],[],[]]}"\n' * 2_000_000,
    "line.json": lambda: b'{"message":"' + b"x" * (256 << 20) + b'"}',
    "values.log": lambda: b'[{"message":"x","timestamp":"1","more":[' + b"[]," * 20_000_000 + b"[]]}]",
    "objects.log": lambda: b'[{"message":"x","timestamp":"1"}' + b",{}" * 20_000_000 + b"]",
    "loki.log": lambda: (
        b'{"status":"success","data":{"resultType":"streams","result":[{"stream":{},"values":['
        + b'["1",""],' * 6_000_000
        + b'["1",""]]}]}}'
    ),
    "error.json": lambda: b'{"message": {"message": "x", "extraInfo": {"timestamp": [' + b"[]," * 20_000_000 + b"1]}}}",
    "lines.log": lambda: b"a\n" * 40_000_000,
    "one.log": lambda: b"a " * 60_000_000,
}


OF_THE_ISSUE = ("name.tar.gz", "eight.tar.gz", "trace_rank_0.pickle", "short.csv", "values.log", "line.json")
"""Those that are tried each time; ``-m scoreboard`` tries the others."""


MEASURED = """
import os, subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
ended = threading.Timer(90, child.kill)
ended.start()
output = child.stdout.read()
_, status, used = os.wait4(child.pid, 0)
ended.cancel()
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss << 10, flush=True)
sys.stdout.buffer.write(output)
"""
"""A process begins with the memory of the one that it was forked from, and keeps that for its most (getrusage(2)): the
one between has little."""


def diagnosed(path: Path) -> tuple[int, str, float, int]:
    """Status, output, processor seconds and most memory of ``distdoctor diagnose`` of this file."""
    command = [sys.executable, "-m", "distdoctor", "diagnose", str(path)]
    done = run([sys.executable, "-S", "-E", "-c", MEASURED, *command], cwd=ROOT, stdout=PIPE, stderr=STDOUT, check=True)
    figures, _, output = done.stdout.decode().partition("\n")
    status, seconds, memory = figures.split()
    return int(status), output, float(seconds), int(memory)


EACH = pytest.mark.parametrize(
    "name", [name if name in OF_THE_ISSUE else pytest.param(name, marks=pytest.mark.scoreboard) for name in HOSTILE]
)


@EACH
def test_it_takes_no_more_memory_than_an_honest_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(HOSTILE[name]())
    status, output, _, memory = diagnosed(tmp_path / name)
    assert status in (0, 1, 2, 3) and "crashed" not in output and "Traceback" not in output, output
    assert memory < MOST_BYTES, f"{memory >> 20} MiB"


@pytest.mark.perf
@EACH
def test_it_takes_no_more_time_than_an_honest_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(HOSTILE[name]())
    before = yardstick()
    status, _, seconds, _ = diagnosed(tmp_path / name)
    assert status in (0, 1, 2, 3) and seconds < MOST_YARDSTICKS * max(before, yardstick())


@pytest.mark.parametrize("name", ["eight.tar.gz", "bomb.log.gz"])
def test_the_report_says_how_much_was_read(tmp_path: Path, name: str) -> None:
    """And what stands in the other files is judged."""
    (tmp_path / name).write_bytes(HOSTILE[name]())
    (tmp_path / "rank3.log").write_text(MEMORY)
    found = judged_files(tmp_path)
    assert [one.check for one in found.findings] == ["gpu/out-of-memory"]
    (note,) = [note for note in found.notes if note.endswith("MB unpacked, the rest was not read")]
    assert note.startswith(f"{tmp_path}/{name}: ")


def packed(path: Path, *members: bytes) -> Path:
    path.write_bytes(b"".join(members) + bytes(1024))
    return path


def names(path: Path) -> list[str]:
    with path.open("rb") as raw:
        return [member.name for member in tar.members(raw)]


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_the_members_are_those_that_tarfile_finds(tmp_path: Path, form: int) -> None:
    path = tmp_path / "x.tar"
    files = {"a.log": 10, f"{'d' * 60}/{'e' * 60}/rank1.log": 3000, "ümlaut/rank2.log": 512, "empty": 0}
    if form != tarfile.USTAR_FORMAT:
        files["f" * 150 + "/" + "g" * 150 + ".log"] = 700
    with tarfile.open(path, "w", format=form) as tape:
        for name, size in files.items():
            one = tarfile.TarInfo(name)
            one.size, one.mtime = size, 1.5
            tape.addfile(one, io.BytesIO(b"x" * size))
        for name, kind in (("link", tarfile.SYMTYPE), ("pipe", tarfile.FIFOTYPE), ("folder", tarfile.DIRTYPE)):
            one = tarfile.TarInfo(name)
            one.type, one.linkname = kind, "/etc/passwd"
            tape.addfile(one)
    with path.open("rb") as raw:
        assert {one.name: sum(map(len, one.pieces())) for one in tar.members(raw)} == files


def test_what_no_file_of_a_log_is(tmp_path: Path) -> None:
    """Neither links nor pipes nor devices are followed; of sparse files it is said that they are not read."""
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)
    sparse = header("holes.log", 0, tarfile.GNUTYPE_SPARSE)
    log = header("/etc/rank3.log", len(MEMORY)) + padded(MEMORY.encode())
    packed(tmp_path / "x.tar", *(header("/etc/passwd", 5, kind) for kind in kinds), log, sparse)
    found = judged_files(tmp_path)
    assert [one.check for one in found.findings] == ["gpu/out-of-memory"]


def test_an_archive_that_is_damaged_in_the_middle(tmp_path: Path) -> None:
    log = header("rank3.log", len(MEMORY)) + padded(MEMORY.encode())
    packed(tmp_path / "x.tar", log, b"\xff" * 512, log)
    found = judged_files(tmp_path)
    assert [one.check for one in found.findings] == ["gpu/out-of-memory"]
    assert f"{tmp_path}/x.tar: not read to its end: the archive is damaged" in found.notes


def test_of_a_file_that_is_cut_off_in_an_archive_the_beginning_is_read(tmp_path: Path) -> None:
    packed(tmp_path / "x.tar", header("rank3.log", 1 << 30), MEMORY.encode() * 10)
    found = judged_files(tmp_path)
    assert [one.check for one in found.findings] == ["gpu/out-of-memory"]
    assert f"{tmp_path}/x.tar: not read to its end: the archive was cut off" in found.notes


def test_a_large_archive_of_real_logs_is_read_wholly(tmp_path: Path) -> None:
    """Three files of 100 MB, of which the last one has the failure: more than memory is taken for."""
    chance, held = random.Random(1), io.BytesIO()
    text = "".join(f"step {number} loss {chance.random():.3f}\n" for number in range(50_000)).encode() * 100
    with tarfile.open(fileobj=held, mode="w:gz", compresslevel=1) as tape:
        for rank in range(4):
            data = text + (MEMORY.encode() if rank == 3 else b"")
            one = tarfile.TarInfo(f"rank{rank}.log")
            one.size = len(data)
            tape.addfile(one, io.BytesIO(data))
    (tmp_path / "logs.tar.gz").write_bytes(held.getvalue())
    status, output, _, memory = diagnosed(tmp_path / "logs.tar.gz")
    assert status == 1 and "gpu/out-of-memory" in output and "not read" not in output, output
    assert memory < MOST_BYTES


def test_rows_beyond_those_of_a_table_are_read_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MOST_ROWS", 10)
    rows = "".join(f"2026-01-01T00:00:{number},step {number},host1\n" for number in range(10, 50))
    (tmp_path / "x.csv").write_text(f"timestamp,message,host\n{rows}2026-01-01T00:01:00,{MEMORY}")
    found = judged_files(tmp_path)
    assert [one.check for one in found.findings] == ["gpu/out-of-memory"]
    assert found.findings[0].evidence[0].startswith(f"{tmp_path}/x.csv:42: ")


def test_a_dump_whose_stacks_are_shared_is_read(tmp_path: Path) -> None:
    """As torch writes them: each call refers to the stack from which it was made."""
    frames = [{"name": "f", "filename": f"/torch/{n}.py", "line": n} for n in range(100)]
    for rank, calls in ((0, 2000), (1, 1999)):
        whole = nccl("2.10", ["all_reduce"] * calls, waits=rank == 0)
        for entry in whole["entries"]:
            entry["frames"] = frames
        (tmp_path / f"trace_rank_{rank}").write_bytes(pickle.dumps(whole, protocol=2))
    (finding,) = judged_files(tmp_path).findings
    assert (finding.check, finding.ranks) == ("collective/rank-missing", (1,))


def test_a_dump_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(flight_recorder.BadDump, match="holds itself"):
        flight_recorder.load("x", pickle.dumps({"entries": value}, protocol=2))


# -- mutated files ---------------------------------------------------------------------------------------------------


def seeds() -> dict[str, bytes]:
    """A small file of each form."""
    tape = io.BytesIO()
    with tarfile.open(fileobj=tape, mode="w") as files:
        for name in ("rank0.log", "n" * 200, "rank3.log"):
            one = tarfile.TarInfo(name)
            one.size = len(MEMORY)
            files.addfile(one, io.BytesIO(MEMORY.encode()))
    whole = nccl("2.10", ["all_reduce", "broadcast"])
    gathered = [{"message": MEMORY, "timestamp": "2026-01-01T00:00:00Z", "labels": {"pod": "a"}}] * 3
    answer = {
        "status": "success",
        "data": {"resultType": "streams", "result": [{"stream": {}, "values": [["1", "x"]]}]},
    }
    error = {"message": {"message": "x", "extraInfo": {"py_callstack": "Traceback", "timestamp": "1"}}}
    return {
        "x.tar": tape.getvalue(),
        "x.tar.gz": gzip.compress(tape.getvalue()),
        "x.log.gz": gzip.compress(MEMORY.encode() * 20),
        "x.log.xz": lzma.compress(MEMORY.encode() * 20),
        "x.log.bz2": bz2.compress(MEMORY.encode() * 20),
        "twice.gz": gzip.compress(gzip.compress(MEMORY.encode())),
        "trace_rank_0": pickle.dumps(whole, protocol=2),
        "trace_rank_1": json.dumps(whole).encode(),
        "x.json": json.dumps(gathered).encode(),
        "loki.json": json.dumps(answer).encode(),
        "error.json": json.dumps(error).encode(),
        "x.csv": b"timestamp,message,host\n" + b"2026-01-01T00:00:00,out of memory,h\n" * 20,
        "x.jsonl": (json.dumps(gathered[0]) + "\n").encode() * 5,
    }


def mutated(data: bytes, chance: random.Random) -> bytes:
    """``data`` with some bytes changed, taken out, repeated, or cut off."""
    whole = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(whole) or 1)
        kind = chance.randrange(6)
        if kind == 0 and whole:
            whole[at] = chance.randrange(256)
        elif kind == 1:
            del whole[at : at + chance.randrange(1, 40)]
        elif kind == 2:
            whole[at:at] = whole[at : at + chance.randrange(1, 200)] * chance.randrange(1, 20)
        elif kind == 3:
            whole[at:at] = chance.choice(ODD)
        elif kind == 4:
            del whole[at:]
        else:
            digits = [place for place, byte in enumerate(whole) if 48 <= byte < 58]
            if digits:
                place = chance.choice(digits)
                whole[place : place + 1] = chance.choice((b"9" * 30, b"-1", b"1e999", b"null", b"[]", b"00"))
    return bytes(whole)


ODD = (
    b"\0" * 512,
    b"\xff" * 20,
    b"\x1b[31m",
    b"\x1b]0;x\x07",
    b"\r" * 50,
    b"[" * 5000,
    b'{"a":' * 3000,
    b'"',
    b"\xe2\x80\xae",
)


def fuzz(folder: Path, turns: int, seed: int = 7) -> None:
    chance, whole = random.Random(seed), seeds()
    for turn in range(turns):
        name = chance.choice([*whole])
        path = folder / name
        path.write_bytes(data := mutated(whole[name], chance))
        try:
            judge_logs(Collector(LOGS).collect([path]).logs, CHECKS)
        except Unreadable:
            pass
        except Exception as err:
            raise AssertionError(f"turn {turn} of seed {seed}: {name}: {data[:2000]!r}") from err
        path.unlink()


def test_mutated_files_crash_nothing(tmp_path: Path) -> None:
    fuzz(tmp_path, int(os.environ.get("FUZZ_TURNS", "400")), int(os.environ.get("FUZZ_SEED", "7")))


def test_no_more_files_of_an_archive_than_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_FILES", 3)
    packed(tmp_path / "x.tar", *(header(f"{n}.log", 16) + padded(LINE) for n in range(9)))
    assert any(note.endswith("the rest was not read") for note in judged_files(tmp_path).notes)
