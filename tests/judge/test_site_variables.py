"""Variables of a site's checks: collected where they are declared, and never called clear where they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.judge.catalog import BadCheck, Check, load
from distdoctor.judge.engine import judge
from distdoctor.judge.report import assemble
from distdoctor.judge.saved import diagnose
from distdoctor.judge.uncollected import ITERATED
from distdoctor.model.cluster import build
from distdoctor.model.facts import NodeFacts
from distdoctor.model.report import Report, ReportCheck
from distdoctor.probes.host.identity import variables
from tests.clusters.gpus import gpus
from tests.facts_builder import healthy
from tests.judge.test_catalog import PAGE, write

READS = """
from distdoctor.check_api import Cluster, Finding, Iterator

SEVERITY = "fail"
{declared}


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if node.variables.get("SITE_QUEUE") == "slow"]
    if bad:
        yield Finding.about(bad, "The slow queue.")
"""
DECLARED = 'VARIABLES = ("SITE_QUEUE",)'


def site_check(folder: Path, code: str) -> Check:
    write(folder, "environment/our_queue.py", PAGE + code)
    (check,) = (one for one in load([folder]) if one.id == "environment/our-queue")
    return check


def report(check: Check, *facts: NodeFacts, ignore: tuple[str, ...] = ()) -> Report:
    cluster = build(facts)
    return assemble(cluster, judge(cluster, [check], ignore), started_at="", seconds=1.0)


def collected(*values: str | None) -> list[NodeFacts]:
    """A node for each value; None: not set there."""
    return [
        replace(
            one,
            site_variables=("SITE_QUEUE",),
            variables={**one.variables, **({} if value is None else {"SITE_QUEUE": value})},
        )
        for one, value in zip(healthy(len(values)), values, strict=True)
    ]


def test_a_variable_that_was_not_collected_is_never_clear(tmp_path: Path) -> None:
    told = report(site_check(tmp_path, READS.format(declared="")), *healthy(2))
    why = 'SITE_QUEUE was not collected on host0, host1 (declare it in the check: VARIABLES = ("SITE_QUEUE",))'
    assert told.checks == (ReportCheck("environment/our-queue", "not-judged", why),)
    assert told.verdict == "incomplete"
    assert told.notes == (f"the check environment/our-queue was not judged: {why}",)


@pytest.mark.parametrize(
    "look",
    ['node.variables["SITE_QUEUE"]', '"SITE_QUEUE" in node.facts.variables', '"SITE_QUEUE" in node.variables.keys()'],
)
def test_however_it_is_looked_up(tmp_path: Path, look: str) -> None:
    code = READS.format(declared="").replace('node.variables.get("SITE_QUEUE")', f"next(({look} for _ in [0]), 0)")
    if "[" in look.partition("(")[0]:
        code = code.replace(
            "    bad =",
            "    try:\n        [node.variables['SITE_QUEUE'] for node in cluster.nodes]\n"
            "    except KeyError:\n        return\n    bad =",
        )
    told = report(site_check(tmp_path, code), *healthy(1))
    assert [check.status for check in told.checks] == ["not-judged"]


ITERATIONS = [
    "[v for k, v in node.variables.items() if k.startswith('SITE_')]",
    "[k for k in node.variables if k.startswith('SITE_')]",
    "[*node.facts.variables.values()].count('slow')",
    "dict(node.variables).get('SITE_QUEUE')",
    "({**node.variables}).get('SITE_QUEUE')",
    "(node.variables | {}).get('SITE_QUEUE')",
    "({} | node.variables).get('SITE_QUEUE')",
    "'SITE_QUEUE' in sorted(node.variables)",
    "node.variables.copy().get('SITE_QUEUE')",
]


@pytest.mark.parametrize("iterates", ITERATIONS)
def test_a_check_that_iterates_over_variables_declares_which_it_reads(tmp_path: Path, iterates: str) -> None:
    code = READS.replace('node.variables.get("SITE_QUEUE") == "slow"', f"({iterates}) == 'never'")
    told = report(site_check(tmp_path, code.replace("{declared}", "")), *healthy(2))
    assert [(one.status, one.why) for one in told.checks] == [("not-judged", ITERATED)]
    assert told.verdict == "incomplete" and told.notes[0].endswith(ITERATED)


def test_one_that_declares_them_may(tmp_path: Path) -> None:
    code = READS.replace("node.variables.get(", "dict(node.variables).get(").format(declared=DECLARED)
    check = site_check(tmp_path, code)
    assert report(check, *collected("fast", None)).verdict == "pass"
    assert report(check, *collected("fast", "slow")).verdict == "fail"


def test_what_a_check_asks_check_api_for_is_no_iteration_of_its_own(tmp_path: Path) -> None:
    """These helpers go through the variables of NCCL, all of which are collected."""
    calls = "rdma.kinds_looked_for(node) or [*unreadable(node)]"
    code = READS.format(declared="").replace('node.variables.get("SITE_QUEUE") == "slow"', calls)
    code = code.replace("import Cluster", "import rdma, unreadable, Cluster")
    assert report(site_check(tmp_path, code), *gpus()).verdict == "pass"


def test_a_declared_one_is_judged_where_it_was_collected(tmp_path: Path) -> None:
    check = site_check(tmp_path, READS.format(declared=DECLARED))
    assert check.variables == ("SITE_QUEUE",)
    clear = report(check, *collected("fast", None))
    assert ([one.status for one in clear.checks], clear.verdict, clear.notes) == (["clear"], "pass", ())
    found = report(check, *collected("fast", "slow"))
    assert ([one.status for one in found.checks], found.verdict) == (["found"], "fail")
    assert found.findings[0].nodes == ("host1",)


def test_a_node_without_the_check_is_named(tmp_path: Path) -> None:
    check, (first, second) = site_check(tmp_path, READS.format(declared=DECLARED)), healthy(2)
    told = report(check, collected("fast")[0], second)
    why = "SITE_QUEUE was not collected on host1 (run distdoctor there with the same --checks)"
    assert [(one.status, one.why) for one in told.checks] == [("not-judged", why)]
    assert told.verdict == "incomplete"
    assert report(check, collected("slow")[0], second).verdict == "incomplete"
    assert report(check, first, second, ignore=("environment/our-queue",)).verdict == "pass"


COMPARES = """
from distdoctor.check_api import Cluster, Finding, Iterator, disagreement

SEVERITY = "fail"
VARIABLES = ("SITE_QUEUE",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    if differ := disagreement({node.name: READ for node in cluster.nodes}):
        yield Finding.about([node for node in cluster.nodes if node.name in differ.blamed], differ.said())
"""


@pytest.mark.parametrize(
    "read",
    [
        'node.variables.get("SITE_QUEUE")',
        '{**node.variables}.get("SITE_QUEUE")',
        'next((v for k, v in node.variables.items() if k.startswith("SITE_")), None)',
    ],
)
def test_a_node_without_the_check_is_not_unset(tmp_path: Path, read: str) -> None:
    check, other = site_check(tmp_path, COMPARES.replace("READ", read)), healthy(2)[1]
    told = report(check, collected("fast")[0], other)
    assert (told.findings, told.verdict) == ((), "incomplete")
    why = "SITE_QUEUE was not collected on host1 (run distdoctor there with the same --checks)"
    assert [(one.status, one.why) for one in told.checks] == [("not-judged", why)]
    assert report(check, *collected("fast", "fast")).verdict == "pass"
    assert report(check, *collected("fast", None)).verdict == "fail"


def test_a_finding_before_the_look_up_is_dropped(tmp_path: Path) -> None:
    code = READS.format(declared=DECLARED).replace(
        "    bad =", '    yield Finding.about(cluster.nodes[:1], "Early.")\n    bad ='
    )
    told = report(site_check(tmp_path, code), *healthy(2))
    assert (told.findings, [one.status for one in told.checks]) == ((), ["not-judged"])


def test_saved_facts_without_it_are_not_judged(tmp_path: Path) -> None:
    told = diagnose(healthy(2), load_with(tmp_path))
    (status,) = (one.status for one in told.checks if one.id == "environment/our-queue")
    assert (status, told.verdict) == ("not-judged", "incomplete")


def load_with(folder: Path) -> tuple[Check, ...]:
    site_check(folder, READS.format(declared=DECLARED))
    return load([folder])


def test_variables_that_are_always_collected_need_no_declaration(tmp_path: Path) -> None:
    code = READS.format(declared="").replace("SITE_QUEUE", "NCCL_DEBUG")
    assert report(site_check(tmp_path, code), *healthy(2)).verdict == "pass"


def test_only_what_is_declared_is_collected() -> None:
    env = {"SITE_QUEUE": "fast", "SITE_OTHER": "x", "NCCL_DEBUG": "INFO"}
    assert variables(env) == {"NCCL_DEBUG": "INFO"}
    assert variables(env, ("SITE_QUEUE",)) == {"NCCL_DEBUG": "INFO", "SITE_QUEUE": "fast"}


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "SITE_API_KEY", "AWS_SECRET_ACCESS_KEY", "db_password", "X_CREDENTIALS", "SITE_AUTH", "SSHKEY"]
)
def test_secrets_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadCheck, match=f"our_queue.py: VARIABLES names {name}, which looks like a secret"):
        site_check(tmp_path, READS.format(declared=f'VARIABLES = ("{name}",)'))


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "PWD", "SITE_KEYBOARD", "PASSES"])
def test_look_alikes_of_secrets_are_not(tmp_path: Path, name: str) -> None:
    assert site_check(tmp_path, READS.format(declared=f'VARIABLES = ("{name}",)')).variables == (name,)


@pytest.mark.parametrize("value", ['"SITE_QUEUE"', '("SITE QUEUE",)', '("A=B",)', "(1,)", "None"])
def test_variables_is_a_list_of_names(tmp_path: Path, value: str) -> None:
    with pytest.raises(BadCheck, match=r"our_queue\.py: VARIABLES .* is no list of names of variables"):
        site_check(tmp_path, READS.format(declared=f"VARIABLES = {value}"))


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ('VARIABLE = ("SITE_QUEUE",)', "VARIABLES"),
        ('variables = ("SITE_QUEUE",)', "VARIABLES"),
        ('SEVERTIY = "warn"', "SEVERITY"),
        ('LOOK_AT: tuple[str, ...] = ("host",)', "LOOKS_AT"),
        ("def judge_jobs(cluster): ...", "judge_job"),
    ],
)
def test_a_misspelt_declaration_is_named(tmp_path: Path, line: str, right: str) -> None:
    name = line.removeprefix("def ").replace("(", " ").replace(":", " ").split()[0]
    with pytest.raises(BadCheck, match=rf"our_queue.py: line \d+: {name} is no declaration.*: write {right}$"):
        site_check(tmp_path, READS.format(declared=line))


def test_a_constant_that_the_file_uses_is_its_own(tmp_path: Path) -> None:
    code = READS.format(declared='VARIABLE = "SITE_QUEUE"').replace('get("SITE_QUEUE")', "get(VARIABLE)")
    told = report(site_check(tmp_path, code), *healthy(1))
    assert [check.status for check in told.checks] == ["not-judged"]
