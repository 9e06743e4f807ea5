"""Milestones: what a job reaches one after the other, so that what keeps it from one keeps it from all after it.

A check says which one its failure prevents (``PREVENTS``), and which one must have been reached for what it sees to be
a failure of its own (``SYMPTOM_OF``); which finding follows from which comes of their order. They are written as in
``PREVENTS = "store hosted"``.
"""

from __future__ import annotations

ABOUT: dict[str, str] = {
    "plan agreed": "every process has a plan that fits the others', and a torch to run it with",
    "master resolved": "MASTER_ADDR means node 0, on this node",
    "store hosted": "the store of this job is there on MASTER_ADDR:MASTER_PORT",
    "store reached": "this node gets to it",
    "all met": "every node came, to one and the same rendezvous",
    "store used": "every rank was started, and uses the store",
    "peers connected": "the nodes reach each other at the addresses that backends use",
    "gloo group formed": "the ranks have made the gloo process group",
    "nccl group formed": "the ranks have made the NCCL process group",
    "ranks together": "all ranks reach a barrier",
    "results right": "collectives end, with right results",
}
"""Every milestone, in the order in which they are reached, and what it means."""
MILESTONES = tuple(ABOUT)

EACH_FOR_ITSELF = frozenset({"master resolved", "store reached"})
"""What one node reaches or misses whatever the others do."""


def place(milestone: str) -> int:
    """How late ``milestone`` is reached, 0 being the first. Raises ValueError if it is none."""
    return MILESTONES.index(milestone)


def together(milestone: str) -> bool:
    """Whether all nodes reach ``milestone`` together, once they have met: what keeps one away, all feel."""
    return bool(milestone) and place(milestone) > place("all met")


def joint(cause: str, missed: str) -> bool:
    """Whether what prevents ``cause`` on one node explains on every node that ``missed`` was not reached."""
    return cause not in EACH_FOR_ITSELF or together(missed)
