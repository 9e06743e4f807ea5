"""Lay out a new check, STAGE/NAME: its page and judge, its test file, and a case of the lab.

What is to be written is marked TODO, and the tests fail as long as one is left. Needs no torch and no other package.
Exit status 2, with the reason, where there is such a check or no such stage; then nothing was written.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from distdoctor.model.stages import STAGES  # noqa: E402

PAGE = '''\
"""TODO: the title, a short sentence that names what is wrong.

What you see
------------
TODO: what PyTorch says or does, in its own words, and how long it takes.

Why it happens
--------------
TODO: what is wrong, and how it comes to be.

Fix
---
TODO: what puts it right.

When it is harmless
-------------------
TODO: where the same facts are no fault, or only a warning.

See also
--------
TODO: other/checks, by-id
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, names_of

SEVERITY = "warn"
MATTERS = "TODO: why a warning matters to a job that starts all the same, in a clause"
# TODO: PREVENTS = "...", a milestone of distdoctor/model/milestones.py that such a job does not reach; only warns: none


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if is_bad(node)]
    if bad:
        yield Finding.about(
            bad,
            f"TODO: what is wrong on {names_of(bad)}.",
            evidence=(f"{node.name}: TODO: the value that was seen" for node in bad),
            fixes=(Fix.on(bad, "TODO: what to do, with real values.", commands=("TODO",)),),
        )


def is_bad(node: Node) -> bool:
    """TODO: by node.limits, node.system, node.network, node.mesh or node.plan; what is not known is not bad."""
    return False
'''

TEST = '''\
"""{id}: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy

CHECK = "{id}"


def faulty() -> Facts:
    """TODO: healthy nodes with the fault on host1, by tests/facts_builder.py and tests/clusters/*.py."""
    a, b = healthy(2)
    return a, b


ROWS = [
    Row("TODO: the fault", faulty, ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("TODO: what looks like it and is not", lambda: healthy(2)),
]

CURES = [
    Cure("TODO: the first option", faulty, {{"host1": {{"commands": ("TODO",)}}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
'''

CASE = (
    '    Case("TODO: the fault on one", inside(1, "TODO: the fault, as a shell script run as root on host1"), '
    '"{id}", ["host1"], "warn", torch="TODO: what plain PyTorch says, and when"),\n'
)


class Refused(Exception):
    """It cannot be laid out; the text says why."""


def main(arguments: list[str]) -> int:
    """Lay out what the one argument names, and say where."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__ + "\nusage: bash scripts/new-check STAGE/NAME", file=sys.stderr)  # noqa: T201
        return 2
    try:
        written = lay_out(arguments[0])
    except Refused as err:
        print(f"new-check: {err}", file=sys.stderr)  # noqa: T201
        return 2
    name = arguments[0]
    print("\n".join(written))  # noqa: T201
    print(f"Now fill in every TODO; `bash scripts/test {written[1]}` says what is missing of {name}.")  # noqa: T201
    return 0


def lay_out(check: str) -> list[str]:
    """Write the check, its test file and its case; where they are. Raises Refused."""
    stage, _, name = check.partition("/")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise Refused(f"{check!r} is no STAGE/NAME with a name such as clock-skew: small letters, digits and hyphens")
    if stage not in STAGES:
        raise Refused(f"{stage!r} is no stage: {', '.join(STAGES)}")
    file = name.replace("-", "_")
    page, test = ROOT / "checks" / stage / f"{file}.py", ROOT / "tests/checks" / stage / f"test_{file}.py"
    for path in (page, test):
        if path.exists():
            raise Refused(f"{path.relative_to(ROOT)} is there already")
    written = []
    for path, text in ((page, PAGE), (test, TEST.format(id=check))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written.append(str(path.relative_to(ROOT)))
    (test.parent / "__init__.py").touch()
    cases = ROOT / "tests/lab/cases" / f"{stage}.py"
    if cases.exists():
        cases.write_text(with_case(cases.read_text(), CASE.format(id=check)))
        written.append(f"{cases.relative_to(ROOT)}: the last of CASES")
    else:
        written.append(f"no case: the lab has no {cases.relative_to(ROOT)}")
    return written


def with_case(text: str, case: str) -> str:
    """The text of a file of cases with one more at the end of CASES, and ``inside`` imported."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    for item in tree.body:
        if isinstance(item, ast.Assign) and [ast.unparse(target) for target in item.targets] == ["CASES"]:
            lines.insert((item.end_lineno or 1) - 1, case)
    for item in tree.body:
        if isinstance(item, ast.ImportFrom) and item.module == "tests.lab.faults":
            names = sorted({alias.name for alias in item.names} | {"inside"})
            lines[item.lineno - 1 : item.end_lineno] = [f"from tests.lab.faults import {', '.join(names)}\n"]
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
