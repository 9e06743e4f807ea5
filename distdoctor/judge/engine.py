"""Engine: runs the checks on the facts and orders the findings, root causes first. Pure: the same facts always give the
same findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from distdoctor.judge import nccl_warnings
from distdoctor.judge.catalog import Check
from distdoctor.judge.causes import linked
from distdoctor.judge.fixes import feasible, with_exclusion, with_files
from distdoctor.judge.sandbox import Failed
from distdoctor.judge.uncollected import NotCollected
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import HostCall
from distdoctor.model.findings import NO_GLOO, SEVERITIES, Finding, Severity, capped
from distdoctor.model.report import ONE_HOST, Verdict
from distdoctor.model.stages import BY_NAME, stage_index

OF_CALLS = ("launch",)
"""Stages whose checks are about the hosts of a remote run (``--hosts``)."""


@dataclass(frozen=True)
class Judgement:
    """Findings of all checks."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    ignored: tuple[Finding, ...] = ()
    broken: tuple[str, ...] = ()
    """Checks that raised, each as ``id: error``: a crash of a check is a result, not a traceback."""
    checks: tuple[Check, ...] = ()
    """Checks that ran."""
    uncollected: tuple[tuple[str, str], ...] = ()
    """(check, reason) for checks of a site that read variables which were not collected: they have no findings, and are
    not clear."""

    @property
    def roots(self) -> tuple[Finding, ...]:
        """Return the findings that follow from no other."""
        return tuple(f for f in self.findings if f.because_of is None)

    def worst(self) -> Severity | None:
        """Return the gravest severity among the findings, None without any."""
        return max((f.severity for f in self.findings if f.severity), key=SEVERITIES.index, default=None)


def judge(cluster: Cluster, checks: Sequence[Check], ignore: Iterable[str] = ()) -> Judgement:
    """Run every check on the cluster's facts and put the findings in order of cause.

    ``ignore`` holds check ids (or patterns) whose findings are set aside and listed apart.
    """
    judges, known = _judges(cluster, checks), {check.id: check for check in checks}
    patterns = tuple(ignore)
    checks = [check for check, _ in judges]
    found: list[Finding] = []
    broken: list[str] = []
    uncollected: list[tuple[str, str]] = []
    for check, judge_function in judges:
        try:
            for finding in judge_function(cluster):
                found.append(_completed(finding, check, cluster))
        except NotCollected as err:
            if not any(fnmatchcase(check.id, p) for p in patterns):
                uncollected.append((check.id, str(err)))
        except Failed as err:
            broken.append(f"{check.id}: {err}")
        except Exception as err:
            broken.append(f"{check.id}: {type(err).__name__}: {err}")
    failing = {finding.check for finding in found if finding.severity == "fail"}  # a warning is about something else
    warnings = nccl_warnings.warning_findings(cluster, known.values())
    found += [_completed(finding, check, cluster) for check, finding in warnings if check.id not in failing]
    ignored = tuple(f for f in found if any(fnmatchcase(f.check, p) for p in patterns))
    kept = _numbered([f for f in found if f not in ignored])
    ordered = tuple(with_exclusion(_marked_verified(f, cluster), cluster) for f in in_order(linked(kept, known)))
    verdict = _verdict(ordered, bool(broken or uncollected))
    return Judgement(verdict, ordered, ignored, tuple(broken), tuple(checks), tuple(uncollected))


def judge_calls(calls: Iterable[HostCall], checks: Sequence[Check], ignore: Iterable[str] = ()) -> Judgement:
    """Run the checks on a remote run that brought no facts: only the result of each host's command is known."""
    return judge(Cluster((), (), tuple(calls)), [check for check in checks if check.stage in OF_CALLS], ignore)


def is_on_job(cluster: Cluster) -> bool:
    """Return whether the facts are about a job that runs now, rather than about what ``check`` tried."""
    return any(node.facts.jobs for node in cluster.nodes)


def _judges(cluster: Cluster, checks: Sequence[Check]) -> list[tuple[Check, Callable[[Cluster], Iterable[Finding]]]]:
    """Return the checks that apply to such facts, each with the function to call."""
    if is_on_job(cluster):
        # INCOMPLETE is about a node that ``check`` never saw; in a waiting job the wait itself is seen.
        of_job = [(replace(check, incomplete=False), check.judge_job) for check in checks if check.judge_job]
        of_calls = [(check, check.judge) for check in checks if check.stage in OF_CALLS and cluster.calls]
        return [*of_calls, *of_job]
    return [
        (check, check.judge)
        for check in checks
        if not check.of_logs_alone and (check.stage not in OF_CALLS or cluster.calls)
    ]


def only_probed(cluster: Cluster, stage: str) -> bool:
    """Return whether ``stage`` tests a backend that the job does not use, so that its failure cannot make the job
    fail."""
    return stage in BY_NAME and BY_NAME[stage].even_unplanned and not cluster.gloo_planned


def _completed(finding: Finding, check: Check, cluster: Cluster) -> Finding:
    severity, matters = finding.severity or check.severity, finding.matters
    # A backend that the job does not use is tested, but cannot make the job fail.
    if only_probed(cluster, check.stage):
        severity, matters = capped(severity, "warn"), matters or NO_GLOO
    if severity == "warn":
        matters = matters or check.matters
    else:
        matters = ""
    return replace(
        finding,
        check=check.id,
        title=finding.title or check.title,
        severity=severity,
        matters=matters,
        incomplete=finding.incomplete or check.incomplete,
        restart=finding.restart or check.restart,
        docs_url=check.docs_url,
        fixes=tuple(feasible(one, cluster) for fix in finding.fixes for one in with_files(fix, cluster)),
    )


def _numbered(findings: Sequence[Finding]) -> list[Finding]:
    seen: dict[str, int] = {}
    numbered = []
    for finding in findings:
        count = seen[finding.check] = seen.get(finding.check, 0) + 1
        numbered.append(replace(finding, id=finding.check if count == 1 else f"{finding.check}#{count}"))
    return numbered


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Return the root causes, gravest and earliest stage first, then their consequences in the order of their roots."""

    def rank(finding: Finding) -> tuple[int, int, str]:
        severity = SEVERITIES.index(finding.severity or "info")
        return -severity, stage_index(finding.check.partition("/")[0]), finding.id

    roots = sorted((f for f in findings if f.because_of is None), key=rank)
    order = {root.id: place for place, root in enumerate(roots)}
    rest = [f for f in findings if f.because_of is not None]
    rest.sort(key=lambda f: (order.get(f.because_of or "", 0), *rank(f)))
    return [*roots, *rest]


def _marked_verified(finding: Finding, cluster: Cluster) -> Finding:
    trials = {(t.check, t.option): t for node in cluster.nodes for t in node.facts.trials}
    fixes = tuple(
        replace(fix, verified=trials[finding.check, fix.option].passed)
        if fix.env and (finding.check, fix.option) in trials
        else fix
        for fix in finding.fixes
    )
    return replace(finding, fixes=fixes) if fixes != finding.fixes else finding


def _verdict(findings: Sequence[Finding], broken: bool) -> Verdict:
    failing = [f for f in findings if f.severity == "fail" and f.because_of is None]
    if any(not f.incomplete for f in failing):
        return "fail"
    if failing or broken:
        return "incomplete"
    return "warn" if any(f.severity == "warn" for f in findings) else "pass"


# Notes on hosts that run several nodes: over 127.0.0.1 that works, so it is no failure.


def one_host_note(cluster: Cluster) -> Iterator[str]:
    """Yield a note if one host runs all nodes, or more of them than the other hosts do.

    Containers with a network of their own count as hosts.
    """
    of_host: dict[tuple[str, str, str], list[Node]] = {}
    for node in cluster.nodes:
        if not node.facts.jobs:
            of_host.setdefault(node.host_key, []).append(node)
    for nodes in of_host.values():
        name, here, everywhere = nodes[0].identity.hostname, len(nodes), len(cluster.nodes)
        if here == 1:
            continue
        if here == everywhere:
            runs = "both" if here == 2 else f"all {here}"
            yield f"{here}{ONE_HOST}{name} runs {runs}. No link between hosts was checked."
        elif _unnumbered(nodes) and len({len(_unnumbered(others)) for others in of_host.values()}) > 1:
            pids = ", ".join(str(node.identity.pid) for node in nodes)
            yield (
                f"{name} is {here} of the {everywhere} nodes (pids {pids}): where that is not meant, one of these was "
                "started twice or is left over from an earlier run"
            )


def _unnumbered(nodes: list[Node]) -> list[Node]:
    """Return the nodes without a node rank: one of them may be left over from another run."""
    return [node for node in nodes if node.plan.started == "node" and node.plan.node_rank is None]
