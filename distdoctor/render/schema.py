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
            "distdoctor": "The version of distdoctor that judged.",
            "torch": "The version of torch on the first node; null if none was found.",
            "started_at": "When the run began, ISO 8601.",
            "seconds": "Its duration.",
            "plan": "The planned job, as the first node reads it; sources names the origin of each value.",
            "nodes": "The nodes of the plan: joined, or known to be missing.",
            "stages": "The result of each stage on each node.",
            "findings": "The failures: root causes first, then their consequences.",
            "ignored": "Findings that --ignore sets aside.",
            "notes": "Notes: facts that could not be seen, the signal that ended the run.",
            "details": "Values of healthy nodes, lines of logs, ranks of a running job. May change.",
            "checks": "The status of every check that ran.",
            "candidates": "Possible causes if logs show only a symptom, likeliest first.",
        },
    ),
    ReportNode: (
        "One node.",
        {
            "name": "The key used everywhere, unique: the host's name, with #<node rank> where it repeats.",
            "node_rank": "Its rank among the nodes; null if unknown.",
            "arrived": "Whether it joined.",
            "hostname": "Its hostname; null for a node that did not join.",
            "ranks": "The ranks on it.",
            "address": "The address at which the other nodes reach it.",
            "torch": "Its version of torch.",
            "distdoctor": "Its version of distdoctor.",
        },
    ),
    ReportStage: (
        "The result of one stage on one node.",
        {
            "stage": f"One of {', '.join(STAGES)}; of logs and hangs also {', '.join(LOG_STAGES)}.",
            "node": "The node's name.",
            "status": f"One of {', '.join(STATUSES)}.",
            "seconds": "Its duration.",
            "reason": "The reason if it did not pass; may be empty.",
            "blocked_by": "The stage that it needs and that did not pass.",
        },
    ),
    Finding: (
        "One failure.",
        {
            "id": "The check's id, with #2, #3 where it repeats.",
            "check": "The check's id, for distdoctor explain.",
            "severity": "fail: as planned, the job would fail or hang; warn: it would run, see matters; info: to know.",
            "title": "The failure in words.",
            "summary": "The failure on these nodes, with names and values.",
            "nodes": "The affected nodes.",
            "ranks": "The affected ranks.",
            "local_ranks": "Affected ranks of which only the number on their node is known.",
            "links": "Pairs of connecting node and target node.",
            "blame": "one-of: one of the nodes is affected; unknown which.",
            "matters": "The impact of a warning.",
            "evidence": "The evidence, line by line.",
            "because_of": "The id of the finding that causes this one; null for a root cause.",
            "restart": f"Whether starting the job again as it was can help: {', '.join(RESTARTS)}, or empty.",
            "docs_url": "The address of the check's page, if DISTDOCTOR_DOCS_URL names a site of them.",
            "fixes": "The fixes, best first.",
        },
    ),
    Fix: (
        "One remedy for some nodes.",
        {
            "option": "Fixes with an equal number belong together; others are alternatives.",
            "text": "The instruction.",
            "env": "Variables to set before the launch; null: unset it.",
            "flags": "Changes of the launch line; null: leave the flag out.",
            "commands": "Shell commands to run.",
            "nodes": "The nodes to apply it on.",
            "verified": "true: tried here, and it helped; false: tried, and it did not; null: not tried.",
        },
    ),
    ReportCheck: (
        "The status of one check.",
        {
            "id": "The check's id.",
            "status": "clear: all its facts were seen, and nothing is wrong; not-judged: they were not seen.",
            "why": "The reason for not-judged; with found: ignored, if --ignore names it.",
        },
    ),
    PossibleCause: (
        "A possible cause, if the evidence is not enough for a finding.",
        {
            "check": "The check's id.",
            "why": "The evidence for it.",
            "against": "The evidence against it, or other causes of the same line.",
            "next": "The next evidence to get.",
            "command": "The command that gets it; may be empty.",
            "title": "The failure in a sentence: the title of the check's page.",
        },
    ),
}
"""Return the description of each part of the document, and its fields in the order of the output."""
LATER = {Report: ("checks", "candidates"), Finding: ("local_ranks", "restart", "docs_url"), PossibleCause: ("title",)}
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
    content = {name: item for name, item in value.items() if name not in ("default", "description")}
    if "prefixItems" in content:
        content["items"] = content.pop("prefixItems")[0]
    elif isinstance(content.get("items"), dict):
        content["items"] = _typed(content["items"])
    return content
