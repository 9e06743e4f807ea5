"""Score any program on the labelled reports: the lines of public issues, each with the cause that its lines prove.

    python benchmark/reports.py --program 'mytool {file}'    start it on each report; the last word it prints counts
    python benchmark/reports.py --answers FILE               lines of JSON: {"file": ..., "answer": ...}
    python benchmark/reports.py --baseline abstain|keywords  the two baselines
    python benchmark/reports.py --labels                     print the labels as lines of JSON

An answer is a check id (`distdoctor list`), or `cannot-tell` if the lines prove no cause, or `none` if they show no
failure. The labels and the reports are those of tests/logs/reports.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "tests/logs/reports"
ABSTAIN, SOUND = "cannot-tell", "none"
KEYWORDS = (
    ("Address already in use", "network/port-in-use"),
    ("CUDA out of memory", "process/exception"),
    ("No space left on device", "host/disk-full"),
    ("bus error", "host/shared-memory-small"),
    ("Too many open files", "host/open-files-limit"),
    ("no kernel image is available", "gpu/arch-not-in-build"),
    ("Duplicate GPU detected", "nccl/duplicate-gpu"),
    ("uncorrectable ECC error", "gpu/hardware"),
    ("invalid device ordinal", "gpu/fewer-than-ranks"),
    ("No CUDA GPUs are available", "gpu/none-visible"),
    ("unused parameters", "collective/unused-parameters"),
    ("Default process group has not been initialized", "collective/group-not-initialized"),
    ("unrecognized arguments: --local", "environment/local-rank-argument"),
    ("environment variable RANK expected", "environment/missing-variable"),
    ("driver version is insufficient", "nccl/driver-too-old"),
    ("Name or service not known", "network/master-unresolvable"),
    ("DUE TO TIME LIMIT", "process/killed-by-scheduler"),
    ("oom-kill", "process/killed-by-oom"),
    ("Out of memory: Killed process", "process/killed-by-oom"),
    ("exitcode: -9", "process/killed-by-oom"),
    ("SIGHUP", "process/terminal-closed"),
    ("Segmentation fault", "process/crashed"),
    ("exitcode: -11", "process/crashed"),
    ("ibv_modify_qp failed", "nccl/infiniband-unreachable"),
    ("Traceback (most recent call last)", "process/exception"),
)
"""The baseline: the first of these words that a report has decides."""


def labels(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the labels. ``sure``: the lines prove it, or other answers are as fair; ``decided_by``: who can tell."""
    index = json.loads((folder / "index.json").read_text())
    return [
        {
            "file": one["file"],
            "source": one["source"],
            "label": one["expect"],
            "also_fair": one["accept"],
            "sure": "other answers are as fair" if one["accept"] else "the lines prove it",
            "decided_by": "who can look at the job or its nodes" if one["expect"] == ABSTAIN else "the lines",
            "candidates": one["candidates"],
        }
        for one in index
    ]


def abstain(_text: str) -> str:
    return ABSTAIN


def keywords(text: str) -> str:
    low = text.lower()
    return next((cause for word, cause in KEYWORDS if word.lower() in low), SOUND)


BASELINES: Mapping[str, Callable[[str], str]] = {"abstain": abstain, "keywords": keywords}


def asked(command: str, file: Path) -> str:
    """Return the last word that a program prints about a report; ABSTAIN if it prints none within a minute."""
    words = shlex.split(command.format(file=shlex.quote(str(file))))
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return ABSTAIN
    return (done.stdout.split() or [ABSTAIN])[-1]


def outcome(label: Mapping[str, Any], answer: str) -> str:
    """Return what an answer is worth: right, silent (it claims too little), or wrong (a cause that is not shown)."""
    if answer in (label["label"], *label["also_fair"]):
        return "right"
    return "silent" if answer in (ABSTAIN, SOUND) else "wrong"


def scores(known: Iterable[Mapping[str, Any]], answers: Mapping[str, str]) -> dict[str, Counter[str]]:
    """Return the outcomes by what the lines show. A report without an answer counts as one that abstains."""
    table = {kind: Counter[str]() for kind in ("a cause", ABSTAIN, SOUND, "all")}
    for label in known:
        kind = label["label"] if label["label"] in table else "a cause"
        became = outcome(label, answers.get(label["file"], ABSTAIN))
        table[kind][became] += 1
        table["all"][became] += 1
    return table


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Score any program on the labelled reports.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--program", metavar="COMMAND", help="started on each report; {file} is its path")
    what.add_argument("--answers", type=Path, metavar="FILE", help="lines of JSON with file and answer")
    what.add_argument("--baseline", choices=BASELINES)
    what.add_argument("--labels", action="store_true", help="print the labels")
    flags = parser.parse_args(words)
    known = labels()
    if flags.labels:
        sys.stdout.writelines(f"{json.dumps(label)}\n" for label in known)
        return 0
    if flags.answers:
        lines = (json.loads(line) for line in flags.answers.read_text().splitlines() if line.strip())
        answers = {line["file"]: line["answer"] for line in lines}
    elif flags.program:
        answers = {label["file"]: asked(flags.program, FOLDER / label["file"]) for label in known}
    else:
        judge = BASELINES[flags.baseline]
        answers = {label["file"]: judge((FOLDER / label["file"]).read_text(errors="replace")) for label in known}
    for kind, became in scores(known, answers).items():
        sys.stdout.write(f"{kind:<12} right {became['right']:>4} of {became.total():<5}")
        sys.stdout.write(f" silent {became['silent']:>4}  wrong {became['wrong']:>4}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
