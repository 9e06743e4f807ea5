"""Whatever starts it: a healthy site passes with all its nodes and ranks in one report, and one fault is one finding.

In every run of the tests each launcher starts a healthy job, and two of them one with a fault; all of them and all
faults with ``-m scoreboard``.
"""

# ruff: noqa: E501 - a fault is a line, however long

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.helpers.programs import missing
from tests.lab.harness.case import NODES_MISSING
from tests.lab.harness.host import PRIVATE
from tests.lab.harness.runner import roots
from tests.launchers.harness import slurm, sshd, starting
from tests.launchers.harness.site import JOB, Site, unfit

CHECK = [JOB, sys.executable, "-m", "distdoctor", "check", "--json", "--wait", "20"]


def from_one_place(site: Site, nproc: int, command: Sequence[str]) -> list[str]:
    """``check --hosts``; what a node's profile sets is set by the line that is run there first."""
    setup = f"[ ! -r {PRIVATE}/lab/job.env ] || . {PRIVATE}/lab/job.env; exec {sys.executable} -m distdoctor remote"
    hosts = ["--hosts", ",".join(site.names), "--nproc-per-node", str(nproc), "--setup", setup]
    return [*command[1:], *hosts, "--master-port", starting.PORT]


LAUNCHERS: dict[str, tuple[starting.Launcher, tuple[str, ...]]] = {
    "srun": (starting.srun, slurm.PROGRAMS),
    "sbatch": (starting.sbatch, slurm.PROGRAMS),
    "mpirun": (starting.mpirun, (*sshd.PROGRAMS, starting.MPIRUN)),
    "hydra": (starting.hydra, (*sshd.PROGRAMS, starting.HYDRA)),
    "torchrun": (starting.torchrun, sshd.PROGRAMS),
    "accelerate": (starting.accelerate, sshd.PROGRAMS),
    "plain": (starting.plain, sshd.PROGRAMS),
    "--hosts": (from_one_place, sshd.PROGRAMS),
}
"""Launcher -> how it starts a job, and what that needs."""
EACH_ITS_OWN = "plain"
"""Without a launcher every node tells the whole report to whoever started it there."""
LIKE_OTHERS = ("srun", "sbatch", "torchrun", "plain")
"""A healthy job of theirs is not tried in every run: accelerate starts torchrun's agents, the others have own tests (that
of a job script begins its check with srun)."""


@dataclass(frozen=True)
class Fault:
    """Something wrong at the site, and what must be said of it."""

    name: str
    made: Callable[[Site], AbstractContextManager[None]]
    root: str
    blamed: list[str]
    apart: bool = False
    """It keeps a node from the others, so that no launcher's rank 0 can tell of it."""


@contextmanager
def _sets(site: Site, host: str, **variables: str) -> Any:
    site.sets(host, **variables)
    try:
        yield
    finally:
        site.sets(host)


@contextmanager
def _inside(site: Site, host: int, script: str, undo: str) -> Any:
    site.cluster[host].inside(script)
    try:
        yield
    finally:
        site.cluster[host].inside(undo)


@contextmanager
def _names(site: Site, change: Callable[[str, str], str], *hosts: int) -> Any:
    """``change`` makes of a host's name and its /etc/hosts another one."""
    before = {host: site.cluster[host].hosts_file for host in hosts}
    for host, text in before.items():
        site.cluster[host].hosts_file = change(site.cluster[host].name, text)
    try:
        yield
    finally:
        for host, text in before.items():
            site.cluster[host].hosts_file = text


def _filter(rule: str) -> str:
    chain = "nft add table inet lab; nft add chain inet lab in '{ type filter hook input priority 0; }'"
    return f"{chain}; nft add rule inet lab in {rule}"


def _at_loopback(name: str, text: str) -> str:
    return "".join(f"127.0.1.1 {name}\n" if line.endswith(f" {name}") else f"{line}\n" for line in text.splitlines())


CLEAR = "nft delete table inet lab"
FAULTS = [
    Fault("no such interface", lambda s: _sets(s, "host1", GLOO_SOCKET_IFNAME="ib0"), "gloo/interface-not-found", ["host1"]),
    Fault("a setting of one", lambda s: _sets(s, "host2", TORCH_GLOO_LAZY_INIT="1"), "environment/setting-mismatch", ["host2"]),
    Fault("the port is dropped", lambda s: _inside(s, 0, _filter(f"tcp dport {starting.PORT} drop"), CLEAR), "network/port-filtered", ["host0"], apart=True),
    Fault("the port is rejected", lambda s: _inside(s, 0, _filter(f"tcp dport {starting.PORT} reject"), CLEAR), "network/port-rejected", ["host0"], apart=True),
    Fault("the master is unknown to one", lambda s: _names(s, lambda _, t: t.replace("host0", "other0"), 2), "network/master-unresolvable", ["host2"], apart=True),
    Fault("127.0.1.1 everywhere", lambda s: _names(s, _at_loopback, 0, 1, 2), "gloo/loopback-address", ["host0", "host1", "host2"]),
]  # fmt: skip
ALWAYS = {("srun", "no such interface")}
"""The pairs that are tried in every run of the tests; --hosts has faults of its own in test_hosts.py."""
NO_ROSTER = ("mpirun", "hydra", "plain")
"""They do not tell which nodes there are: one that never came has its number for a name."""
AGENTS = {"torchrun": starting.torchrun, "accelerate": starting.accelerate}
"""Their agents meet first, each other, at that port: what keeps them apart keeps the check from being started. Before
them ``distdoctor run`` checks what their line says."""
BEFORE_AGENTS = [*CHECK[1:4], "run", "--preflight", "full", "--wait", "20", "--", "timeout", "1"]
HEALTHY = [pytest.param(one, marks=[pytest.mark.scoreboard] if one in LIKE_OTHERS else []) for one in [*LAUNCHERS][:-1]]
PAIRS = [
    pytest.param(launcher, fault, id=f"{launcher}, {fault.name}", marks=() if key in ALWAYS else pytest.mark.scoreboard)
    for launcher in LAUNCHERS
    for fault in FAULTS
    for key in ((launcher, fault.name),)
    if not (fault.apart and launcher in AGENTS)
]
BEFORE = [
    pytest.param(launcher, fault, id=f"{launcher}, {fault.name}", marks=pytest.mark.scoreboard)
    for launcher in AGENTS
    for fault in FAULTS
    if fault.apart
]


def startable(site: Site, launcher: str) -> starting.Launcher:
    """Return how it starts a job. Skips the test where it is not here."""
    start, needs = LAUNCHERS[launcher]
    if reason := unfit() or missing(needs):
        pytest.skip(reason)
    if launcher == "accelerate":
        pytest.importorskip("accelerate")
    assert site.slurm if launcher in ("srun", "sbatch") else site.sshd
    return start


def started(site: Site, launcher: str, alone: bool = False) -> tuple[int, list[Any], str]:
    """The status of a check that it starts, one rank on each node, the reports of it, and what it said on stderr.

    ``alone``: one of them sees nothing of the others, and ends before them.
    """
    start = startable(site, launcher)
    # What ends with a bad status ends all: they leave together, so that each still ends with its own.
    env = {"MASTER_PORT": starting.PORT, "SLURM_KILL_BAD_EXIT": "0" if alone else "1"}
    done = site.run(start(site, 1, CHECK), env=env)
    reports, text = [], done.stdout.strip()
    while text:
        try:
            report, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            pytest.fail(f"no report: {text[:3000]}\n{done.stderr[-3000:]}")
        reports.append(report)
        text = text[end:].strip()
    assert reports, done.stderr[-3000:]
    return done.returncode, reports, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("launcher", HEALTHY)
def test_a_healthy_job_passes_with_all_its_nodes_and_ranks(real_site: Site, launcher: str) -> None:
    """``--hosts``: in test_hosts.py."""
    status, (report, *others), _ = started(real_site, launcher)
    assert len(others) == (2 if launcher == EACH_ITS_OWN else 0)
    assert (status, report["verdict"], [f["summary"] for f in report["findings"]]) == (0, "pass", [])
    assert [(node["name"], node["arrived"], node["ranks"]) for node in report["nodes"]] == [
        (name, True, [rank]) for rank, name in enumerate(real_site.names)
    ]
    assert report["plan"]["world_size"] == 3


@pytest.mark.long
@pytest.mark.parametrize(("launcher", "fault"), PAIRS)
def test_the_same_fault_is_the_same_finding(real_site: Site, launcher: str, fault: Fault) -> None:
    with fault.made(real_site):
        status, reports, said = started(real_site, launcher, fault.apart)
    told = [{f["check"]: f["nodes"] for f in roots(report) if f["severity"] == "fail"} for report in reports]
    # What keeps one node from the others it alone knows: below a launcher it says so on stderr, and the report of the
    # others is that it did not come. From one place there is the whole verdict.
    right = {fault.root: fault.blamed}
    numbers = [f"node{real_site.names.index(name)}" for name in fault.blamed]
    absent = {NODES_MISSING: numbers if launcher in NO_ROSTER and fault.blamed != ["host0"] else fault.blamed}
    if fault.apart and launcher != "--hosts" and absent in told:
        assert all(one in (right, absent) for one in told) and (right in told or fault.root in said), (told, said)
    else:
        assert all(one == right for one in told), (told, said)
    assert len(reports) == (3 if launcher == EACH_ITS_OWN else 1) or fault.apart
    assert status == 1 or fault.apart


@pytest.mark.long
@pytest.mark.parametrize(("launcher", "fault"), BEFORE)
def test_what_keeps_agents_apart_is_the_same_finding_before_them(real_site: Site, launcher: str, fault: Fault) -> None:
    """Each node tells its own view, or that the others did not come: ``distdoctor run`` reads the agent's line."""
    startable(real_site, launcher)
    with fault.made(real_site):
        line = AGENTS[launcher](real_site, 1, CHECK, BEFORE_AGENTS)
        said = real_site.run(line, env={"MASTER_PORT": starting.PORT}).stderr
    told = re.findall(r"(?m)(?:FAIL|INCOMPLETE)  .*\[(\w+/[\w-]+)\]\n(?:.*\n)*?.*  affected   (\w+)", said)
    by_root = {root: {host for one, host in told if one == root} for root, _ in told}
    assert by_root.pop(fault.root, None) == {*fault.blamed} and {*by_root} <= {NODES_MISSING}, said
