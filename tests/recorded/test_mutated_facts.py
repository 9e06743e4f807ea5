"""Facts that somebody changed: each mutation of a recorded run is refused in one line, or judged and rendered.

FUZZ_TURNS=5000 FUZZ_SEED=3 bash scripts/test tests/recorded/test_mutated_facts.py -k mutated
"""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from distdoctor.cli.diagnose import of_facts
from distdoctor.model.facts.files import BadFile, read
from distdoctor.render.formats import FORMATS
from distdoctor.render.style import Style
from tests.facts_builder import CHECKS
from tests.lab.harness.recording import RECORDED

NUMBERS = (
    0,
    1,
    -1,
    3,
    255,
    4096,
    65536,
    10**5,
    10**6,
    10**7,
    2**31,
    10**12,
    2**63 - 1,
    -(2**63),
    0.5,
    -1.0,
    1e15,
    1e300,
)
TEXTS = (
    "",
    "x",
    "\x1b[31m\x07",
    "x" * 5000,
    "a\nb",
    "\u202e",
    "\x00",
    "1",
    "host0",
    "10.0.0.1",
    "::1",
    "%s{}",
    "/",
    "[",
    "-",
    "9" * 5000,
    "-1",
    "4294967296",
    "1/999",
    "0x",
    "1.2.3.4/33",
    "a=b",
    "\u0663",
)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], "x", 5)
SLOW = 5.0
"""Seconds of processor time; a case is judged in some hundredths, and 16,000 missing nodes are told in one."""


class Late(BaseException):
    """It took too long."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    def late(_number: int, _frame: FrameType | None) -> None:
        raise Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


Spot = tuple[Any, Any]


def places(value: Any, name: str, found: dict[str, list[Spot]]) -> dict[str, list[Spot]]:
    """Every container in ``value`` with every key in it, by what it is: fields of the same meaning together."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        its = f"{name}.{key}" if isinstance(key, str) else f"{name}[]"
        found.setdefault(its, []).append((value, key))
        if isinstance(inner, (dict, list)):
            places(inner, its, found)
    return found


def mutate(whole: Any, chance: random.Random) -> str:
    """Change a few values of ``whole``, mostly to others of the same type; what was done."""
    done = []
    for _ in range(chance.randrange(1, 4)):
        named = places(whole["facts"], "", {})
        if not named:
            break
        name = chance.choice([*named])
        container, key = chance.choice(named[name])
        value, kind = container[key], chance.randrange(12)
        new: Any = None
        if kind == 0:
            new = chance.choice(OTHERS)
        elif kind == 1:
            del container[key]
            done.append(f"del {name}")
            continue
        elif kind == 2:
            other, theirs = chance.choice(named[chance.choice([*named])])
            new = json.loads(json.dumps(other[theirs]))
        elif isinstance(value, bool):
            new = not value
        elif isinstance(value, int):
            new = chance.choice([number for number in NUMBERS if isinstance(number, int)])
        elif isinstance(value, float):
            new = chance.choice(NUMBERS)
        elif isinstance(value, str):
            new = chance.choice((*TEXTS, value + value, value[1:], value.upper()))
        elif isinstance(value, list):
            new = chance.choice(([], value * 2, value * 40, value[1:], value[::-1]))
        elif isinstance(value, dict):
            new = chance.choice(({}, {each.upper(): one for each, one in value.items()}))
        else:
            new = chance.choice((*NUMBERS, *TEXTS))
        container[key] = new
        done.append(f"{name} = {json.dumps(new)[:60]}")
    return "; ".join(done)


def problems_of(path: Path) -> list[str]:
    """Return what is wrong with how the facts in ``path`` are judged and told; nothing where they are refused."""
    try:
        facts = read([path])
    except BadFile as err:
        return [] if "\n" not in str(err) and len(str(err)) < 2000 else [f"refused by {err!r}"]
    report = of_facts(facts, CHECKS, ())
    for render in FORMATS.values():
        text = render(report, Style(verbose=2))
        if any(bad in text for bad in ("\x1b", "\x07", "\u202e", "\x00")):
            return ["it is told with what acts on a terminal"]
    return [note for note in report.notes if "it crashed" in note]


def fuzz(folder: Path, turns: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    kept = [path for part in ("cases", "healthy", "gpu") for path in sorted((RECORDED / part).glob("*.json.gz"))]
    files = [path for path in kept if not path.name.startswith("logs-")]
    path, wrong = folder / "facts.json", []
    for turn in range(turns):
        name = chance.choice(files)
        whole = json.loads(gzip.decompress(name.read_bytes()))
        done = mutate(whole, chance)
        path.write_text(json.dumps(whole))
        try:
            with at_most(SLOW):
                bad = problems_of(path)
        except Late:
            bad = ["it takes too long"]
        except Exception as err:
            trace = err.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
            bad = [f"{type(err).__name__}: {str(err)[:200]} at {where}"]
        wrong += [f"{seed}/{turn} {name.name}: {done}: {one}" for one in bad]
    return wrong


def test_mutated_facts_are_refused_or_told(tmp_path: Path) -> None:
    assert fuzz(tmp_path, int(os.environ.get("FUZZ_TURNS", "150")), int(os.environ.get("FUZZ_SEED", "1"))) == []
