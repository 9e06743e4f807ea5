"""Three nodes of a stand-in for GPUs and NCCL (tests/helpers/standin_cuda): the stages gpu and nccl as they are run,
and the search for what is wrong. What real ones do is not seen here."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.namespaces import ROOT, entry
from tests.helpers.runs import ended, environment, node, started
from tests.helpers.servers import unused_port
from tests.helpers.standin_nvml import compile_into

STANDIN = f"{Path(__file__).parents[1] / 'helpers/standin_cuda'}:{ROOT}"


def nodes(broken: str, ranks: int, count: int = 3) -> tuple[int, dict[str, Any]]:
    """Return what node 0 of ``count`` says; ``broken``: the groups that cannot be made."""
    port = unused_port()
    flags = ("--nproc-per-node", str(ranks), "--wait", "40")
    with ExitStack() as stack:
        runs = [
            stack.enter_context(
                started(
                    *node(n, port, *flags, nnodes=count),
                    PYTHONPATH=STANDIN,
                    STANDIN_GPUS=str(max(ranks, 2)),
                    STANDIN_NODE=f"node{n}",
                    STANDIN_BROKEN=broken,
                )
            )
            for n in range(count)
        ]
        first, *_ = [ended(run) for run in runs]
        return first


def fails(finding: dict[str, Any]) -> bool:
    """The port is one that the kernel hands out, which is warned of."""
    return bool(finding["severity"] == "fail")


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {stage["stage"]: stage["status"] for stage in report["stages"]}


@pytest.mark.parametrize(
    ("broken", "ranks", "blamed"),
    [
        ("node0+node2", 1, ["#0", "#2"]),
        pytest.param("node1", 1, ["#1"], marks=pytest.mark.scoreboard),
        pytest.param("node1", 2, ["#1"], marks=pytest.mark.scoreboard),
        pytest.param("node0+node1+node2", 2, ["#0", "#1", "#2"], marks=pytest.mark.scoreboard),
    ],
)
def test_who_it_is_is_found_in_smaller_groups(broken: str, ranks: int, blamed: list[str]) -> None:
    status, report = nodes(broken, ranks)
    (root,) = (finding for finding in report["findings"] if finding["because_of"] is None and fails(finding))
    assert (status, root["check"]) == (1, "nccl/init-failed")
    assert [name[-2:] for name in root["nodes"]] == blamed
    assert any("passed" in line for line in root["evidence"])
    assert any("stand-in.cc:1 NCCL WARN no group of" in line for line in root["evidence"])
    for values in report["details"]["nodes"].values():
        assert (values["nccl"]["network"], values["nccl"]["interface"]) == (["Socket"], ["eth0:10.0.0.1"])


@pytest.mark.parametrize(("broken", "ranks", "blamed"), [("node0/1+node0/2", 4, [1, 2]), ("node0/2", 4, [2])])
@pytest.mark.scoreboard
def test_the_gpus_of_one_node_are_tried_apart(broken: str, ranks: int, blamed: list[int]) -> None:
    status, report = nodes(broken, ranks, count=1)
    (root,) = (finding for finding in report["findings"] if finding["because_of"] is None and fails(finding))
    assert (status, root["check"], root["ranks"]) == (1, "nccl/init-failed", blamed)
    assert any("passed" in line for line in root["evidence"])


@pytest.mark.parametrize(("broken", "blamed"), [("node0/1+node1/1", [1, 3]), ("node0/1+node1/0,node0/1+node1/1", [1])])
@pytest.mark.scoreboard
def test_the_gpus_of_two_nodes_are_tried_across_them(broken: str, blamed: list[int]) -> None:
    status, report = nodes(broken, 2, count=2)
    (root,) = (finding for finding in report["findings"] if finding["because_of"] is None and fails(finding))
    assert (status, root["check"], root["ranks"]) == (1, "nccl/init-failed", blamed)
    assert any("together: passed" in line for line in root["evidence"])


@pytest.mark.scoreboard
def test_the_gpu_of_another_node_than_the_first_is_told() -> None:
    status, report = nodes("node1/1", 2, count=2)
    (root,) = (finding for finding in report["findings"] if finding["because_of"] is None and fails(finding))
    assert (status, root["check"], root["ranks"]) == (1, "nccl/init-failed", [3])


@pytest.mark.parametrize(
    ("copies", "said"),
    [
        pytest.param("0>1=zeros", "1 of 2 copies arrived wrong", marks=pytest.mark.scoreboard),
        ("1>0=endless", "the copy from device 1 to 0 did not end; 1 copies before it did"),
    ],
)
def test_what_devices_copy_to_each_other(copies: str, said: str) -> None:
    argv, env = (
        node(0, unused_port(), "--nproc-per-node", "2", "--until", "store", nnodes=1),
        {"STANDIN_COPIES": copies},
    )
    with started(*argv, PYTHONPATH=STANDIN, STANDIN_GPUS="2", STANDIN_NODE="node0", **env) as run:
        _, report = ended(run)
    (found,) = (finding for finding in report["findings"] if finding["check"] == "nccl/p2p-broken")
    assert any(said in line for line in found["evidence"])


@pytest.mark.scoreboard
def test_a_pair_that_no_ring_takes() -> None:
    argv = node(0, unused_port(), "--nproc-per-node", "4", "--backend", "nccl", nnodes=1)
    with started(*argv, PYTHONPATH=STANDIN, STANDIN_GPUS="4", STANDIN_NODE="node0", STANDIN_SPOILT="0>2") as run:
        status, report = ended(run)
    (root,) = (finding for finding in report["findings"] if finding["because_of"] is None and fails(finding))
    assert (status, root["check"], root["ranks"]) == (1, "collective/wrong-result", [2])
    assert any("all_to_all: element 0 is 0 instead of 2" in line for line in root["evidence"])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_into(tmp_path_factory.mktemp("driver"))


def of_a_driver(library: Path, asked: Path, *flags: str, **env: str) -> subprocess.Popen[str]:
    """A check up to the store (before it torch is not loaded) on a node of eight; the stand-in for the driver's
    library speaks of it, too."""
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024"
    folder = "/proc/driver/nvidia"
    there = f"mount -t tmpfs none /proc/driver && mkdir {folder} && echo '{line}' >{folder}/version"
    given = {"PYTHONPATH": STANDIN, "STANDIN_GPUS": "8", "STANDIN_NODE": "n", "STANDIN_NVML_ASKED": str(asked), **env}
    command = (sys.executable, "-m", "distdoctor", "check", "--json", "--until", "store", "--backend", "nccl", *flags)
    return subprocess.Popen(
        [*entry("--mount", tools=("mount",)), "sh", "-c", f'{there} && exec "$@"', "sh", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(LD_LIBRARY_PATH=str(library), **given),
    )


@pytest.mark.scoreboard
def test_a_node_of_eight_is_seen_in_two_seconds(library: Path, tmp_path: Path) -> None:
    _, report = ended(of_a_driver(library, tmp_path / "asked", "--nproc-per-node", "8"))
    (stage,) = (stage for stage in report["stages"] if stage["stage"] == "gpu")
    assert (stage["status"], stage["seconds"] < 2) == ("pass", True), stage
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


@pytest.mark.scoreboard
def test_the_driver_is_asked_once_per_node_and_not_per_rank(library: Path, tmp_path: Path) -> None:
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port())}
    ranks = [
        of_a_driver(library, tmp_path / "asked", **common, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(2)
    ]
    _, report = ended(ranks[0])
    ranks[1].communicate(timeout=100)
    assert statuses(report)["gpu"] == statuses(report)["store"] == "pass"  # both ranks came
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


@pytest.mark.scoreboard
def test_healthy() -> None:
    status, report = nodes("", 2)
    assert (status, [finding for finding in report["findings"] if fails(finding)]) == (0, [])
    assert statuses(report)["gpu"] == statuses(report)["nccl"] == "pass"
