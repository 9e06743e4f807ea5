"""The lines that leave a node out of a SLURM job: where it is sure that a node is to blame, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from distdoctor.judge.engine import judge
from distdoctor.judge.fixes import NODE_NAME
from distdoctor.model.cluster import build
from distdoctor.model.facts import NodeFacts
from distdoctor.model.findings import Finding, Fix
from tests.facts_builder import healthy
from tests.judge.test_engine import check

BROKEN = Finding("seen.", nodes=("host1",), fixes=(Fix("mend it.", ("host1",), commands=("mend",)),))


def of_slurm(nodes: Sequence[NodeFacts], prefix: str = "cn-") -> list[NodeFacts]:
    return [replace(one, variables={NODE_NAME: f"{prefix}{one.identity.hostname}"}) for one in nodes]


def fixes(finding: Finding, nodes: Sequence[NodeFacts], of: str = "host/broken") -> tuple[Fix, ...]:
    (told,) = judge(build(nodes), [check(of, finding)]).findings
    return told.fixes


def test_a_node_that_is_to_blame_is_left_out_and_drained_by_the_name_that_slurm_has_for_it() -> None:
    mended, other = fixes(BROKEN, of_slurm(healthy(3)))
    assert mended == BROKEN.fixes[0] and other.option == 2
    assert "`--exclude=cn-host1`" in other.text
    assert other.commands == ("scontrol update NodeName=cn-host1 State=DRAIN Reason='distdoctor: host/broken'",)
    assert not other.env and not other.flags


@pytest.mark.parametrize(
    ("finding", "of"),
    [
        (replace(BROKEN, blame="one-of"), "host/broken"),
        (replace(BROKEN, nodes=("host0", "host1")), "host/broken"),
        (replace(BROKEN, nodes=()), "host/broken"),
        (replace(BROKEN, severity="warn"), "host/broken"),
        (BROKEN, "environment/set-wrong"),
        (replace(BROKEN, fixes=(Fix("set it.", ("host1",), env={"GLOO_SOCKET_IFNAME": "eth0"}),)), "gloo/wrong"),
        (replace(BROKEN, fixes=(Fix("give it.", ("host1",), flags={"--master-port": "29501"}),)), "network/wrong"),
        (replace(BROKEN, nodes=("host7",)), "host/broken"),
    ],
)
def test_and_where_it_is_not_sure_or_other_nodes_would_not_help_it_is_not(finding: Finding, of: str) -> None:
    assert fixes(finding, of_slurm(healthy(3)), of) == finding.fixes


def test_without_slurm_there_are_no_lines_of_slurm() -> None:
    assert fixes(BROKEN, healthy(3)) == BROKEN.fixes
