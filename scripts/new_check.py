"""Write a new check, STAGE/NAME, with its test, and run the test.

What is written works as it is: its tests pass. The lines to replace are marked TODO, and one test lists those left.
Needs no torch. Exit status 2, with the reason, where nothing was written; 1 where its tests fail.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from distdoctor.model.stages import LOG_STAGES, STAGES  # noqa: E402

PAGE = '''\
"""TODO: the title, a short sentence that names the failure.

## What you see
TODO: what PyTorch prints or does, in its own words, and after how long.

## Why it happens
TODO: the cause.

## Fix
TODO: the instruction, with a command: `ulimit -s 8192` in the job's script.

## Confirm with
TODO: `ulimit -s` on the node, which prints 8192.

## When it is harmless
TODO: the case in which the same facts are no fault. Then name related checks below.

## See also
{related}
"""

'''

JUDGE = '''\
from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, names_of

SEVERITY = "warn"
MATTERS = "TODO: why the warning matters to a job that starts, in a clause"
# Would the job fail or hang? Then SEVERITY = "fail", no MATTERS, and the first step that the job does not reach:
# PREVENTS = "store hosted" (distdoctor/model/stages.py has all of them). TODO: delete these two lines.
# Without these parts of the facts the check is not judged: a field of NodeFacts (distdoctor/model/facts/node.py) with
# fields below it, as node.facts.host.limits is here; also "plan", "meeting" (the node joined), "ranks.STAGE" (each rank
# ran this stage), "everyone" (every node of the job).
LOOKS_AT = ("host.limits",)  # TODO: the parts that judge() reads


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if is_bad(node)]
    if bad:
        yield Finding.about(
            bad,
            f"TODO: {names_of(bad)} allows too small a stack.",
            evidence=[f"{node.name}: TODO: ulimit -s is {node.limits.stack} bytes" for node in bad],
            fixes=[Fix.on(bad, "TODO: Raise it in the job's script.", commands=["ulimit -s 8192"])],
        )


def is_bad(node: Node) -> bool:
    """TODO: Return whether the node has the fault. What is not known is None, and no fault."""
    stack = node.limits.stack
    return stack is not None and 0 <= stack < 1 << 20
'''

LOG = """\
from distdoctor.check_api import Line

SEVERITY = "fail"
# The first step that a job with this line does not reach (distdoctor/model/stages.py); "results right" where it had
# begun to train. TODO: choose, and delete these two lines.
PREVENTS = "results right"
LOG = (
    # The literal is looked for first: short, rare, without values. The expression takes the values out of the line.
    # What stands before a message ("[rank3]:", a time) is taken off first: leave it out.
    # A line that other causes write too, as that of any watchdog or timeout, has shows="symptom" and why="what else it
    # may come from". {row}
    # A check that only warns has MATTERS = "why it matters, in a clause", and no PREVENTS.
    Line("TODO {id}:", r"TODO {id}: (?P<count>\\d+) of the words that a log has"),
)
"""

ROW = """Its row in tests/logs/wordings/ then moves from CAUSES to SYMPTOMS, that of shows="hint" to
    # HINTS. A line of a healthy run that looks like it is a row of HEALTHY in tests/logs/wordings/__init__.py."""
SITE_ROW = "Then diagnose lists this check as a likely cause: INCONCLUSIVE."
LINE = "RuntimeError: TODO {id}: 8 of the words that a log has"

TEST = '''\
"""{id}: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.limits import on

CHECK = "{id}"


def faulty() -> Facts:
    """TODO: two healthy nodes, with the fault on host1. Other facts: ``met(node(...), ...)`` and ``with_...()`` of
    tests/facts_builder.py, or tests/clusters/."""
    return on((1,), stack=64 << 10)


ROWS = [
    # together=True: the nodes joined, so that node 0 judges for all. Delete it for a fault that each node sees alone.
    Row("TODO: a stack of 64 KiB on one", faulty, ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("TODO: no limit", lambda: on((1,), stack=-1)),
]

CURES = [
    Cure("TODO: raised", faulty, {{"host1": {{"commands": ("ulimit -s 8192",)}}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
'''

SITE_TEST = '''\
"""{id}: what it finds, and what it leaves alone.

Run it in this folder with: python -m pytest {test}
"""

from pathlib import Path

from distdoctor.check_api.testing import findings, nodes, with_limits  # also: with_variables

CHECK = Path(__file__).parent / "{check}"


def test_the_fault_is_found() -> None:
    good, bad = nodes(2)
    (finding,) = findings(CHECK, good, with_limits(bad, stack=64 << 10))  # TODO: the fault on host1
    assert (finding.nodes, finding.severity) == (("host1",), "warn")
    assert finding.evidence and finding.fixes


def test_healthy_nodes_are_left_alone() -> None:
    good, other = nodes(2)
    assert findings(CHECK, good, with_limits(other, stack=-1)) == []  # TODO: what looks like the fault and is not


def test_what_is_not_known_is_no_finding() -> None:
    assert findings(CHECK, *nodes(2)) == []


def test_nothing_is_left_to_do() -> None:
    left = [line for path in (CHECK, Path(__file__)) for line in path.read_text().splitlines() if "TO" "DO" in line]
    assert not left, f"{{len(left)}} lines are left"
'''

SITE_LOG_TEST = '''\
"""{id}: the lines of a log that show it, and those that do not.

Run it in this folder with: python -m pytest {test}
"""

import json
import subprocess
import sys
from pathlib import Path

CHECK = Path(__file__).parent / "{check}"
LINE = "{line}"


def found(folder: Path, line: str) -> list[str]:
    """The checks that distdoctor diagnose finds in a log with this line, or lists as likely causes."""
    (folder / "train.log").write_text(f"epoch 1\\n{{line}}\\n")
    command = ["diagnose", "--checks", str(CHECK.parents[1]), "--json", str(folder / "train.log")]
    done = subprocess.run([sys.executable, "-m", "distdoctor", *command], capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    return [one["check"] for one in (*report["findings"], *report["candidates"])]


def test_the_line_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, LINE) == ["{id}"]


def test_another_line_is_left_alone(tmp_path: Path) -> None:
    assert found(tmp_path, "TODO: a line that looks like it and is not") == []


def test_nothing_is_left_to_do() -> None:
    left = [line for path in (CHECK, Path(__file__)) for line in path.read_text().splitlines() if "TO" "DO" in line]
    assert not left, f"{{len(left)}} lines are left"
'''


class Refused(Exception):
    """Nothing was written; the text says why."""


def main(arguments: list[str]) -> int:
    """Write the check that the arguments name, run its tests, and print the next command."""
    parser = argparse.ArgumentParser(
        prog="bash scripts/new-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("id", metavar="STAGE/NAME", help="as host/queue-tiny")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--fact", action="store_true", help="a check of the facts that nodes collect (the default)")
    kind.add_argument("--log", action="store_true", help="a check of the lines that a log holds")
    parser.add_argument("--site", type=Path, metavar="DIR", help="in a folder of your own, for --checks DIR")
    given = parser.parse_args(arguments)
    try:
        stage, name = parts(given.id, (*STAGES, *LOG_STAGES) if given.log else STAGES)
        new = New(stage, name, given.log, given.site and given.site.resolve())
        new.write()
    except (Refused, OSError) as err:
        print(f"new-check: {err}", file=sys.stderr)  # noqa: T201
        return 2
    print(f"Wrote {'  and  '.join(map(shown, new.files))}", flush=True)  # noqa: T201
    return run(new)


def parts(check: str, stages: tuple[str, ...]) -> tuple[str, str]:
    """The stage and the name of an id. Raises Refused."""
    stage, _, name = check.partition("/")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise Refused(f"{check!r} is not STAGE/NAME with a name such as clock-skew: small letters, digits, hyphens")
    if stage not in stages:
        more = " (--log has two more: launch, process)" if stage in LOG_STAGES else ""
        raise Refused(f"{stage!r} is no stage: {', '.join(stages)}{more}")
    return stage, name


class New:
    """A check that is being added: its files and its tests."""

    def __init__(self, stage: str, name: str, log: bool, site: Path | None) -> None:
        self.id, self.log, self.site = f"{stage}/{name}", log, site
        file = name.replace("-", "_")
        self.check = (site or ROOT / "checks") / stage / f"{file}.py"
        if site:
            self.test = site / f"test_{file}.py"  # a file below a folder of DIR would be taken for a check
            self.tests = [str(self.test)]
        elif log:
            self.test = ROOT / "tests/logs/wordings" / f"{stage}.py"
            self.tests = ["tests/logs/test_wordings.py", "tests/checks"]
        else:
            self.test = ROOT / "tests/checks" / stage / f"test_{file}.py"
            self.tests = ["tests/checks"]
        self.files = (self.check, self.test)
        self.chosen = [] if site else ["-k", f"{name} or {file}"]

    def write(self) -> None:
        """Write the check and its test. Raises Refused before anything was written."""
        for path in self.files:
            if path.exists() and path.name != f"{self.check.parent.name}.py":
                raise Refused(f"{shown(path)} is there already")
        line = LINE.format(id=self.id)
        body = LOG.format(id=self.id, row=SITE_ROW if self.site else ROW) if self.log else JUDGE
        if not self.log:
            test = (SITE_TEST if self.site else TEST).format(id=self.id, test=self.test.name, check=self._own())
        elif self.site:
            test = SITE_LOG_TEST.format(id=self.id, test=self.test.name, check=self._own(), line=line)
        else:
            test = with_line(self.test.read_text(), self.id, line)
        self.check.parent.mkdir(parents=True, exist_ok=True)
        self.check.write_text(PAGE.format(related=related(self.check)) + body)
        self.test.write_text(test)

    def _own(self) -> str:
        return f"{self.check.parent.name}/{self.check.name}"

    def left(self) -> list[str]:
        """The lines that are still to be replaced, by file."""
        texts = {path: enumerate(path.read_text().splitlines(), 1) for path in self.files}
        left = {path: [str(number) for number, line in text if "TODO" in line] for path, text in texts.items()}
        return [f"{shown(path)}, lines {', '.join(numbers)}" for path, numbers in left.items()]


def run(new: New) -> int:
    """Run the tests of what was written, all but the one that looks for TODO, and print the next command."""
    if importlib.util.find_spec("pytest") is None:
        print("Its tests were not run: there is no .venv with pytest. Make one: bash scripts/dev")  # noqa: T201
        status = 0
    else:
        chosen = " and ".join([*(f"({words})" for words in new.chosen[1:]), "not left_to_do"])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *new.tests, "-k", chosen]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        status = int(done.returncode != 0)
        print(done.stdout if status else f"Its tests pass: {done.stdout.splitlines()[-1]}")  # noqa: T201
    print("\n    ".join(["\nReplace the lines marked TODO:", *new.left()]))  # noqa: T201
    print(f"Then type:\n    bash scripts/test {shlex.join([*new.tests, *new.chosen])}")  # noqa: T201
    if new.site:
        use = f"diagnose --checks {new.site} LOGS..." if new.log else f"check --checks {new.site}"
        print(f"and to use it{'' if new.log else ', on every node'}:\n    distdoctor {use}")  # noqa: T201
    return status


def shown(path: Path) -> str:
    """The path, relative to the repository where it is in it."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def related(check: Path) -> str:
    """Another check of the same stage, for a page to name."""
    stage = check.parent.name
    others = sorted(path.stem for path in (ROOT / "checks" / stage).glob("[a-z]*.py") if path.stem != check.stem)
    return f"{stage}/{others[0].replace('_', '-')}"


def with_line(text: str, check: str, line: str) -> str:
    """The text of a file of wordings with one more at the end of CAUSES."""
    lines = text.splitlines(keepends=True)
    for item in ast.parse(text).body:
        if isinstance(item, ast.AnnAssign) and ast.unparse(item.target) == "CAUSES" and item.value is not None:
            last = item.value.end_lineno or 1
            closed = lines[last - 1].rstrip()
            lines[last - 1] = f"{closed[:-1]}{'' if closed == ')' else chr(10)}    ({check!r}, {line!r}),\n)\n"
    return "".join(lines).replace(f"({check!r}, {line!r})", f'("{check}", "{line}")')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
