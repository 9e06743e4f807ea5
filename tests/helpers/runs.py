"""Runs of ``check --json`` on this machine, as real processes, and what their reports say."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.helpers.namespaces import ROOT
from tests.helpers.report_schema import report_in


def environment(**changes: str) -> dict[str, str]:
    launch = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "NODE_", "MASTER_", "PET_", "TORCHELASTIC", "GLOO_", "NCCL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(launch)}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **changes}


@contextmanager
def started(*flags: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A running ``check --json``; killed at the end where it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "distdoctor", "check", "--json", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str], seconds: float = 100.0) -> tuple[int, dict[str, Any]]:
    """Its status and its report."""
    out, err = process.communicate(timeout=seconds)
    assert "Traceback" not in err, err
    return process.returncode, report_in(out)


def check(*flags: str, **variables: str) -> tuple[int, dict[str, Any]]:
    with started(*flags, **variables) as process:
        return ended(process)


def node(rank: int, port: int, *flags: str, nnodes: int = 2) -> tuple[str, ...]:
    """The flags of one of several nodes on this machine."""
    return (
        *("--nnodes", str(nnodes), "--node-rank", str(rank)),
        *("--master-addr", "127.0.0.1", "--master-port", str(port), "--nproc-per-node", "1"),
        *flags,
    )


def listens(port: int, seconds: float = 60.0) -> None:
    """Return once something listens there."""
    deadline = time.monotonic() + seconds
    hexed = f":{port:04X}"
    while True:
        rows = [line.split() for t in ("tcp", "tcp6") for line in Path(f"/proc/net/{t}").read_text().splitlines()[1:]]
        if any(row[1].endswith(hexed) and row[3] == "0A" for row in rows):
            return
        assert time.monotonic() < deadline, f"nobody listens on {port}"
        time.sleep(0.02)


def family(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            below.setdefault(int(entry.read_text(errors="replace").rpartition(")")[2].split()[1]), []).append(
                int(entry.parent.name)
            )
        except (OSError, IndexError):
            continue
    for one in found:
        found.extend(below.get(one, []))
    return found


def nothing_left(pids: list[int], port: int | None = None) -> None:
    """None of the processes is there any more, and the port can be listened on."""
    deadline = time.monotonic() + 5
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)
    if port is not None:
        with socket.create_server(("", port)):
            pass


def stages(report: dict[str, Any]) -> dict[str, str]:
    return {entry["stage"]: entry["status"] for entry in report["stages"]}


def failures(report: dict[str, Any]) -> list[str]:
    """The checks that found something of severity fail. Whether others warn depends on the machine's own host name."""
    return [finding["id"] for finding in report["findings"] if finding["severity"] == "fail"]


def roots(report: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in report["findings"] if finding["because_of"] is None}
