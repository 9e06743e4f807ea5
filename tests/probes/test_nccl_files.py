"""The files that NCCL reads its settings from, in its own order."""

from __future__ import annotations

import os
from pathlib import Path

from distdoctor.probes.gpu import nccl


def test_the_environment_then_the_users_file_then_the_systems(tmp_path: Path) -> None:
    users, system = tmp_path / "users.conf", tmp_path / "nccl.conf"
    users.write_text("# NCCL_ALGO=Ring\nNCCL_DEBUG=INFO\nNCCL_PROTO=LL\nno sign\n NCCL_BUFFSIZE = 1\n")
    system.write_text("NCCL_PROTO=Simple\nNCCL_SOCKET_IFNAME==eth0\nNCCL_IB_DISABLE=1")
    env = {"NCCL_CONF_FILE": str(users), "NCCL_IB_DISABLE": ""}
    assert nccl.settings_in_files(env, str(system)) == {
        "NCCL_DEBUG": ("INFO", str(users)),
        "NCCL_PROTO": ("LL", str(users)),
        " NCCL_BUFFSIZE ": (" 1", str(users)),
        "NCCL_SOCKET_IFNAME": ("=eth0", str(system)),
    }


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "bytes").write_bytes(b"NCCL_DEBUG=\xff\n\0=\n")
    for path in (fifo, tmp_path, tmp_path / "none"):
        assert nccl.settings_in_files({"NCCL_CONF_FILE": str(path)}, "") == {}
    assert nccl.settings_in_files({"NCCL_CONF_FILE": str(tmp_path / "bytes")}, "")["NCCL_DEBUG"][0] == "\udcff"
