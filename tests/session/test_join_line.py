"""The line that node 0 prints for the others makes the same plan there."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from distdoctor.model.plan import Plan
from distdoctor.plan.resolve import resolve
from distdoctor.plan.values import Flags
from distdoctor.probes.network import interfaces
from distdoctor.session.options import Options
from distdoctor.session.rendezvous.progress import line_for_others, with_master

needs_an_address = pytest.mark.skipif(
    interfaces.reachable_address(interfaces.interfaces()) is None, reason="this host has only loopback"
)
SHARED = (
    *("nnodes", "nproc_per_node", "world_size", "master_addr", "master_port", "backend", "run_id", "rdzv_backend"),
    *("init_method", "started"),
)
NUMBERS = ("node_rank", "master_port")


def plan_of(env: dict[str, str], gpus: int, **flags: Any) -> Plan:
    return resolve(Flags(**flags), env, lambda: gpus, lambda: 4)


def flags_of(line: str) -> dict[str, Any]:
    """The flags of a command line, by their field."""
    words = shlex.split(line)
    assert words[:2] == ["distdoctor", "check"]
    names = [word.removeprefix("--").replace("-", "_") for word in words[2::2]]
    assert set(names) <= {field.name for field in fields(Flags)}
    return {n: int(v) if n in NUMBERS else v for n, v in zip(names, words[3::2], strict=True)}


@needs_an_address
@pytest.mark.parametrize(
    ("flags", "env", "gpus"),
    [
        ({"nnodes": "2"}, {}, 0),
        ({"nnodes": "2"}, {}, 8),
        ({"nnodes": "2:4", "nproc_per_node": "3"}, {}, 8),
        ({"nnodes": "2", "nproc_per_node": "auto"}, {}, 0),
        ({"nnodes": "3", "master_port": 29999, "backend": "cpu:gloo,cuda:nccl"}, {}, 2),
        ({"nnodes": "2", "rdzv_id": "job 7; rm", "rdzv_backend": "c10d"}, {}, 0),
        ({"nnodes": "2", "init_method": "file:///shared/a b"}, {}, 0),
        ({}, {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "5", "PET_RDZV_ID": "x"}, 0),
    ],
)
def test_the_others_plan_what_node_0_plans(flags: dict[str, Any], env: dict[str, str], gpus: int) -> None:
    ours = plan_of(env, gpus, **flags)
    assert ours.announce and ours.node_rank == 0
    options = with_master(Options(ours, ()))
    theirs = plan_of({}, gpus, **flags_of(line_for_others(options)))
    assert {name: getattr(theirs, name) for name in SHARED} == {name: getattr(options.plan, name) for name in SHARED}
    assert theirs.node_rank is None and not theirs.announce


@needs_an_address
def test_no_token_is_made_and_one_that_the_user_set_is_passed_on() -> None:
    ours = plan_of({}, 0, nnodes="2")
    assert with_master(Options(ours, ())).token is None
    line = line_for_others(with_master(Options(ours, (), token="a token with spaces")))
    assert line.startswith("DISTDOCTOR_TOKEN='a token with spaces' distdoctor check ")


@needs_an_address
def test_the_address_is_one_of_this_host_that_is_no_loopback() -> None:
    plan = with_master(Options(plan_of({}, 0, nnodes="2"), ())).plan
    assert plan.master_addr is not None and not plan.master_addr.startswith(("127.", "::1"))
    text = "".join(Path(f"/proc/net/{name}").read_text() for name in ("fib_trie", "if_inet6") if _there(name))
    assert plan.master_addr in text or ":" in plan.master_addr
    assert plan.sources["master_addr"].startswith(("default route, ", "first interface, "))


def _there(name: str) -> bool:
    return Path(f"/proc/net/{name}").exists()


def test_a_master_that_was_named_stays() -> None:
    options = Options(plan_of({}, 0, nnodes="2", master_addr="gpu07"), ())
    assert with_master(options) is options
