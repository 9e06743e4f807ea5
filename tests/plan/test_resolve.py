"""The plan: which value wins, where it is said to come from, and what is a problem instead of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from distdoctor.model.errors import UsageError
from tests.plan.recorded import RANK_ENV, plan_in, values


def test_alone_without_anything() -> None:
    plan = plan_in()
    assert values(plan, "started", "nnodes", "nproc_per_node", "node_rank", "world_size") == ("node", 1, 2, 0, 2)
    assert values(plan, "master_addr", "master_port", "announce", "problems") == ("127.0.0.1", 0, False, ())
    assert plan.sources["nproc_per_node"] == plan.sources["nnodes"] == plan.sources["master_addr"] == "default"


@pytest.mark.parametrize(
    ("flags", "env", "field", "value", "source"),
    [
        ({"nnodes": "2"}, {"PET_NNODES": "3"}, "nnodes", 2, "--nnodes"),
        ({}, {"PET_NNODES": "3"}, "nnodes", 3, "PET_NNODES"),
        ({"nnodes": "1:4"}, {}, "nnodes", 4, "--nnodes"),
        ({}, {"PET_NNODES": "2:5"}, "nnodes", 5, "PET_NNODES"),
        ({"nproc_per_node": "8"}, {"PET_NPROC_PER_NODE": "4"}, "nproc_per_node", 8, "--nproc-per-node"),
        ({}, {"PET_NPROC_PER_NODE": "4", "LOCAL_WORLD_SIZE": "3"}, "nproc_per_node", 4, "PET_NPROC_PER_NODE"),
        ({"nnodes": "1"}, {"LOCAL_WORLD_SIZE": "3"}, "nproc_per_node", 3, "LOCAL_WORLD_SIZE"),
        ({"nproc_per_node": "cpu"}, {}, "nproc_per_node", 4, "--nproc-per-node"),
        ({"nproc_per_node": "auto"}, {}, "nproc_per_node", 4, "--nproc-per-node"),
        ({"nnodes": "2", "node_rank": 1, "master_addr": "a"}, {"PET_NODE_RANK": "0"}, "node_rank", 1, "--node-rank"),
        ({"nnodes": "2", "master_addr": "a"}, {"PET_NODE_RANK": "1"}, "node_rank", 1, "PET_NODE_RANK"),
        ({"nnodes": "2", "master_addr": "a"}, {"NODE_RANK": "1"}, "node_rank", 1, "NODE_RANK"),
        ({"nnodes": "2", "master_addr": "a"}, {"GROUP_RANK": "1"}, "node_rank", 1, "GROUP_RANK"),
        ({"nnodes": "2", "master_addr": "a"}, {}, "node_rank", None, "assigned at the meeting"),
        ({"nnodes": "2", "master_addr": "a"}, {"PET_MASTER_ADDR": "b"}, "master_addr", "a", "--master-addr"),
        ({"nnodes": "2"}, {"PET_MASTER_ADDR": "b", "MASTER_ADDR": "c"}, "master_addr", "b", "PET_MASTER_ADDR"),
        ({"nnodes": "2"}, {"MASTER_ADDR": "c"}, "master_addr", "c", "MASTER_ADDR"),
        ({"nnodes": "2", "rdzv_endpoint": "h:4000"}, {}, "master_addr", "h", "--rdzv-endpoint"),
        ({"nnodes": "2", "rdzv_endpoint": "h:4000"}, {}, "master_port", 4000, "--rdzv-endpoint"),
        ({"nnodes": "2"}, {"PET_RDZV_ENDPOINT": "h:4000"}, "master_port", 4000, "PET_RDZV_ENDPOINT"),
        ({"nnodes": "1:4", "rdzv_endpoint": "h:1"}, {}, "nnodes", 4, "--nnodes"),
        ({"nnodes": "2"}, {"PET_RDZV_ENDPOINT": "h:4000\r"}, "master_port", 4000, "PET_RDZV_ENDPOINT"),
        ({"nnodes": "2", "rdzv_endpoint": " h:4000 "}, {}, "master_addr", "h", "--rdzv-endpoint"),
        ({"nnodes": "2", "rdzv_endpoint": "[fd00::1]:4000"}, {}, "master_addr", "fd00::1", "--rdzv-endpoint"),
        ({"nnodes": "2", "rdzv_endpoint": "h:4000", "master_addr": "a"}, {}, "master_addr", "h", "--rdzv-endpoint"),
        ({"nnodes": "2", "rdzv_endpoint": "h:4000", "master_port": 7}, {}, "master_port", 4000, "--rdzv-endpoint"),
        ({"nnodes": "2", "master_addr": "a"}, {"PET_RDZV_ENDPOINT": "h:4000"}, "master_addr", "h", "PET_RDZV_ENDPOINT"),
        (
            {"nnodes": "2", "rdzv_endpoint": "h", "rdzv_backend": "c10d"},
            {},
            "master_port",
            29400,
            "default of c10d",
        ),
        ({"nnodes": "2"}, {"MASTER_ADDR": "a", "MASTER_PORT": "8"}, "master_port", 8, "MASTER_PORT"),
        ({"master_addr": "a", "master_port": 7}, {"MASTER_PORT": "8"}, "master_port", 7, "--master-port"),
        (
            {"nnodes": "2", "master_addr": "a"},
            {"PET_MASTER_PORT": "7", "MASTER_PORT": "8"},
            "master_port",
            7,
            "PET_MASTER_PORT",
        ),
        ({"nnodes": "2", "master_addr": "a"}, {"MASTER_PORT": "8"}, "master_port", 29500, "default"),
        ({"nnodes": "2", "master_addr": "a"}, {}, "master_port", 29500, "default"),
        ({"standalone": True}, {}, "master_port", 0, "any free port"),
        ({"nproc_per_node": "2"}, {"PET_STANDALONE": "1"}, "master_addr", "127.0.0.1", "PET_STANDALONE"),
        ({"nproc_per_node": "2"}, {"MASTER_ADDR": "old", "MASTER_PORT": "77"}, "master_addr", "127.0.0.1", "default"),
        ({"backend": "cpu:gloo,cuda:nccl"}, {}, "backend", "cpu:gloo,cuda:nccl", "--backend"),
        ({"backend": "cpu:gloo,npu:hccl"}, {}, "backend", "cpu:gloo,npu:hccl", "--backend"),
    ],
)  # fmt: skip
def test_which_value_wins(flags: dict[str, Any], env: dict[str, str], field: str, value: Any, source: str) -> None:
    plan = plan_in(env, **flags)
    assert (getattr(plan, field), plan.sources[field], plan.problems) == (value, source, ())


def test_visible_gpus_give_the_ranks() -> None:
    assert values(plan_in(gpus=4), "nproc_per_node", "world_size") == (4, 4)
    assert plan_in(gpus=4).sources["nproc_per_node"] == "visible GPUs"
    assert plan_in(gpus=4, nproc_per_node="auto").nproc_per_node == 4
    assert plan_in(gpus=4, nproc_per_node="gpu").nproc_per_node == 4


def test_no_master_known_makes_this_node_0() -> None:
    plan = plan_in(nnodes="2")
    assert values(plan, "announce", "node_rank", "master_addr") == (True, 0, None)
    assert plan_in(nnodes="2", node_rank=0).announce


@pytest.mark.parametrize(
    ("env", "variable", "why"),
    [
        ({"PET_NNODES": "two"}, "PET_NNODES", "not a number of nodes"),
        ({"PET_NNODES": "4:2"}, "PET_NNODES", "not a number of nodes"),
        ({"PET_NPROC_PER_NODE": "all"}, "PET_NPROC_PER_NODE", "not a number of ranks"),
        ({"PET_NPROC_PER_NODE": "gpu"}, "PET_NPROC_PER_NODE", "no GPU is visible"),
        ({"PET_NNODES": "2", "PET_MASTER_ADDR": "a", "PET_NODE_RANK": "2"}, "PET_NODE_RANK", "from 0 to 1"),
        ({"PET_NNODES": "2", "PET_MASTER_ADDR": "a", "NODE_RANK": "x"}, "NODE_RANK", "is not a whole number"),
        ({"PET_NODE_RANK": "1", "PET_MASTER_PORT": "29555"}, "PET_NODE_RANK", "from 0 to 0"),
        ({"PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "x"}, "PET_MASTER_PORT", "is not a whole number"),
        ({"PET_NNODES": "2", "PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "0"}, "PET_MASTER_PORT", "must be 1 to 65535"),
        ({"PET_NNODES": "2", "PET_MASTER_ADDR": "a", "PET_RDZV_BACKEND": "c10"}, "PET_RDZV_BACKEND", "no rendezvous"),
        ({"PET_NNODES": "2", "PET_MASTER_ADDR": "http://a/b"}, "PET_MASTER_ADDR", "is a URL"),
        ({"PET_NNODES": "2", "PET_MASTER_ADDR": "node..lan"}, "PET_MASTER_ADDR", "two dots in a row"),
        ({"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "a:70000"}, "PET_RDZV_ENDPOINT", "not a port"),
        ({"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "a:b"}, "PET_RDZV_ENDPOINT", "no port behind its colon"),
        ({"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "a:"}, "PET_RDZV_ENDPOINT", "no port behind its colon"),
        ({"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "a:29500x"}, "PET_RDZV_ENDPOINT", "no port behind its colon"),
    ],
)  # fmt: skip
def test_variables_of_a_node_that_make_no_sense(env: dict[str, str], variable: str, why: str) -> None:
    (problem,) = plan_in(env).problems
    assert (problem.variable, problem.value) == (variable, env[variable])
    assert why in problem.why


def test_torchrun_does_not_read_what_is_left_over_of_its_ranks() -> None:
    for value in ("", "x", "0", "-1"):
        plan = plan_in({"LOCAL_WORLD_SIZE": value}, nnodes="2", master_addr="a")
        assert (plan.problems, plan.nproc_per_node, plan.sources["nproc_per_node"]) == ((), 2, "default")


@pytest.mark.parametrize(
    ("env", "variable", "meant"),
    [
        ({**RANK_ENV, "RANK": '"1"'}, "RANK", "1"),
        ({**RANK_ENV, "MASTER_PORT": "'29500'"}, "MASTER_PORT", "29500"),
        ({**RANK_ENV, "MASTER_ADDR": '"host0"'}, "MASTER_ADDR", "host0"),
        ({"PET_NNODES": '"2"', "PET_MASTER_ADDR": "a"}, "PET_NNODES", "2"),
    ],
)
def test_what_stands_in_quotes_is_meant(env: dict[str, str], variable: str, meant: str) -> None:
    """As docker's --env-file leaves them."""
    (problem,) = plan_in(env).problems
    assert (problem.variable, problem.suggestion) == (variable, meant)


def test_a_bad_port_is_not_said_to_be_where_the_port_came_from() -> None:
    plan = plan_in({"PET_NNODES": "2", "PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "x"})
    assert (plan.master_port, plan.sources["master_port"]) == (29500, "default")


def test_port_0_is_none_that_torchrun_could_tell_its_ranks() -> None:
    """With the static rendezvous it hosts its store on a free port, and its ranks look for it at port 0."""
    given: list[dict[str, Any]] = [{"master_port": 0}, {"rdzv_endpoint": "localhost:0"}]
    for flags in given:
        with pytest.raises(UsageError, match="all ranks know"):
            plan_in(nnodes="1", **flags)
    (problem,) = plan_in({"PET_MASTER_PORT": "0"}).problems
    assert (problem.variable, problem.why) == ("PET_MASTER_PORT", "must be 1 to 65535")


def test_left_over_node_rank_does_not_touch_one_node() -> None:
    """NODE_RANK=3 from another launcher says nothing of a machine that is checked alone."""
    plan = plan_in({"NODE_RANK": "3", "GROUP_RANK": "3"})
    assert (plan.node_rank, plan.problems) == (0, ())


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        ({"nnodes": "1", "node_rank": 1}, {}),
        ({"node_rank": -1, "nproc_per_node": "2"}, {}),
        ({}, {"PET_NODE_RANK": "3"}),
        ({"nnodes": "1:1", "master_addr": "nosuch"}, {}),
        ({}, {"PET_MASTER_ADDR": "nosuch"}),
    ],
)
def test_what_torchrun_does_not_read_of_one_node(
    flags: dict[str, Any], env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since torch 2.13 it meets itself by c10d on a free port, where it is given neither a port nor an endpoint."""
    for version in ("2.13.0+cpu", "3.0"):
        monkeypatch.setattr("importlib.metadata.version", lambda _, version=version: version)
        plan = plan_in(env, **flags)
        assert (plan.node_rank, plan.master_addr, plan.master_port, plan.problems) == (0, "127.0.0.1", 0, ())


def test_what_earlier_ones_read_of_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1 of 1 waits for node 0, in any version where a port is given."""
    with pytest.raises(UsageError, match="--node-rank 1"):
        plan_in(nnodes="1", node_rank=1, master_port=29555)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.12.1")
    with pytest.raises(UsageError, match="--node-rank 1"):
        plan_in(nnodes="1", node_rank=1)
    assert plan_in(nnodes="1", master_addr="host0").master_addr == "host0"


@pytest.mark.parametrize(
    ("flags", "env", "name", "value"),
    [
        ({}, {**RANK_ENV, "MASTER_PORT": "29_577"}, "master_port", 29577),
        ({}, {**RANK_ENV, "RANK": " +1 "}, "rank", 1),
        ({"nproc_per_node": "+2"}, {}, "nproc_per_node", 2),
        ({}, {"PET_NPROC_PER_NODE": "0_2"}, "nproc_per_node", 2),
        ({"nnodes": " 1 : 2 ", "rdzv_backend": "c10d", "rdzv_endpoint": "a"}, {}, "min_nodes", 1),
        ({"nnodes": " 2 ", "master_addr": "a"}, {}, "nnodes", 2),
    ],
)
def test_numbers_are_what_python_takes_for_them(
    flags: dict[str, Any], env: dict[str, str], name: str, value: int
) -> None:
    plan = plan_in(env, **flags)
    assert (getattr(plan, name), plan.problems) == (value, ())


@pytest.mark.parametrize("text", ["29__577", "_1", "1_", "0x10", "1.0", "1" * 19])
def test_and_what_it_does_not_take_is_none(text: str) -> None:
    (problem,) = plan_in({**RANK_ENV, "MASTER_PORT": text}).problems
    assert (problem.variable, problem.value) == ("MASTER_PORT", text)


@pytest.mark.parametrize(
    ("backend", "names"), [("cpu:gloo,npu:hccl", "hccl"), ("xccl", "xccl"), ("cpu:gloo,cuda:nccl", ""), (None, "")]
)
def test_groups_that_the_check_does_not_make_are_said_to_be_untried(backend: str | None, names: str) -> None:
    note = plan_in({}, backend=backend).note
    assert (f"no groups of {names}: those of the job are untried" in note) is bool(names)
    assert bool(note) is bool(names)
