"""Facts files that no run has written: whatever is in them, diagnose ends in time, with one clear line or a report that
passes nothing which was not looked at."""

from __future__ import annotations

import copy
import gzip
import json
import os
import stat
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distdoctor.judge.saved import diagnose
from distdoctor.model.facts import FactsFile, NodeFacts, encode
from distdoctor.model.facts.files import BadFile, read
from distdoctor.model.stages import STAGES, stage_index
from distdoctor.render import json as json_renderer
from distdoctor.render import text as text_renderer
from distdoctor.render.style import Style
from tests.checks.tables import ROWS
from tests.facts_builder import CHECKS, healthy, outside
from tests.helpers.commands import doctor

RECORDED = Path(__file__).parents[1] / "recorded"
BASES = [json.loads(encode(FactsFile(facts, "0.1.0"))) for facts in (healthy(2), *(row.facts() for _, row in ROWS))]
SECONDS = 20.0
"""For one file, also on a machine that is busy with other things."""

ODD: dict[type, list[Any]] = {
    int: [0, -1, 1, 2**31, 2**53, 10**18, -(10**18), 10**400],
    float: [0.0, -1.0, -5.5, 1e9, 1e308, -1e308, 1e-300],
    str: ["", "x", "\x1b[2J", "a" * 5000, "::1", "127.0.0.1", "-1", "9" * 30, "ü\u202e"],
    bool: [True, False],
    list: [[], [[]], [None], ["x"] * 1000],
    dict: [{}, {"x": {}}, {"": None}],
    type(None): [0, "x", "127.0.0.1", {}],
}


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every value in a document."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*above, key)
        yield from places(item, (*above, key))


def nested(depth: int) -> Any:
    value: Any = 0
    for level in range(depth):
        value = [value] if level % 2 else {"x": value}
    return value


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A facts file in which one to three values were replaced, removed or repeated, or which was cut off."""
    document = copy.deepcopy(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(document))))
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        last = path[-1]
        how = draw(st.sampled_from(["odd", "odd", "odd", "any", "remove", "repeat", "deep", "scale"]))
        if how == "remove":
            del holder[last]
            if not list(places(document)):
                break
        elif how == "repeat" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[last]))
        elif how == "deep":
            holder[last] = nested(draw(st.sampled_from([5, 20, 200])))
        elif how == "scale" and type(holder[last]) in (int, float):
            holder[last] *= draw(st.sampled_from([-1, 10**6, 10**12]))
        elif how == "any":
            holder[last] = copy.deepcopy(draw(st.sampled_from([odd for odds in ODD.values() for odd in odds])))
        else:
            holder[last] = copy.deepcopy(draw(st.sampled_from(ODD[type(holder[last])])))
    data = json.dumps(document).encode()
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 19)) == 0 else data


@given(mutated())
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_mutated_file_is_refused_or_judged(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(data)
    began = time.monotonic()
    try:
        report = diagnose(read([path]), CHECKS)
    except BadFile as err:
        assert str(err).startswith(str(path)) or "no facts" in str(err)
        assert "\n" not in str(err) and len(str(err)) < 1000
        return
    text_renderer.render(report, Style(verbose=2, width=80))
    json.loads(json_renderer.render(report))
    assert time.monotonic() - began < SECONDS
    if report.verdict == "pass":
        assert all(stage.status in ("pass", "skip") for stage in report.stages)
        assert not any(finding.severity in ("warn", "fail") for finding in report.findings)
        assert not any("ended before it" in stage.reason for stage in report.stages)
        assert all(node.arrived for node in report.nodes)


class TestOtherFiles:
    """Through the real command: what is no regular file must not be waited for, or read away."""

    def refused(self, path: Path | str, says: str) -> None:
        began = time.monotonic()
        done = doctor("diagnose", str(path), "--json")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith(f"distdoctor: {path}: ") and says in done.stderr
        assert json.loads(done.stdout)["verdict"] == "incomplete"
        assert time.monotonic() - began < SECONDS

    def test_a_pipe(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "x.json")
        self.refused(tmp_path / "x.json", "not a regular file")

    def test_a_pipe_in_a_folder(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "x.json")
        done = doctor("diagnose", str(tmp_path))
        assert done.returncode == 2 and "not a regular file" in done.stderr

    @pytest.mark.parametrize("path", ["/dev/zero", "/dev/tty", "/dev/null", "/dev/stdin"])
    def test_devices(self, path: str) -> None:
        done = doctor("diagnose", path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)

    @pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/kcore", "/proc/self/environ", "/proc/self/mem"])
    def test_files_of_the_kernel(self, path: str) -> None:
        """Reading /proc/kmsg waits, and takes the messages away from who they are for."""
        if not os.access(path, os.R_OK):
            pytest.skip(f"{path} cannot be read here")
        self.refused(path, "empty")

    def test_a_huge_file(self, tmp_path: Path) -> None:
        with (tmp_path / "x.json").open("wb") as file:
            file.truncate(1 << 40)
        self.refused(tmp_path / "x.json", "larger than 256 MiB")

    def test_a_small_file_that_unpacks_into_a_huge_one(self, tmp_path: Path) -> None:
        """1 GiB of spaces in 1 MiB: only as much is unpacked as a plain file may be large."""
        packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
        first, more = packer.compress(b" " * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH), b" " * (16 << 20)
        more = packer.compress(more) + packer.flush(zlib.Z_FULL_FLUSH)
        (tmp_path / "x.json.gz").write_bytes(first + more * 64)
        self.refused(tmp_path / "x.json.gz", "larger than 256 MiB when unpacked")

    @pytest.mark.parametrize("broken", ["cut", "twice", "damaged"])
    def test_no_whole_compressed_file(self, tmp_path: Path, broken: str) -> None:
        data = gzip.compress(encode(FactsFile(healthy(1), "0.1.0")))
        made = {"cut": data[:-100], "twice": data * 2, "damaged": data[:100] + bytes(100) + data[200:]}
        (tmp_path / "x.json.gz").write_bytes(made[broken])
        self.refused(tmp_path / "x.json.gz", "whole gzip file")

    @pytest.mark.parametrize("depth", [10, 900, 100_000])
    def test_deep_nesting(self, tmp_path: Path, depth: int) -> None:
        text = encode(FactsFile(healthy(1), "0.1.0")).decode()
        deep = text.replace('"detail":{', '"detail":{"x":' + "[" * depth + "]" * depth + ",", 1)
        assert deep != text
        (tmp_path / "x.json").write_text(deep.replace("],}", "]}"))
        self.refused(tmp_path / "x.json", "not a facts file")

    @pytest.mark.parametrize("started_at", [-62_135_596_801, 1e300, -1])
    def test_no_time_of_a_run(self, tmp_path: Path, started_at: float) -> None:
        facts = tuple(replace(one, started_at=started_at) for one in healthy(2))
        (tmp_path / "x.json").write_bytes(encode(FactsFile(facts, "0.1.0")))
        self.refused(tmp_path / "x.json", "started_at")

    def test_negative_seconds(self, tmp_path: Path) -> None:
        (one,) = healthy(1)
        stages = tuple(replace(stage, seconds=-1.0) for stage in one.stages)
        (tmp_path / "x.json").write_bytes(encode(FactsFile((replace(one, stages=stages),), "0.1.0")))
        self.refused(tmp_path / "x.json", "seconds -1 is not between 0 and")


class TestRunsThatEndedEarly:
    @staticmethod
    def verdict(*facts: NodeFacts) -> tuple[str, str]:
        report = diagnose(facts, CHECKS)
        return report.verdict, " ".join(report.notes)

    def test_without_any_stage_nothing_was_looked_at(self) -> None:
        (one,) = healthy(1)
        assert self.verdict(replace(one, stages=())) == (
            "incomplete",
            "the run on host0 (pid 1000) ended before environment",
        )

    def test_interrupted_before_its_last_stage(self) -> None:
        (one,) = healthy(1)
        half = replace(one, stages=one.stages[:6], until=STAGES[-1])
        assert self.verdict(half) == ("incomplete", f"the run on host0 (pid 1000) ended before {STAGES[6]}")
        assert self.verdict(replace(half, until=STAGES[5])) == ("pass", "")

    def test_one_that_waited_for_node_0_says_what_it_saw_of_it(self) -> None:
        one = outside(healthy(2)[1], "refused")
        kept = tuple(stage for stage in one.stages if stage_index(stage.stage) < stage_index("network"))
        verdict, notes = self.verdict(replace(one, stages=kept, until=STAGES[-1]))
        assert verdict in ("incomplete", "fail")
        assert "ended before network; its last connection to node 0: 10.77.0.10:29500 refused" in notes

    def test_one_node_of_two(self) -> None:
        host0, host1 = healthy(2)
        assert self.verdict(host0, replace(host1, stages=host1.stages[:4]))[0] == "incomplete"

    def test_a_real_one(self, tmp_path: Path) -> None:
        done = doctor("check", "--until", "host", "--save", str(tmp_path), "-q")
        assert done.returncode == 0
        (path,) = tmp_path.iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert doctor("diagnose", str(tmp_path)).returncode == 0
        document = json.loads(path.read_text())
        document["facts"][0]["stages"].pop()
        path.write_text(json.dumps(document))
        assert doctor("diagnose", str(tmp_path)).returncode == 3


class TestFilesOf010:
    """Written by 0.1.0, whose facts had fields that are gone."""

    def test_a_healthy_node(self) -> None:
        report = diagnose(read([RECORDED / "facts-0.1.0-healthy.json"]), CHECKS)
        assert (report.verdict, report.findings, report.notes) == ("pass", (), ())

    def test_two_that_advertise_loopback(self) -> None:
        path = RECORDED / "facts-0.1.0-loopback.json"
        assert "hunter2" in path.read_text()
        report = diagnose(read([path]), CHECKS)
        assert report.findings[0].id == "gloo/loopback-address"
        assert "host/leftover-processes" in {finding.id for finding in report.findings}
        told = json_renderer.render(report) + text_renderer.render(report, Style(verbose=2))
        assert "hunter2" not in told and "pid 4711" in told
