"""Tests of what NCCL itself names as the cause, in the warnings of the check's own group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import NcclLog, NodeFacts
from tests.clusters import rdma_nodes
from tests.facts_builder import failing, healthy, judged, with_gpus, with_plan

WARNINGS = [
    ("bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found", "nccl/interface-not-found"),
    (
        "init.cc:820 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000",
        "nccl/duplicate-gpu",
    ),
    (
        "transport/p2p.cc:275 NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'",
        "nccl/p2p-broken",
    ),
]


def said(warning: str, failed: bool = True) -> tuple[NodeFacts, ...]:
    """Two nodes, of which the ranks of the second say so."""
    nodes = [with_plan(with_gpus(one, 2), backend="nccl") for one in healthy(2)]
    if failed:
        nodes = [failing(one, "nccl", "DistBackendError: NCCL error, unhandled system error") for one in nodes]
    log = NcclLog("2.27.3", warnings=(warning,))
    nodes[1] = replace(nodes[1], ranks=tuple(replace(rank, nccl=log) for rank in nodes[1].ranks))
    return tuple(nodes)


@pytest.mark.parametrize(("warning", "check"), WARNINGS)
def test_it_is_the_root_and_that_the_group_failed_follows(warning: str, check: str) -> None:
    result = judged(*said(warning))
    (root,) = result.roots
    assert (root.check, root.severity, root.nodes) == (check, "fail", ("host1",))
    assert any(warning in line for line in root.evidence)
    assert root.fixes
    assert {finding.because_of for finding in result.findings if finding.check == "nccl/init-failed"} == {check}


def test_what_the_line_itself_shows_is_told_and_its_own_remedy() -> None:
    (root,) = judged(*said("misc/nvmlwrap.cc:74 NCCL WARN Failed to open libnvidia-ml.so.1")).roots
    assert (root.check, root.nodes) == ("gpu/none-visible", ("host1",))
    assert "management library" in root.title and "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in root.fixes[0].text


def test_of_a_group_that_was_made_a_warning_says_nothing() -> None:
    assert judged(*said(WARNINGS[0][0], failed=False)).findings == ()


def test_what_shows_no_cause_is_told_as_evidence() -> None:
    warning = "misc/socket.cc:441 NCCL WARN socketStartConnect: Connect to 10.0.0.2<40000> failed"
    (root,) = judged(*said(warning)).roots
    assert root.check == "nccl/init-failed"
    assert any(warning in line for line in root.evidence)


def test_a_warning_of_the_same_check_does_not_keep_what_nccl_says_back() -> None:
    gids = "misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument"
    one_port = rdma_nodes.several({}, {"ports": {1: {"gids": rdma_nodes.gids(1, 1)[:2]}}}, {})
    assert [(root.check, root.severity) for root in judged(*one_port).roots] == [("nccl/infiniband-gid", "warn")]
    log = NcclLog("2.27.3", warnings=(gids,))
    failed = [failing(one, "nccl", "NCCL error") for one in one_port]
    failed[1] = replace(failed[1], ranks=tuple(replace(rank, nccl=log) for rank in failed[1].ranks))
    result = judged(*failed)
    assert {(root.check, root.severity) for root in result.roots} == {
        ("nccl/infiniband-gid", "fail"),
        ("nccl/infiniband-gid", "warn"),
    }
    assert {one.because_of for one in result.findings if one.check == "nccl/init-failed"} <= {
        root.id for root in result.roots if root.severity == "fail"
    }
