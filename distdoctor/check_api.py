"""What a check file imports: the facts it reads and the findings it gives.

Beside it a check may import the helpers ``distdoctor.blame``, ``way``, ``between``, ``graph``, ``masters``, ``rates``,
``outcomes``, ``firewall``, ``rendezvous`` and ``gloo_rules``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distdoctor.cluster import Cluster, Node, is_loopback, parse
from distdoctor.facts import Answer, Contact, Link, MeetingFacts, RankFacts
from distdoctor.findings import NO_GLOO, Finding, Fix
from distdoctor.plan import DEFAULT_PORT, LAUNCH_VARIABLES, PlanProblem

__all__ = [
    "DEFAULT_PORT",
    "LAUNCH_VARIABLES",
    "NO_GLOO",
    "Answer",
    "Cluster",
    "Contact",
    "Finding",
    "Fix",
    "Iterator",
    "Link",
    "MeetingFacts",
    "Node",
    "PlanProblem",
    "RankFacts",
    "Sequence",
    "is_loopback",
    "parse",
]
