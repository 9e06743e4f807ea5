"""The last line of a report: the one thing to do next."""

from __future__ import annotations

import shlex

from distdoctor.findings import Finding, at_least
from distdoctor.judge import INCOMPLETE
from distdoctor.render.words import fold
from distdoctor.report import Report
from distdoctor.stages import STAGES

_FLAGS = {
    "nnodes": "--nnodes",
    "nproc_per_node": "--nproc-per-node",
    "node_rank": "--node-rank",
    "master_addr": "--master-addr",
    "master_port": "--master-port",
    "backend": "--backend",
}


def next_step(report: Report, program: str = "distdoctor") -> tuple[str, str]:
    """What to do now, and the command for it (empty where there is none to paste).

    ``program`` is how the doctor is started here: ``python3 -m distdoctor`` works where ``distdoctor`` is not on PATH.
    """
    roots = [f for f in report.findings if f.because_of is None and at_least(f.severity, "warn")]
    missing = [node.name for node in report.nodes if not node.arrived]
    if report.verdict == "incomplete":
        if missing and all(root.check == INCOMPLETE for root in roots):
            return f"start distdoctor on {fold(missing)} too, then here again", command(report, program)
        return f"see the {'notes' if report.notes else 'stages'} above, then again", command(report, program, roots)
    if roots and report.verdict == "fail":
        where = " on every node" if (report.plan.get("nnodes") or 1) > 1 else ""
        return f"apply the fix, then again{where}", command(report, program, roots)
    if roots:
        return "the job would run; to understand the warning", f"{program} explain {roots[0].check}"
    if report.until != STAGES[-1]:
        return f"nothing is wrong up to {report.until}; to climb to the end", command(report, program)
    if report.plan.get("started") == "rank":
        return "start the job", ""
    several = (report.plan.get("nnodes") or 1) > 1
    return "start the job" + (", N being each node's own rank" if several else ""), torchrun(report)


def command(report: Report, program: str, roots: list[Finding] | None = None) -> str:
    """The command of this run, with the flags that the first fixes change; empty once per rank.

    ``--node-rank`` is left out: it differs from node to node and is assigned where it is not given.
    """
    if report.plan.get("started") == "rank":
        return ""  # the launcher's own line, which is not known here
    return shlex.join([*program.split(), "check", *_flags(report, roots or [], skip=("node_rank",))])


def torchrun(report: Report) -> str:
    """The launch line that this check stands for; the script is the user's own."""
    words = _flags(report, [], skip=("backend", "node_rank"), always=("nproc_per_node",))
    rank = " --node-rank N" if (report.plan.get("nnodes") or 1) > 1 else ""
    return f"{shlex.join(['torchrun', *words])}{rank} your_script.py"


def _flags(report: Report, roots: list[Finding], skip: tuple[str, ...], always: tuple[str, ...] = ()) -> list[str]:
    plan, sources = report.plan, report.plan.get("sources") or {}
    values: dict[str, str | None] = {}
    several = (plan.get("nnodes") or 1) > 1
    for name, flag in _FLAGS.items():
        given = str(sources.get(name, "")).startswith("--") and sources.get(name) != "--standalone"
        # Node 0 of a job without a known master printed an address: from here on it is known.
        known = several and name == "master_addr"
        if name not in skip and (given or known or name in always) and plan.get(name) is not None:
            values[flag] = str(plan[name])
    for root in roots:
        first = min((fix.option for fix in root.fixes), default=1)
        for fix in root.fixes:
            if fix.option == first:
                values.update({flag: value for flag, value in fix.flags.items() if flag != "--node-rank"})
    return [word for flag, value in values.items() if value is not None for word in (flag, value)]
