"""What one place says of hosts that none of them can know."""

from __future__ import annotations

from distdoctor.cli.hosts import differing
from tests.facts_builder import healthy, with_variables


def test_a_variable_that_is_not_the_same_on_all_hosts() -> None:
    first, second, third = healthy(3)
    facts = [first, with_variables(second, MASTER_PORT="29511"), third]
    assert differing("MASTER_PORT", facts).startswith("MASTER_PORT is 29511 on host1 · not set on host[0,2]: ")
    assert differing("MASTER_ADDR", facts) == differing("MASTER_PORT", facts[1:2]) == ""
