"""The groups of a mesh are those that torch's DeviceMesh creates, in its order."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from distdoctor.model.device_mesh import Mesh, groups_of, lengths_of, parse_mesh, size, text_of

TORCHS = """
import json, math, sys
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
real, calls = device_mesh.new_group, []
device_mesh.new_group = lambda **given: (calls.append(given["ranks"]), real(**given))[1]
for lengths in json.loads(sys.argv[1]):
    world = max(8, math.prod(lengths))
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    calls.clear()
    device_mesh.init_device_mesh("cpu", lengths)
    print(json.dumps([world, calls]))
    dist.destroy_process_group()
"""
LENGTHS = ([8], [2, 4], [4, 2], [2, 3, 4], [1, 8], [2, 2, 2, 2], [2, 2])


def test_torch_creates_the_same_groups_in_the_same_order() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TORCHS, json.dumps(LENGTHS)], capture_output=True, text=True, check=True, timeout=120
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(LENGTHS)
    for lengths, (world, calls) in zip(LENGTHS, answers, strict=True):
        mesh = tuple((f"d{place}", length) for place, length in enumerate(lengths))
        assert [list(group.ranks) for group in groups_of(mesh, 0, world)] == calls, lengths


@pytest.mark.parametrize(
    ("text", "mesh"),
    [
        ("dp=2,tp=4", (("dp", 2), ("tp", 4))),
        ("pp=2, dp_shard=1", (("pp", 2), ("dp_shard", 1))),
        ("", None),
        ("dp", None),
        ("dp=0", None),
        ("dp=-1,tp=4", None),
        ("dp=2,dp=2", None),
        ("dp=2,,tp=2", None),
        ("a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", None),
        ("dp=1000001", None),
    ],
)
def test_a_mesh_as_it_is_written(text: str, mesh: Mesh | None) -> None:
    assert parse_mesh(text) == mesh
    if mesh:
        assert parse_mesh(text_of(mesh)) == mesh


def test_what_extra_groups_add() -> None:
    mesh = (("dp", 2), ("tp", 4))
    assert size(mesh) == 8
    assert [(group.name, len(group.ranks)) for group in groups_of(mesh, 2, 8)[-2:]] == [("group 1", 8), ("group 2", 8)]
    assert lengths_of(mesh, 0, 8) == [2, 4]
    assert lengths_of((("dp", 8),), 1, 8) == [8]


def test_an_engine_creates_the_same_groups_in_an_order_of_its_own() -> None:
    mesh = (("dp", 2), ("pp", 2), ("tp", 2))
    groups = groups_of(mesh, 1, 8, ("tp", "pp", "dp"))
    assert [group.name for group in groups] == ["tp"] * 4 + ["pp"] * 4 + ["dp"] * 4 + ["group 1"]
    assert sorted(groups, key=lambda one: one.name) == sorted(groups_of(mesh, 1, 8), key=lambda one: one.name)


def test_an_engine_creates_a_group_of_all_ranks_and_none_that_its_order_lacks() -> None:
    mesh, order = (("dp", 2), ("tp", 2)), ("tp", "ep=dp+tp")
    assert [group.ranks for group in groups_of(mesh, 0, 4, order)] == [(0, 1), (2, 3), (0, 1, 2, 3)]
    assert lengths_of(mesh, 1, 4, order) == [2, 4, 4]
