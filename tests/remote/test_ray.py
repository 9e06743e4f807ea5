"""The transport by Ray's actors, with a stand-in at Ray's own interface; real clusters: tests/launchers/test_ray.py."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distdoctor.model.errors import UsageError
from distdoctor.remote import ray_cluster, ray_groups
from distdoctor.remote.transports import HostTarget, address_of

STANDIN = str(Path(__file__).parent / "standin_ray")


def node(number: int, gpus: int = 0, **others: Any) -> dict[str, Any]:
    return {
        "NodeID": f"{number:08d}aaaa",
        "NodeManagerHostname": f"host{number}",
        "NodeManagerAddress": f"10.77.0.{10 + number}",
        "Resources": {"CPU": 2.0, **({"GPU": float(gpus)} if gpus else {})},
        "Alive": True,
        **others,
    }


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Address at which the stand-in's cluster answers."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (STANDIN, os.environ.get("PYTHONPATH")))))
    monkeypatch.setenv("STANDIN_RAY", json.dumps([node(0), node(1)]))
    monkeypatch.setenv("STANDIN_RAY_KILLED", str(tmp_path / "killed"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def run(target: HostTarget, *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command by the target's own transport."""
    return subprocess.run(
        [*target.before, *command], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )


def test_this_node_is_the_first_and_its_address_is_rays(address: str) -> None:
    targets, dead = ray_cluster.nodes_of(address)
    assert ([one.host.name for one in targets], dead) == (["host1", "host0"], ())
    assert [address_of(one) for one in targets] == ["10.77.0.11", "10.77.0.10"]


def test_a_command_gets_input_and_gives_output_and_its_status(address: str, tmp_path: Path) -> None:
    targets, _ = ray_cluster.nodes_of(address)
    done = run(targets[0], "sh", "-c", 'cat; echo "$0" >&2; exit 7', stdin="x" * 300_000)
    assert (done.stdout, done.stderr.strip(), done.returncode) == ("x" * 300_000, sys.executable, 7)
    assert run(targets[0], "sh", "-c", "kill -9 $$").returncode == 137
    assert (tmp_path / "killed").read_text().splitlines() == ["killed"] * 2


def test_the_line_of_a_host_starts_distdoctor_there(address: str) -> None:
    targets, _ = ray_cluster.nodes_of(address)
    done = subprocess.run(targets[0].command(None), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b'"hello": true' in done.stdout, done.stderr


def test_the_command_ends_with_its_caller(address: str, tmp_path: Path) -> None:
    targets, _ = ray_cluster.nodes_of(address)
    script = f"echo $$; read line; touch {tmp_path}/ended"
    with subprocess.Popen(
        [*targets[0].before, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline().strip().isdigit()
        caller.kill()
        assert caller.stdout.read() == b""  # the driver closes it at the command's end
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize(
    ("nodes", "nnodes", "ranks", "gpus"),
    [
        ([node(0), node(1)], None, 4, {"host1": "0", "host0": "0"}),
        ([node(0), node(1), node(2)], 2, None, {"host2": "0", "host0": "0"}),
        ([node(0), node(1, 8), node(2, 8)], None, None, {"host2": "8", "host1": "8"}),  # the head has none
        ([node(1, 8), node(2, 8)], None, 4, {"host2": "4", "host1": "4"}),
        ([node(1, 8), node(2, 4)], None, 8, {"host2": "4", "host1": "8"}),
    ],
)
def test_nodes_of_the_job_and_their_gpus(
    address: str, monkeypatch: pytest.MonkeyPatch, nodes: Any, nnodes: Any, ranks: Any, gpus: dict[str, str]
) -> None:
    monkeypatch.setenv("STANDIN_RAY", json.dumps(nodes))
    chosen = ray_cluster.for_job(*ray_cluster.nodes_of(address), nnodes, ranks)
    assert {one.host.name: one.before[-1] for one in chosen} == gpus


def test_an_actor_for_each_gpu(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_RAY", json.dumps([node(0), node(1, 4), node(2, 4)]))
    found = ray_cluster.nodes_of(address)
    each = ray_cluster.each_gpu(ray_cluster.for_job(*found, None, 2))
    names = ["host2-gpu0", "host2-gpu1", "host1-gpu0", "host1-gpu1"]
    assert [(one.host.name, one.host.slots, one.before[-1]) for one in each] == [(name, 1, "1") for name in names]
    with pytest.raises(UsageError, match="--per-gpu: no node of this Ray cluster has a GPU"):
        ray_cluster.each_gpu(ray_cluster.for_job([one for one in found[0] if not one.gpus], (), None, None))


def test_bundles_on_the_nodes_that_ray_chose(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STANDIN_RAY", json.dumps([node(0), node(1, 4), node(2, 4)]))
    targets, _ = ray_cluster.nodes_of(address)

    def placed(strategy: str, nnodes: int | None, ranks: int, per_gpu: bool) -> list[tuple[object, ...]]:
        found = ray_groups.in_groups(targets, (), strategy, nnodes, ranks, per_gpu)
        assert run(found[-1], "true").returncode == 0
        return [(one.host.name, one.host.slots, *one.before[-2:]) for one in found]

    assert placed("PACK", 2, 4, False) == [("host2", 4, "0/1", "4"), ("host1", 4, "0/0", "4")]
    targets, _ = ray_cluster.nodes_of(address)
    pair = [("host1-bundle0", 1, "0/0", "1"), ("host1-bundle1", 1, "0/1", "1")]
    assert placed("STRICT_PACK", 1, 2, True) == pair
    monkeypatch.setenv("STANDIN_RAY", json.dumps([node(0), node(1)]))
    targets, _ = ray_cluster.nodes_of(address)
    assert placed("SPREAD", 1, 2, False) == [("host0", 2, "0/0", "0")]  # no GPU in the cluster: a bundle of one CPU


def test_bundles_without_room_name_what_is_free_and_who_has_the_rest(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STANDIN_RAY", json.dumps([node(1, 4), node(2, 4)]))
    held = {"placement_group_id": "ab" * 14 + "02000000", "name": "", "state": "CREATED", "bundles": {"0": {"GPU": 3}},
            "bundles_to_node_id": {"0": node(1)["NodeID"]}}  # fmt: skip
    monkeypatch.setenv("STANDIN_RAY_HELD", json.dumps([held]))
    targets, _ = ray_cluster.nodes_of(address)
    with pytest.raises(UsageError) as caught:
        ray_groups.in_groups(targets, (), "STRICT_SPREAD", None, None, False)
    assert str(caught.value) == (
        "--placement-group: Ray did not place 2 bundles of 4 GPUs (STRICT_SPREAD): there is room for 1 of them; "
        "without other jobs there is room for all; free: host2 4 of 4 GPUs, host1 1 of 4 GPUs; placement group "
        "abababab of job 02000000, python train.py (pid 33 on 10.77.0.10), holds 3 on host1"
    )
    rooms = [("PACK", 2, 8, "16 bundles", 5, 8), ("STRICT_PACK", 1, 8, "8 bundles", 0, 0)]
    for strategy, nnodes, ranks, bundles, now, most in rooms:
        said = (
            rf"{bundles} of 1 GPU \({strategy}\): there is room for {now} of them; .* room for {most};.*; host3 is dead"
        )
        with pytest.raises(UsageError, match=said):
            ray_groups.in_groups(targets, ["host3 is dead"], strategy, nnodes, ranks, True)
    removed = (tmp_path / "killed").read_text().splitlines()
    assert removed == ["removed"] * 3


def test_two_nodes_of_one_name_are_told_apart(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = {**node(1), "NodeManagerHostname": "host0"}
    monkeypatch.setenv("STANDIN_RAY", json.dumps([node(0), twin]))
    targets, _ = ray_cluster.nodes_of(address)
    assert sorted(one.host.name for one in targets) == ["host0-00000000", "host0-00000001"]


def test_too_few_nodes_name_the_dead_one(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = node(2, Alive=False, DeathReasonMessage="health check failed")
    again = {**node(1, Alive=False), "NodeID": "old"}  # its address is in use by a live one
    monkeypatch.setenv("STANDIN_RAY", json.dumps([node(0), dead, again, node(1)]))
    found = ray_cluster.nodes_of(address)
    assert len(ray_cluster.for_job(*found, None, None)) == 2
    with pytest.raises(UsageError) as caught:
        ray_cluster.for_job(*found, 3, None)
    assert str(caught.value) == (
        "--ray: the cluster has 2 of 3 nodes: host1, host0; host2 (10.77.0.12) is dead: health check failed"
    )


def test_a_node_that_starts_no_actor_says_so(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_RAY", json.dumps([node(0), node(1, 8, Full=True)]))
    (target,) = ray_cluster.for_job(*ray_cluster.nodes_of(address), None, None)
    done = run(replace(target), "true")
    assert done.returncode == 255
    assert done.stderr.strip() == "Ray started no actor with 8 GPUs there within 25 s: 8 of its GPUs are free"


def test_without_a_cluster_or_without_ray_one_line_says_it(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(UsageError, match=f"--ray: no Ray cluster answered at {closed}: Connection refused"):
        ray_cluster.nodes_of(closed)
    monkeypatch.setenv("STANDIN_RAY_REFUSES", "1")
    with pytest.raises(UsageError, match="Version mismatch: the cluster was started with Ray: 2"):
        ray_cluster.nodes_of(address)
    monkeypatch.setenv("STANDIN_RAY_REFUSES", "token")
    with pytest.raises(UsageError, match="the cluster wants a token: set RAY_AUTH_MODE=token, and put the token of"):
        ray_cluster.nodes_of(address)
    monkeypatch.setattr(ray_cluster, "_HAS_RAY", "raise SystemExit(1)")
    with pytest.raises(UsageError, match="--ray needs Ray, which is in none of "):
        ray_cluster.nodes_of(address)
