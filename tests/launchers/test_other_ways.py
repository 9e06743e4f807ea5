"""From one place by a hostfile, into a running job of SLURM, into pods: check, hang and diagnose go each of these ways.

kubectl is a stand-in, which knows the pods from a file and reaches each by the lab's ssh; all others are real.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.harness.host import SHARED
from tests.launchers.harness import sshd
from tests.launchers.harness.site import Site
from tests.launchers.test_hosts_after import FAILED, HELD, LOGS, writes

DISTDOCTOR = [sys.executable, "-m", "distdoctor"]
HOSTFILE, PODS = f"{SHARED}/hostfile", f"{SHARED}/pods.json"
KUBECTL = f"""#!/bin/bash
case "$*" in
"get pods --namespace=team --selector=app=train --output=json") exec cat {PODS} ;;
"exec --stdin --namespace=team --container=torch "*" -- "*) pod=$5; shift 6; exec ssh "$pod" "${{@@Q}}" ;;
esac
echo "error: unknown command: $*" >&2
exit 1
"""
BY_FILE = ["--hostfile", HOSTFILE]
BY_PODS = ["--pods", "app=train", "-n", "team", "--container", "torch"]


@pytest.fixture
def ways(with_sshd: Site) -> Iterator[dict[str, list[str]]]:
    """The flags of each way but SLURM's; the hosts are named in a hostfile, and are pods to kubectl."""
    site = with_sshd
    site.cluster.put("hostfile", "# the job's\nhost0 slots=1\nhost1 slots=1\nhost2 slots=1\n")
    pods = [
        {"metadata": {"name": host.name}, "status": {"phase": "Running", "podIP": host.address}} for host in site.nodes
    ]
    site.cluster.put("pods.json", json.dumps({"items": pods[::-1]}))
    path = site.cluster.shared / sshd.PROGRAM_FOLDER.removeprefix(f"{SHARED}/") / "kubectl"
    path.write_text(KUBECTL)
    path.chmod(0o755)
    yield {"hostfile": BY_FILE, "pods": BY_PODS}
    path.unlink()


@pytest.fixture
def logs(with_sshd: Site) -> Iterator[Site]:
    """A job's logs, one on the disk of each node."""
    for host in with_sshd.nodes:
        writes(host, f"{host.index}.err", "step 1 loss 2.0\n" + (FAILED if host.index == 1 else ""))
    yield with_sshd
    for host in with_sshd.nodes:
        host.inside(f"rm -r {LOGS}")


def status_and_report(site: Site, command: str, *arguments: str) -> tuple[int, Any]:
    """The status of a command, and its report."""
    done = site.run([*DISTDOCTOR, command, "--json", *arguments])
    return done.returncode, json.loads(done.stdout)


def says_of_the_logs(site: Site, *way: str) -> None:
    status, report = status_and_report(site, "diagnose", *way, f"{LOGS}/*.err")
    (finding,) = report["findings"]
    assert (status, finding["check"], finding["ranks"]) == (1, "process/exception", [1])
    assert finding["evidence"][0] == f"host1:{LOGS}/1.err:4: rank 1: ValueError: bad shape"
    assert sorted(report["details"]["logs"]) == [f"host{number}:{LOGS}/{number}.err" for number in range(3)]


@pytest.mark.parametrize("way", ["pods", pytest.param("hostfile", marks=pytest.mark.scoreboard)])
def test_logs_come_any_way(logs: Site, ways: dict[str, list[str]], way: str) -> None:
    says_of_the_logs(logs, *ways[way])


@pytest.mark.scoreboard
@pytest.mark.parametrize("way", ["pods", "hostfile"])
def test_a_check_goes_any_way(with_sshd: Site, ways: dict[str, list[str]], way: str) -> None:
    status, report = status_and_report(with_sshd, "check", *ways[way], "--until", "network")
    assert (status, report["verdict"]) == (0, "pass"), [f["summary"] for f in report["findings"]]
    assert [(node["name"], node["arrived"]) for node in report["nodes"]] == [(name, True) for name in with_sshd.names]
    assert report["plan"]["sources"]["nnodes"] == f"--{way}"
    assert report["plan"]["master_addr"] == (with_sshd.nodes[0].address if way == "pods" else "host0")
    status, report = status_and_report(with_sshd, "hang", *ways[way])
    assert status == 2 and "there is no job to look at: host0, host1, host2: " in report["notes"][0], report["notes"]


@pytest.mark.scoreboard
def test_into_a_job_of_slurm_that_hangs_and_to_what_it_wrote(with_slurm: Site, logs: Site) -> None:
    """While it runs; of one that has ended it is said where it was."""
    with_slurm.cluster.put("held.py", HELD)
    variables = "RANK=$SLURM_PROCID WORLD_SIZE=3 MASTER_ADDR=host0 MASTER_PORT=29501"
    step = f"srun --ntasks-per-node=1 sh -c '{variables} exec {sys.executable} {SHARED}/held.py'"
    batch = ["sbatch", "--parsable", "-N3", "--exclusive", "--output=/dev/null", "--wrap", step]
    job = with_slurm.run(batch).stdout.strip()
    way, end = ["--slurm-job", job], time.monotonic() + 90
    try:
        while time.monotonic() < end:
            status, report = status_and_report(with_slurm, "hang", *way)
            if status == 1 and len(report["nodes"]) == 3 and report["findings"][0]["nodes"] == ["host2"]:
                break
            time.sleep(1)
        (finding,) = report["findings"]
        assert (finding["check"], finding["ranks"]) == ("process/waiting-in-user-code", [2])
        says_of_the_logs(logs, *way)
    finally:
        with_slurm.run(["scancel", job])
    while time.monotonic() < end and "COMPLETING" in with_slurm.run(["squeue", "-h", "-j", job, "-o", "%T"]).stdout:
        time.sleep(0.5)
    status, report = status_and_report(with_slurm, "diagnose", *way, f"{LOGS}/*.err")
    assert status == 2
    (note,) = report["notes"]
    assert (
        note == f"--slurm-job {job}: it is CANCELLED; it ran on host[0-2], where ssh may still lead: --hosts host[0-2]"
    )
