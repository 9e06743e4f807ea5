"""Score of `distdoctor diagnose` on public logs of 2025 and 2026 that no rule was built from.

    python scripts/held_out.py [-v] [--save FILE] [--only TEXT] [--set N] [--clones FOLDER]

index.json in tests/logs/held_out (--set N: held_out_N) has the answer to each log, written before the
log was first read: ``expect`` (a check, ``cannot-tell``, or ``none`` for a run without a failure), ``accept`` (as fair
an answer) and ``names`` (words that the answer must quote). ``base`` is the outcome of the first run, at commit
7b188cef (set 2: 059cbb5c, set 3: 7f5af497, set 4: 0d9519aa, set 5: cc358590).
Never change a rule because of one of these logs: the set measures how the program does on a new one.

fetched.json has the answers to logs that stand in other repositories and are not kept here. --clones names a folder
with a clone of each, OWNER+NAME/repo, that has the named commit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SETS = {number: ROOT / f"tests/logs/held_out{f'_{number}' * (number > 1)}" for number in (1, 2, 3, 4, 5)}
OUTCOMES = {
    "right": "the cause, or rightly no failure",
    "vague": "the right check without what the log names",
    "inconclusive": "rightly inconclusive",
    "partly": "the cause and another root cause",
    "wrong": "another cause than the log's",
    "claimed": "a cause where the log shows none",
    "doubted": "inconclusive on a run without a failure",
    "silent": "no cause although the log shows one",
}


def outcome(case: dict[str, Any], roots: Sequence[str], verdict: str, quoted: str) -> str:
    """Return the key of OUTCOMES for one log; ``quoted`` is all that the root causes say."""
    fair = {case["expect"], *case["accept"]}
    decidable = "/" in case["expect"]
    if not roots:
        said = "none" if verdict in ("pass", "warn") else "cannot-tell"
        if decidable:
            return "inconclusive" if said in fair else "silent"
        if said == "cannot-tell" and said not in fair:
            return "doubted"
        return "silent" if said not in fair else "inconclusive" if case["expect"] == "cannot-tell" else "right"
    if not fair.intersection(roots):
        return "wrong" if decidable else "claimed"
    if set(roots) - fair:
        return "partly"
    return "vague" if case["names"] and case["names"] not in quoted else "right"


def diagnosed(log: Path) -> dict[str, Any]:
    """Return the report of one log as the command prints it."""
    command = [sys.executable, "-m", "distdoctor", "diagnose", str(log), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"verdict": f"crashed: {done.stderr.strip()[-200:]}", "findings": []}
    return report


def fetched(folder: Path, clones: Path, into: Path) -> list[dict[str, Any]]:
    """Return the cases of a set's fetched.json, their logs written to ``into`` from clones of their repositories."""
    cases: list[dict[str, Any]] = json.loads((folder / "fetched.json").read_text())
    for case in cases:
        name, _, path = case["source"].partition(":")
        command = ["git", "-C", str(clones / name.replace("/", "+") / "repo"), "show", f"{case['commit']}:{path}"]
        lines = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.splitlines(keepends=True)
        first, last = case.get("range", (1, len(lines)))
        log = into / case["file"]
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"".join(lines[first - 1 : last]))
    return [case | {"folder": into} for case in cases]


def scored(case: dict[str, Any]) -> dict[str, Any]:
    """Return the log's name, what was said of it and its outcome."""
    report = diagnosed(case["folder"] / case["file"])
    roots = [one for one in report["findings"] if one["severity"] == "fail" and not one["because_of"]]
    said = sorted({one["check"] for one in roots})
    became = outcome(case, said, report["verdict"], json.dumps(roots, ensure_ascii=False))
    return {
        "file": case["file"],
        "outcome": became,
        "expect": case["expect"],
        "said": "+".join(said) or report["verdict"],
        "summary": [one["summary"] for one in roots] or [one.get("check") for one in report.get("candidates", [])],
    }


def main() -> None:
    """Print the score, and with -v what was said of each log."""
    parser = argparse.ArgumentParser(description="Scores diagnose on public logs that no rule was built from.")
    parser.add_argument("-v", action="store_true", help="print what is said of each log")
    parser.add_argument("--save", type=Path, help="write what is said of each log to this file")
    parser.add_argument("--jobs", type=int, default=2, help="logs read at the same time (default 2)")
    parser.add_argument("--only", default="", help="only logs with this in their name")
    parser.add_argument("--set", type=int, choices=SETS, default=1, help="which set (default 1)")
    parser.add_argument("--clones", type=Path, help="folder of the repositories that fetched.json names")
    options = parser.parse_args()
    folder = SETS[options.set]
    index: list[dict[str, Any]] = json.loads((folder / "index.json").read_text())
    index = [case | {"folder": folder} for case in index]
    with ThreadPoolExecutor(options.jobs) as pool, tempfile.TemporaryDirectory() as temporary:
        if options.clones:
            index += fetched(folder, options.clones, Path(temporary))
        index = [case for case in index if options.only in case["file"]]
        results = list(pool.map(scored, index))
    if options.save:
        options.save.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    long = {case["file"] for case in index if case["lines"] > 200}
    kinds = {"all": results, "over 200 lines": [one for one in results if one["file"] in long]}
    kinds["no failure"] = [one for one in results if one["expect"] == "none"]
    counts = {kind: Counter(one["outcome"] for one in of) for kind, of in kinds.items()}
    lines = [f"{'':<14}" + "".join(f"{kind:>16}" for kind in counts)]
    for name, meaning in OUTCOMES.items():
        row = "".join(f"{count[name]:>16}" for count in counts.values())
        lines.append(f"{name:<14}{row}   {meaning}")
    lines.append(f"{'logs':<14}" + "".join(f"{count.total():>16}" for count in counts.values()))
    if options.v:
        shown = sorted(results, key=lambda one: (list(OUTCOMES).index(one["outcome"]), one["file"]))
        lines += [f"{one['outcome']:<13} {one['file']:<55} {one['expect']:<24} {one['said']}" for one in shown]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
