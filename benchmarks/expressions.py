"""Time of each declared expression on lines of 100 kB that are made against it.

    python benchmarks/expressions.py

It takes two minutes and prints the expressions that take over 50 ms, the slowest first.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from distdoctor.logs.dialects import WORDINGS
from tests.facts_builder import CHECKS

PARSER: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
SIZE, SHORT, SHORTER = 100_000, 4_000, 1_000
"""Characters of a line, and of two by which its time is estimated."""
MOST = 0.05
"""Seconds."""
WORST, QUICK = 3, 0.01
"""Lines for each expression that are tried in full, and the estimated seconds below which none is."""
FILLERS = (
    "a",
    "1",
    " ",
    "a ",
    "1 ",
    "a.",
    "/",
    "-",
    "_",
    "A",
    "Aa",
    "(",
    "[a]",
    '"',
    ": ",
    "a=",
    "1,",
    "0x1",
    "host1 ",
)
EXPRESSIONS = sorted(
    {
        expression
        for one in (*WORDINGS, *(line for check in CHECKS for line in check.log))
        for expression in (one.pattern, one.unless, getattr(one, "stack", ""))
        if expression
    }
)


def literals(parsed: Any) -> Iterator[str]:
    """Yield the literal texts in an expression, in their order."""
    text = ""
    for operation, value in parsed:
        if str(operation) == "LITERAL":
            text += chr(value)
            continue
        if text:
            yield text
        text = ""
        for part in value if isinstance(value, tuple | list) else ():
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, PARSER.SubPattern):
                    yield from literals(inner)
    if text:
        yield text


def units(expression: str) -> Iterator[tuple[str, str]]:
    """Yield the beginning of a line and what the rest of it repeats."""
    texts = [*dict.fromkeys(literals(PARSER.parse(expression)))][:12]
    yield from (("", filler) for filler in FILLERS)
    for number, text in enumerate(texts):
        yield from (("", f"{text}{end}") for end in ("", "a", " ", "1", " a"))
        yield from (("".join(texts[: number + 1]), filler) for filler in FILLERS[:6])


def seconds(pattern: re.Pattern[str], begin: str, unit: str, size: int) -> float:
    line = f"{begin}{unit * (size // len(unit))}"
    took = []
    for _ in range(2):
        started = time.process_time()
        pattern.search(line)
        took.append(time.process_time() - started)
    return min(took)


def estimate(pattern: re.Pattern[str], begin: str, unit: str) -> float:
    """Return the seconds that a line in full may take, by the growth of the time from one short line to another."""
    shorter, short = (seconds(pattern, begin, unit, size) for size in (SHORTER, SHORT))
    growth = math.log(max(short / shorter, 1), SHORT / SHORTER) if shorter > 0 else 2
    return short * float(SIZE / SHORT) ** min(max(growth, 1), 2.5)


def slowest(expression: str) -> tuple[float, str, str]:
    """Return the longest time in seconds that a line takes, and the line."""
    pattern = re.compile(expression)
    timed = sorted((estimate(pattern, *one), one) for one in dict.fromkeys(units(expression)))[-WORST:]
    slow = [one for took, one in timed if took > QUICK]
    return max(((seconds(pattern, *one, SIZE), *one) for one in slow), default=(0.0, "", ""))


def main() -> None:
    """Print the expressions that take longer than ``MOST``."""
    found = sorted(((*slowest(expression), expression) for expression in EXPRESSIONS), reverse=True)
    for took, begin, unit, expression in found:
        if took > MOST:
            sys.stdout.write(f"{took * 1000:7.0f} ms  {expression[:100]!r} on {begin!r} + {unit!r} * n\n")
    sys.stdout.write(f"{len(found)} expressions, slowest {found[0][0] * 1000:.0f} ms\n")


if __name__ == "__main__":
    main()
