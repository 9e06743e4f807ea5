"""Everything in here needs the lab; where there is none it is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.namespaces import LabUnavailable, why_not


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is in this folder where no lab can be built."""
    here = Path(__file__).parent
    if any(here in item.path.parents for item in items) and (reason := why_not()):
        for item in items:
            if here in item.path.parents and item.path.name != "test_table.py":  # that one only reads
                item.add_marker(pytest.mark.skip(reason=f"no lab here: {reason}"))


@pytest.fixture
def pair() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip the test whose fault cannot be made here."""
    try:
        return (yield)
    except LabUnavailable as err:
        pytest.skip(str(err))
