"""Clusters with a node that lacks the token, or with something written by others."""

from __future__ import annotations

from distdoctor.model.facts import Answer
from tests.checks.row import Facts
from tests.facts_builder import healthy, outside, waited_in_vain, with_meeting, with_network

FORGED = ("c/0 was there before node 0 wrote it",)


def without_token(how: str) -> Facts:
    a, b = healthy(2)
    a = with_meeting(waited_in_vain(a), token="" if how == "unexpected" else "agreed")
    b = with_network(outside(b, "open"), answer=Answer("distdoctor", "2.5+"))
    return a, with_meeting(b, ours=False, token=how)


def forged_marker() -> Facts:
    a, b = healthy(2)
    b = with_network(outside(b, "open"), answer=Answer("distdoctor", "2.5+"))
    return waited_in_vain(a), with_meeting(b, ours=False, forged=("marker is nothing that a node 0 writes",))
