"""Which NCCL the loader may take instead of torch's."""

from __future__ import annotations

from pathlib import Path

from distdoctor.ranks.nccl_libraries import nccl_libraries


def test_they_come_in_the_order_of_the_loader(tmp_path: Path) -> None:
    old, other, site = tmp_path / "old", tmp_path / "other", tmp_path / "site"
    for folder in (old, other, site):
        folder.mkdir()
    (old / "libnccl.so.2").touch()
    (other / "libnothing.so").touch()
    for name in ("nvidia_nccl_cu12-2.21.5", "nvidia_nccl_cu13-2.28.3", "nvidia_cublas-1"):
        (site / f"{name}.dist-info").mkdir()
    env = {"LD_PRELOAD": "/x/libnccl.so.2.20 /x/libm.so", "LD_LIBRARY_PATH": f"{other}:{old}::/nowhere"}
    assert list(nccl_libraries(env, [str(site), "/nowhere"])) == [
        {"name": "/x/libnccl.so.2.20", "by": "LD_PRELOAD", "without": "/x/libm.so"},
        {"name": f"{old}/libnccl.so.2", "by": "LD_LIBRARY_PATH", "without": f"{other}:/nowhere"},
        {"name": "nvidia-nccl-cu12 2.21.5"},
        {"name": "nvidia-nccl-cu13 2.28.3"},
    ]


def test_without_any_there_is_none(tmp_path: Path) -> None:
    assert list(nccl_libraries({"LD_LIBRARY_PATH": f"{tmp_path}", "LD_PRELOAD": ""}, [str(tmp_path)])) == []
