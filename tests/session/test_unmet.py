"""Why a process did not get into the meeting, in a few words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Bind, Contact, NetworkFacts, Resolution
from distdoctor.session.rendezvous.failure import PROBLEM_SECONDS, join_failure_text, lacks_torch, no_such_master
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
    assert join_failure_text(replace(node("host1", 1), network=network)) == said


def test_a_missing_torch_is_not_a_missing_address() -> None:
    facts = replace(node("host0", 0), network=NetworkFacts(master=FOUND))
    facts = replace(facts, identity=replace(facts.identity, torch=None, torch_error="No module named 'torch'"))
    assert join_failure_text(facts) == "node 0 opens the store with torch, which cannot be imported"
    assert lacks_torch(facts)
    assert join_failure_text(with_plan(facts, master_addr=None)) == "MASTER_ADDR is not set"


@pytest.mark.parametrize(
    "network",
    [
        None,
        NetworkFacts(master=Resolution("host0", error="unknown")),
        NetworkFacts(master=FOUND, bind=Bind(False, 29500, 98, IN_USE)),
        NetworkFacts(master=FOUND, contact=Contact("10.77.0.10", 29500, "refused")),
    ],
)
def test_what_the_network_itself_showed_is_not_put_down_to_torch(network: NetworkFacts | None) -> None:
    facts = replace(node("host0", 0), network=network)
    assert not lacks_torch(replace(facts, identity=replace(facts.identity, torch=None, torch_error="none")))


NONE, LATER = "Name or service not known", "Temporary failure in name resolution"


@pytest.mark.parametrize(
    ("nodes", "found", "seconds", "in_pod", "vain"),
    [
        (1, Resolution("nonsense", error=NONE), 0.1, False, True),
        (2, Resolution("nonsense", error=NONE), 50.0, False, False),
        (1, Resolution("nonsense", error=NONE), 50.0, True, False),
        (1, Resolution("nonsense", error=LATER), 0.1, False, False),
        (1, Resolution("nonsense", error="no answer within 4 s", timed_out=True), 4.1, False, False),
        (1, Resolution("nonsense", error=LATER), PROBLEM_SECONDS + 0.1, False, True),
        (1, FOUND, 50.0, False, False),
        (1, None, 50.0, False, False),
    ],
)
def test_one_node_does_not_wait_for_a_name(
    nodes: int, found: Resolution | None, seconds: float, in_pod: bool, vain: bool
) -> None:
    facts = replace(with_plan(node("host0", 0), nnodes=nodes), network=NetworkFacts(master=found))
    assert no_such_master(facts, seconds, in_pod) is vain
