"""The commands of docs/kubernetes as shell, on hosts with the names and variables of pods. No cluster runs here."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator

import pytest

from tests.helpers.namespaces import ROOT
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import SHARED, Host, Process
from tests.lab.harness.namespaces import why_not

FOLDER = ROOT / "docs" / "kubernetes"
MASTER, WORKER = "train-master-0", "train-worker-0"


def script(file: str) -> str:
    """The shell that a manifest gives to ``sh -c``."""
    found = re.search(r"args:\n\s+- \|\n((?: +.*\n)+?)(?=\s{0,6}\S|\Z)", (FOLDER / file).read_text())
    assert found, file
    return textwrap.dedent(found[1])


@pytest.fixture(scope="module")
def pods() -> Iterator[Cluster]:
    """Two pods; the service's name of node 0 is known to both."""
    if reason := why_not():
        pytest.skip(reason)
    with Cluster([MASTER, WORKER]) as cluster:
        program = cluster.shared / "distdoctor"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m distdoctor "$@"\n')
        program.chmod(0o755)
        for pod in cluster:
            pod.hosts_file += f"{cluster[0].address} distdoctor-check-0.distdoctor-check\n"
        yield cluster


def started(pod: Host, text: str, **env: str) -> Process:
    path = f"{SHARED}:{pod.environment()['PATH']}"
    return pod.popen(["sh", "-c", text], env={**env, "PATH": path})


def ended(*processes: Process) -> list[tuple[int, str]]:
    said = [process.communicate(timeout=120) for process in processes]
    return [(process.returncode, out + err) for process, (out, err) in zip(processes, said, strict=True)]


@pytest.mark.long
def test_the_job_checks_its_pods(pods: Cluster) -> None:
    text = script("check-job.yaml")
    both = [started(pod, text, NNODES="2", JOB_COMPLETION_INDEX=str(pod.index)) for pod in pods]
    for status, said in ended(*both):
        assert status == 0 and "PASS · no findings · 2 nodes" in said, said


def test_the_init_container_lets_a_healthy_pod_start_and_no_other(pods: Cluster) -> None:
    text = script("init-container.yaml")
    both = [started(pod, text, NNODES="2", POD=pod.name, MASTER=MASTER) for pod in pods]
    assert [status for status, _ in ended(*both)] == [0, 0]
    wrong = started(pods[1], text.replace("--wait 300", "--wait 2"), NNODES="2", POD=WORKER, MASTER="no-such-pod-0")
    ((status, said),) = ended(wrong)
    assert status == 1 and "network/master-unresolvable" in said
