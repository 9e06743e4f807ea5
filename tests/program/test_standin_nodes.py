"""Nodes of the stand-in for GPUs (tests/helpers/standin_cuda) on which files and settings are wrong that NCCL or a
launcher would take: found as the program is run, and no longer where the printed fix is applied."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers.namespaces import ROOT, entry
from tests.helpers.runs import check, ended, environment, node
from tests.helpers.servers import unused_port

STANDIN = f"{Path(__file__).parents[1] / 'helpers/standin_cuda'}:{ROOT}"
TWO_GPUS = {"PYTHONPATH": STANDIN, "STANDIN_GPUS": "2", "STANDIN_NODE": "node0"}


def found(report: dict[str, Any], check_id: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["check"] == check_id]


def test_a_topology_file_that_nccl_refuses(tmp_path: Path) -> None:
    file = tmp_path / "topology.xml"
    file.write_text('<?xml version="1.0"?>\n<system version="1"></system>\n')
    flags = ("--nproc-per-node", "2", "--until", "store")
    status, report = check(*flags, **TWO_GPUS, NCCL_TOPO_FILE=str(file))
    (said,) = found(report, "nccl/topo-file-bad")
    assert (status, said["severity"]) == (1, "fail")
    assert any("<?xml" in line or "?xml" in line for line in said["evidence"])
    assert said["fixes"][0]["env"] == {"NCCL_TOPO_FILE": None}
    _, report = check(*flags, **TWO_GPUS)
    assert found(report, "nccl/topo-file-bad") == []


def test_settings_that_nccl_ends_on_or_misreads(tmp_path: Path) -> None:
    values = {"NCCL_GRAPH_FILE": str(tmp_path / "none.xml"), "NCCL_P2P_DISABLE": "true"}
    status, report = check("--nproc-per-node", "2", "--until", "store", **TWO_GPUS, **values)
    (ends,), (misread,) = (found(report, one) for one in ("nccl/topo-file-bad", "environment/invalid-variable"))
    assert (status, ends["severity"], ends["fixes"][0]["env"]) == (1, "fail", {"NCCL_GRAPH_FILE": None})
    assert (misread["severity"], misread["fixes"][0]["env"]) == ("warn", {"NCCL_P2P_DISABLE": "1"})
    (values,) = report["details"]["nodes"].values()
    assert values["gpus"]["asked"] == "torch alone"  # the stand-in has no driver


def test_a_device_that_ends_the_process_is_named() -> None:
    status, report = check("--nproc-per-node", "2", "--until", "store", **TWO_GPUS, STANDIN_SICK="1=died")
    (said,) = found(report, "gpu/cannot-compute")
    assert (status, "device 1 cannot compute" in said["summary"]) == (1, True)
    assert any("a product of matrices was begun: " in line for line in said["evidence"])


ADAPTER = """
mkdir $KEPT/net && find /sys/class/net -type l -exec cp -P {} $KEPT/net ';'
mount -t tmpfs lab /sys/class && cp -a $KEPT/net /sys/class/
port=/sys/class/infiniband/mlx5_0/ports/1 && mkdir -p $port/gids
echo '4: ACTIVE' >$port/state; echo '5: LinkUp' >$port/phys_state; echo '400 Gb/sec (4X NDR)' >$port/rate
echo InfiniBand >$port/link_layer
"""
"""A container on a machine with an active port, to which its device file was not given."""
DEVICE = """
mkdir $KEPT/dev && mount --rbind /dev $KEPT/dev && mount -t tmpfs lab /dev && mkdir /dev/shm /dev/infiniband
mount --rbind $KEPT/dev/shm /dev/shm && ln -s /proc/self/fd /dev/fd
for name in null zero random urandom; do touch /dev/$name && mount --bind $KEPT/dev/$name /dev/$name; done
touch /dev/infiniband/uverbs0
"""


def of_a_container(made: str, kept: Path) -> list[dict[str, Any]]:
    """Return what is said of its RDMA devices where NCCL must use them; ``kept``: an empty folder."""
    flags = node(0, unused_port(), "--until", "store", "--wait", "2")
    process = subprocess.Popen(
        [
            *entry("--mount", tools=("mount",)),
            *("sh", "-c", f'set -e\n{made}\nexec "$@"', "sh"),
            *(sys.executable, "-m", "distdoctor", "check", "--json", *flags),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**TWO_GPUS, NCCL_NET="IB", KEPT=str(kept)),
    )
    return found(ended(process)[1], "nccl/rdma-device-missing")


def test_an_adapter_without_its_device_file(tmp_path: Path) -> None:
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
    (said,) = of_a_container(ADAPTER, tmp_path / "without")
    assert said["severity"] == "fail"
    assert any("no /dev/infiniband/uverbs* exists" in line for line in said["evidence"])
    assert of_a_container(f"{ADAPTER}{DEVICE}", tmp_path / "with") == []
