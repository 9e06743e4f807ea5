"""What is known, to be looked up: the checks' pages and their list."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from distdoctor import streams
from distdoctor.cli.argv import did_you_mean, nearest
from distdoctor.cli.words import program
from distdoctor.judge.catalog import BadCheck, Check, load
from distdoctor.model.errors import UsageError
from distdoctor.model.stages import LOG_STAGES, STAGES
from distdoctor.render.exit_status import INCOMPLETE, OK
from distdoctor.render.page import Page

LONGEST_MESSAGE = 1 << 20
"""Bytes of stdin that are looked at."""


def load_checks(folders: Sequence[Path]) -> tuple[Check, ...]:
    """The built-in checks and those of the folders. Raises UsageError."""
    try:
        return load(folders)
    except BadCheck as err:
        raise UsageError(str(err)) from None


def known_ids(ids: Iterable[str], checks: Sequence[Check]) -> tuple[str, ...]:
    """``ids`` (or patterns such as ``gloo/*``) that each mean at least one check. Raises UsageError."""
    known = [check.id for check in checks]
    for wanted in ids:
        if not any(fnmatchcase(check_id, wanted) for check_id in known):
            raise UsageError(f"--ignore {wanted!r}: no such check{did_you_mean(wanted, known)}")
    return tuple(ids)


def explain_check(check_id: str | None, folders: Sequence[Path]) -> int:
    """``distdoctor explain``: print a check's page, or that of the check which knows a message. Raises UsageError."""
    if check_id is None:
        raise UsageError(
            "explain needs the ID of a check, such as gloo/loopback-address, or an error message in quotes; distdoctor "
            "list shows all"
        )
    checks = {check.id: check for check in load_checks(folders)}
    message = _message(check_id)
    if message is not None:
        return _explain_message(message, checks)
    wanted = check_id.strip().strip("/").partition("#")[0].replace("_", "-")
    matches = [wanted] if wanted in checks else [known for known in checks if known.partition("/")[2] == wanted]
    if len(matches) > 1:
        raise UsageError(f"{check_id!r} is the last part of several checks: {', '.join(matches)}")
    if not matches:
        raise UsageError(f"no check {check_id!r}{nearest(wanted, checks)} (distdoctor list shows all)")
    page = Page(_width())
    _write_check(page, checks[matches[0]])
    streams.write(page.plain())
    return OK


def _message(text: str) -> str | None:
    """The message, where it is one; ``-`` stands for what stdin has. None: it is the id of a check."""
    from distdoctor.cli.messages import is_message

    if text == "-":
        return sys.stdin.buffer.read(LONGEST_MESSAGE).decode(errors="replace")
    return text if is_message(text) else None


def _explain_message(text: str, checks: Mapping[str, Check]) -> int:
    from distdoctor.cli.messages import report_on, write_head

    every, page = [*checks.values()], Page(_width())
    report = report_on(text, every)
    write_head(page, report, every, shlex.join(program()))
    if report.findings:
        page.blank()
        _write_check(page, checks[report.findings[0].check])
    streams.write(page.plain())
    return OK if report.findings else INCOMPLETE


def _write_check(page: Page, check: Check) -> None:
    from distdoctor.render.check_page import whole_page

    page.line(f"{check.id} ({check.severity})")
    page.blank()
    write_page(page, whole_page(check))


def write_page(page: Page, text: str) -> None:
    """A check's page: its paragraphs filled to the width of the page; what is set in, and headings, as they are."""
    for block in re.split(r"\n\s*\n", text.rstrip()):
        page.blank()
        lines = block.splitlines()
        if len(lines) > 1 and re.fullmatch(r"-{3,}", lines[1].strip()):
            page.line(lines.pop(0))
            page.line(lines.pop(0))
        if page.width <= 0 or any(line.startswith((" ", "\t", "- ", "* ")) for line in lines):
            for line in lines:
                page.line(line)
        elif lines:
            page.prose(" ".join(lines))


def list_checks(folders: Sequence[Path], *, as_json: bool) -> int:
    """``distdoctor list``: every check, by stage. Raises UsageError."""
    checks = load_checks(folders)
    if as_json:
        import json

        entries = [{"id": c.id, "stage": c.stage, "severity": c.severity, "title": c.title} for c in checks]
        streams.write(json.dumps(entries, indent=2) + "\n")
        return OK
    page, width = Page(_width()), max((len(check.id) for check in checks), default=0)
    for stage in (*STAGES, *LOG_STAGES):
        members = [check for check in checks if check.stage == stage]
        if members:
            page.blank()
            page.line(stage)
        for check in members:
            whole = f"  {check.id:<{width}}  {check.severity}  {check.title}"
            if page.width <= 0 or len(whole) <= page.width:
                page.line(whole)
            else:
                page.line(f"  {check.id}  {check.severity}")
                page.prose(f"      {check.title}", hang=6)
    streams.write(page.plain())
    return OK


def print_schema() -> int:
    """``distdoctor schema``: what the document of ``-o json`` is made of."""
    import json

    from distdoctor.render.schema import schema

    streams.write(json.dumps(schema(), indent=2) + "\n")
    return OK


def _width() -> int:
    return shutil.get_terminal_size().columns if streams.is_terminal(sys.stdout) else 0
