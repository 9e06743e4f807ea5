"""What the report's details tell of GPUs: who was asked of them, which rank takes which, which reach each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.judge.report import assemble, gpu_details
from distdoctor.model.cluster import build
from distdoctor.model.facts import NodeFacts, PeerCopies
from tests.clusters.gpu_nodes import NAME, one, several_of_amd
from tests.clusters.odd import once_per_rank
from tests.facts_builder import healthy, judged

NO_LIBRARY = "libnvidia-ml.so.1: cannot open shared object file"


def details_of(facts: NodeFacts) -> dict[str, Any]:
    values = gpu_details(facts)
    assert values is not None
    return values


@pytest.mark.parametrize(
    ("driver", "asked", "why"),
    [
        ({}, "NVML", None),
        ({"source": "nvidia-smi"}, "nvidia-smi", None),
        ({"source": "", "devices": (), "error": NO_LIBRARY}, "torch alone", NO_LIBRARY),
    ],
)
def test_who_was_asked_is_said(driver: dict[str, Any], asked: str, why: str | None) -> None:
    (facts,) = one(driver=driver)
    values = details_of(facts)
    assert (values["asked"], values.get("not_asked"), values["models"]) == (asked, why, [NAME])


def test_of_amd() -> None:
    facts, _ = several_of_amd({}, {"source": "rocm-smi"})
    assert (details_of(facts)["asked"], details_of(facts)["driver"]) == ("amd-smi", "6.12")
    assert details_of(several_of_amd({}, {"source": ""})[1])["asked"] == "torch alone"


def test_the_device_of_each_rank() -> None:
    (facts,) = one()
    assert details_of(facts)["devices_of_ranks"] == {str(n): f"{n} 0-{n}" for n in range(8)}
    own = tuple(replace(rank, gpu=replace(rank.gpu, visible=rank.gpu.visible[-1:])) for rank in facts.ranks if rank.gpu)
    assert set(details_of(replace(facts, ranks=own))["devices_of_ranks"].values()) == {"7 0-7"}


def test_which_reach_each_other() -> None:
    (facts,) = one()
    said = details_of(replace(facts, peers=PeerCopies(8, 54, ((3, 4), (4, 3)), 20, ((0, 1),))))["copies"]
    assert said == "54 of 56 pairs reach each other's memory, not 3 to 4, 4 to 3; 20 copies tried, 1 wrong"
    said = details_of(replace(facts, peers=PeerCopies(8, 56, (), 2, endless=(0, 3))))["copies"]
    assert said.endswith("; 2 copies tried, 0 wrong, 0 to 3 did not end")


def test_it_stands_in_the_report_of_a_node_with_gpus_alone() -> None:
    (with_gpus,), (without, _) = one(), healthy(2)
    for facts, there in ((with_gpus, True), (without, False)):
        report = assemble(build((facts,)), judged(facts), started_at="t", seconds=1.0)
        (values,) = report.details["nodes"].values()
        assert ("gpus" in values) is there
    assert gpu_details(once_per_rank(2, 2)[0]) is None
