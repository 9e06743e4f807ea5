"""RDMA ports as /sys/class/infiniband shows them: a tree as the kernel's (drivers/infiniband/core/sysfs.c) makes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from distdoctor.model.facts import Gid, NodeFacts, RdmaFacts, RdmaPort, decode, encode
from distdoctor.probes.gpu import nccl
from tests.facts_builder import node

NONE = "0000:0000:0000:0000:0000:0000:0000:0000"
LOCAL = "fe80:0000:0000:0000:0ac0:ebff:fe3d:ca54"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a6e:0021"


def lay_out(root: Path, device: str, gids: dict[int, tuple[str, str]], **files: str) -> None:
    """A device of one port. ``gids``: index -> address and version; ``files``: what else the port's folder has."""
    folder = root / "sys/class/infiniband" / device / "ports/1"
    for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (folder / name).mkdir(parents=True)
    for index in range(64):
        address, version = gids.get(index, (NONE, ""))
        (folder / "gids" / str(index)).write_text(address + "\n")
        if version:  # of an entry that is not set, reading these fails
            (folder / "gid_attrs/types" / str(index)).write_text(version + "\n")
            (folder / "gid_attrs/ndevs" / str(index)).write_text("eth5\n")
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def test_roce_and_infiniband(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        "mlx5_10",
        {0: (LOCAL, "IB/RoCE v1"), 3: (MAPPED, "RoCE v2"), 40: (MAPPED, "IB/RoCE v1"), 41: (MAPPED, "RoCE v2")},
        state="4: ACTIVE",
        phys_state="5: LinkUp",
        link_layer="Ethernet",
        rate="100 Gb/sec (4X EDR)",
    )
    lay_out(
        tmp_path, "mlx5_2", {}, state="1: DOWN", phys_state="2: Polling", link_layer="InfiniBand", rate="2.5 Gb/sec"
    )
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    (tmp_path / "dev/infiniband/uverbs0").touch()
    (tmp_path / "dev/infiniband/uverbs1").symlink_to("nowhere")
    seen = nccl.probe_rdma(gid_index=41, root=tmp_path)
    local, mapped = "fe80::ac0:ebff:fe3d:ca54", "::ffff:10.110.0.33"
    gids = (Gid(0, local, "1", "eth5"), Gid(3, mapped, "2", "eth5"), Gid(41, mapped, "2", "eth5"))
    assert seen == RdmaFacts(
        (
            RdmaPort("mlx5_2", 1, "DOWN", "Polling", "InfiniBand", 2.5),
            RdmaPort("mlx5_10", 1, "ACTIVE", "LinkUp", "Ethernet", 100.0, gids),
        ),
        ("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"),
        {"/dev/infiniband/uverbs1": "ENOENT"},
    )
    facts = replace(node(), rdma=seen)
    assert decode(encode(facts), NodeFacts) == facts


def test_nothing_there(tmp_path: Path) -> None:
    assert nccl.probe_rdma(root=tmp_path) is None
    (tmp_path / "sys/class/infiniband").mkdir(parents=True)
    assert nccl.probe_rdma(root=tmp_path) is None


def test_a_device_without_ports(tmp_path: Path) -> None:
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    assert nccl.probe_rdma(root=tmp_path) == RdmaFacts()
