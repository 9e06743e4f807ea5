"""Facts and findings for the test of a site's own check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.check_api.testing import findings, nodes, with_limits, with_variables
from distdoctor.judge.catalog import BadCheck
from tests.judge.test_catalog import PAGE, write
from tests.judge.test_site_variables import DECLARED, READS


def test_a_check_judges_them_as_with_checks_dir(tmp_path: Path) -> None:
    check = write(tmp_path, "environment/our_queue.py", PAGE + READS.format(declared=DECLARED))
    a, b = nodes(2)
    assert [one.nodes for one in findings(check, a, with_variables(b, SITE_QUEUE="slow"))] == [("host1",)]
    assert findings(check, a, with_variables(b, SITE_QUEUE="fast")) == findings(check, a, b) == []
    with pytest.raises(AssertionError, match="TypeError"):
        findings(check, replace(a, variables=None))  # type: ignore[arg-type]
    write(tmp_path, "environment/our_queue.py", PAGE + READS.format(declared=""))
    with pytest.raises(AssertionError, match="SITE_QUEUE was not collected on host0, host1"):
        findings(check, a, b)


def test_a_file_that_is_no_check_is_refused(tmp_path: Path) -> None:
    check = write(tmp_path, "host/x.py", PAGE)
    with pytest.raises(BadCheck):
        findings(check, *nodes(1))


def test_limits_are_those_given() -> None:
    one = with_limits(with_limits(nodes(1)[0], stack=1), open_files=2)
    assert one.host is not None and one.host.limits is not None
    assert (one.host.limits.stack, one.host.limits.open_files) == (1, 2)
