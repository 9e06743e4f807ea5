"""Tests of what a check may import: all of it is documented, and nothing of it goes away unnoticed."""

from __future__ import annotations

import re
from pathlib import Path

from distdoctor import check_api

RECORDED = Path(__file__).parent / "names.txt"
"""The version of the package, then the names that it exports. A name that goes away, or means something else, breaks a
site's own checks: it needs a higher VERSION. A name that comes is added here."""


def test_names_are_those_that_are_recorded() -> None:
    version, *names = RECORDED.read_text().split()
    assert int(version) == check_api.VERSION
    gone = set(names) - set(check_api.__all__)
    assert not gone, f"a site's own checks may import {sorted(gone)}: see {RECORDED.name}"
    assert set(check_api.__all__) == set(names), f"record the new names in {RECORDED.name}"
    assert all(hasattr(check_api, name) for name in names)


def test_every_name_has_its_line_in_the_docstring() -> None:
    listed = re.findall(r"(?m)^    (\w+) {1,}\S", check_api.__doc__ or "")
    assert len(listed) == len(set(listed))
    assert set(listed) == set(check_api.__all__) - {"VERSION"}
