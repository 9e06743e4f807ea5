"""Score of public reports, per split and per kind of evidence.

    python scripts/log_score.py [FOLDER]

FOLDER (by default tests/logs/reports) has an ``index.json`` as is described in tests/logs/test_reports.py. ``build``
are reports that rules were built from; the others were looked at after the rules were made. "claimed" counts the worst:
a cause that the lines cannot show, or another than theirs. "when first read": before any wording was changed for them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.logs.test_reports import FOLDER, said  # noqa: E402

SILENT = ("cannot-tell", "none")


def outcome(case: dict[str, Any], found: str) -> str:
    """Return the result for one report: right, said too little, or claimed too much."""
    if found in (case["expect"], *case["accept"]):
        return "right"
    return "silent" if found in SILENT else "claimed"


def score(folder: Path) -> list[tuple[str, str, Counter[str]]]:
    """Return the numbers of right, silent and claimed answers by split and kind, with the sum of each split."""
    table: dict[tuple[str, str], Counter[str]] = {}
    for case in json.loads((folder / "index.json").read_text()):
        kind = case["expect"] if case["expect"] in SILENT else "a cause"
        became = outcome(case, said(case["file"], folder))
        for row in ((case["split"], kind), (case["split"], "all")):
            table.setdefault(row, Counter())[became] += 1
        if case.get("cold"):
            table.setdefault((case["split"], "when first read"), Counter())[outcome(case, case["cold"])] += 1
    order = ("a cause", *SILENT, "all", "when first read")
    return [(*row, table[row]) for row in sorted(table, key=lambda row: (row[0], order.index(row[1])))]


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description="Judges the message lines of public reports, and counts.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="reports with an index.json")
    folder = parser.parse_args().folder
    lines = [f"{'split':<12} {'the lines show':<15} {'right':>5}      {'silent':>6} {'claimed':>7}"]
    for split, kind, became in score(folder):
        right = f"{became['right']:>5} of {became.total():<4}"
        lines.append(f"{split:<12} {kind:<15} {right:<12} {became['silent']:>4} {became['claimed']:>7}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
