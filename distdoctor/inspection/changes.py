"""What is different between two looks at one job (``hang --watch``)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from distdoctor.model.report import Report


def changes(before: Report, after: Report) -> list[str]:
    """What is different in a later look at the same job, in lines."""
    places = [_by_rank(report.details.get("job", {})) for report in (before, after)]
    told = []
    for rank in dict.fromkeys((*places[0], *places[1])):
        was, now = places[0].get(rank), places[1].get(rank)
        if was != now:
            told.append(f"{rank}: {was or 'not there'} -> {now or 'gone'}")
    if before.verdict != after.verdict:
        told.append(f"the verdict was {before.verdict} and is {after.verdict}")
    ids = [{finding.id for finding in report.findings} for report in (before, after)]
    told += [f"no longer found: {one}" for one in sorted(ids[0] - ids[1])]
    told += [f"now found: {one}" for one in sorted(ids[1] - ids[0])]
    return told


def got_on(before: Report, after: Report) -> list[str]:
    """The ranks that are where they were, and got on meanwhile all the same: they wait for the others since less."""
    places = [_by_rank(report.details.get("job", {})) for report in (before, after)]
    between = (datetime.fromisoformat(after.started_at) - datetime.fromisoformat(before.started_at)).total_seconds()
    rows = (row for row in after.details.get("job", {}).get("processes") or () if row["role"] == "rank")
    # Reading its stack may have woken it in the look before. The times are those of whole seconds.
    since = between - before.seconds - 1
    again = [_called(row) for row in rows if row["waited"] is not None and row["waited"] < since]
    return [name for name in again if places[0].get(name) == places[1].get(name)]


def _by_rank(job: dict[str, Any]) -> dict[str, str]:
    rows = (row for row in job.get("processes") or () if row["role"] == "rank")
    return {_called(row): row["place"] for row in rows}


def _called(row: dict[str, Any]) -> str:
    return f"rank {row['rank']}" if row["rank"] is not None else f"pid {row['pid']}"
