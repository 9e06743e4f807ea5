"""Why a process did not get into the meeting, in a few words: the reason of its network stage. Pure."""

from __future__ import annotations

import os

from distdoctor.knowledge.connect_text import contact_text
from distdoctor.model.facts import Contact, NodeFacts

PROBLEM_SECONDS = 6.0
"""How long a process whose own variables are wrong still tries to meet the others, who know better values."""
UNANSWERED = ("temporary failure", "try again")
"""What glibc and musl call EAI_AGAIN: not a word on whether there is such a name."""


def no_such_master(facts: NodeFacts, seconds: float, in_pod: bool) -> bool:
    """Whether a job of one node, after so many seconds, waits in vain for MASTER_ADDR to have an address: nobody is to
    come who could give it one. A name server that gives no answer is asked again; and in a Kubernetes pod the record
    may come after it.
    """
    master = facts.network.master if facts.network else None
    if in_pod or not facts.plan.one_node or master is None or master.addresses:
        return False
    unanswered = master.timed_out or any(words in (master.error or "").lower() for words in UNANSWERED)
    return not unanswered or seconds > PROBLEM_SECONDS


def why_not_met(facts: NodeFacts) -> str:
    """What the findings tell whole."""
    seen, plan = facts.network, facts.plan
    if seen is not None and seen.bind is not None and not seen.bind.ok:
        number = seen.bind.errno
        return f"cannot listen on port {seen.bind.port}: {os.strerror(number) if number else seen.bind.error}"
    if seen is not None and seen.contact is not None:
        return contact_words(seen.contact)
    if plan.master_addr is None:
        return "MASTER_ADDR is not set"
    if seen is None or seen.master is None or not seen.master.addresses:
        return "MASTER_ADDR has no address"
    if lacks_torch(facts):
        return "node 0 opens the store with torch, which cannot be imported"
    return "node 0 was not reached"


def lacks_torch(facts: NodeFacts) -> bool:
    """Whether it is its own torch that this node would have opened the store with, and nothing of the network: the
    name was looked up, nothing was tried, and torch cannot be imported."""
    seen = facts.network
    looked_up = seen is not None and seen.master is not None and bool(seen.master.addresses)
    tried = seen is not None and (seen.contact is not None or (seen.bind is not None and not seen.bind.ok))
    return bool(facts.identity.torch_error) and facts.plan.master_addr is not None and looked_up and not tried


def contact_words(contact: Contact) -> str:
    """How the last attempt to connect ended."""
    if contact.outcome == "open":
        return f"{contact.address}:{contact.port} answers, but not as the store of this job"
    return contact_text(contact)
