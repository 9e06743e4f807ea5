"""Flags and variables of a launch while they are read: the source of each value, and its problems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import LOCAL_RANK, NPROC_PER_NODE, Setting
from distdoctor.model.plan import PlanProblem
from distdoctor.plan.launchers.base import DerivedValue
from distdoctor.plan.syntax import address_problem, unquoted, whole_number

_LOCAL = (*LOCAL_RANK.variables, *NPROC_PER_NODE.variables)
"""Variables of which torch reads the first alone, to pick a device (distributed_c10d.py, get_node_local_rank;
device_mesh.py)."""


@dataclass(frozen=True)
class Values:
    """Given flags and variables. A flag that makes no sense is a UsageError, such a variable a problem of the plan."""

    flags: Flags
    env: Mapping[str, str]
    sources: dict[str, str] = field(default_factory=dict)
    problems: list[PlanProblem] = field(default_factory=list)

    def given(
        self, setting: Setting, flag: str | int | None, *, pet: bool = True, plain: bool = False
    ) -> tuple[str | None, str]:
        """Return the value given for a setting, and its source.

        ``flag``: the value of its flag, which comes first; else (``pet``) torchrun's variable, which counts as unset if
        it is empty; else (``plain``) a variable of the ranks.
        """
        if flag is not None:
            return str(flag), setting.flag
        if pet and (text := self.env.get(setting.pet)):
            return text, setting.pet
        for name in setting.variables if plain else ():
            if name in self.env:
                return self.env[name], name
        return None, ""

    def number(self, name: str, variable: str, low: int, high: int = 10_000_000) -> int | None:
        """Return the variable's value for a field of the plan; None after noting the problem if it is no such
        number."""
        text = self.env.get(variable)
        if text is None:
            return None
        value = whole_number(text)
        if value is not None:
            if low <= value <= high:
                self.sources[name] = variable
                return value
            self.problem(variable, f"must be {low} to {high}" if high < 10_000_000 else f"must be {low} or more")
        elif re.fullmatch(r"[+-]?\d{1,18}", meant := unquoted(text)) and low <= int(meant) <= high:
            self.problem(variable, "has quotes in it", meant)
        else:
            self.problem(variable, "is empty" if not text.strip() else "is not a whole number")
        return None

    def first_number(self, name: str, variables: tuple[str, ...], low: int) -> int | None:
        """Return the first valid value of the variables for a field of the plan."""
        for variable in variables:
            value = self.number(name, variable, low)
            if value is not None:
                return value
        return None

    def number_found(
        self, name: str, variables: tuple[str, ...], derived: Mapping[str, DerivedValue], low: int
    ) -> int | None:
        """Return the first valid value of the variables, else the launcher's derived one."""
        value = self.first_number(name, variables, low)
        if value is None and name in derived:
            value, self.sources[name] = int(derived[name].value), derived[name].source
        return value

    def address(self, source: str, text: str) -> str | None:
        """Return the given or intended host; None if unknown. Raise UsageError."""
        why, meant = address_problem(text)
        if why is None:
            return text
        if source.startswith("--"):
            hint = f"; did you mean {meant}?" if meant else ""
            raise UsageError(f"{source} {text!r}: {why}{hint}")
        self.problems.append(PlanProblem(source, text, why, meant))
        return meant

    def problem(self, variable: str, why: str, meant: str | None = None, *, unset: bool = False) -> None:
        local = variable in _LOCAL
        self.problems.append(PlanProblem(variable, self.env.get(variable), why, meant, unset, local))

    def bad(self, source: str, text: str, why: str, *, unset: bool = False) -> None:
        """Note the problem of a flag or variable. Raise UsageError for a flag."""
        if source.startswith("--"):
            raise UsageError(f"{source} {text!r}: {why.removeprefix('is ')}")
        meant = unquoted(text)
        well = meant if meant.isdecimal() and meant != text else None
        self.problems.append(PlanProblem(source, text, why, well, unset))


# Flags of the command line that make the plan, before they are read.


@dataclass(frozen=True)
class Flags:
    """Launch flags as given on the command line; None: not given."""

    nnodes: str | None = None
    nproc_per_node: str | None = None
    node_rank: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    rdzv_endpoint: str | None = None
    rdzv_backend: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: str | None = None
    local_addr: str | None = None
    standalone: bool = False
    local_rank: int | None = None
    init_method: str | None = None
    backend: str | None = None
    mesh: str | None = None
    groups: int | None = None
