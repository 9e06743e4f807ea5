"""Tests of what a process says of itself."""

from __future__ import annotations

from pathlib import Path

from distdoctor.probes.host.identity import packages, variables


def test_only_the_names_that_are_known_are_kept() -> None:
    given = {"NCCL_DEBUG": "x" * 900, "NCCL_SITE_SECRET": "1", "AWS_SECRET_ACCESS_KEY": "1", "MASTER_ADDR": "a"}
    assert variables(given) == {"MASTER_ADDR": "a", "NCCL_DEBUG": "x" * 500}


def test_where_libraries_are_loaded_from_is_kept_whole() -> None:
    """Checks tell the list without one of its folders, as a setting."""
    folders = ":".join(f"/apps/module-{number}/lib" for number in range(60))
    assert variables({"LD_LIBRARY_PATH": folders, "LD_PRELOAD": ""}) == {"LD_LIBRARY_PATH": folders, "LD_PRELOAD": ""}


def test_versions_are_those_of_the_first_folder_that_has_the_package(tmp_path: Path) -> None:
    for folder in ("own/vllm-0.11.0+cu129.dist-info", "own/Flashinfer_Python-0.4.0.dist-info", "own/deep_ep", "site"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("vllm-0.8.5.dist-info", "deep_ep-1.2.1+9af0e0d.dist-info", "rich-14.0.0.dist-info"):
        (tmp_path / "site" / folder).mkdir()
    efa = tmp_path / "efa_installed_packages"
    efa.write_text("# EFA installer version: 1.43.2\n# Debug packages installed: no\n")
    assert packages([str(tmp_path / "own"), str(tmp_path / "site"), "/nowhere"], efa) == {
        "deep-ep": "1.2.1+9af0e0d",
        "efa-installer": "1.43.2",
        "flashinfer-python": "0.4.0",
        "vllm": "0.11.0+cu129",
    }
