"""Write docs/validation.md and its summary in README.md: counts, recorded results judged again, and measured figures.

    python scripts/validation.py [FILE]

Counts come from the checks and the tables of the tests. Recorded cases are judged again, from their facts. Figures of
benchmarks are those of benchmarks/measured.json, which whoever runs a benchmark keeps by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from distdoctor.model.stages import LOG_STAGES, STAGES  # noqa: E402
from tests.facts_builder import CHECKS  # noqa: E402
from tests.lab.cases import ALL_CASES  # noqa: E402
from tests.lab.cases.healthy import SHAPES  # noqa: E402
from tests.lab.hang.table import ROWS as HANGS  # noqa: E402
from tests.lab.harness.case import Case  # noqa: E402
from tests.lab.harness.exact import misjudged  # noqa: E402
from tests.lab.harness.recording import RECORDED, recorded  # noqa: E402
from tests.lab.harness.shape import Shape  # noqa: E402
from tests.lab.test_faults import LIVE  # noqa: E402
from tests.logs.test_reports import INDEX, NOT_YET, cold  # noqa: E402
from tests.recorded.test_recorded import judged  # noqa: E402

PAGE = """\
# Validation

`make validation` writes this page; README.md repeats four of its rows. Nothing else states counts, scores or timings.

## Checks

{checks}

## Results, judged again when this page was written

{results}

## Measured

{machine} The command in the last column measures a row again; the lab needs root.

{measured}
{compared}"""


SUMMARY = re.compile(r"(?s)(?<=<!-- from docs/validation.md -->\n).*?(?=<!-- end -->)")
"""The part of README.md that repeats rows of the page."""


def main(arguments: list[str]) -> None:
    """Write the page, and without a FILE its summary in README.md."""
    written = page()
    if arguments:
        Path(arguments[0]).write_text(written)
        return
    (ROOT / "docs/validation.md").write_text(written)
    readme = ROOT / "README.md"
    readme.write_text(SUMMARY.sub(lambda _: summary(written), readme.read_text()))


def summary(page_text: str) -> str:
    """Return the four rows of the page that README.md repeats."""
    first = ("| faults injected in the lab: ", "| healthy jobs in the lab: ", "| public logs", "| the same logs")
    rows = [line.split(" | ") for line in page_text.splitlines() if line.startswith(first)]
    return table(("what", "result"), ((row[0].removeprefix("| "), row[1]) for row in rows)) + "\n"


def page() -> str:
    """The text of the page."""
    measured = json.loads((ROOT / "benchmarks/measured.json").read_text())
    rows = [(row["what"], row["figure"], row["how"]) for row in measured["rows"]]
    return PAGE.format(
        checks=table(("stage", "checks", "of logs or live jobs alone", "cases in the lab"), checks()),
        results=table(("what", "result", "how"), results()),
        machine=measured["machine"],
        measured=table(("what", "figure", "how"), rows),
        compared=compared(),
    )


def compared() -> str:
    """Return the section with the table of `make compare`, empty before its first run."""
    file = ROOT / "benchmark/compared.md"
    head = "\n## Nine faults with other programs\n\n`make compare` runs them again.\n\n"
    return head + file.read_text() if file.exists() else ""


def checks() -> Iterator[tuple[str, ...]]:
    """A row for each stage, and their sum."""
    all_of, of_logs = Counter(one.stage for one in CHECKS), Counter(one.stage for one in CHECKS if one.of_logs_alone)
    cases = Counter(case.root.partition("/")[0] for case in ALL_CASES)
    for stage in (*STAGES, *LOG_STAGES):
        yield stage, *(str(counted[stage]) for counted in (all_of, of_logs, cases))
    yield "**all**", *(f"**{counted.total()}**" for counted in (all_of, of_logs, cases))


def results() -> Iterator[tuple[str, ...]]:
    """A row for each collection of recorded results."""
    right = sum(_case_is_right(case) for case in ALL_CASES)
    yield "faults injected in the lab: exact cause and nodes", f"{right} of {len(ALL_CASES)}", "`pytest tests/recorded`"
    yield "of these, run live in every test run", str(len(LIVE)), "`pytest tests/lab/test_faults.py`"
    right = sum(_shape_is_right(shape) for shape in SHAPES)
    yield "healthy jobs in the lab: no finding", f"{right} of {len(SHAPES)}", "`pytest tests/recorded`"
    yield "rows of jobs that hang, each run for real", str(len(HANGS)), "`make hang`"
    yield "runs on GPUs whose facts are kept", str(_count("gpu")), "`pytest tests/recorded/test_seen_on_gpus.py`"
    yield "jobs of the lab whose logs are kept", str(_count("logs")), "`pytest tests/logs/test_lab_logs.py`"
    named = f"{len(INDEX) - len(NOT_YET)} of {len(INDEX)}"
    yield "public logs: the right cause, or none if the lines prove none", named, "`python scripts/log_score.py`"
    splits = {case["split"] for case in INDEX if "cold" in case}
    first, read, claimed = (sum(numbers) for numbers in zip(*map(cold, splits), strict=True))
    told = f"{first} of {read} in {len(splits)} batches; a wrong cause in {claimed}"
    yield "the same logs when first read, before any change for them", told, "`python scripts/log_score.py`"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _case_is_right(case: Case) -> bool:
    report = judged(recorded(RECORDED / "cases", case.name))
    return misjudged(case, report) == [] and report["verdict"] == case.verdict


def _shape_is_right(shape: Shape) -> bool:
    report = judged(recorded(RECORDED / "healthy", shape.name))
    return (report["verdict"], report["findings"]) == (shape.verdict, [])


def _count(folder: str) -> int:
    return sum(not path.name.startswith(".") for path in (ROOT / "tests/recorded" / folder).iterdir())


if __name__ == "__main__":
    main(sys.argv[1:])
