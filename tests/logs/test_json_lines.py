"""Structured logs: one JSON object a line, whoever wrote it, is read as what it says and whom it is from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distdoctor.cli.diagnose import only_facts
from distdoctor.logs.reading import formats
from tests.logs.judging import judged_files
from tests.logs.test_reader import judged

OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
TRACE = f'Traceback (most recent call last):\n  File "/app/t.py", line 8, in main\n    step()\n{OUT}'
STEP = "step 1 loss 2.1"


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (
            {"event": STEP, "level": "info", "timestamp": "2026-01-01T10:00:00.1Z", "rank": 3, "host": "gpu07"},
            {"event": "failed", "level": "error", "exception": TRACE, "rank": 3, "host": "gpu07"},
        ),
        (
            {
                "message": STEP,
                "levelname": "INFO",
                "timestamp": "2026-01-01 10:00:00,100",
                "rank": "3",
                "host": "gpu07",
            },
            {"message": "failed", "levelname": "ERROR", "exc_info": TRACE, "rank": "3", "host": "gpu07"},
        ),
        (
            {"log": f"[rank3]: {STEP}\n", "stream": "stdout", "time": "2026-01-01T10:00:00.1Z", "host": "gpu07"},
            {"log": f"[rank3]: {OUT}\n", "stream": "stderr", "time": "2026-01-01T10:00:01.1Z", "host": "gpu07"},
        ),
        (
            {"log": json.dumps({"msg": STEP, "rank": 3}), "kubernetes": {"host": "gpu07"}},
            {"log": json.dumps({"msg": OUT, "rank": 3}), "kubernetes": {"host": "gpu07"}},
        ),
        (
            {"text": f"{STEP}\n", "record": {"extra": {}, "rank": 3, "hostname": "gpu07"}},
            {"text": f"failed\n{TRACE}\n", "record": {"extra": {}, "rank": 3, "hostname": "gpu07"}},
        ),
    ],
    ids=["structlog", "python-json-logger", "docker", "wrapped twice", "loguru"],
)
def test_what_a_line_says_and_whom_it_is_from(
    tmp_path: Path, first: dict[str, object], last: dict[str, object]
) -> None:
    path = tmp_path / "pod.json"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (first, first, last)))
    finding = judged(path).findings[0]
    assert (finding.check, finding.ranks, finding.nodes) == ("gpu/out-of-memory", (3,), ("gpu07",))
    assert finding.evidence[0].startswith(f"{path}:3: rank 3: {OUT}")
    assert not only_facts([path]) and not only_facts([tmp_path])


def test_lines_of_others_between_them_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(f'{{"msg": "begin"}}\n{{"loss": 2}}\n{{not json}}\n[rank3]: {OUT}\n')
    finding = judged(tmp_path / "x.log").findings[0]
    assert finding.evidence[0].startswith(f"{tmp_path}/x.log:4: rank 3: ")


@pytest.mark.parametrize("line", ["[]", "{}", '{"a": 1}', '{"message": 3}', '{"msg": ""}', '{"msg": {}}', "{" * 9000])
def test_what_says_nothing_is_left_as_it_is(line: str) -> None:
    assert formats.json_as_text(f"{line}\n".encode()) == f"{line}\n".encode()
    assert not formats.is_json_log(f"{line}\n".encode())


def test_a_first_line_without_end_is_a_log_all_the_same() -> None:
    assert formats.is_json_log(b'{"log":"' + b"x" * 9000) and not formats.is_json_log(b'{"facts":"' + b"x" * 9000)


@pytest.mark.parametrize("indent", [2, None], ids=["over lines", "on one line"])
def test_an_array_of_objects_as_gcloud_gives_it_out(tmp_path: Path, indent: int | None) -> None:
    """What each says is told on the line on which it begins, or as one line each."""
    time = {"severity": "ERROR", "timestamp": "2026-01-01T10:00:00.1Z"}
    objects = [{"insertId": "a", "jsonPayload": {"message": STEP}, **time}, {"textPayload": TRACE, **time}, {"a": [1]}]
    (tmp_path / "logs.json").write_text(json.dumps(objects, indent=indent))
    found = judged(tmp_path)
    (line,) = [line for line in found.findings[0].evidence if "out of memory" in line]
    assert found.findings[0].check == "gpu/out-of-memory" and "\\n" not in line
    assert line.startswith(f"{tmp_path}/logs.json:{10 if indent else 2}: ")


def test_an_array_that_is_no_log_and_one_that_is_cut_off(tmp_path: Path) -> None:
    data = json.dumps([{"text": "Error: no", "label": 1}] * 3).encode()
    assert not formats.is_array(data)
    cut = json.dumps([{"message": OUT, "time": "2026-01-01T10:00:00"}] * 3)[:-9].encode()
    assert formats.is_array(cut) and formats.array_as_text(cut).count(OUT.encode()) == 3


def test_what_torchrun_puts_before_an_object(tmp_path: Path) -> None:
    said = {"timestamp": "2026-01-02T10:00:00+00:00", "level": "error", "event": "failed", "exception": TRACE}
    (tmp_path / "a.log").write_text("".join(f"[default{rank}]:{json.dumps(said)}\n" for rank in (1, 3)))
    (finding, *_) = judged_files(tmp_path).findings
    assert (finding.check, finding.local_ranks) == ("gpu/out-of-memory", (1, 3))
