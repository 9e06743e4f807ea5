"""What ``-v`` adds, in words: where the plan came from, and the values seen where all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from distdoctor.model.report import Report, ReportCheck
from distdoctor.model.sanitize import clean
from distdoctor.render.page import Page
from distdoctor.render.words import count

CHECKS_SHOWN = 10


def write_plan(page: Page, plan: Mapping[str, Any], dot: str) -> None:
    """Each value of the plan and where it came from, in brackets."""
    sources = plan.get("sources") or {}
    told = [f"{clean(name).replace('_', ' ')} {_plain(plan.get(name))} ({clean(why)})" for name, why in sources.items()]
    if told:
        page.prose((f"  plan: {dot.join(told)}", "dim"), hang=8)


def write_details(page: Page, report: Report) -> None:
    """Each node with what it is and what was measured there."""
    nodes = report.details.get("nodes") or {}
    for node, values in nodes.items():
        if not isinstance(values, Mapping):
            continue
        page.blank()
        page.line((clean(node), "dim"))
        for line in _lines(dict(values)):
            page.prose((f"  {line}", "dim"), hang=4)
    if report.checks:
        page.blank()
        page.line(("checks", "dim"))
        for line in _checks(report.checks):
            page.prose((f"  {line}", "dim"), hang=4)


def _checks(checks: Sequence[ReportCheck]) -> Iterable[str]:
    """How many of each stage found nothing, where all that they look at was seen; and the others, by why not."""
    stages = Counter(check.id.partition("/")[0] for check in checks)
    clear = Counter(check.id.partition("/")[0] for check in checks if check.status == "clear")
    told = ", ".join(f"{clean(stage)} {clear[stage]} of {number}" for stage, number in stages.items())
    yield f"looked and found nothing: {told}"
    reasons: dict[str, list[str]] = {}
    for check in checks:
        if check.status == "not-judged":
            reasons.setdefault(check.why, []).append(check.id)
    for why, ids in reasons.items():
        shown = [clean(one) for one in ids[:CHECKS_SHOWN]]
        more = f" and {len(ids) - CHECKS_SHOWN} more" if len(ids) > CHECKS_SHOWN else ""
        yield f"not judged, {clean(why)}: {', '.join(shown)}{more}"


def _lines(values: dict[str, Any]) -> Iterable[str]:
    """The values of one node as sentences; what has none is told by its name."""
    if "python" in values:
        where = f", {clean(values['executable'])}" if values.get("executable") else ""
        yield f"Python {clean(values['python'])}{where}"
    yield from _torch(values)
    if isinstance(values.get("interfaces"), Mapping):
        yield "interfaces: " + "; ".join(
            f"{clean(name)} {', '.join(map(clean, held)) or '(no address)'}"
            for name, held in values["interfaces"].items()
        )
    if "gloo_address" in values:
        interface = values.get("gloo_interface")
        yield f"gloo uses {clean(values['gloo_address'])}{f' on {clean(interface)}' if interface else ''}"
    if "reached_at" in values:
        yield f"other hosts reach it at {clean(values['reached_at'])}"
    if isinstance(values.get("variables"), Mapping):
        files = values.get("variable_files") or {}
        yield "variables: " + ", ".join(
            f"{clean(k)}={clean(v)}{f' (from {clean(files[k])})' if k in files else ''}"
            for k, v in values["variables"].items()
        )
    if "links_good" in values:
        bad = values.get("links_bad") or 0
        trips = [said.format(_milliseconds(values[name])) for name, said in _TRIPS.items() if name in values]
        good = values["links_good"]
        works = f"{count(good, 'link')} to other nodes work{'s' if good == 1 else ''}{f', {bad} do not' if bad else ''}"
        yield works + (f"; round trip {', '.join(trips)}" if trips else "")
    for rank, told in _ranked(values.get("collective")):
        yield f"rank {clean(rank)}: {told}"
    for name, value in values.items():
        if name not in _TOLD:
            yield f"{clean(name).replace('_', ' ')}: {_plain(value)}"


def _torch(values: Mapping[str, Any]) -> Iterable[str]:
    seconds = values.get("torch_seconds")
    took = f"{seconds:.1f} s" if isinstance(seconds, (int, float)) else ""
    if values.get("torch_importing"):
        yield f"torch was still being imported{f' after {took}' if took else ''}"
    elif values.get("torch_error"):
        yield f"torch cannot be imported: {clean(values['torch_error'])}"
    elif "torch" in values:
        where = f", from {clean(values['torch_path'])}" if "torch_path" in values else ""
        yield f"torch {clean(values['torch'])}{f', imported in {took}' if took else ''}{where}"


_TRIPS = {"rtt_median": "{} as a rule", "rtt_max": "{} at most"}
_TOLD = {
    "python", "executable", "torch", "torch_path", "torch_seconds", "torch_error", "torch_importing", "interfaces",
    "gloo_address", "gloo_interface", "reached_at", "variables", "variable_files", "links_good",
    "links_bad", "rtt_median", "rtt_max", "collective",
}  # fmt: skip


def _ranked(collective: Any) -> Iterable[tuple[str, str]]:
    """What the collectives took, rank by rank."""
    for rank, detail in collective.items() if isinstance(collective, Mapping) else ():
        detail = dict(detail) if isinstance(detail, Mapping) else {}
        times = detail.pop("times", None)
        told = [f"{clean(k)} {_milliseconds(v)}" for k, v in times.items()] if isinstance(times, Mapping) else []
        told += [f"{clean(name)} {_plain(value)}" for name, value in detail.items()]
        yield str(rank), ", ".join(told)


def _milliseconds(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return clean(seconds)
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


def _plain(value: Any) -> str:
    """Any value in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{clean(name)} {_plain(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(_plain(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else "unknown" if value is None else clean(value)
