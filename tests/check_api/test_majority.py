"""Tests of who differs from the others."""

from __future__ import annotations

from distdoctor.check_api.settings import disagreement


def test_half_and_half_is_no_majority() -> None:
    found = disagreement({"a": 1, "b": 2, "c": 2, "d": 1})
    assert found is not None and found.blamed == ("a", "b", "c", "d") and found.blame == "one-of"
    assert disagreement({"a": 1, "b": 1}) is None
