"""The JSON Schema of the report, made from the dataclasses of the report and from what each field means.

Of schema version 1 every field keeps its name, its type and its meaning; new ones may come, so a reader passes over
what it does not know, and must not miss what is not ``required``: a document of an older version lacks it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from distdoctor.model.findings import RESTARTS, Finding, Fix, PossibleCause
from distdoctor.model.report import SCHEMA_VERSION, Report, ReportCheck, ReportNode, ReportStage
from distdoctor.model.stages import LOG_STAGES, STAGES

DIALECT = "http://json-schema.org/draft-07/schema#"
"""Dialect that most validators support."""
STATUSES = ("pass", "warn", "fail", "skip", "error")

MEANING: dict[type, tuple[str, dict[str, str]]] = {
    Report: (
        "The report of one command of distdoctor. Fields are only ever added; pass over what you do not know.",
        {
            "schema_version": "It rises only where a field is taken away or means something else.",
            "verdict": "incomplete: something could not be seen, such as a missing node, and nothing else failed.",
            "distdoctor": "The version that judged.",
            "torch": "The version of torch on the first node; null where none was found.",
            "started_at": "When the run began, ISO 8601.",
            "seconds": "How long it took.",
            "plan": "What the job would be, as the first node reads it; sources says where each value came from.",
            "nodes": "The nodes of the plan: met, or known to be missing.",
            "stages": "How each stage ended on each node.",
            "findings": "What is wrong: root causes first, then what follows from them.",
            "ignored": "What was found and is left out because --ignore asks for that.",
            "notes": "What else a reader should know: what could not be seen, by which signal it was ended.",
            "details": "Values seen where all is well; of logs the lines, of a job that runs its ranks. May change.",
            "checks": "What became of every check that was run.",
            "candidates": "Where logs show only a symptom: what it may be, likeliest first.",
        },
    ),
    ReportNode: (
        "One node.",
        {
            "name": "The key used everywhere, unique: the host's name, with #<node rank> where it repeats.",
            "node_rank": "Its place in the job; null where that is not known.",
            "arrived": "Whether it was met.",
            "hostname": "Its own name of itself; null of a node that was never met.",
            "ranks": "The ranks on it.",
            "address": "Where the others reach it.",
            "torch": "Its version of torch.",
            "distdoctor": "Its version of distdoctor.",
        },
    ),
    ReportStage: (
        "How one stage ended on one node.",
        {
            "stage": f"One of {', '.join(STAGES)}; of logs and hangs also {', '.join(LOG_STAGES)}.",
            "node": "The node's name.",
            "status": f"One of {', '.join(STATUSES)}.",
            "seconds": "How long it took.",
            "reason": "Why it did not pass; may be empty.",
            "blocked_by": "The stage that it needs and that did not pass.",
        },
    ),
    Finding: (
        "One failure that was found.",
        {
            "id": "The check's id, with #2, #3 where it repeats.",
            "check": "The check's id: distdoctor explain tells all about it.",
            "severity": "fail: as planned, the job would fail or hang; warn: it would run, see matters; info: to know.",
            "title": "The failure in words.",
            "summary": "What is so here, with names and values.",
            "nodes": "The nodes that are to blame.",
            "ranks": "The ranks that are to blame.",
            "local_ranks": "Ranks of which only the number on their node is known.",
            "links": "Who connects, to whom.",
            "blame": "one-of: it is one of the nodes, and it cannot be told which.",
            "matters": "Why a warning is one.",
            "evidence": "What was seen that proves it, line by line.",
            "because_of": "The id of the finding from which this one follows; null of a root cause.",
            "restart": f"Whether starting the job again as it was can help: {', '.join(RESTARTS)}, or empty.",
            "docs_url": "The address of the check's page; empty for a site's own check.",
            "fixes": "What cures it, best first.",
        },
    ),
    Fix: (
        "One remedy for some nodes.",
        {
            "option": "Fixes with an equal number belong together; others are alternatives.",
            "text": "What to do, in words.",
            "env": "Variables to set before the launch; null: unset it.",
            "flags": "Changes of the launch line; null: leave the flag out.",
            "commands": "Shell commands to run.",
            "nodes": "On which nodes.",
            "verified": "true: tried here, and it helped; false: tried, and it did not; null: not tried.",
        },
    ),
    ReportCheck: (
        "What became of one check.",
        {
            "id": "The check's id.",
            "status": "clear: all that it looks at was seen, and nothing is wrong; not-judged: it was not seen.",
            "why": "Why it was not judged; with found: ignored, where that was asked for.",
        },
    ),
    PossibleCause: (
        "What it may be, where the evidence is not enough for a finding.",
        {
            "check": "The check's id.",
            "why": "What speaks for it.",
            "against": "What speaks against it, or what else shows the same.",
            "next": "The one thing to get next.",
            "command": "The command that gets it; may be empty.",
        },
    ),
}
"""Of each part of the document what it is, and its fields in the order in which they are written."""
LATER = {Report: ("checks", "candidates"), Finding: ("local_ranks", "restart", "docs_url")}
"""Fields that the first documents of this schema version lack."""


def schema() -> dict[str, Any]:
    """The schema, as plain values."""
    _, parts = msgspec.json.schema_components([Report], ref_template="#/definitions/{name}")
    definitions = {part.__name__: _part(part, parts[part.__name__]["properties"]) for part in MEANING}
    whole = definitions.pop(Report.__name__)
    return {"$schema": DIALECT, "title": "distdoctor report", **whole, "definitions": definitions}


def _part(part: type, known: dict[str, Any]) -> dict[str, Any]:
    about, fields = MEANING[part]
    properties = {name: {"description": means, **_typed(known[name])} for name, means in fields.items()}
    if part is Report:
        properties["schema_version"] = {"description": fields["schema_version"], "const": SCHEMA_VERSION}
    if part is ReportStage:
        properties["status"]["enum"] = list(STATUSES)
    required = [name for name in fields if name not in LATER.get(part, ())]
    return {"description": about, "type": "object", "properties": properties, "required": required}


def _typed(value: dict[str, Any]) -> dict[str, Any]:
    """Return what msgspec says of a field, as this dialect puts it: a reader is owed no default, and pairs are of
    one type."""
    told = {name: item for name, item in value.items() if name not in ("default", "description")}
    if "prefixItems" in told:
        told["items"] = told.pop("prefixItems")[0]
    elif isinstance(told.get("items"), dict):
        told["items"] = _typed(told["items"])
    return told
