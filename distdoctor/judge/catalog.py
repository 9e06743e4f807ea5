"""The catalog: every check there is, loaded from files by path.

A check is one file, ``<folder>/<stage>/<name_with_underscores>.py``, and its id is ``<stage>/<name-with-hyphens>``.
The file holds everything known about one failure:

* its docstring is the page that ``distdoctor explain ID`` prints: its title, then sections below ``## `` headings;
* ``SEVERITY``: ``fail``, ``warn`` or ``info``, unless a finding says otherwise itself;
* ``MATTERS`` (optional): why its warnings are warnings, in a clause, unless a finding says otherwise itself;
* ``LOG`` (optional): how a log shows it, one :class:`~distdoctor.model.log_line.Line` for each wording, or for each
  class of ends of processes, as any launcher reports them (``Line.of_end``);
* ``RESTART`` (optional): whether starting again as it was can help: ``no``, ``yes`` or ``other-nodes``;
* ``NEXT`` (optional): the one thing to get next where a log shows only a symptom of it, and the command for that;
* ``judge(cluster)`` (not needed with ``LOG`` or ``judge_job``): yields a Finding for each time the failure is in the
  facts. Pure: no sockets, clock, environment;
* ``judge_job(cluster)`` (optional): the same of a job that runs now, where it is in the facts (``NodeFacts.jobs``);
* ``PREVENTS`` (optional): the milestone (``distdoctor.model.stages``) that a job with this failure does not reach;
* ``SYMPTOM_OF`` (optional): the milestone without which this failure is seen in any case: it then follows from what
  prevents that milestone, or one before it;
* ``FOLLOWS`` (optional), the exceptions: what else this one is a consequence of where it blames or touches a node that
  this one touches, likeliest first: patterns of ids, or a milestone, for all that prevents it;
* ``FOLLOWS_ANYWHERE`` (optional): the same, wherever in the cluster they are;
* ``LOOKS_AT`` (optional): what it needs to have seen, so that nothing found means that nothing is wrong (see
  ``distdoctor.judge.report``): parts of the facts such as ``("host.limits", "ranks.gloo")``; by default what its own
  stage sees;
* ``HELPED_BY`` (optional): further parts of the facts that it takes for evidence where they were seen;
* ``VARIABLES`` (optional): names of environment variables that it reads beside those that are always collected; they
  are then collected on every node that has this file. None may look like a secret's;
* ``INCOMPLETE`` (optional): True where the failure is that something was not seen, as a node that never came: the
  verdict is then incomplete and not fail, where nothing else is wrong.

The engine knows no check by name, so a site's own folder (``--checks DIR``) works like the built-in one.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from fnmatch import filter as matching
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar, get_args, get_type_hints

from distdoctor import DOCS_URL
from distdoctor.judge.sandbox import SECONDS, Failed, Judge, time_limited
from distdoctor.knowledge.settings import ALLOWED, NAME, looks_secret
from distdoctor.model.cluster import Cluster
from distdoctor.model.facts import NodeFacts
from distdoctor.model.findings import RESTARTS, SEVERITIES, Finding, Severity
from distdoctor.model.log_line import Line, Shows
from distdoctor.model.stages import (
    BY_NAME,
    ENVIRONMENT,
    GPU,
    HOST,
    LOG_STAGES,
    MESH,
    MILESTONES,
    NETWORK,
    STAGES,
    STORE,
    stage_index,
)

SECTIONS = ("What you see", "Why it happens", "Fix", "Confirm with", "When it is harmless", "See also")
"""The headings of every page, in order; a site's own check may leave out the last two."""
HEADING = re.compile("^## (.+)$", re.MULTILINE)
DECLARATIONS = (
    *("SEVERITY", "MATTERS", "LOG", "RESTART", "NEXT", "PREVENTS", "SYMPTOM_OF", "FOLLOWS", "FOLLOWS_ANYWHERE"),
    *("LOOKS_AT", "HELPED_BY", "VARIABLES", "INCOMPLETE", "judge", "judge_job"),
)
"""Every name that a check file may declare something by."""


_T = TypeVar("_T", str, bool)


class BadCheck(Exception):
    """Invalid check file; the text names the file and the reason."""


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
    """Reason why a warning of this check matters."""
    prevents: str = ""
    """Milestone that a job with this failure does not reach; empty if it reaches them all."""
    symptom_of: str = ""
    """Milestone without which the failure is seen in any case; empty if it is a failure of its own."""
    incomplete: bool = False
    looks_at: tuple[str, ...] = ()
    """Parts of the facts that it needs."""
    helped_by: tuple[str, ...] = ()
    """Parts of the facts that it uses as evidence if they are there."""
    log: tuple[Line, ...] = ()
    """Log lines that show it."""
    restart: str = "no"
    """Benefit of a plain restart: ``no``, ``yes`` or ``other-nodes``."""
    next: tuple[str, str] = ("", "")
    """Next evidence to get if a log shows only a symptom of it, and the command for that."""
    variables: tuple[str, ...] = ()
    """Variables that it reads in addition to those of the allow-list."""
    docs_url: str = ""
    """Address of its page on the documentation site; empty for a site's own check, or without a site."""
    judge_job: Callable[[Cluster], Iterable[Finding]] | None = None
    """Function that judges a job that runs now; None if such a job does not show the failure."""

    @property
    def of_logs_alone(self) -> bool:
        """Return whether only logs, or a job that runs, show it, so that ``check`` has nothing to judge."""
        return self.judge is _nothing

    @property
    def is_of_a_site(self) -> bool:
        """Return whether it is from a folder of ``--checks``."""
        return self.path.parent.parent != built_in_folder()

    @property
    def stage(self) -> str:
        """Return the stage that it belongs to: the first part of its id."""
        return self.id.partition("/")[0]


@cache
def built_in_folder() -> Path:
    """Return the folder of distdoctor's own checks: in the installed package, else next to it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "checks", package.parent / "checks"):
        if folder.is_dir():
            return folder
    raise BadCheck(f"the checks are missing: neither {package / 'checks'} nor {package.parent / 'checks'} is a folder")


def load(extra: Iterable[Path] = ()) -> tuple[Check, ...]:
    """Load all built-in checks and those of the ``extra`` folders, in the order of stages, then by id.

    A check of an extra folder replaces the built-in one with its id. Raises BadCheck.
    """
    checks: dict[str, Check] = {}
    of_a_site: list[Check] = []
    own = built_in_folder()
    for folder in (own, *extra):
        if not folder.is_dir():
            raise BadCheck(f"{folder} is not a folder of checks")
        for path in _files(folder):
            # Built-in files get no time limit: they end, and are slow only on a machine that starves this process.
            check = load_file(path, None if folder is own else SECONDS)
            if folder is own:
                check = replace(check, docs_url=page_address(check.id))
            else:
                check = _of_a_site(check, checks.get(check.id))
                of_a_site.append(check)
            checks[check.id] = check
    for check in of_a_site:
        ahead_of = [line.ahead_of for line in check.log if line.ahead_of]
        named = {"FOLLOWS": check.follows, "FOLLOWS_ANYWHERE": check.follows_anywhere, "ahead_of": ahead_of}
        if problem := problem_of_lines(check.log) or problem_of_references(named, checks):
            raise BadCheck(f"{check.path}: {problem}")
    return tuple(sorted(checks.values(), key=lambda c: (stage_index(c.stage), c.id)))


def ids_in(folders: Iterable[Path]) -> tuple[str, ...]:
    """Return the ids of the checks in these folders, without loading them."""
    return tuple(dict.fromkeys(_id(path) for folder in folders for path in _files(folder)))


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*/*.py")) if not path.name.startswith("_")]


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem.replace('_', '-')}"


def page_address(check_id: str) -> str:
    """Return the address of a built-in check's page, where scripts/site.py writes it; empty without a site."""
    base = os.environ.get("DISTDOCTOR_DOCS_URL") or DOCS_URL
    return f"{base.rstrip('/')}/checks/{check_id}.html" if base else ""


def _of_a_site(check: Check, replaced: Check | None) -> Check:
    """Return a site's check, sandboxed. A replacement without PREVENTS takes that of the check that it replaces."""
    judge = check.judge if check.of_logs_alone else Judge(check.judge, check.variables)
    judge_job = Judge(check.judge_job, check.variables) if check.judge_job else None
    check = replace(check, judge=judge, judge_job=judge_job)
    if replaced is None or check.prevents:
        return check
    return replace(check, prevents=replaced.prevents, incomplete=check.incomplete or replaced.incomplete)


def load_file(path: Path, seconds: float | None = SECONDS) -> Check:
    """Load the check in one file.

    Raises BadCheck if the file is not a whole check, or takes longer than ``seconds`` (None: no limit).
    """
    stage = path.parent.name
    if stage not in (*STAGES, *LOG_STAGES):
        known = ", ".join((*STAGES, *LOG_STAGES))
        raise BadCheck(f"{path}: its folder is called {stage!r}, which is no stage ({known})")
    try:
        module = _run(path, seconds)
        if path.parent.parent != built_in_folder() and (problem := problem_of_names(path.read_bytes(), DECLARATIONS)):
            raise _Wrong(problem)
        return _declared(module, path)
    except _Wrong as err:
        raise BadCheck(f"{path}: {err}") from err


class _Wrong(Exception):
    """Missing or wrong declaration in a check file."""


def _run(path: Path, seconds: float | None) -> ModuleType:
    """Execute the file and return its module. Raises _Wrong."""
    name = f"distdoctor_checks.{abs(hash(str(path)))}.{path.parent.name}.{path.stem}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        with time_limited(seconds):
            exec(_code(path, name), module.__dict__)
    except Failed as err:
        raise _Wrong(str(err)) from err
    return module


def _code(path: Path, name: str) -> CodeType:
    """Return the compiled code of the file.

    For built-in files it is cached as bytecode, as Python does for a package, for a fast start. A site's folder may be
    read-only or shared, and gets no such file; and python -OO would leave out the page.
    """
    if sys.flags.optimize < 2 and path.parent.parent == built_in_folder():
        code = SourceFileLoader(name, str(path)).get_code(name)
        assert isinstance(code, CodeType)
        return code
    kept = min(sys.flags.optimize, 1)
    return compile(path.read_bytes(), str(path), "exec", dont_inherit=True, optimize=kept)


def _declared(module: ModuleType, path: Path) -> Check:
    """Return the check that a module declares. Raises _Wrong."""
    stage, severity, log = path.parent.name, getattr(module, "SEVERITY", None), getattr(module, "LOG", ())
    if problem := problem_of_log(log):
        raise _Wrong(problem)
    text, judge_job = inspect.cleandoc(str(module.__doc__ or "")), getattr(module, "judge_job", None)
    page = HEADING.sub(lambda heading: f"{heading[1]}\n{'-' * len(heading[1])}", text)
    judge = getattr(module, "judge", _nothing if log or judge_job else None)
    if not page or severity not in SEVERITIES or not callable(judge) or not (judge_job is None or callable(judge_job)):
        raise _Wrong(f"a check needs a docstring, SEVERITY ({', '.join(SEVERITIES)}) and judge(cluster) or LOG")
    missing = [section for section in SECTIONS[:4] if section not in HEADING.findall(text)]
    if missing:
        raise _Wrong(f"its page lacks the section '## {missing[0]}'")
    restart, following = str(getattr(module, "RESTART", RESTARTS[0])), getattr(module, "NEXT", ("", ""))
    if restart not in RESTARTS:
        raise _Wrong(f"RESTART {restart!r} is none of {', '.join(RESTARTS)}")
    if not (isinstance(following, tuple) and [type(one) for one in following] == [str, str]):
        raise _Wrong(f"NEXT {following!r} is not a text and a command")
    return Check(
        id=_id(path),
        title=page.partition("\n")[0].rstrip("."),
        page=page,
        severity=severity,
        judge=judge,
        path=path,
        follows=_ids(module, "FOLLOWS"),
        follows_anywhere=_ids(module, "FOLLOWS_ANYWHERE"),
        matters=_of_type(module, "MATTERS", ""),
        prevents=_milestone(module, "PREVENTS"),
        symptom_of=_milestone(module, "SYMPTOM_OF"),
        incomplete=_of_type(module, "INCOMPLETE", False),
        looks_at=_parts(module, "LOOKS_AT", required_parts(stage) if stage in STAGES else ()),
        helped_by=_parts(module, "HELPED_BY", ()),
        variables=_variables(module),
        log=tuple(log),
        restart=restart,
        next=following,
        judge_job=judge_job,
    )


def _ids(module: ModuleType, name: str) -> tuple[str, ...]:
    patterns = getattr(module, name, ())
    if not isinstance(patterns, (tuple, list)) or not all(isinstance(pattern, str) for pattern in patterns):
        raise _Wrong("FOLLOWS and FOLLOWS_ANYWHERE are lists of check ids")
    return tuple(patterns)


def _parts(module: ModuleType, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    parts = getattr(module, name, default)
    if not isinstance(parts, (tuple, list)):
        raise _Wrong(f'{name} {parts!r} is no list of parts of the facts: write {name} = ("host.limits",)')
    if wrong := [part for part in parts if not is_part(part)]:
        raise _Wrong(f"{name} names {wrong[0]!r}, which is no part of the facts (distdoctor/judge/catalog.py)")
    return tuple(parts)


def _of_type(module: ModuleType, name: str, default: _T) -> _T:
    value = getattr(module, name, default)
    if type(value) is not type(default):
        raise _Wrong(f"{name} {value!r} is no {type(default).__name__}")
    return value


def _variables(module: ModuleType) -> tuple[str, ...]:
    """Return the declared variables that are not on the allow-list. Raises _Wrong."""
    names = getattr(module, "VARIABLES", ())
    if not isinstance(names, (tuple, list)) or not all(isinstance(n, str) and NAME.fullmatch(n) for n in names):
        raise _Wrong(f'VARIABLES {names!r} is no list of names of variables: write VARIABLES = ("SITE_QUEUE",)')
    if secret := next((name for name in names if looks_secret(name)), None):
        raise _Wrong(f"VARIABLES names {secret}, which looks like a secret: distdoctor never collects its value")
    return tuple(name for name in names if name not in ALLOWED)


def _milestone(module: ModuleType, name: str) -> str:
    milestone = getattr(module, name, "")
    if milestone not in ("", *MILESTONES):
        raise _Wrong(f"{name} {milestone!r} is no milestone ({', '.join(MILESTONES)})")
    return str(milestone)


def _nothing(cluster: Cluster) -> Iterable[Finding]:
    """Return no findings, for a check that only logs show."""
    return ()


# Validation of the wordings that a check declares in ``LOG``.


SHORTEST = 4
"""Fewest characters of a literal of LOG; shorter ones occur everywhere."""


def problem_of_log(log: object) -> str:
    """Return the error in a check's ``LOG``, empty if there is none."""
    if not isinstance(log, (tuple, list)) or not all(isinstance(line, Line) for line in log):
        return "LOG holds Lines"
    return next(filter(None, map(_problem_of_literals, log)), "")


def _problem_of_literals(line: Line) -> str:
    if not line.literals and line.ended is None:
        return "a Line of LOG has a literal, or a class of ends"
    literals = (line.literal,) if isinstance(line.literal, str) else line.literal
    if not isinstance(literals, tuple) or not all(isinstance(one, str) for one in literals):
        return f"the literal of a Line is a text or a tuple of texts, not {line.literal!r}"
    if any(len(literal) < SHORTEST or "\n" in literal for literal in literals):
        return f"a literal of LOG has at least {SHORTEST} characters, all on one line"
    return ""


def problem_of_lines(log: tuple[Line, ...]) -> str:
    """Return the error in the fields of a site's own Lines: a misspelled word, or an expression that could take
    forever; empty if there is none."""
    return next(filter(None, map(_problem_of_line, log)), "")


def _problem_of_line(line: Line) -> str:
    if line.shows not in get_args(Shows):
        return f"shows={line.shows!r} is none of {', '.join(get_args(Shows))}"
    for pattern in (line.pattern, line.unless, line.stack):
        if not isinstance(pattern, str):
            return f"{pattern!r} is no expression: write a text"
        if problem := hazard(pattern):
            return f"{pattern!r} {problem}"
    missing = [name for name in line.above if name and name not in re.compile(line.pattern).groupindex]
    return f"above names {missing[0]!r}, which is no group of {line.pattern!r}" if missing else ""


# Safety of a check's expressions on hostile input: none may take more than quadratic time.


try:
    parser: Any = import_module("re._parser")  # from Python 3.11
    constants: Any = import_module("re._constants")
except ImportError:
    parser, constants = import_module("sre_parse"), import_module("sre_constants")

MANY = 64
"""Repetitions up to this many count as bounded."""


def hazard(pattern: str) -> str:
    """Return the error in ``pattern``, empty if there is none: it does not compile, or has a long repetition within a
    long repetition."""
    try:
        re.compile(pattern)
        tree = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as err:
        return f"is no expression: {err}"
    return "repeats what repeats: it can take for ever" if _nested(tree, 0) else ""


def _nested(tree: Any, depth: int) -> bool:
    for operation, argument in tree:
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            _, most, inner = argument
            many = most == constants.MAXREPEAT or most > MANY
            if (many and depth) or _nested(inner, depth + many):
                return True
        elif operation == constants.SUBPATTERN:
            if _nested(argument[-1], depth):
                return True
        elif operation == constants.BRANCH:
            if any(_nested(branch, depth) for branch in argument[1]):
                return True
        elif operation in (constants.ASSERT, constants.ASSERT_NOT) and _nested(argument[1], depth):
            return True
    return False


# Words by which a check declares the facts that it needs (``LOOKS_AT``):
#
# * A part of a node's facts by its path, such as ``host.limits`` or ``network.master``: seen if nothing on it is None.
# * ``meeting``: the node joined the store, or its wait for that is over.
# * ``ranks.STAGE``: every rank of the node went through the stage; ``ranks.devices``: it sees a device;
#   ``ranks.work``: its work was measured.
# * ``everyone``: the facts of the whole job, for a check that compares its nodes.


EVERYONE, MEETING, RANKS, DEVICES, WORK = "everyone", "meeting", "ranks", "devices", "work"
CLOCK = "mesh.clock_offset"
"""Clock offset, measured against node 0, which has none."""
_SEEN_BY = {
    ENVIRONMENT: ("plan",),
    HOST: ("host",),
    GPU: (f"{RANKS}.{DEVICES}",),
    NETWORK: ("network",),
    STORE: (MEETING,),
    MESH: ("mesh",),
}


def required_parts(stage: str) -> tuple[str, ...]:
    """Return the default LOOKS_AT of a stage: in most stages, that every rank went through it."""
    return _SEEN_BY.get(BY_NAME[stage], (f"{RANKS}.{stage}",))


def is_part(part: object) -> bool:
    """Return whether ``part`` is a word of ``LOOKS_AT``."""
    if not isinstance(part, str) or part == EVERYONE:
        return part == EVERYONE
    first, _, rest = part.partition(".")
    if first == RANKS:
        return rest in (*STAGES, DEVICES, WORK)
    kind: Any = NodeFacts
    for name in part.split("."):
        fields = _fields(kind)
        if name not in fields:
            return False
        kind = next((one for one in get_args(fields[name]) if is_dataclass(one)), fields[name])
    return True


@lru_cache
def _fields(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind) if is_dataclass(kind) else {}


# Misspelled names in a check file, which Python would ignore.


SIMILAR = 0.8
"""Ratio of difflib from which a name counts as a misspelling of another."""


def problem_of_names(source: bytes, declarations: Sequence[str]) -> str:
    """Return the error about a name at the file's top level that nothing uses; empty if there is none.

    A name that the file uses is a constant or a helper of its own, whatever it looks like.
    """
    tree = ast.parse(source)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for name, line in _given(tree):
        if name in used or name in declarations:
            continue
        right = {one.upper(): one for one in declarations}
        close = difflib.get_close_matches(name.upper(), right, 1, SIMILAR)
        if close:
            return f"line {line}: {name} is no declaration, and nothing in the file uses it: write {right[close[0]]}"
    return ""


def problem_of_references(named: Mapping[str, Sequence[str]], ids: Collection[str]) -> str:
    """Return the error about a declared pattern of ids that matches no check and no milestone; empty if there is none.

    ``named``: the patterns by the name of their declaration.
    """
    for declaration, patterns in named.items():
        for pattern in patterns:
            if pattern not in MILESTONES and not matching(ids, pattern):
                close = difflib.get_close_matches(pattern, [*ids, *MILESTONES], 1)
                return (
                    f"{declaration} names {pattern!r}, no check or milestone{f': write {close[0]!r}' if close else ''}"
                )
    return ""


def _given(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, node.lineno
