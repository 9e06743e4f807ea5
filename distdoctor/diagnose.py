"""Judging saved facts: what ``distdoctor diagnose FILE...`` does. Never imports torch."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from distdoctor.assemble import assemble
from distdoctor.bounds import check_facts
from distdoctor.catalog import Check
from distdoctor.cluster import build
from distdoctor.facts import SCHEMA_VERSION, BadFacts, FactsFile, NodeFacts, decode
from distdoctor.judge import judge
from distdoctor.report import Report
from distdoctor.stages import STAGES, position

MAX_BYTES = 256 << 20
"""The largest facts file that is read."""
SAME_RUN = 3600.0
"""Facts whose starts are further apart than this many seconds are probably not of one run."""


class BadFile(Exception):
    """A file that is no readable facts file; the text is the one line for the user and names the file."""


def read(paths: Iterable[Path]) -> tuple[NodeFacts, ...]:
    """The facts in these files, and in every ``*.json`` of the folders among them, each process once.

    Raises BadFile.
    """
    found: dict[str, NodeFacts] = {}
    for path in _files(paths):
        for one in _read_file(path):
            known = found.get(one.key)
            if known is None or one.started_at > known.started_at:
                found[one.key] = one
    if not found:
        raise BadFile("there are no facts in the given files")
    return tuple(found.values())


def diagnose(facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Iterable[str] = ()) -> Report:
    """The report on saved facts of one run, one or more nodes. Raises ValueError without any facts."""
    started = time.monotonic()
    earlier = _of_earlier_runs(facts)
    facts = [one for one in facts if one.key not in earlier]
    cluster = build(facts)
    judgement = judge(cluster, checks, ignore)
    times = [one.started_at for one in facts if one.started_at]
    begun = datetime.fromtimestamp(min(times, default=0.0), tz=timezone.utc)
    notes = [
        f"what {one.identity.hostname} (pid {one.identity.pid}) saw in an earlier run is left out"
        for one in earlier.values()
    ]
    if times and max(times) - min(times) > SAME_RUN:
        notes.append(f"the facts were taken {(max(times) - min(times)) / 3600:.0f} hours apart: are they of one run?")
    unfinished = _unfinished(facts)
    report = assemble(
        cluster,
        judgement,
        started_at=begun.isoformat(timespec="seconds"),
        seconds=time.monotonic() - started,
        notes=[*notes, *unfinished],
    )
    # What was not looked at cannot be called healthy.
    return replace(report, verdict="incomplete") if unfinished and report.verdict in ("pass", "warn") else report


def _unfinished(facts: Sequence[NodeFacts]) -> list[str]:
    """A note for each process whose run ended before its last stage: interrupted, or killed."""
    reached = max(
        (position(s.stage) for one in facts for s in one.stages if s.stage in STAGES), default=len(STAGES) - 1
    )
    notes = []
    for one in facts:
        last = position(one.until) if one.until in STAGES else reached
        recorded = {stage.stage for stage in one.stages}
        missing = [stage for stage in STAGES[: last + 1] if stage not in recorded]
        if missing:
            notes.append(f"the run on {one.identity.hostname} (pid {one.identity.pid}) ended before {missing[0]}")
    return notes


def _of_earlier_runs(facts: Iterable[NodeFacts]) -> dict[str, NodeFacts]:
    """Those, by key, whose host was checked again after their run had ended: a folder keeps the files of both."""
    hosts: dict[tuple[str, str, str], list[NodeFacts]] = {}
    for one in facts:
        if one.plan.started == "node" and one.started_at:
            hosts.setdefault(one.identity.host, []).append(one)
    found = {}
    for group in hosts.values():
        latest = max(one.started_at for one in group)
        for one in group:
            waited = one.meeting.waited if one.meeting else 0.0
            if latest > one.started_at + waited + sum(stage.seconds for stage in one.stages):
                found[one.key] = one
    return found


def _files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.json"))
            if not inside:
                raise BadFile(f"{path}: no *.json file in this folder")
            files += inside
        else:
            files.append(path)
    return files


def _content(path: Path) -> bytes:
    """The bytes of a regular file. Raises BadFile for anything else: reading that could wait for ever."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
            kind = os.fstat(file.fileno())
            if not stat.S_ISREG(kind.st_mode):
                raise BadFile(f"{path}: not a regular file, so not a facts file")
            if kind.st_size == 0:  # as all of /proc is, and reading /proc/kmsg takes the kernel's messages away
                raise BadFile(f"{path}: empty, so not a facts file")
            if kind.st_size > MAX_BYTES:
                raise BadFile(f"{path}: larger than {MAX_BYTES >> 20} MiB, so not a facts file")
            return file.read(MAX_BYTES)
    except (OSError, ValueError) as err:
        raise BadFile(f"{path}: {getattr(err, 'strerror', None) or err}") from None


def _read_file(path: Path) -> tuple[NodeFacts, ...]:
    data = _content(path)
    try:
        content = decode(data, FactsFile)
        for one in content.facts:
            check_facts(one)
    except BadFacts as err:
        raise BadFile(f"{path}: not a facts file of distdoctor check --save: {err}") from None
    if content.schema_version > SCHEMA_VERSION:
        raise BadFile(f"{path}: written by a newer distdoctor ({content.distdoctor}); update this one to read it")
    return content.facts
