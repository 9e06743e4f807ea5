"""The catalog: every check there is, loaded from files by path.

A check is one file, ``<folder>/<stage>/<name_with_underscores>.py``, and its id is ``<stage>/<name-with-hyphens>``.
The file holds everything known about one failure:

* its docstring is the page that ``distdoctor explain ID`` prints; the first line is the title;
* ``SEVERITY``: ``fail``, ``warn`` or ``info``, unless a finding says otherwise itself;
* ``MATTERS`` (optional): why its warnings are warnings, in a clause, unless a finding says otherwise itself;
* ``judge(cluster)``: yields a Finding for each time the failure is in the facts. Pure: no sockets, clock, environment;
* ``FOLLOWS`` (optional): id patterns of the failures that this one is a consequence of where they blame or touch a
  node that this one touches, likeliest first;
* ``FOLLOWS_ANYWHERE`` (optional): the same, wherever in the cluster they are.

The engine knows no check by name, so a site's own folder (``--checks DIR``) works like the built-in one.
"""

from __future__ import annotations

import inspect
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType

from distdoctor.judge.bounded import SECONDS, Failed, Judge, bounded
from distdoctor.model.cluster import Cluster
from distdoctor.model.findings import SEVERITIES, Finding, Severity
from distdoctor.model.stages import STAGES, position

SECTIONS = ("What you see", "Why it happens", "Fix", "When it is harmless", "See also")
"""The headings of every page, in order."""

OWN_SECONDS = 60.0
"""For the built-in folder: only a machine that starves this process is slow to load it, and that is no bad check."""


class BadCheck(Exception):
    """A check file that is not what a check file should be; the text names the file and says why."""


@dataclass(frozen=True)
class Check:
    """One known failure."""

    id: str
    title: str
    page: str
    severity: Severity
    judge: Callable[[Cluster], Iterable[Finding]]
    path: Path
    follows: tuple[str, ...] = ()
    follows_anywhere: tuple[str, ...] = ()
    matters: str = ""
    """Why a warning of this check is one."""

    @property
    def stage(self) -> str:
        """The stage it belongs to: the first part of its id."""
        return self.id.partition("/")[0]


def built_in_folder() -> Path:
    """Where the checks that come with distdoctor are: in the installed package, else beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "checks", package.parent / "checks"):
        if folder.is_dir():
            return folder
    raise BadCheck(f"the checks are missing: neither {package / 'checks'} nor {package.parent / 'checks'} is a folder")


def load(extra: Iterable[Path] = ()) -> tuple[Check, ...]:
    """Every check of the built-in folder and the ``extra`` ones, in ladder order, then by id.

    A check of an extra folder replaces the built-in one with its id. Raises BadCheck.
    """
    checks: dict[str, Check] = {}
    own = built_in_folder()
    for folder in (own, *extra):
        if not folder.is_dir():
            raise BadCheck(f"{folder} is not a folder of checks")
        end = time.monotonic() + (OWN_SECONDS if folder is own else SECONDS)
        for path in sorted(folder.glob("*/*.py")):
            if not path.name.startswith("_"):
                check = load_file(path, max(end - time.monotonic(), 0.001))
                if folder is not own:
                    check = replace(check, judge=Judge(check.judge))
                checks[check.id] = check
    return tuple(sorted(checks.values(), key=lambda c: (position(c.stage), c.id)))


def load_file(path: Path, seconds: float = SECONDS) -> Check:
    """The check in one file. Raises BadCheck where the file is not a whole check, or takes longer than ``seconds``."""
    stage, name = path.parent.name, path.stem
    if stage not in STAGES:
        raise BadCheck(f"{path}: its folder is called {stage!r}, which is no stage ({', '.join(STAGES)})")
    check_id = f"{stage}/{name.replace('_', '-')}"
    module_name = f"distdoctor_checks.{abs(hash(str(path)))}.{stage}.{name}"
    module = ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module
    try:
        # Compiled here: no file of bytecode, for a site's folder may be read-only or shared, and with the page,
        # which python -OO would leave out.
        kept = min(sys.flags.optimize, 1)
        with bounded(seconds):
            exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True, optimize=kept), module.__dict__)
    except Failed as err:
        raise BadCheck(f"{path}: {err}") from err
    page = inspect.cleandoc(str(module.__doc__ or ""))
    severity = getattr(module, "SEVERITY", None)
    judge = getattr(module, "judge", None)
    if not page or severity not in SEVERITIES or not callable(judge):
        raise BadCheck(f"{path}: a check needs a docstring, SEVERITY ({', '.join(SEVERITIES)}) and judge(cluster)")
    headings = [line for line, under in _pairs(page) if re.fullmatch(r"-{3,}", under)]
    missing = [section for section in SECTIONS[:3] if section not in headings]
    if missing:
        raise BadCheck(f"{path}: its page lacks the section {missing[0]!r}")
    title = page.partition("\n")[0].rstrip(".")
    follows, anywhere = getattr(module, "FOLLOWS", ()), getattr(module, "FOLLOWS_ANYWHERE", ())
    for patterns in (follows, anywhere):
        if not isinstance(patterns, (tuple, list)) or not all(isinstance(pattern, str) for pattern in patterns):
            raise BadCheck(f"{path}: FOLLOWS and FOLLOWS_ANYWHERE are lists of check ids")
    matters = str(getattr(module, "MATTERS", ""))
    return Check(check_id, title, page, severity, judge, path, tuple(follows), tuple(anywhere), matters)


def _pairs(text: str) -> list[tuple[str, str]]:
    lines = [line.strip() for line in text.splitlines()]
    return list(pairwise(lines))
