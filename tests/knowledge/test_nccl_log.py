"""Tests of what NCCL says of itself, read from what real ones of several versions printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.knowledge.nccl import SHOWN, read_log_settings
from distdoctor.model.facts import NcclLog

REPORTS = Path(__file__).parents[1] / "logs/reports"
CHANNELS = [
    ("Channel 00 : 0[1b000] -> 1[1c000] via direct shared memory", "SHM"),
    ("Channel 00 : 1[1c000] -> 0[1b000] via SHM/direct/direct", "SHM"),
    ("Channel 03/0 : 1[c5000] -> 0[29000] via P2P/IPC/read", "P2P/IPC"),
    ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "P2P/CUMEM"),
    ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read", "P2P/direct pointer"),
    ("Channel 02/0 : 1[1] -> 3[3] via P2P/indirect/2[2]", "P2P/indirect"),
    ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA/Shared", "NET/IB/GDRDMA"),
    ("Channel 00/0 : 9[1] -> 1[1] [receive] via NET/IB/3(0)/GDRDMA(PCI)", "NET/IB/GDRDMA"),
    ("Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0", "NET/Socket"),
    ("Channel 01/0 : 0[0] -> 1[0] [send] via NET/AWS Libfabric/0/GDRDMA", "NET/AWS Libfabric/GDRDMA"),
    ("Channel 00 : 0 -> 1 [receive] via NET/Socket/0", "NET/Socket"),
]
NOTES = [
    ("INFO", "Failed to open libibverbs.so[.1]", True),
    ("WARN", "Failed to open libibverbs.so[.1]", True),
    ("INFO", "Count not open libibverbs.so.1", True),
    ("INFO", "Count not open libibverbs.so", False),  # libibverbs.so.1 is tried next
    ("INFO", "NET/IB : No device found.", True),
    ("WARN", "Call to ibv_modify_qp failed with error Connection timed out", False),  # a warning, not a note
    ("INFO", "NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.", False),
    ("INFO", "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object", False),
    ("INFO", "NET/Plugin: libnccl-net-ofi.so: libfabric.so.1: cannot open shared object file", True),
]


def said(*lines: str, level: str = "INFO") -> NcclLog:
    found = read_log_settings("".join(f"gpu1:97:221 [0] NCCL {level} {line}\n" for line in lines))
    assert found is not None
    return found


@pytest.mark.parametrize(("line", "way"), CHANNELS, ids=[way for _, way in CHANNELS])
def test_which_way_a_channel_goes(line: str, way: str) -> None:
    assert said(line).channels == {way: 1}


@pytest.mark.parametrize(("level", "line", "kept"), NOTES)
def test_why_it_did_not_take_what_it_looked_for(level: str, line: str, kept: bool) -> None:
    assert said(line, level=level).notes == ((line,) if kept else ())


@pytest.mark.parametrize("line", ["Bootstrap : Using [0]eth0:10.0.0.1<0>", "Bootstrap: Using eth0:10.0.0.1<40611>"])
def test_the_interface_of_older_and_newer_versions(line: str) -> None:
    assert said(line).interface == "eth0:10.0.0.1"


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (
            "none/nccl-226-gb200-job-init-start.log",
            {"interface": "eth0:192.168.33.51", "devices": ("eth0:192.168.33.51",), "network": "Socket"},
        ),
        ("none/detectron2-slow-two-nodes-libibverbs-warn.log", {"network": "Socket"}),
        ("cannot-tell/litgpt-babel-rank1-broadcast-one-element.log", {"network": "IB", "devices": ("mlx5_0:1/IB",)}),
    ],
)
def test_real_logs(report: str, expected: dict[str, object]) -> None:
    found = read_log_settings((REPORTS / report).read_text(errors="replace"))
    assert found is not None
    assert {name: getattr(found, name) for name in expected} == expected


def test_warnings_begin_with_their_file_in_all_versions() -> None:
    found = read_log_settings(
        "NCCL version 2.27.3+cuda12.8\n"
        "\n[2026-11-20 10:00:00] gpu1:97:221 [0] misc/socket.cc:441 (connect) NCCL WARN a\n"
        "\ngpu1:97:221 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'\n"
    )
    assert found == NcclLog(
        "2.27.3+cuda12.8",
        warnings=(
            "misc/socket.cc:441 (connect) NCCL WARN a",
            "transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
        ),
    )


def test_what_nccl_did_not_say_is_nothing_and_what_is_hostile_is_made_fit() -> None:
    assert read_log_settings("") is None
    assert read_log_settings("Traceback (most recent call last):\n") is None
    (warning,) = said("\x1b[31m" + "x" * 5000, level="WARN").warnings
    assert len(warning) <= SHOWN and "\x1b" not in warning
