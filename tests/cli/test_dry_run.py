"""check --dry-run: nothing is done, and nothing is left out: the kernel tells what a real run touched."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.namespaces import ROOT

TRACE = ["strace", "-f", "-qq", "-e", "signal=none", "-e", "trace=openat,open,connect,bind,execve,mkdir,unlink,sendto"]
FLAGS = ["check", "--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", "--nproc-per-node", "1"]
SOCKET = re.compile(r"(connect|bind)\(\d+, \{sa_family=AF_INET6?, sin6?_port=htons\((\d+)\)")

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def traced(log: Path, *flags: str) -> tuple[str, str]:
    """Return what the run printed, and its system calls."""
    command = [*TRACE, "-o", str(log), sys.executable, "-m", "distdoctor", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout, log.read_text(errors="replace")


def dry_run_of(*flags: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "distdoctor", *flags, "--dry-run", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["dry_run"]
    return found


def of(found: list[dict[str, Any]], *does: str) -> list[str]:
    return [one["what"] for one in found if one["does"] in does]


def covers(place: str, path: str) -> bool:
    """Return whether the file is the place, in it, or one that it stands for; or a folder searched for one."""
    within = path == place or path.startswith(f"{place.rstrip('/')}/")
    return within or fnmatch(path, place) or fnmatch(f"{path}/.conf", place)


def uncovered(found: list[dict[str, Any]], calls: str) -> list[str]:
    """Files, programs and ports of the calls that were not told of."""
    places = of(found, "reads", "writes")
    opened = set(re.findall(r'open(?:at)?\((?:AT_FDCWD, )?"(/[^"]*)"', calls))
    files = [path for path in opened if path != "/" and not any(covers(place, path) for place in places)]
    run = {Path(path).name for path in re.findall(r'execve\("([^"]*)".* = 0$', calls, re.M)}
    programs = run - {what.split()[0] for what in of(found, "runs")}
    programs -= {Path(what.split()[0]).name for what in of(found, "starts")} | {Path(sys.executable).name}
    told_ports = {what.rpartition(":")[2] for what in of(found, "connects", "listens")}
    ports = {port for _, port in SOCKET.findall(calls)} - told_ports - {"53", "0"}  # name servers; any free port
    return [*sorted(files), *sorted(programs), *sorted(ports)]


def test_nothing_is_done(tmp_path: Path) -> None:
    printed, calls = traced(
        tmp_path / "log", *FLAGS, "--shared", str(tmp_path), "--save", f"{tmp_path}/facts/", "--dry-run"
    )
    assert f"{tmp_path}/facts" in printed and "127.0.0.1:29500" in printed
    assert not SOCKET.findall(calls) and calls.count(" = 0\n") and len(re.findall("execve.* = 0$", calls, re.M)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log"]


def test_a_run_up_to_the_network_touches_nothing_else(tmp_path: Path) -> None:
    flags = [*FLAGS, "--master-port", "29979", "--until", "network", "--shared", str(tmp_path)]
    _, calls = traced(tmp_path / "log", *flags)
    assert SOCKET.findall(calls)
    assert uncovered(dry_run_of(*flags), calls) == []


def test_devices_are_looked_at_only_where_torch_is_loaded() -> None:
    """Up to the network stage the stage of the devices is passed over: seen in the calls of a real run."""
    network, whole = (dry_run_of("check", "--until", until) for until in ("network", "collective"))
    asked = {"nvidia-smi -q -x", "amd-smi static --json", "127.0.0.1:15132"}
    of_devices = {*asked, "/var/run/nvidia-topologyd/virtualTopology.xml"}
    assert not of_devices & {one["what"] for one in network}
    assert of_devices <= {one["what"] for one in whole}


def test_where_programs_are_looked_for_is_told() -> None:
    assert {*os.environ["PATH"].split(os.pathsep)} <= {*of(dry_run_of("check", "--until", "network"), "reads")}


@pytest.mark.scoreboard
def test_a_whole_run_touches_nothing_else(tmp_path: Path) -> None:
    flags = ["check", "--nproc-per-node", "2"]
    _, calls = traced(tmp_path / "log", *flags)
    found = dry_run_of(*flags)
    alone = re.sub(r"(connect|bind)\(.*\n", "", calls)  # its ports are any free ones
    assert uncovered(found, alone) == []
