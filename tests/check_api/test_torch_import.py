"""How a build of torch is installed."""

from __future__ import annotations

from distdoctor.check_api.torch_import import install_torch_version


def test_a_build_is_installed_from_its_own_index() -> None:
    assert (
        install_torch_version("2.7.0+cu126")
        == "pip install torch==2.7.0 --index-url https://download.pytorch.org/whl/cu126"
    )
    assert install_torch_version("2.7.0") == "pip install torch==2.7.0"
    assert install_torch_version("2.7.0a0+git;rm") == "pip install torch==2.7.0a0"
