"""Why a process did not get into the meeting, in a few words: the reason of its network stage. Pure."""

from __future__ import annotations

import os

from distdoctor.knowledge.connect_text import contact_text
from distdoctor.model.facts import Contact, NodeFacts


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
    if facts.identity.torch_error:
        return "node 0 opens the store with torch, which cannot be imported"
    return "node 0 was not reached"


def contact_words(contact: Contact) -> str:
    """How the last attempt to connect ended."""
    if contact.outcome == "open":
        return f"{contact.address}:{contact.port} answers, but not as the store of this job"
    return contact_text(contact)
