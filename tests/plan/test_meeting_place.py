"""Where ranks are told to meet: init methods, addresses, torchrun's rendezvous; and flags that make no plan."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

from distdoctor.model.errors import UsageError
from distdoctor.plan.resolve import resolve
from distdoctor.plan.syntax import address_problem
from distdoctor.plan.values import Flags
from tests.plan.recorded import env_of, plan_in, values


@pytest.mark.parametrize(
    ("env", "query"), [("RANK=1 WORLD_SIZE=2", ""), ("", "?rank=1&world_size=2"), ("RANK=0", "?rank=1&world_size=2")]
)
def test_a_rank_by_hand_with_an_init_method_is_one_of_several_and_needs_no_master(env: str, query: str) -> None:
    """It was told that MASTER_ADDR is missing; with its rank in the URL it was checked as a machine alone."""
    plan = plan_in(env_of(env), init_method=f"tcp://host0:4000{query}")
    told = values(plan, "started", "rank", "world_size", "master_addr", "master_port", "problems")
    assert told == ("rank", 1, 2, "host0", 4000, ())
    assert plan.sources["rank"] == ("--init-method" if query else "RANK")


def test_ranks_by_hand_that_meet_in_a_file_are_asked_for_an_address() -> None:
    env = env_of("RANK=1 WORLD_SIZE=2")
    with pytest.raises(UsageError, match="--master-addr HOST"):
        plan_in(env, init_method="file:///shared/init")
    plan = plan_in(env, init_method="file:///shared/init", master_addr="host0")
    assert values(plan, "rank", "world_size", "master_addr", "problems") == (1, 2, "host0", ())


def test_what_ranks_that_meet_in_a_file_do_not_read_is_no_problem() -> None:
    """A Service called master gives every pod MASTER_PORT=tcp://10.96.0.7:29500. It was told as what ends the job."""
    env = env_of("RANK=1 WORLD_SIZE=2 MASTER_ADDR=host0 MASTER_PORT=tcp://10.96.0.7:29500")
    plan = plan_in(env, init_method="file:///shared/init")
    assert values(plan, "master_addr", "master_port", "problems") == ("host0", 29500, ())
    assert plan_in(env).problems
    with pytest.raises(UsageError, match="--master-addr HOST"):
        plan_in(env | {"MASTER_ADDR": " "}, init_method="file:///shared/init")


@pytest.mark.parametrize("query", ["?rank=1", "?world_size=2", "?rank=1&wait=1"])
def test_one_of_rank_and_world_size_in_an_init_method_is_one_too_few(query: str) -> None:
    """torch ends with "world size parameter missing", or, where it is given too, with "node-specific arguments"."""
    env = env_of("RANK=1 WORLD_SIZE=2 MASTER_ADDR=host0")
    for method in ("tcp://host0:29500", "file:///shared/init"):
        with pytest.raises(UsageError, match="torch wants both"):
            plan_in(env, init_method=method + query)
    assert plan_in(env | {"MASTER_PORT": "29500"}, init_method=f"env://{query}").problems == ()


def test_a_master_that_torchrun_does_not_read_is_noted() -> None:
    """With the same line and the variable, torchrun's agents each wait at 127.0.0.1."""
    two: dict[str, Any] = {"nnodes": "2", "node_rank": 1}
    note = plan_in({"MASTER_ADDR": "host0"}, **two).note
    assert "torchrun reads no MASTER_ADDR" in note and "--master-addr host0" in note
    for env, more in (
        ({"PET_MASTER_ADDR": "host0"}, two),
        ({"MASTER_ADDR": "host0"}, two | {"master_addr": "host0"}),
        ({"MASTER_ADDR": "host0"}, two | {"init_method": "env://"}),
    ):
        assert plan_in(env, **more).note == ""


@pytest.mark.parametrize(
    ("method", "addr", "port"),
    [
        ("tcp://host0:4000", "host0", 4000),
        ("tcp://[fd00::1]:4000", "fd00::1", 4000),
        ("env://", "host9", 29500),
        ("file:///shared/init", "host9", 29500),
    ],
)
def test_init_method_names_the_master(method: str, addr: str, port: int) -> None:
    plan = plan_in({"MASTER_ADDR": "host9"}, nnodes="2", init_method=method)
    assert values(plan, "master_addr", "master_port", "init_method") == (addr, port, method)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"nnodes": "x"}, "--nnodes 'x'"),
        ({"nnodes": "0"}, "--nnodes '0'"),
        ({"nnodes": "3:2"}, "--nnodes '3:2'"),
        ({"nproc_per_node": "0"}, "--nproc-per-node '0'"),
        ({"nproc_per_node": "gpu"}, "no GPU is visible"),
        (
            {"nnodes": "2", "node_rank": 2, "master_addr": "a"},
            "--node-rank 2: with --nnodes 2 node ranks go from 0 to 1",
        ),
        (
            {"node_rank": 5, "master_addr": "a", "master_port": 1},
            "--node-rank 5: with --nnodes 1 the only node rank is 0",
        ),
        ({"nnodes": "2", "node_rank": -1, "master_addr": "a"}, "--node-rank -1"),
        ({"nnodes": "2", "node_rank": 1}, "--master-addr"),
        ({"nnodes": "2", "standalone": True}, "--standalone"),
        ({"master_port": 65536}, "--master-port 65536"),
        ({"master_port": -1}, "--master-port -1"),
        ({"nnodes": "2", "master_addr": "tcp://a:1"}, "did you mean a"),
        ({"nnodes": "2", "rdzv_endpoint": "a:70000"}, "70000 is not a port"),
        ({"nnodes": "2", "rdzv_endpoint": "a:b"}, "no port behind its colon"),
        ({"nnodes": "2", "rdzv_endpoint": "a"}, "names no port"),
        ({"nnodes": "2", "rdzv_endpoint": "fd00::1"}, "without brackets ([fd00::1]:PORT)"),
        ({"nnodes": "2", "rdzv_endpoint": "[fd00::1]"}, "names no port"),
        ({"nnodes": "2", "rdzv_backend": "c10d", "master_addr": "a"}, "--rdzv-endpoint a:PORT"),
        ({"init_method": "tcp://host0"}, "--init-method 'tcp://host0'"),
        ({"init_method": "tcp://fd77::10:29500"}, "stands in brackets, tcp://[fd77::10]:29500"),
        ({"init_method": "tcp://host0:FREEPORT"}, "tcp://HOST:PORT or file:///PATH"),
        ({"init_method": "file://shared"}, "--init-method"),
        ({"init_method": "tcp://a:1", "master_addr": "b"}, "--master-addr"),
        ({"nnodes": "2", "master_addr": "a", "master_port": 0}, "--master-port 0"),
        ({"nnodes": "2", "rdzv_endpoint": "a:0"}, "0 is not a port that all ranks know"),
        ({"nnodes": "2", "rdzv_endpoint": "a", "rdzv_backend": "c10"}, "no rendezvous backend"),
        ({"backend": "glo"}, "--backend 'glo'"),
        ({"backend": "gloo,nccl"}, "--backend 'gloo,nccl'"),
    ],
)
def test_flags_that_make_no_plan(flags: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_in(**flags)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why", "meant"),
    [
        (" ", "is empty", None),
        ("<MASTER_IP>", "placeholder", None),
        ("${MASTER}", "placeholder", None),
        ("10.0.0.XX", "placeholder", None),
        ("192.168.1.x", "placeholder", None),
        ("MASTER_IP", "placeholder", None),
        ("tcp://host0:29500/x", "URL", "host0"),
        ("[::1]", "brackets", "::1"),
        ("host0:29500", "port in it", "host0"),
        ("host0 ", "space", "host0"),
        ("ho st", "space", None),
        ("host0\r", "Windows' end of a line", "host0"),
        ("256.1.1.1", "255", None),
        ("a,b", "list of 2 nodes", "a"),
        ("gpu[07-09]", "list of 3 nodes", "gpu07"),  # SLURM_JOB_NODELIST as it is
        ("10,0,0,1", "character", None),
        ("gpu[07]", "character", None),
        ("a:b", "colon", None),
        (",host1", "a character", None),
    ],
)
def test_addresses_that_cannot_be_one(text: str, why: str, meant: str | None) -> None:
    problem, suggestion = address_problem(text)
    assert problem is not None
    assert why in problem
    assert suggestion == meant


@pytest.mark.parametrize(
    "text",
    ["host0", "node-1.cluster.local", "10.0.0.1", "fd00::1", "fe80::1%eth0", "my_host", "LNXX01", "xerxes", "1.2.3"],
)
def test_addresses_that_can_be_one(text: str) -> None:
    assert address_problem(text) == (None, None)


@pytest.mark.parametrize(
    ("backend", "gpus", "expected"),
    [
        ("auto", False, ("gloo",)),
        ("auto", True, ("gloo", "nccl")),
        ("nccl", True, ("nccl",)),
        ("cpu:gloo,cuda:nccl", False, ("gloo", "nccl")),
    ],
)
def test_the_groups_that_are_made(backend: str, gpus: bool, expected: tuple[str, ...]) -> None:
    plan = plan_in(backend=backend)
    assert plan.backends(gpus) == expected
    assert plan.gloo_planned == ("gloo" in expected)


@pytest.mark.parametrize(
    ("flags", "env", "field", "wanted"),
    [
        ({"nnodes": "2:3"}, {}, "min_nodes", 2),
        ({"nnodes": "3"}, {}, "min_nodes", None),
        ({"rdzv_backend": "c10d", "rdzv_endpoint": "a", "rdzv_conf": "x=1, join_timeout = 9"}, {}, "join_timeout", 9),
        ({"rdzv_backend": "c10d", "rdzv_endpoint": "a"}, {}, "join_timeout", None),
        ({"nnodes": "3"}, {"PET_NNODES": "1:3"}, "min_nodes", None),
        ({"local_addr": "10.0.0.1"}, {"PET_LOCAL_ADDR": "h"}, "local_addr", "10.0.0.1"),
        ({}, {"PET_LOCAL_ADDR": "10.0.0.2\r"}, "local_addr", "10.0.0.2"),
        ({"rdzv_conf": "timeout=5, is_host=True"}, {}, "is_host", True),
        ({}, {"PET_RDZV_CONF": "is_host=0"}, "is_host", False),
        ({"rdzv_conf": "is_hosted=1"}, {}, "is_host", None),
    ],
)
def test_what_torchrun_is_told_of_its_rendezvous(
    flags: dict[str, str], env: dict[str, str], field: str, wanted: object
) -> None:
    words: dict[str, Any] = {"nnodes": "3", "rdzv_backend": "c10d", "rdzv_endpoint": "h:1", **flags}
    assert getattr(resolve(Flags(**words), env, int, lambda: 2), field) == wanted


def test_a_meeting_that_only_torchrun_can_hold_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """etcd itself answers at the endpoint; no node can host a store there."""
    monkeypatch.setitem(sys.modules, "etcd", ModuleType("etcd"))
    sys.modules["etcd"].__spec__ = ModuleSpec("etcd", None)
    for kind in ("etcd", "etcd-v2"):
        for nnodes in ("1", "2"):
            with pytest.raises(UsageError, match=f"{kind} rendezvous.* -m distdoctor check"):
                plan_in(nnodes=nnodes, rdzv_endpoint="host0", rdzv_backend=kind)
            with pytest.raises(UsageError, match=f"{kind} rendezvous.* -m distdoctor check"):
                plan_in({"PET_RDZV_BACKEND": kind}, nnodes=nnodes, rdzv_endpoint="host0")
    assert plan_in({"PET_RDZV_BACKEND": "etcd"}, standalone=True).rdzv_backend == "c10d"


def test_without_its_package_etcd_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "etcd", None)
    (problem,) = plan_in({"PET_RDZV_BACKEND": "etcd"}, nnodes="2", rdzv_endpoint="host0").problems
    assert "python-etcd is missing" in problem.why


def test_what_is_for_one_node_and_left_in_the_environment_of_several_is_to_be_unset() -> None:
    """With it torchrun meets at localhost, whatever its launch line says. It was told as a wrong command line."""
    plan = plan_in({"PET_STANDALONE": "1"}, nnodes="3", node_rank=1, master_addr="host0")
    (problem,) = plan.problems
    assert (problem.variable, problem.value, problem.unset) == ("PET_STANDALONE", "1", True)
    assert values(plan, "nnodes", "node_rank", "master_addr", "rdzv_backend") == (3, 1, "host0", "static")
