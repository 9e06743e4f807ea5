"""Tests of how a build of torch is installed, and what is told of one that cannot be imported."""

from __future__ import annotations

import pytest

from distdoctor.check_api.torch import install_torch_version, torch_error_evidence
from distdoctor.model.cluster import build
from tests.facts_builder import healthy, with_identity

INDEX = "--index-url https://download.pytorch.org/whl"


@pytest.mark.parametrize(
    ("version", "command"),
    [
        # Without its build a version is that of any build: pip would leave 2.7.0+cpu as it is.
        ("2.7.0+cu126", f"pip install torch==2.7.0+cu126 {INDEX}/cu126"),
        ("2.13.0+cpu", f"pip install torch==2.13.0+cpu {INDEX}/cpu"),
        ("2.6.0+rocm6.2.4", f"pip install torch==2.6.0+rocm6.2.4 {INDEX}/rocm6.2.4"),
        ("2.7.0", "pip install torch==2.7.0"),
        ("2.9.0.dev20250801+cu128", f"pip install --pre torch==2.9.0.dev20250801+cu128 {INDEX}/nightly/cu128"),
        ("2.7.0a0+ecf3bae40a.nv25.2", ""),  # NVIDIA's image
        ("2.5.0a0+git1234567", ""),
        ("2.5.1.post303", ""),  # conda-forge's
        ("2.7.0a0+git;rm", ""),
    ],
)
def test_a_build_is_installed_from_its_own_index_where_one_has_it(version: str, command: str) -> None:
    assert install_torch_version(version) == command


def test_a_long_error_of_many_lines_is_told_on_one() -> None:
    """That of TORCH_LOGS lists all that it takes."""
    said = "ValueError: \nInvalid log settings: +nothing, must be\nregistered.\nValid settings:\n" + "all, aot, " * 200
    one = with_identity(healthy(2)[1], torch=None, torch_error=said)
    (node,) = (n for n in build((one,)).nodes)
    seen = torch_error_evidence(node)
    assert "ValueError: Invalid log settings: +nothing, must be registered." in seen and len(seen) < 600
