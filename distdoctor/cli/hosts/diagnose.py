"""``distdoctor diagnose --hosts``: logs and facts of a job, fetched from many hosts and judged together."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

from distdoctor import interrupts
from distdoctor.cli.checks import known_ids, load_checks
from distdoctor.cli.diagnose import judged
from distdoctor.cli.hosts import orchestrate
from distdoctor.cli.hosts.check import on_calls_alone
from distdoctor.cli.hosts.progress import Progress, observer_of
from distdoctor.cli.options import HostFlags, LogFlags, ReportFlags
from distdoctor.cli.output import Telling
from distdoctor.logs.reading.reader import MAX_FILES, Source
from distdoctor.model.errors import UsageError
from distdoctor.model.observer import Observer
from distdoctor.model.report import Report
from distdoctor.model.text import clean
from distdoctor.remote import transports
from distdoctor.remote.connection import MOST_BYTES, inflated

LIMIT = 600.0
"""Limit for all files of all hosts."""
MOST_UNREAD = 100
"""Limit of one host's files with a reported error."""
TOO_MUCH = f"with it, more than {MOST_BYTES >> 30} GiB of this host"


def diagnose_on_hosts(files: Sequence[Path], which: LogFlags, flags: ReportFlags, where: HostFlags) -> int:
    """Fetch, judge and print the report. Raises UsageError."""
    telling = Telling.from_flags(flags)
    flag, targets = orchestrate.targets_of(where)
    if which.follow:
        raise UsageError(f"--follow does not go with {flag}: it reads files that grow here")
    checks = load_checks(flags.checks or ())
    ignore = known_ids(flags.ignore or (), checks)
    observer = observer_of(flags.quiet)
    with tempfile.TemporaryDirectory(prefix="distdoctor-") as folder:
        fetched = Fetched(observer, [target.host.name for target in targets], Path(folder))
        try:
            lines, calls = orchestrate.carry_out(
                targets,
                [orchestrate.order(flag, task="files", files=[str(one) for one in files]) for _ in targets],
                fetched,
                setup=where.setup,
                wait=2.0 * transports.CONNECT_SECONDS,
                limit=LIMIT,
            )
        finally:
            fetched.close()
            observer.close()
        calls_report = on_calls_alone(calls, checks, ignore)
        sources = fetched.sources()
        if not sources and all(line.sent for line in lines):
            raise UsageError(next(iter(fetched.unread), f"none of these files is on {len(lines)} hosts"))
        if sources:
            paths = [one.path for one in sources if one.path is not None]
            report, _ = judged(paths, checks, ignore, which, whole=telling.lines, sources=sources)
            report = _with_calls(report, calls_report)
        else:
            report = replace(calls_report, plan={}, details={"logs": {}})
    report = replace(report, notes=(*report.notes, *fetched.unread))
    if fetched.unread and report.verdict in ("pass", "warn"):
        report = replace(report, verdict="incomplete")
    report = orchestrate.after_signal(report)
    telling.show(report)
    return telling.status(report, interrupts.pending())


def _with_calls(report: Report, calls_report: Report) -> Report:
    """Return the report on the files with the hosts that sent none: their content is unknown."""
    if not calls_report.findings:
        return report
    verdict = "incomplete" if report.verdict in ("pass", "warn") else report.verdict
    return replace(report, verdict=verdict, findings=(*report.findings, *calls_report.findings))


class Fetched(Progress):
    """Progress that keeps the files of the hosts in ``folder``, below the name of the host of each."""

    def __init__(self, observer: Observer, hosts: Sequence[str], folder: Path) -> None:
        super().__init__(observer, hosts)
        self._folder = folder
        self._open: dict[str, IO[bytes]] = {}
        self._kept: dict[tuple[object, ...], Path] = {}
        self._names: dict[Path, str] = {}
        self._bytes, self._files, self._unread_count = Counter[str](), Counter[str](), Counter[str]()
        self.unread: list[str] = []
        """Unreadable files and the reason, by host."""

    def event(self, host: str, event: Mapping[str, Any]) -> None:
        """Take the start of a file, a part of it, or the reason that there is none."""
        if "file" in event:
            try:
                self._begin(host, str(event["file"]), event.get("seen"))
            except (OSError, ValueError) as err:
                self._lose(host, str(event["file"]), err)
        elif "data" in event and host in self._open:
            file = self._open[host]
            try:
                block = inflated(event["data"])
                self._bytes[host] += len(block or b"")
                if block is None or self._bytes[host] > MOST_BYTES:
                    raise ValueError("a part of it did not come whole" if block is None else TOO_MUCH)
                file.write(block)
                file.flush()
            except (OSError, ValueError) as err:
                self._lose(host, file.name.removeprefix(str(self._folder / host)), err)
        elif "unread" in event:
            self._note_unread(host, clean(str(event["unread"])))
        else:
            super().event(host, event)

    def _lose(self, host: str, name: str, err: OSError | ValueError) -> None:
        """Drop a file that cannot be kept, as on a full disk: a part of it says nothing of the job's end."""
        why = (err.strerror if isinstance(err, OSError) else None) or str(err)
        self._note_unread(host, f"{clean(name)[:500]}: could not be kept here: {why}")
        self._names.pop(self._folder.joinpath(host, *self._parts(name)), None)
        if file := self._open.pop(host, None):
            with contextlib.suppress(OSError):
                file.close()

    def _note_unread(self, host: str, why: str) -> None:
        self._unread_count[host] += 1
        if self._unread_count[host] <= MOST_UNREAD:
            self.unread.append(
                f"{host}: {why[:700]}" if self._unread_count[host] < MOST_UNREAD else f"{host}: and more"
            )

    @staticmethod
    def _parts(name: str) -> list[str]:
        return [part for part in PurePosixPath(name).parts if part not in ("/", "..", ".")]

    def _begin(self, host: str, name: str, seen: object) -> None:
        self._end(host)
        parts = self._parts(name)
        key = (name, *map(str, seen)) if isinstance(seen, list) else (host, name)
        if key in self._kept or not parts:  # the hosts share a file system: it is one file
            return
        self._files[host] += 1
        if self._files[host] > MAX_FILES:
            raise ValueError(f"more than {MAX_FILES} files")
        path = self._folder.joinpath(host, *parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open[host] = path.open("wb")
        self._kept[key], self._names[path] = path, f"{host}:{clean(name)}"

    def _end(self, host: str) -> None:
        if file := self._open.pop(host, None):
            file.close()

    def close(self) -> None:
        """Close: nothing more follows."""
        for host in [*self._open]:
            self._end(host)

    def sources(self) -> list[Source]:
        """Return the received files, in the order of the hosts."""
        order = {host: number for number, host in enumerate(self._hosts)}
        rows = sorted(self._names.items(), key=lambda row: order.get(row[0].relative_to(self._folder).parts[0], 0))
        return [Source(name, path) for path, name in rows]
