"""Tests of who started this process: each launcher that is recognised, and what is nobody's."""

from __future__ import annotations

from typing import Any

import pytest

from distdoctor.plan.resolve import launched_as
from distdoctor.plan.values import Flags

AGENT = {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "2"}


@pytest.mark.parametrize(
    ("flags", "env", "launcher"),
    [
        ({}, {}, None),
        ({}, {"RANK": "0"}, "env"),
        ({}, {"MASTER_PORT": "1"}, "env"),
        ({}, {**AGENT, "RANK": "0"}, "torchrun"),
        ({}, {**AGENT, "RANK": "0", "PET_NNODES": "2"}, "torchrun"),
        ({}, {"RANK": "0", "PET_NNODES": "2"}, None),
        ({}, {"RANK": "0", "PET_NNODES": ""}, "env"),
        ({}, AGENT, None),
        ({"nnodes": "2"}, {**AGENT, "RANK": "0"}, None),
        ({"standalone": True}, {"RANK": "0"}, None),
        ({"node_rank": 0}, {"RANK": "0"}, None),
        ({"master_addr": "a"}, {"MASTER_PORT": "1"}, None),
        ({"master_addr": "a"}, {"RANK": "0"}, "env"),
    ],
)
def test_who_it_is(flags: dict[str, Any], env: dict[str, str], launcher: str | None) -> None:
    found = launched_as(Flags(**flags), env)
    assert (found and found.launcher) == launcher


def test_what_the_agent_says() -> None:
    found = launched_as(Flags(), {**AGENT, "RANK": "0"})
    assert found is not None
    assert (found.agent_store, found.run_id, found.restart) == (True, "job", 2)
