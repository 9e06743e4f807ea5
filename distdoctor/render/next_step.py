"""The end of a report: what to do next, and the lines to paste for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from distdoctor.model.addresses import endpoint
from distdoctor.model.findings import Finding, Fix, at_least
from distdoctor.model.launch_settings import (
    BACKEND,
    INIT_METHOD,
    MASTER_ADDR,
    MASTER_PORT,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RDZV_BACKEND,
    RDZV_ENDPOINT,
    SETTINGS,
    STANDALONE,
    TOKEN_PLACEHOLDER,
)
from distdoctor.model.report import INTERRUPTED, Report
from distdoctor.model.stages import STAGES
from distdoctor.render.fixes import lines
from distdoctor.render.style import LINE, PLAIN, Given, Style
from distdoctor.render.words import fold

_OF_THE_PLAN = (NNODES, NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT, RDZV_BACKEND, BACKEND)
"""Flags to repeat if only the plan of a run is known."""
_ORDER = [setting.flag for setting in SETTINGS if setting.flag]
_LAUNCH = [setting.flag for setting in SETTINGS if setting.pet and setting is not NODE_RANK]
"""torchrun's own; the node rank differs from node to node."""
_ADDRESS = "MASTER_IP"
"""In place of an address that is not known here. Pasted as it is, it is refused for what it is."""
_MASTER = (MASTER_ADDR.flag, RDZV_ENDPOINT.flag, INIT_METHOD.flag)
"""Each of these names node 0."""
_UNKNOWN = {MASTER_ADDR.flag: _MASTER, NODE_RANK.flag: (NODE_RANK.flag,)}
"""A flag whose right value is not known, and those that say the same."""
FROM_ONE_PLACE = ("--hosts", "--hostfile", "--slurm-job", "--pods", "--ray")
"""Flags that name the hosts of a run which is started from here."""
_FIX_CHARACTERS = 200
"""Limit of a fix that is printed a second time, at the end."""


def next_step(report: Report, style: Style = PLAIN) -> tuple[str, list[str]]:
    """Return what to do now, and the lines to paste for it, the one that starts something last (none where there is
    none).

    Where the report is on saved facts, their plan has to do for the flags of the run.
    """
    flags = _from_plan(report) if style.given is None else [*style.given]
    roots = [f for f in report.findings if f.because_of is None and at_least(f.severity, "warn")]
    if report.verdict == "incomplete":
        return _to_see_all(report, style, flags, roots)
    if report.verdict == "fail" and roots:
        return _fix_first(report, style, flags, [root for root in roots if root.severity == "fail"])
    if roots:
        again = _check(report, style.program, flags, roots, style.here)
        where = f"{_everywhere(report, flags)}{_left_open(again)}"
        return f"{_above(roots)} and check again{where}, or start the job as it is", again
    return _to_start(report, style, flags)


def _to_see_all(report: Report, style: Style, flags: Given, roots: Sequence[Finding]) -> tuple[str, list[str]]:
    """Return where not all could be looked at."""
    program, here, from_here = style.program, style.here, _from_one_place(flags)
    missing = [node.name for node in report.nodes if not node.arrived]
    if missing and style.given is None and not roots:
        return f"save the facts of {fold(missing)} too, then diagnose all of them together", []
    if missing and all(root.incomplete for root in roots if root.severity == "fail") and not from_here:
        again = _check(report, program, _without(flags, NODE_RANK.flag), (), here)
        if before := report.plan.get("everywhere"):
            return "start it on all nodes at once", [f"{before} {line}" for line in again]
        named = {name for root in roots for name in root.nodes}
        unmet = [name for name in missing if name in named]
        run = "run this" if again else "start the check"
        return f"{run} on {fold(unmet or missing)}, and here again{_left_open(again)}", again
    again = _check(report, program, flags, roots, here)
    where = f"{_everywhere(report, flags)}{_left_open(again)}"
    if INTERRUPTED in report.details:
        return f"check again{where}", again
    if roots:
        return f"{_above(roots)}, then check again{where}", again
    seen = "notes" if report.notes else "stages"
    return f"read the {seen} above, then check again{where}", again


def _fix_first(report: Report, style: Style, flags: Given, failing: Sequence[Finding]) -> tuple[str, list[str]]:
    """Return where the job would fail."""
    again = _check(report, style.program, flags, failing, style.here)
    where = f"{_everywhere(report, flags)}{_left_open(again)}"
    if short := _short_fix(report, failing):
        return f"apply the fix and check again{where}", [*short, *again]
    fixes = [fix for root in failing for fix in _first_option(root)]
    everyone = {node.name for node in report.nodes if node.arrived}
    of_all = all(not fix.nodes or everyone <= {*fix.nodes} for fix in fixes)
    if fixes and of_all and all(fix.flags and not fix.env and not fix.commands for fix in fixes):
        return f"check again with the fix{where}", again
    return f"{_above(failing)}, then check again{where}", again


def _to_start(report: Report, style: Style, flags: Given) -> tuple[str, list[str]]:
    """Return where nothing is wrong."""
    by_launcher = report.plan.get("started") == "rank"
    if report.until != STAGES[-1] and (by_launcher or (report.plan.get("engine") and LINE not in flags)):
        return "run the remaining stages: start the check without --until", []
    if report.until != STAGES[-1]:
        again = _check(report, style.program, _without(flags, "--until"), (), style.here)
        return "run the remaining stages", again
    if by_launcher or report.plan.get("engine") or "--ray" in dict(flags):
        return "start the job", []
    ranked = _of_several(report) and dict(flags).get(RDZV_BACKEND.flag) in (None, "static")
    words = "start the job" + (" on every node, N being its node rank" if ranked else "")
    return words, [torchrun(report, flags, style.torchrun, numbered=ranked)]


def _of_several(report: Report) -> bool:
    """Return whether the job has several nodes."""
    return (report.plan.get("nnodes") or 1) > 1


def _everywhere(report: Report, flags: Given) -> str:
    """Return where the command is to be given again."""
    if not _of_several(report) or _from_one_place(flags):
        return ""
    numbered = any(flag == NODE_RANK.flag for flag, _ in flags)
    return " on every node" + (f", each with its own {NODE_RANK.flag}" if numbered else "")


def torchrun(report: Report, flags: Given, called: str, *, numbered: bool) -> str:
    """The launch line that this check stands for; the script is the user's own. ``called``: how torchrun is started;
    ``numbered``: with a node rank."""
    named: list[tuple[str, str | None]] = [
        *_known_master(report, flags, torchrun=True),
        *([(NNODES.flag, str(report.plan.get("nnodes")))] if _from_one_place(flags) and numbered else []),
        (NPROC_PER_NODE.flag, str(report.plan.get("nproc_per_node") or 1)),
    ]
    values = {flag: value for flag, value in reversed([*flags, *named]) if flag in _LAUNCH}
    words = [*shlex.split(called), *_words([(flag, values[flag]) for flag in _LAUNCH if flag in values])]
    return f"{shlex.join(words)}{f' {NODE_RANK.flag} N' if numbered else ''} your_script.py"


def _check(
    report: Report, program: str, flags: Given, roots: Sequence[Finding] = (), here: str | None = None
) -> list[str]:
    """This run's command again, with the flags that the first fixes change (on this node, where it is known which it
    is); none once per rank, and none for an engine whose start line is not known here.
    """
    if report.plan.get("started") == "rank" or (report.plan.get("engine") and LINE not in flags):
        return []
    if LINE in flags:
        at = [*flags].index(LINE)
        options = {name: value for root in roots for fix in _ours(root, here) for name, value in fix.flags.items()}
        words = changed([word for word, _ in flags[at + 1 :]], options)
        return [shlex.join([*program.split(), "check", *_words(flags[:at]), "--", *words])]
    pairs = [*flags, *_known_master(report, flags)]
    for root in roots:
        ours = _ours(root, here)
        for flag, value in (change for fix in ours for change in fix.flags.items()):
            if not _is_given_elsewhere(flag, flags, here):
                pairs = [*_without(pairs, flag), *([(flag, value)] if value is not None else [])]
        open_flags = {name for fix in ours for flag in fix.unknown for name in _UNKNOWN.get(flag, ())}
        pairs = [(flag, _open(flag, value, report) if flag in open_flags else value) for flag, value in pairs]
    pairs = sorted(pairs, key=lambda pair: _ORDER.index(pair[0]) if pair[0] in _ORDER else len(_ORDER))
    return [shlex.join([*program.split(), "check", *_words(pairs)])]


def _is_given_elsewhere(flag: str, flags: Given, here: str | None) -> bool:
    """Return whether the flag differs from node to node, or follows from the named hosts."""
    if flag == NODE_RANK.flag and here is None:
        return True
    return flag in (NODE_RANK.flag, NNODES.flag) and _from_one_place(flags)


def changed(words: Sequence[str], options: Mapping[str, str | None]) -> list[str]:
    """Return an engine's start line with these options in place of its own, or behind it; None removes one."""
    left, kept = [*words], list[str]()
    while left:
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        if not word.startswith("--") or name.replace("_", "-") not in options:
            kept.append(word)
        elif not equals:
            del left[:1]
    return [*kept, *(part for name, value in options.items() if value is not None for part in (name, value))]


def _open(flag: str, value: str | None, report: Report) -> str | None:
    """Return what stands for the value of a flag, where the one that was given is wrong and no better one is known."""
    if flag == NODE_RANK.flag:
        return "N"
    if flag == MASTER_ADDR.flag:
        return _ADDRESS
    place = f"{_ADDRESS}:{report.plan.get('master_port') or 'PORT'}"
    if flag == INIT_METHOD.flag:
        return f"tcp://{place}" if (value or "").startswith("tcp://") else value
    return place


def _left_open(commands: Sequence[str]) -> str:
    """Return what the placeholders in these lines stand for."""
    words = {word for command in commands for word in command.split()}
    address = f", {_ADDRESS} being node 0's address" if any(_ADDRESS in word for word in words) else ""
    token = f", {TOKEN_PLACEHOLDER} being this run's token" if TOKEN_PLACEHOLDER in words else ""
    return address + token


def _known_master(report: Report, flags: Given, torchrun: bool = False) -> list[tuple[str, str | None]]:
    """The master where no flag of this run names it: node 0 of a job without a known one printed an address, and
    torchrun does not read MASTER_ADDR and MASTER_PORT, from which distdoctor takes it, too."""
    named = {*_MASTER} & {flag for flag, _ in flags}
    source = (report.plan.get("sources") or {}).get("master_addr", "")
    address, port = report.plan.get("master_addr"), report.plan.get("master_port")
    if _from_one_place(flags) and not torchrun:
        return []
    if named or not address or not _of_several(report) or source in (MASTER_ADDR.pet, RDZV_ENDPOINT.pet):
        return []
    if source in MASTER_ADDR.variables:
        return [(MASTER_ADDR.flag, str(address)), (MASTER_PORT.flag, str(port))] if torchrun else []
    if dict(flags).get(RDZV_BACKEND.flag) == "c10d":
        return [(RDZV_ENDPOINT.flag, endpoint(str(address), int(port or 0)))]
    return [(MASTER_ADDR.flag, str(address))]


def _from_one_place(flags: Given) -> bool:
    return any(flag in FROM_ONE_PLACE for flag, _ in flags)


def _from_plan(report: Report) -> list[tuple[str, str | None]]:
    """The launch flags that the plan's own record of its sources names."""
    plan, sources = report.plan, report.plan.get("sources") or {}
    named: list[tuple[str, str | None]] = [
        (setting.flag, str(plan[setting.name]))
        for setting in _OF_THE_PLAN
        if str(sources.get(setting.name, "")).startswith("--")
        and sources.get(setting.name) != STANDALONE.flag
        and plan.get(setting.name) is not None
    ]
    if method := plan.get(INIT_METHOD.name):
        named.append((INIT_METHOD.flag, str(method)))
        if str(method).startswith("tcp://"):  # it names the master itself
            return _without(_without(named, MASTER_ADDR.flag), MASTER_PORT.flag)
    if sources.get(MASTER_ADDR.name) != RDZV_ENDPOINT.flag:
        return named
    place = endpoint(str(plan.get("master_addr")), int(plan.get("master_port") or 0))
    return [(RDZV_ENDPOINT.flag, place), *_without(_without(named, MASTER_ADDR.flag), MASTER_PORT.flag)]


def _short_fix(report: Report, roots: Sequence[Finding]) -> list[str]:
    """The lines of the first fix, where there is one root and they are short and the same for every node."""
    parts = _first_option(roots[0]) if len(roots) == 1 else []
    texts = {tuple(lines(fix)) for fix in parts}
    nodes = {node for fix in parts for node in fix.nodes}
    everyone = {node.name for node in report.nodes if node.arrived}
    if len(texts) != 1 or (nodes and not everyone <= nodes) or any(fix.commands for fix in parts):
        return []
    fix = replace(parts[0], flags={})  # those are in the command itself
    said = lines(fix)
    return said if sum(map(len, said)) <= _FIX_CHARACTERS else []


def _above(roots: Sequence[Finding]) -> str:
    """Return what is to be done of what stands above, and where."""
    parts = [_first_option(root) for root in roots]
    if not any(parts):
        return "fix what is named above"
    if any(root.blame == "one-of" and len({fix.option for fix in root.fixes}) > 1 for root in roots):
        return "apply one of the fixes above"
    nodes = list(dict.fromkeys(node for fixes in parts for fix in fixes for node in fix.nodes))
    where = f" on {fold(nodes)}" if len(nodes) == 1 else ""
    return f"apply the fix{'es' if sum(map(bool, parts)) > 1 else ''} above{where}"


def _first_option(root: Finding) -> list[Fix]:
    first = min((fix.option for fix in root.fixes), default=1)
    return [fix for fix in root.fixes if fix.option == first]


def _ours(root: Finding, here: str | None) -> list[Fix]:
    """Return the parts of the first fix that concern this node, or all nodes."""
    return [fix for fix in _first_option(root) if here is None or not fix.nodes or here in fix.nodes]


def _without(pairs: Given, flag: str) -> list[tuple[str, str | None]]:
    return [pair for pair in pairs if pair[0] != flag]


def _words(pairs: Given) -> list[str]:
    return [word for pair in pairs for word in pair if word is not None]
