"""One site for all tests in here; where there can be none they are skipped, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.launchers.harness import site, slurm, sshd


@pytest.fixture(scope="session")
def real_site() -> Iterator[site.Site]:
    """Three nodes and a login node."""
    if reason := site.unfit():
        pytest.skip(reason)
    with site.Site() as real:
        yield real


@pytest.fixture
def with_slurm(real_site: site.Site) -> site.Site:
    """The site, its SLURM at work."""
    if reason := site.unfit(*slurm.PROGRAMS):
        pytest.skip(reason)
    assert real_site.slurm
    return real_site


@pytest.fixture
def with_sshd(real_site: site.Site) -> site.Site:
    """The site, its sshd at work."""
    if reason := site.unfit(*sshd.PROGRAMS):
        pytest.skip(reason)
    assert real_site.sshd
    return real_site
