"""A row of the table: what is wrong, and what distdoctor must say of it."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tests.lab.harness.launch import Fault, Style

NODES_MISSING = "store/nodes-missing"
"""What any single node may say when it only sees that others did not come."""
WAIT = 6
"""Seconds of ``--wait`` in the cases where waiting goes on to its end."""
AT_ONCE = 10.0
"""Seconds from the last node's start within which a fault that waiting cannot cure must be named."""
AT_ONCE_LARGER = 15.0
"""The same for more than 3 nodes: here they share the cores of one machine, and each imports torch."""
AFTER_WAIT = 3.0
"""Seconds from the end of ``--wait`` within which a fault that waiting may cure must be named."""
PATIENT = 30.0
"""Seconds of ``--wait`` where it decides nothing: so that both nodes meet on a busy machine, too."""
MOST_PATIENT, LATEST = 5.0, 45.0
"""How many times longer than a case says is waited at the most, and to how many seconds: a run is to end before it is
killed."""
NOT_SEEN = {NODES_MISSING, "store/protocol-mismatch", "store/token-mismatch"}
"""The failures that say of a node that nothing is known of it."""


@dataclass(frozen=True)
class Root:
    """A root that must be named, and whom it must blame."""

    check: str
    blamed: Sequence[str]
    severity: Literal["fail", "warn", "info"] = "fail"
    blame: Literal["all", "one-of"] = "all"


@dataclass(frozen=True)
class Case:
    """One fault and the verdict about it, or several at once."""

    name: str
    fault: Fault
    root: str
    """The check id that ``diagnose`` over all nodes' facts must name as the only root."""
    blamed: Sequence[str]
    severity: Literal["fail", "warn", "info"] = "fail"
    blame: Literal["all", "one-of"] = "all"
    also: Sequence[Root] = ()
    """The roots beside the first, where several things are wrong at once."""
    style: Style = "node"
    curable: bool = False
    """Waiting might cure it: it is said "so far" at once and judged at the end of ``--wait``."""
    live: bool = True
    """At least one node's own report names the root. False: only all facts together can tell."""
    alone: Sequence[str] = ()
    """What else a node may name that meets nobody: what is sure to it, and where only all facts tell why."""
    verified: bool = False
    """The doctor tries the first option itself and says that it helps."""
    options: Sequence[int] = (1,)
    """The options that are carried out, each followed by a run that must pass."""
    by_hand: Fault | None = None
    """What a person does who follows a fix of ``root`` that is text only; those of ``also`` are carried out."""
    printed_too: bool = False
    """Of ``root`` the commands are carried out after it."""
    hosts: int | Sequence[str] = 2
    nproc: int = 2
    subnets: Sequence[str] = ("10.77.0.0/24",)
    interface: str = "eth0"
    master: str | None = None
    """MASTER_ADDR; the first host's name unless told."""
    flags: tuple[str, ...] = ()
    """Further flags of ``distdoctor check``."""
    line: tuple[str, ...] = ()
    """Start line of an engine, whose plan is checked; ``flags`` are the check's own, faults change the line's."""
    killed: Sequence[str] = ()
    """The hosts on which the doctor itself is killed, so that no report comes from there."""
    needs: Sequence[str] = ()
    """Programs without which the fault cannot be made: where one is not installed, the case is skipped."""
    wait: float = WAIT
    """Seconds of ``--wait``."""
    within: float | None = None
    """Seconds to the verdict, where the fault itself takes longer than the usual bound."""
    torch: str = ""
    """When plain PyTorch says something for the first time; empty: what is usual for the check."""

    @property
    def roots(self) -> tuple[Root, ...]:
        """Every root that must be named."""
        return Root(self.root, self.blamed, self.severity, self.blame), *self.also

    @property
    def verdict(self) -> str:
        """Return what ``diagnose`` says of the whole: who did not come leaves it incomplete, where that is all."""
        failing = {root.check for root in self.roots if root.severity == "fail"}
        if failing:
            return "incomplete" if failing <= NOT_SEEN else "fail"
        return "warn" if any(root.severity == "warn" for root in self.roots) else "pass"

    @property
    def check_flags(self) -> tuple[str, ...]:
        """The flags of ``distdoctor check`` in this case."""
        return ("--wait", f"{self.wait:g}", *self.flags)

    @property
    def bound(self) -> float:
        """Seconds from the last node's start to the first report that names the fault."""
        if self.within is not None:
            return self.within
        if self.curable:
            return self.wait + AFTER_WAIT
        return AT_ONCE if self.size <= 3 else AT_ONCE_LARGER

    @property
    def size(self) -> int:
        """Nodes of its cluster."""
        return self.hosts if isinstance(self.hosts, int) else len(self.hosts)


def patient(*cases: Case) -> list[Case]:
    """The cases with ``PATIENT`` seconds of ``--wait`` where waiting cannot cure them and they name no other time."""
    return [case if case.curable or case.wait != WAIT else replace(case, wait=PATIENT) for case in cases]


def slowed(case: Case, slow: float) -> Case:
    """The case on a machine that others make ``slow`` times slower: nodes must not be late by their import of torch."""
    longer = min(case.wait * min(slow, MOST_PATIENT), LATEST)
    return replace(case, wait=round(max(case.wait, longer), 1))


def matches(pattern: str | None, name: str) -> bool:
    """Return whether the name holds the pattern or, as in the shell, matches it; any does where there is none."""
    return pattern is None or pattern in name or fnmatch.fnmatchcase(name, pattern)
