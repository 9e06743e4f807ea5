"""What a process says of itself."""

from __future__ import annotations

from distdoctor.probes.host.identity import variables


def test_only_the_names_that_are_known_are_kept() -> None:
    given = {"NCCL_DEBUG": "x" * 900, "NCCL_SITE_SECRET": "1", "AWS_SECRET_ACCESS_KEY": "1", "MASTER_ADDR": "a"}
    assert variables(given) == {"MASTER_ADDR": "a", "NCCL_DEBUG": "x" * 500}


def test_where_libraries_are_loaded_from_is_kept_whole() -> None:
    """Checks tell the list without one of its folders, as a setting."""
    folders = ":".join(f"/apps/module-{number}/lib" for number in range(60))
    assert variables({"LD_LIBRARY_PATH": folders, "LD_PRELOAD": ""}) == {"LD_LIBRARY_PATH": folders, "LD_PRELOAD": ""}
