"""The commands of docs/kubernetes as shell, on hosts with the names and variables of pods. No cluster runs here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.namespaces import ROOT
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import PRIVATE, SHARED, Host, Process
from tests.lab.harness.namespaces import why_not

FOLDER = ROOT / "docs" / "kubernetes"
MASTER, WORKER = "train-master-0", "train-worker-0"
SERVICE = "distdoctor-check-0.distdoctor-check"
NAME_SERVER = """
import socket, struct, sys, time
name, address, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("ready", flush=True)
known = None
while True:
    question, client = server.recvfrom(4096)
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    kind = struct.unpack("!H", question[at + 1 : at + 3])[0]
    asked = ".".join(labels) == name
    known = time.monotonic() + seconds if asked and known is None else known
    there = asked and time.monotonic() >= known
    answers = 1 if there and kind == 1 else 0
    header = question[:2] + struct.pack("!5H", 0x8580 | (0 if there else 3), 1, answers, 0, 0)
    answer = struct.pack("!3HIH4s", 0xC00C, 1, 1, 5, 4, socket.inet_aton(address)) if answers else b""
    server.sendto(header + question[12 : at + 5] + answer, client)
"""
"""A cluster's name server: until so many seconds after the first question the name does not exist."""
RESOLVER = """nameserver 127.0.0.1
search team.svc.cluster.local svc.cluster.local cluster.local
options ndots:5
"""
"""As the kubelet writes it."""


def script(file: str) -> str:
    """The shell that a manifest gives to ``sh -c``."""
    yaml = pytest.importorskip("yaml")
    waiting: list[Any] = [*yaml.safe_load_all((FOLDER / file).read_text())]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, dict) and "args" in one:
            return str(one["args"][0])
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    raise AssertionError(file)


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
            pod.hosts_file += f"{cluster[0].address} {SERVICE}\n"
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
        assert status == 0 and "PASS: 2 nodes are ready for the job" in said, said


def test_the_init_container_lets_a_healthy_pod_start_and_no_other(pods: Cluster) -> None:
    text = script("pytorchjob.yaml")
    both = [started(pod, text, NNODES="2", POD=pod.name, MASTER=MASTER) for pod in pods]
    assert [status for status, _ in ended(*both)] == [0, 0]
    wrong = started(pods[1], text.replace("--wait 300", "--wait 2"), NNODES="2", POD=WORKER, MASTER="no-such-pod-0")
    ((status, said),) = ended(wrong)
    assert status == 1 and "network/master-unresolvable" in said


@pytest.mark.parametrize(
    ("manifest", "variables"),
    [
        (
            "trainjob.yaml",
            {"PET_NNODES": "2", "PET_NODE_RANK": "{rank}", "PET_MASTER_ADDR": MASTER, "PET_MASTER_PORT": "29400",
             "PET_NPROC_PER_NODE": "1"},
        ),
        ("jobset.yaml", {"NNODES": "2", "JOB_COMPLETION_INDEX": "{rank}", "MASTER_ADDR": MASTER}),
        (
            "leaderworkerset.yaml",
            {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "{rank}", "LWS_LEADER_ADDRESS": MASTER},
        ),
        ("rayjob.yaml", {}),
    ],
)  # fmt: skip
def test_the_operators_variables_are_all_that_an_init_container_needs(
    pods: Cluster, manifest: str, variables: dict[str, str]
) -> None:
    """The same two pods pass, and one whose master's name is wrong does not start."""
    text, pod = script(manifest).replace("--wait 300", "--wait 20"), {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    both = [
        started(one, text, **pod, **{name: value.format(rank=one.index) for name, value in variables.items()})
        for one in pods
    ]
    for status, said in ended(*both):
        assert status == 0 and "PASS" in said, said
    if MASTER in variables.values():
        wrong = {name: value.replace(MASTER, "no-such-pod-0").format(rank=1) for name, value in variables.items()}
        ((status, said),) = ended(started(pods[1], text.replace("--wait 20", "--wait 2"), **wrong))
        assert status == 1 and "network/master-unresolvable" in said


@pytest.mark.parametrize("manifest", ["check-job.yaml", "pytorchjob.yaml"])
def test_a_name_that_the_cluster_does_not_know_yet_is_waited_for(pods: Cluster, manifest: str) -> None:
    """Before the endpoints are published CoreDNS says that the name does not exist (NXDOMAIN)."""
    known = {pod.name: pod.hosts_file for pod in pods}
    servers = []
    try:
        for pod in pods:
            pod.hosts_file = "".join(line for line in pod.hosts_file.splitlines(True) if SERVICE not in line)
            pod.anchor.path(f"{PRIVATE}/lab/resolv.conf").write_text(RESOLVER)
            name = f"{SERVICE}.team.svc.cluster.local"
            servers.append(pod.popen([sys.executable, "-c", NAME_SERVER, name, pods[0].address, "5"]))
            assert servers[-1].stdout is not None and servers[-1].stdout.readline() == "ready\n"
        text = script(manifest).replace("--wait 300", "--wait 60 --until network --json").replace(" -q\n", "\n")
        env = {"NNODES": "2", "KUBERNETES_SERVICE_HOST": "10.96.0.1", "MASTER": SERVICE}
        both = [started(pod, text, **env, JOB_COMPLETION_INDEX=str(pod.index), POD=pod.name) for pod in pods]
        said = ended(*both)
    finally:
        for server in servers:
            server.kill()
            server.wait()
        for pod in pods:
            pod.hosts_file = known[pod.name]
            pod.anchor.path(f"{PRIVATE}/lab/resolv.conf").write_text("nameserver 127.0.0.1\n")
    for status, told in said:
        report = json.loads(told[told.index("{") : told.rindex("}") + 1])
        assert [one["check"] for one in report["findings"]] == ["network/dns-not-ready"], report["findings"]
        assert status == 0 and report["verdict"] == "warn" and 4 < report["seconds"] < 40
