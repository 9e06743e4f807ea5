"""nccl/nonblocking: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import RankStage
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each, root
from tests.clusters.gpus import gpus
from tests.facts_builder import failing, with_variables

CHECK = "nccl/nonblocking"
VARIABLE = "TORCH_NCCL_USE_COMM_NONBLOCKING"
SAID = {"begun": {"all_to_all": "NCCL Error 7: NCCL operation in progress"}, "passed": ["all_reduce", "all_gather"]}


def begun(*on: int) -> Facts:
    """Two nodes with the variable on these, as it was seen on an H100: the stage went well on both."""
    facts = list(gpus())
    for number in on:
        one = with_variables(facts[number], **{VARIABLE: "1"})
        ranks = tuple(
            replace(
                rank,
                stages=(
                    *(stage for stage in rank.stages if stage.stage != "nccl"),
                    RankStage("nccl", "ok", 0.5, detail=SAID),
                ),
            )
            for rank in one.ranks
        )
        facts[number] = replace(one, ranks=ranks)
    return tuple(facts)


def not_made() -> Facts:
    """The group itself came to nothing, with the same words."""
    return tuple(failing(one, "nccl", "RuntimeError: NCCL Error 7: NCCL operation in progress") for one in gpus())


ROWS = [
    Row("on one", lambda: begun(1), ("host1",), "warn", together=True),
    Row("on both", lambda: begun(0, 1), BOTH, "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("set, and nothing refused", lambda: tuple(with_variables(one, **{VARIABLE: "1"}) for one in gpus())),
    LookAlike("no group", not_made, "nccl/init-failed"),
]

CURES = [Cure("it is taken out", lambda: begun(0, 1), on_each(BOTH, {"env": {VARIABLE: None}}), only=True)]


def test_only_what_passed_is_said_to_pass() -> None:
    told = root(*begun(1))
    assert "all_to_all fails on host1" in told.summary and "all_reduce and all_gather" in told.summary
    assert "reduce_scatter" not in told.summary


test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
