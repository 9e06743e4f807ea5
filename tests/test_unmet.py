"""Why a process did not get into the meeting, in a few words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Bind, Contact, NetworkFacts, Resolution
from distdoctor.session.unmet import why_not_met
from tests.facts_builder import node, with_plan

FOUND = Resolution("host0", ("10.77.0.10",))
IN_USE = "OSError: [Errno 98] The server socket has failed to listen on any local network address. code: -98"


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (NetworkFacts(bind=Bind(False, 29500, 98, IN_USE)), "cannot listen on port 29500: Address already in use"),
        (NetworkFacts(bind=Bind(False, 29500, 0, "no answer")), "cannot listen on port 29500: no answer"),
        (
            NetworkFacts(master=FOUND, contact=Contact("10.77.0.10", 29500, "no-answer", seconds=3.3)),
            "10.77.0.10:29500 gave no answer in 3.3 s",
        ),
        (
            NetworkFacts(master=FOUND, contact=Contact("10.77.0.10", 29500, "open")),
            "10.77.0.10:29500 answers, but not as the store of this job",
        ),
        (NetworkFacts(master=Resolution("host0", error="unknown")), "MASTER_ADDR has no address"),
        (None, "MASTER_ADDR has no address"),
        (NetworkFacts(master=FOUND), "node 0 was not reached"),
    ],
)
def test_in_a_few_words(network: NetworkFacts | None, said: str) -> None:
    assert why_not_met(replace(node("host1", 1), network=network)) == said


def test_a_missing_torch_is_not_a_missing_address() -> None:
    facts = replace(node("host0", 0), network=NetworkFacts(master=FOUND))
    facts = replace(facts, identity=replace(facts.identity, torch=None, torch_error="No module named 'torch'"))
    assert why_not_met(facts) == "node 0 opens the store with torch, which cannot be imported"
    assert why_not_met(with_plan(facts, master_addr=None)) == "MASTER_ADDR is not set"
