"""Flight-recorder dumps: real ones of gloo jobs, NCCL's format as torch's source has it, and hostile ones."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from distdoctor.judge.logs.findings import LogJudgement
from distdoctor.logs.flight_recorder import BadDump, load
from tests.lab.logged.dumps import read
from tests.logs.judging import judged as judged_texts
from tests.logs.judging import judged_files

MISSING, MISMATCH = "collective/rank-missing", "collective/mismatch"
PARTED: dict[str, tuple[str, str]] = {
    "missing": (MISSING, "never called all_reduce number 4, in which ranks 0, 2 wait"),
    "never any": (MISSING, "never called all_reduce number 1, in which ranks 0, 2 wait"),
    "behind": (MISSING, "never called all_reduce number 5, in which ranks 0, 2 wait"),
    "another operation": (MISMATCH, "rank 1 called broadcast"),
    "another order": (MISMATCH, "rank 1 called all_reduce"),
    # gloo ended rank 0's process, which was sent what it had not asked for: two are left.
    "another size": (MISMATCH, "rank 1 called all_reduce [[9]]"),
    "another type": (MISMATCH, "rank 1 called all_reduce [[4]] [Double]"),
}


def judged(folder: Path, files: Mapping[str, bytes]) -> LogJudgement:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return judged_files(folder)


@pytest.mark.parametrize("kind", ["json", "pickle"])
@pytest.mark.parametrize("scenario", PARTED)
def test_the_rank_and_the_collective_of_a_real_job(tmp_path: Path, scenario: str, kind: str) -> None:
    files = {name: data for name, data in read(scenario).items() if name.endswith(".json") == (kind == "json")}
    found = judged(tmp_path, files)
    check, text = PARTED[scenario]
    assert [(one.check, one.ranks) for one in found.findings] == [(check, (1, 2) if len(files) == 2 else (1,))]
    assert text in found.findings[0].evidence[0]
    if kind == "pickle" and check == MISSING:
        assert "collectives.py:" in found.findings[0].evidence[0]  # who waits, waits there


def test_a_group_of_which_gloo_does_not_record_the_ranks(tmp_path: Path) -> None:
    """Rank 0 waits in it, and whether rank 1 should be there is in no dump."""
    found = judged(tmp_path, read("in a group"))
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert "who else is in the group is not recorded" in found.candidates[0].why


@pytest.mark.parametrize("scenario", ["other shapes", "healthy"])
def test_a_job_that_did_not_part(tmp_path: Path, scenario: str) -> None:
    """Other shapes of as many elements, and what is gathered in other sizes, are no mismatch."""
    assert judged(tmp_path, read(scenario)).findings == ()


def test_dumps_in_which_nothing_is_recorded(tmp_path: Path) -> None:
    """What gloo's ranks of torch 2.5.1 and 2.7.1 write."""
    empty = b'{"nccl_comm_state":{},"pg_config":{},"pg_status":{},"version":"2.4"}'
    found = judged(tmp_path, {f"rank{rank}.json": empty for rank in range(2)})
    assert found.verdict == "incomplete" and not found.findings
    assert [note for note in found.notes if "no collective is recorded: torch before 2.8" in note]


def test_dumps_of_some_ranks_only(tmp_path: Path) -> None:
    """The ranks that are there all wait: whether the others have called it is not known."""
    files = {name: data for name, data in read("missing").items() if name in ("rank0.json", "rank2.json")}
    found = judged(tmp_path, files)
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert found.candidates[0].check == MISSING and "no dump of rank 1" in found.candidates[0].why


def test_dumps_that_were_mixed(tmp_path: Path) -> None:
    """Of two dumps of a rank the later is compared, and it is said so; who has no rank is left out, and it is said."""
    files = {name: data for name, data in read("missing").items() if name.endswith(".json")}
    earlier = json.loads(files["rank0.json"])
    earlier["entries"] = earlier["entries"][:1]
    found = judged(
        tmp_path, {**files, "older_rank0.json": json.dumps(earlier).encode(), "trace.json": files["rank1.json"]}
    )
    assert [(one.check, one.ranks) for one in found.findings] == [(MISSING, (1,))]
    assert any("older_rank0.json: not compared" in note for note in found.notes)
    assert any("trace.json: neither" in note for note in found.notes)


# -- NCCL's format ---------------------------------------------------------------------------------------------------
# Constructed, without GPUs: the keys and values of torch/csrc/distributed/c10d in the headers of these wheels of
# torch: TraceUtils.h of 2.3.0 (format 1.4) and 2.4.0 (2.1), NCCLUtils.hpp of 2.5.0 and FlightRecorder.hpp of 2.6.0 and
# 2.7.0 (2.4), FlightRecorder.hpp and FlightRecorderDetail.hpp of 2.8.0 (2.9) and 2.9.0 (2.10).

LACKS: dict[str, set[str]] = {
    "1.4": {
        *("process_group", "collective_seq_id", "p2p_seq_id", "input_dtypes", "output_dtypes", "is_p2p"),
        *("timeout_ms", "thread_id", "thread_name", "pg_status", "nccl_version", "comm_lib_version"),
    },
    "2.1": {"timeout_ms", "thread_id", "thread_name", "pg_status", "nccl_version", "comm_lib_version", "seq_id"},
    "2.4": {"thread_id", "thread_name", "nccl_version", "comm_lib_version", "seq_id"},
    "2.9": {"comm_lib_version", "seq_id"},
    "2.10": {"nccl_version", "seq_id"},
}
"""By the version of the format, the keys that it does not have yet, or no more."""


def nccl(version: str, calls: list[str], waits: bool = True, active: bool = False, **other: Any) -> dict[str, Any]:
    """One rank's dump, after these calls in the default group of two ranks; the last is not over if it ``waits``."""
    lacks = LACKS[version]
    entries = [
        {
            "frames": [{"name": "step", "filename": "/home/u/train.py", "line": 88}],
            "record_id": number,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "thread_name": "python",
            "thread_id": "1",
            "seq_id": number + 1,
            "collective_seq_id": number + 1,
            "p2p_seq_id": 0,
            "op_id": number + 1,
            "profiling_name": f"nccl:{call}",
            "time_created_ns": 1_700_000_000_000_000_000 + number,
            "input_sizes": [[1024, 4]],
            "input_dtypes": ["Float"],
            "output_sizes": [[1024, 4]],
            "output_dtypes": ["Float"],
            "state": "started" if waits and number == len(calls) - 1 else "completed",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None,
            "retired": not (waits and number == len(calls) - 1),
            "timeout_ms": 600_000,
            "is_p2p": False,
        }
        for number, call in enumerate(calls)
    ]
    entries = [{key: value for key, value in entry.items() if key not in lacks} for entry in entries]
    status = {"last_enqueued_collective": len(calls), "last_started_collective": len(calls)}
    named = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    document = {
        "version": version,
        "pg_config": {0: [0, 1]} if version == "1.4" else named,
        "nccl_version": "2.26.2",
        "comm_lib_version": "2.27.3",
        "pg_status": {"0": {**status, "last_completed_collective": len(calls) - waits}},
        "nccl_comm_state": {},
        **other,
    }
    document = {key: value for key, value in document.items() if key not in lacks}
    kept = [entry for entry in entries if not active or entry["state"] != "completed"]
    return {**document, "entries": kept} if kept or not active else document


def as_json(dump: dict[str, Any]) -> bytes:
    """Return what dump_json() writes, of torch 2.5 and newer: without frames, a status of texts, 0 for no time."""
    entries = [
        {key: 0 if value is None else value for key, value in one.items() if key != "frames"} for one in dump["entries"]
    ]
    status = {name: {key: str(value) for key, value in one.items()} for name, one in dump["pg_status"].items()}
    return json.dumps({**dump, "entries": entries, "pg_status": status}).encode()


STEP = ["all_reduce", "all_gather_into_tensor", "all_reduce"]


@pytest.mark.parametrize("version", LACKS)
@pytest.mark.parametrize("protocol", [2, None])
def test_nccl_names_who_is_absent(tmp_path: Path, version: str, protocol: int | None) -> None:
    if protocol is None and version in ("1.4", "2.1"):
        pytest.skip("torch before 2.5 writes no JSON")
    dumps = (nccl(version, STEP), nccl(version, STEP[:2], waits=False))
    for rank, one in enumerate(dumps):
        raw = as_json(one) if protocol is None else pickle.dumps(one, protocol=protocol)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(raw)
    (finding,) = judged_files(tmp_path).findings
    assert (finding.check, finding.ranks) == (MISSING, (1,))
    where = " (/home/u/train.py:88 in step)" if protocol else ""
    assert finding.evidence[0].endswith(f"number 3, in which rank 0 waits{where}")


@pytest.mark.parametrize("version", LACKS)
def test_nccl_a_member_without_a_dump(tmp_path: Path, version: str) -> None:
    """Each format has the ranks of the default group, of which one is not there."""
    dump = nccl(version, STEP) | {"pg_config": nccl(version, STEP)["pg_config"]}
    assert load("nccl_trace_rank_0", pickle.dumps(dump, protocol=2)).members == {"0": (0, 1)}
    found = judged(tmp_path, {"nccl_trace_rank_0": pickle.dumps(dump, protocol=2)})
    assert (found.verdict, found.findings) == ("incomplete", ()) and "no dump of rank 1" in found.candidates[0].why


@pytest.mark.parametrize("version", LACKS)
def test_nccl_two_ranks_that_differ(tmp_path: Path, version: str) -> None:
    """Of two, neither is the odd one: both are named, with the types where they are recorded."""
    calls = (STEP, [*STEP[:2], "broadcast"])
    for rank, one in enumerate(calls):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(nccl(version, one), protocol=2))
    found = judged_files(tmp_path)
    assert [(one.check, one.ranks) for one in found.findings] == [(MISMATCH, (0, 1))]
    types = "" if version == "1.4" else " [Float]"
    assert f"rank 0 called all_reduce [[1024, 4]]{types} -> [[1024, 4]]{types}, rank 1" in found.findings[0].evidence[0]


def test_hccl_retires_what_it_gave_up_as_nccl_does(tmp_path: Path) -> None:
    """The recorder of torch_npu (csrc/distributed/TraceUtils.h) is a copy of NCCL's, of format 2.4."""
    waits, over = nccl("2.4", STEP), nccl("2.4", STEP[:2], waits=False)
    for entry in (*waits["entries"], *over["entries"]):
        entry |= {"profiling_name": entry["profiling_name"].replace("nccl:", "hccl:"), "retired": True}
    found = judged(tmp_path, {f"rank{rank}.json": as_json(one) for rank, one in enumerate((waits, over))})
    assert [(one.check, one.ranks) for one in found.findings] == [(MISSING, (1,))]


@pytest.mark.parametrize("called", [2, 3])
def test_nccl_without_what_is_over(tmp_path: Path, called: int) -> None:
    """With onlyactive a rank's finished collectives are left out: pg_status tells these from what was never called."""
    waits, over = nccl("2.10", STEP, active=True), nccl("2.10", STEP[:called], waits=False, active=True)
    files = {f"rank{rank}.json": json.dumps(one).encode() for rank, one in enumerate((waits, over))}
    found = judged(tmp_path, files)
    assert [(one.check, one.ranks) for one in found.findings] == ([(MISSING, (1,))] if called == 2 else [])


def test_nccl_gave_it_up(tmp_path: Path) -> None:
    """Where torch waits itself, a call that timed out is retired, and was never completed."""
    waits, over = nccl("2.4", STEP), nccl("2.4", STEP[:2], waits=False)
    waits["entries"][-1]["retired"] = True
    found = judged(tmp_path, {f"rank{n}.json": json.dumps(one).encode() for n, one in enumerate((waits, over))})
    assert [(one.check, one.ranks) for one in found.findings] == [(MISSING, (1,))]


@pytest.mark.parametrize(("change", "why"), [("is_p2p", "only messages"), ("seq_id", "torch before 2.4")])
def test_nccl_what_is_not_compared(tmp_path: Path, change: str, why: str) -> None:
    dumps = [nccl("2.4", STEP), nccl("2.4", STEP[:2], waits=False)]
    for entry in (entry for one in dumps for entry in one["entries"]):
        entry[change] = True if change == "is_p2p" else entry.pop("collective_seq_id")
    for one in dumps if change == "seq_id" else []:
        one["entries"][0]["profiling_name"] = "nccl:send 0->1"
    for one in dumps:
        del one["pg_status"]
    found = judged(tmp_path, {f"rank{n}.json": json.dumps(one).encode() for n, one in enumerate(dumps)})
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert any(why in note for note in found.notes)


# torch 2.2 pickles the list of entries alone, without a rank, the members of the groups and the types of elements
# (NCCLTraceBuffer::dump() in torch/csrc/distributed/c10d/TraceUtils.h).
KEPT = (
    "pg_id",
    "seq_id",
    "profiling_name",
    "time_created_us",
    "input_sizes",
    "output_sizes",
    "state",
    "retired",
    "frames",
)


def old(calls: list[str], waits: bool = True, *, first: int = 1, group: int = 0) -> list[dict[str, Any]]:
    """One rank's dump of torch 2.2."""
    entries = nccl("2.4", calls, waits)["entries"]
    for number, entry in enumerate(entries, first):
        entry |= {"seq_id": number, "pg_id": group, "time_created_us": entry["time_created_ns"] // 1000}
    return [{key: entry[key] for key in KEPT} for entry in entries]


@pytest.mark.parametrize(
    ("waits", "over", "found"),
    [
        (old(STEP), old(STEP[:2], waits=False), [(MISSING, (1,))]),
        (old(STEP), old([*STEP[:2], "broadcast"]), [(MISMATCH, (0, 1))]),
        (old(STEP), old(STEP), []),
        (old(["send 0->1", *STEP]), old(["recv 0->1", *STEP[:2]], waits=False), []),
        (old(STEP, first=9), old(STEP[:2], waits=False, first=9), []),  # what was before is overwritten
        (old(STEP, group=1), old(STEP[:2], waits=False, group=1), []),  # each process numbers its groups by itself
    ],
)
def test_nccl_of_torch_2_2(
    tmp_path: Path, waits: list[Any], over: list[Any], found: list[tuple[str, tuple[int, ...]]]
) -> None:
    for rank, one in enumerate((waits, over)):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(one, protocol=2))
    judgement = judged_files(tmp_path)
    assert [(one.check, one.ranks) for one in judgement.findings] == found
    assert not any("not a flight-recorder dump" in note for note in judgement.notes)


def test_a_job_that_works_while_it_is_dumped(tmp_path: Path) -> None:
    """One rank was asked a moment later than the other, and nobody waits."""
    ahead, behind = nccl("2.10", [*STEP, "broadcast"], waits=False), nccl("2.10", STEP, waits=False)
    assert (
        judged(tmp_path, {"rank0.json": json.dumps(ahead).encode(), "rank1.json": json.dumps(behind).encode()}).findings
        == ()
    )


# -- hostile ones ----------------------------------------------------------------------------------------------------


def bomb() -> list[Any]:
    """A list of 2^40 values that takes no memory."""
    value: list[Any] = ["x"]
    for _ in range(40):
        value = [value, value]
    return value


class Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("/tmp/a-dump-was-run",)


@pytest.mark.parametrize(
    "raw",
    [
        pickle.dumps(nccl("2.10", STEP, comm=Runs()), protocol=2),
        pickle.dumps(nccl("2.10", STEP, comm=Runs()), protocol=4),
        b"\x80\x02(S'id'\nios\nsystem\n.",
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x02Pabc\n.",
        b"\x80\x02(cos\nsystem\nU\x02ido.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02}r\xff\xff\xff\x7f.",
        b"\x80\x02" + b"(" * 100,
        b"\x80\x02]q\x00" + b"]" * 99 + b"a" * 99,
        b"\x80\x04}N\x94" + b"".join(b"h%c\x86\x94" % place for place in range(60)) + b"Ns.",
        b"\x80\x04\x8f(N\x94" + b"".join(b"h%c\x86\x94" % place for place in range(60)) + b"\x90" + b"N.",
    ],
    ids=[
        *("reduce", "reduce 4", "inst", "global", "persid", "obj", "ext", "memo bomb", "marks", "no end"),
        *("a key of 2^60 values", "a set of it"),
    ],
)
def test_a_hostile_pickle_is_refused_and_not_run(raw: bytes) -> None:
    with pytest.raises(BadDump):
        load("rank0", raw)
    assert not Path("/tmp/a-dump-was-run").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"input_sizes": bomb()},
        {"profiling_name": bomb()},
        {"process_group": bomb()},
        {"frames": bomb()},
        {"frames": [{"filename": bomb(), "line": bomb()}]},
        {"collective_seq_id": 1 << 40_000},
        {"collective_seq_id": -5},
        {"input_sizes": [[1 << 60] * 64] * 64},
        {"state": bomb(), "retired": bomb()},
    ],
)
def test_values_that_blow_up_cost_nothing(tmp_path: Path, change: dict[str, Any]) -> None:
    one = nccl("2.10", STEP)
    one["entries"][-1] |= change
    other = nccl("2.10", STEP[:2], waits=False)
    found = judged(tmp_path, {"rank0": pickle.dumps(one, protocol=2), "rank1": pickle.dumps(other, protocol=2)})
    assert found.verdict in ("fail", "incomplete", "warn")


def test_a_rank_beyond_all_bounds_is_none(tmp_path: Path) -> None:
    found = judged(tmp_path, {"rank0.json": json.dumps(nccl("2.10", STEP, rank=1 << 60)).encode()})
    assert any("of which rank" in note for note in found.notes)


def test_what_torch_says_of_its_own_viewer_is_nothing(tmp_path: Path) -> None:
    """torch.distributed.debug of torch 2.13 cannot show gloo's dumps, and writes so into the job's log."""
    head = "[rank0]:E1122 02:58:59.262000 28159 torch/distributed/debug/_frontend.py:305] "
    text = "".join(
        f"{head}{line}\n"
        for line in ("Failed to dump fr_trace", "Traceback (most recent call last):", "KeyError: ('0', 0)")
    )
    assert judged_texts(tmp_path, text).findings == ()
    assert judged_texts(tmp_path, text).verdict == "warn"
