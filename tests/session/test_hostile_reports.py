"""Reports in the store that no node 0 made: each is refused as such, or can be told in every format."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
from dataclasses import replace
from typing import Any

import pytest

from distdoctor.judge.saved import diagnose
from distdoctor.model.facts import encode
from distdoctor.model.facts.files import read
from distdoctor.model.report import Report
from distdoctor.render.exit_status import exit_status
from distdoctor.render.formats import FORMATS
from distdoctor.render.style import Style
from distdoctor.session.follower.outbox import StorePost, Untrusted
from distdoctor.session.protocol.confirm import with_unconfirmed
from distdoctor.session.protocol.messages import Command, pack
from distdoctor.session.protocol.trust import Seal
from tests.facts_builder import CHECKS, healthy
from tests.lab.harness.recording import RECORDED
from tests.recorded.test_mutated_facts import SLOW, Late, at_most, mutate


class Held:
    """A store with one value."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    async def get(self, _key: str) -> bytes:
        """The value."""
        return self._value


def taken(report: Any, packed: bool = True) -> Report:
    """The report as a joiner takes it from the store. Raises Untrusted."""
    data = report if isinstance(report, bytes) else json.dumps(report).encode()
    data = pack(data) if packed else data
    post = StorePost(Held(data), "00" * 8, Seal(None))  # type: ignore[arg-type]
    post.number = 1
    digest = hashlib.sha256(data).hexdigest()
    command = Command("report", parts=1, digest=digest, met={"1": post._nonce}, packed=packed)
    return asyncio.run(post.report(command))


def real(chance: random.Random) -> Any:
    """A report as node 0 tells it."""
    name = chance.choice(sorted((RECORDED / "cases").glob("*.json.gz")))
    return json.loads(encode(replace(diagnose(read([name]), CHECKS), checks=())))


OWN = diagnose(healthy(2), CHECKS)


def render_all(report: Report) -> None:
    """All that a joiner does with it."""
    for one in (report, with_unconfirmed(OWN, report, CHECKS, proven=True)):
        exit_status(one, "warn")
        for render in FORMATS.values():
            text = render(one, Style(verbose=2))
            assert not any(bad in text for bad in ("\x1b", "\x07", "\u202e", "\x00"))


def test_every_recorded_report_is_taken() -> None:
    for name in sorted((RECORDED / "cases").glob("*.json.gz"))[::3]:
        report = replace(diagnose(read([name]), CHECKS), checks=())
        assert taken(encode(report)) == report, name


ODD: dict[str, Any] = {
    "a status that is none": ("stages", [{"stage": "gloo", "node": "a", "status": "odd", "seconds": 1}]),
    "a stage that is none": ("stages", [{"stage": "odd", "node": "a", "status": "pass", "seconds": 1}]),
    "endless seconds": ("stages", [{"stage": "gloo", "node": "a", "status": "pass", "seconds": 1e300}]),
    "a plan of texts": ("plan", {"nnodes": "two"}),
    "sources that are none": ("plan", {"sources": [1, 2]}),
    "a port that is a list": ("plan", {"master_addr": "a", "master_port": [1]}),
    "a job": ("details", {"job": {"state": "hang", "groups": 5}}),
    "logs": ("details", {"logs": 5}),
    "nodes that are none": ("details", {"nodes": [1]}),
    "a node that is none": ("details", {"nodes": {"a": 5}}),
    "interfaces without addresses": ("details", {"nodes": {"a": {"interfaces": {"eth0": 5}}}}),
    "links without figures": ("details", {"links": {"names": [["a"], ["b"]], "rtt": [[1]]}}),
    "trials that are none": ("details", {"trials": [5]}),
    "a severity that is none": ("findings", [{"summary": "x", "check": "a/b", "id": "a/b", "severity": None}]),
    "a finding without a check": ("findings", [{"summary": "x", "severity": "fail"}]),
    "a huge rank": ("nodes", [{"name": "a", "node_rank": 10**30, "arrived": True}]),
    "nested": ("details", {"x": json.loads("[" * 400 + "]" * 400)}),
    "a long text": ("notes", ["x" * 10_000_000]),
    "many notes": ("notes", ["x"] * 100_000),
}


@pytest.mark.parametrize("name", ODD)
def test_what_no_node_0_writes_is_not_trusted(name: str) -> None:
    whole = real(random.Random(1))
    key, value = ODD[name]
    with pytest.raises(Untrusted, match="report/0 cannot be read"):
        taken({**whole, key: value})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[" * 1_000_000,
        b'{"plan":' * 1_000_000,
        b'{"verdict":"pass","notes":[' + b'"",' * 20_000_000 + b'""]}',
        b'{"verdict":"pass","details":{"a":[' + b"[]," * 20_000_000 + b"[]]}}",
    ],
    ids=["nothing", "null", "lists", "objects", "many texts", "many lists"],
)
def test_what_is_no_report(data: bytes) -> None:
    with pytest.raises(Untrusted):
        taken(data)


def fuzz(turns: int, seed: int) -> list[str]:
    chance, wrong = random.Random(seed), list[str]()
    whole = real(chance)
    for turn in range(turns):
        whole = real(chance) if turn % 20 == 0 else whole
        changed = json.loads(json.dumps(whole))
        done = mutate({"facts": changed}, chance)
        try:
            with at_most(SLOW):
                render_all(taken(changed))
        except Untrusted:
            continue
        except Late:
            wrong.append(f"{seed}/{turn}: {done}: it takes too long")
        except Exception as err:
            trace = err.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
            wrong.append(f"{seed}/{turn}: {done}: {type(err).__name__}: {str(err)[:200]} at {where}")
    return wrong


def test_mutated_reports_are_refused_or_told() -> None:
    assert fuzz(int(os.environ.get("FUZZ_TURNS", "200")), int(os.environ.get("FUZZ_SEED", "1"))) == []
