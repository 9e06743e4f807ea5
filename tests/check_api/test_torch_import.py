"""How a build of torch is installed, and what is told of one that cannot be imported."""

from __future__ import annotations

from distdoctor.check_api.torch_import import install_torch_version, torch_error_seen
from distdoctor.model.cluster import build
from tests.facts_builder import healthy, with_identity


def test_a_build_is_installed_from_its_own_index() -> None:
    assert (
        install_torch_version("2.7.0+cu126")
        == "pip install torch==2.7.0 --index-url https://download.pytorch.org/whl/cu126"
    )
    assert install_torch_version("2.7.0") == "pip install torch==2.7.0"
    assert install_torch_version("2.7.0a0+git;rm") == "pip install torch==2.7.0a0"


def test_a_long_error_of_many_lines_is_told_on_one() -> None:
    """That of TORCH_LOGS lists all that it takes."""
    said = "ValueError: \nInvalid log settings: +nothing, must be\nregistered.\nValid settings:\n" + "all, aot, " * 200
    one = with_identity(healthy(2)[1], torch=None, torch_error=said)
    (node,) = (n for n in build((one,)).nodes)
    seen = torch_error_seen(node)
    assert "ValueError: Invalid log settings: +nothing, must be registered." in seen and len(seen) < 600
