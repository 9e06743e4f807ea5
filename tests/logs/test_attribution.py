"""Prefixes are tried by the first character of a line, and endings by words in it: no line is read otherwise for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from distdoctor.logs import attribution, endings
from distdoctor.logs.attribution import readable, split

REPORTS = Path(__file__).parent / "reports"
WRITTEN = r"""[rank3]: a
[host=n1] b
[default3]: c
trainer/0 [1]:d
[1,3]<stdout>: e
[1,mpirank:3,algo-1]<stderr>: f
[pod/job-0/train] g
worker-1  | h
0: i
x3005c0s31b1n0.hsn.cm.polaris.example.org 1: i
Rank 3: j
node7:12:34 [0] NCCL INFO k
2024-01-02 03:04:05,6 - l
[2024-01-02 03:04:05 TP1] m
[ 12.345678] n
<6>Jan  2 03:04:05 node7 kernel: o
std_out [stdout]: p
|| q
0123abcd || r
│ s
> t
stdout: u
stderr F v
[I 5 a/b.cpp:1] w
slurmstepd-node7: error: x
½ y
[node7:12] *** Process
<info> [2024-01-02 03:04:05] z
ERROR 01-02 03:04:05 [core.py:1] A
(W pid=3, ip=1.2.3.4) B
FATAL rank=3 KeyError: 1
a/b.py:3: rank 3: KeyError: 1
/a/b.py:3: KeyError: 1
rank 3: KeyError: 1""".splitlines()


def lines() -> Iterator[str]:
    yield from WRITTEN
    for file in sorted(REPORTS.rglob("*.log")):
        for raw in file.read_bytes().splitlines():
            yield readable(raw)


def test_no_prefix_is_missed_for_its_first_character(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {line: split(line) for line in lines()}
    every = tuple(pattern for _, pattern in attribution._PREFIXES)
    monkeypatch.setattr(attribution, "_prefixes", lambda first: every)
    assert {line: split(line) for line in found} == found


EXPRESSIONS = {
    "progress": (endings.PROGRESS,),
    "end": (endings._OVER, endings._DONE),
    "starting": (endings._STARTING,),
    "record": (endings.RECORD,),
}


def test_every_end_has_one_of_its_words() -> None:
    known = {kind: list(words) for kind, words in endings._WORDS.items()}
    for line in lines():
        text = split(line)[1].strip()[: endings.CUT]
        hints = endings._hints(text.encode(), known)
        missed = {
            kind: text
            for kind, ones in EXPRESSIONS.items()
            if kind not in hints and any(one.match(text) if kind == "record" else one.search(text) for one in ones)
        }
        assert not missed


def test_mpirun_that_was_told_to_write_the_time() -> None:
    who, text = split("Wed Nov 25 18:00:06 2026[1,2]<stderr>:KeyError: 'x'")
    assert (who.rank, text) == (2, "KeyError: 'x'")
