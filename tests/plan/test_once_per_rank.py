"""The plan of a process that a launcher started as one rank: what its variables say, and which make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.recorded import RANK_ENV, plan_in, values


class TestOncePerRank:
    def test_all_variables(self) -> None:
        plan = plan_in(RANK_ENV)
        assert values(plan, "started", "rank", "local_rank", "world_size") == ("rank", 3, 1, 4)
        assert values(plan, "nnodes", "nproc_per_node", "node_rank") == (2, 2, 1)
        assert values(plan, "master_addr", "master_port", "agent_store") == ("host0", 29500, False)
        assert plan.sources["rank"] == "RANK"
        assert plan.problems == ()

    def test_what_torchrun_adds(self) -> None:
        env = {
            **RANK_ENV,
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": "job",
            "TORCHELASTIC_RESTART_COUNT": "2",
        }
        assert values(plan_in(env), "agent_store", "run_id", "restart") == (True, "job", 2)

    def test_ranks_of_a_torchrun_that_was_itself_configured_by_pet_variables(self) -> None:
        env = {**RANK_ENV, "TORCHELASTIC_RUN_ID": "job", "PET_NNODES": "2", "PET_RDZV_ENDPOINT": "other:1"}
        plan = plan_in(env)
        assert values(plan, "started", "master_addr", "master_port") == ("rank", "host0", 29500)

    @pytest.mark.parametrize(
        "flags", [{"nnodes": "1"}, {"nproc_per_node": "2"}, {"node_rank": 0}, {"standalone": True}]
    )
    def test_shaping_flags_make_it_once_per_node(self, flags: dict[str, Any]) -> None:
        assert plan_in(RANK_ENV, **flags).started == "node"

    @pytest.mark.parametrize("name", ["PET_NNODES", "PET_NPROC_PER_NODE"])
    def test_pet_variables_make_it_once_per_node(self, name: str) -> None:
        assert plan_in({**RANK_ENV, name: "2"}).started == "node"

    def test_the_deprecated_launcher_names_the_local_rank(self) -> None:
        env = {name: value for name, value in RANK_ENV.items() if name != "LOCAL_RANK"}
        plan = plan_in(env, local_rank=1)
        assert (plan.local_rank, plan.sources["local_rank"]) == (1, "--local-rank")

    def test_without_local_world_size_the_nodes_are_unknown(self) -> None:
        env = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
        assert values(plan_in(env), "nnodes", "nproc_per_node", "world_size") == (None, None, 4)

    def test_master_flags_stand_for_the_missing_variables(self) -> None:
        plan = plan_in({"RANK": "0", "WORLD_SIZE": "1"}, master_addr="a", master_port=5)
        assert values(plan, "started", "master_addr", "master_port", "problems") == ("rank", "a", 5, ())

    @pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
    def test_each_missing_variable_is_a_problem(self, name: str) -> None:
        plan = plan_in({key: value for key, value in RANK_ENV.items() if key != name})
        assert [(p.variable, p.value) for p in plan.problems] == [(name, None)]
        assert plan.started == "rank"


@pytest.mark.parametrize(
    ("env", "variable", "why"),
    [
        ({"RANK": "abc"}, "RANK", "is not a whole number"),
        ({"RANK": ""}, "RANK", "is empty"),
        ({"RANK": "-1"}, "RANK", "must be 0 or more"),
        ({"RANK": "4"}, "RANK", "must be below WORLD_SIZE"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE", "must be 1 or more"),
        ({"WORLD_SIZE": "1.5"}, "WORLD_SIZE", "is not a whole number"),
        ({"LOCAL_RANK": "2"}, "LOCAL_RANK", "must be below LOCAL_WORLD_SIZE"),
        ({"LOCAL_WORLD_SIZE": "x"}, "LOCAL_WORLD_SIZE", "is not a whole number"),
        ({"MASTER_PORT": "65536"}, "MASTER_PORT", "must be 1 to 65535"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT", "must be 1 to 65535"),
        ({"MASTER_PORT": "29500x"}, "MASTER_PORT", "is not a whole number"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR", "is empty"),
        ({"MASTER_ADDR": "tcp://host0:29500"}, "MASTER_ADDR", "is a URL"),
    ],
)
def test_variables_of_a_rank_that_make_no_sense(env: dict[str, str], variable: str, why: str) -> None:
    (problem,) = plan_in({**RANK_ENV, **env}).problems
    assert problem.variable == variable
    assert problem.value == env[variable]
    assert why in problem.why


@pytest.mark.parametrize("env", [*({"LOCAL_RANK": value} for value in ("2", "", "x", "-1")), {"LOCAL_WORLD_SIZE": "x"}])
def test_what_numbers_the_ranks_of_a_node_keeps_no_group_from_being_made(env: dict[str, str]) -> None:
    """torch reads LOCAL_RANK where it picks a device alone, and LOCAL_WORLD_SIZE nowhere."""
    plan = plan_in({**RANK_ENV, **env})
    assert [(problem.variable, problem.local) for problem in plan.problems] == [(*env, True)]
    assert plan.broken == ()
    assert plan_in({**RANK_ENV, "RANK": "x"}).broken == plan_in({**RANK_ENV, "RANK": "x"}).problems != ()


def test_a_local_rank_that_cannot_be_is_not_known() -> None:
    """Each process without a known one tells its report: with this number none did."""
    plan = plan_in({**RANK_ENV, "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"})
    assert plan.local_rank is None


def test_one_process_may_leave_the_port_to_the_system() -> None:
    assert plan_in({**RANK_ENV, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_PORT": "0"}).master_port == 0
    endpoint: dict[str, Any] = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    for plan in (plan_in(), plan_in(standalone=True), plan_in(standalone=True, master_port=0), plan_in(**endpoint)):
        assert (plan.master_port, plan.sources["master_port"]) == (0, "any free port")


@pytest.mark.parametrize("text", ["", "x", "-1"])
def test_the_number_of_a_node_is_read_by_nobody_where_ranks_are_given(text: str) -> None:
    plan = plan_in({**RANK_ENV, "GROUP_RANK": text, "NODE_RANK": "1"})
    assert (plan.node_rank, plan.sources["node_rank"], plan.problems) == (1, "NODE_RANK", ())
    assert plan_in({**RANK_ENV, "GROUP_RANK": text}).problems == ()
