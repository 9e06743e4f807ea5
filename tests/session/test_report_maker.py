"""Tests of what a report says of its run."""

from __future__ import annotations

import time

import pytest

from distdoctor.model.cluster import build
from distdoctor.session.context import Clock
from distdoctor.session.finish import ReportMaker
from tests.facts_builder import healthy, judged


@pytest.mark.parametrize(("ahead", "seconds"), [(None, 0.0), (40.0, 40.0), (-40.0, 0.0)])
def test_the_seconds_hold_an_import_of_torch_that_began_before_the_run(ahead: float | None, seconds: float) -> None:
    """It is begun before this program has loaded itself; one that is begun later makes nothing shorter."""
    facts = healthy(1)
    clock = Clock(60.0, 60.0, launched=None if ahead is None else time.monotonic() - ahead)
    maker = ReportMaker("collective", clock)
    assert maker.make(build(list(facts)), judged(*facts), False).seconds == pytest.approx(seconds, abs=2)
