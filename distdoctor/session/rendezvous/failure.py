"""Reason of a failed join, in a few words. Pure."""

from __future__ import annotations

import os

from distdoctor.knowledge.network import contact_text
from distdoctor.model.facts import Contact, NodeFacts

PROBLEM_SECONDS = 6.0
"""Seconds for which a process whose own variables are wrong still tries to join the others, who know better values."""
UNANSWERED = ("temporary failure", "try again")
"""Texts of glibc and musl for EAI_AGAIN, which does not say whether the name exists."""


def no_such_master(facts: NodeFacts, seconds: float, in_pod: bool) -> bool:
    """Return whether a job of one node waits in vain for MASTER_ADDR to have an address, after ``seconds``.

    No other node will join that could give it one. A name server that gives no answer is asked again; in a Kubernetes
    pod the record may appear after the pod.
    """
    master = facts.network.master if facts.network else None
    if in_pod or not facts.plan.one_node or master is None or master.addresses:
        return False
    unanswered = master.timed_out or any(words in (master.error or "").lower() for words in UNANSWERED)
    return not unanswered or seconds > PROBLEM_SECONDS


def join_failure_text(facts: NodeFacts) -> str:
    """Return the reason of a failed join in a few words; the findings have the details."""
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
    """Return whether only its own torch kept this node from opening the store, and nothing of the network: the name was
    looked up, nothing was tried, and torch cannot be imported."""
    seen = facts.network
    looked_up = seen is not None and seen.master is not None and bool(seen.master.addresses)
    tried = seen is not None and (seen.contact is not None or (seen.bind is not None and not seen.bind.ok))
    return bool(facts.identity.torch_error) and facts.plan.master_addr is not None and looked_up and not tried


def contact_words(contact: Contact) -> str:
    """Return the result of the last attempt to connect, in words."""
    if contact.outcome == "open":
        return f"{contact.address}:{contact.port} answers, but not as the store of this job"
    return contact_text(contact)
