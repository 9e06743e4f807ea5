"""``hang --hosts`` and ``diagnose --hosts``: a job that hangs or is dead, told of from one place, over real ssh."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.report_schema import report_in
from tests.lab.harness.host import SHARED, Host
from tests.launchers.harness import starting
from tests.launchers.harness.site import JOB, Site

DISTDOCTOR = [sys.executable, "-m", "distdoctor"]
ALL3 = ["--hosts", "host[0-2]"]
LOGS = "/run/lab/logs"
FAILED = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/me/train.py", line 4, in <module>
[rank1]: ValueError: bad shape
"""
HELD = """
import time
import torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 2:
    time.sleep(300)
dist.barrier()
"""


def status_and_report(site: Site, command: str, *arguments: str) -> tuple[int, Any]:
    """The status of a command on all hosts, and its report."""
    done = site.run([*DISTDOCTOR, command, "--json", *ALL3, *arguments])
    return done.returncode, report_in(done.stdout)


def writes(host: Host, name: str, text: str) -> None:
    path = host.anchor.path(f"{LOGS}/{name}")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.fixture
def logs(with_sshd: Site) -> Iterator[Site]:
    """A job's logs, on the disk of each node and of another name on each."""
    for host in with_sshd.nodes:
        writes(host, f"{host.index}.err", "step 1 loss 2.0\n" + (FAILED if host.index == 1 else ""))
    with_sshd.cluster.put("all.out", "step 1 loss 2.0\n")
    yield with_sshd
    for host in with_sshd.nodes:
        host.inside(f"rm -r {LOGS}")
    with_sshd.sshd.mend(with_sshd.nodes[2])


def test_logs_of_all_hosts_are_one_verdict(logs: Site) -> None:
    """What the hosts share is read once, each other file is told of with its host."""
    status, report = status_and_report(logs, "diagnose", f"{LOGS}/*.err", f"{SHARED}/all.out")
    (finding,) = report["findings"]
    assert (status, finding["check"], finding["ranks"]) == (1, "process/exception", [1])
    assert finding["evidence"][0] == f"host1:{LOGS}/1.err:4: rank 1: ValueError: bad shape"
    read = [*report["details"]["logs"]]
    own = [name for name in read if not name.endswith("/all.out")]
    assert sorted(own) == [f"host{n}:{LOGS}/{n}.err" for n in range(3)]
    assert len(read) == len(own) + 1, "which host hands it over is who was first"


def test_logs_that_could_not_be_had_are_named_and_make_no_pass(logs: Site) -> None:
    writes(logs.nodes[0], "0.err", "step 1 loss 2.0\nTraining finished.\n")
    logs.sshd.stop(logs.nodes[2])
    status, report = status_and_report(logs, "diagnose", f"{LOGS}/0.err")
    assert (status, report["verdict"]) == (3, "incomplete")
    assert [(f["check"], f["nodes"]) for f in report["findings"]] == [("launch/host-unreachable", ["host2"])]
    assert f"host1: {LOGS}/0.err: there is no such file" in report["notes"]


def test_where_no_job_runs_there_is_nothing_to_look_at(with_sshd: Site) -> None:
    status, report = status_and_report(with_sshd, "hang")
    assert status == 2 and "there is no job to look at: host" in report["notes"][0]


@pytest.mark.scoreboard
def test_a_job_that_hangs_is_looked_at_on_all_of_its_hosts(with_sshd: Site) -> None:
    site = with_sshd
    site.cluster.put("held.py", HELD)
    count = ["--nnodes", "3", "--nproc-per-node", "1", "--node-rank", "{rank}", "--master-addr", "host0"]
    agent = [JOB, sys.executable, "-m", "torch.distributed.run", *count, f"{SHARED}/held.py"]
    job = site.popen(starting.by_ssh(site, agent))
    end = time.monotonic() + 90
    try:
        while time.monotonic() < end:
            status, report = status_and_report(site, "hang")
            if status == 1 and len(report["nodes"]) == 3 and report["findings"][0]["nodes"] == ["host2"]:
                break
            time.sleep(1)
        (finding,) = report["findings"]
        assert (finding["check"], finding["nodes"], finding["ranks"]) == (
            "process/waiting-in-user-code",
            ["host2"],
            [2],
        )
        site.sshd.stop(site.nodes[1])
        status, report = status_and_report(site, "hang")
    finally:
        for host in site.nodes:
            for pid, line in host.processes().items():
                if "held.py" in line:
                    os.kill(pid, 9)
        job.communicate(timeout=30)
        site.sshd.mend(site.nodes[1])
    assert status == 1 and [f["check"] for f in report["findings"]] == [
        "process/waiting-in-user-code",
        "launch/host-unreachable",
    ]
