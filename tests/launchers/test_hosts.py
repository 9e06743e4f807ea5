"""``check --hosts``: one verdict from one place, over real ssh, also where some hosts cannot be spoken to."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.helpers.report_schema import report_in
from tests.lab.harness.host import Host, Process
from tests.launchers.harness.site import Site

DISTDOCTOR = [sys.executable, "-m", "distdoctor"]
ALL3 = ["--hosts", "host[0-2]"]
ONLY_SSH = """
nft add table inet lab
nft add chain inet lab in '{ type filter hook input priority 0; policy drop; }'
nft add rule inet lab in iifname lo accept
nft add rule inet lab in ct state established,related accept
nft add rule inet lab in tcp dport 22 accept
"""
GONE_SECONDS = 2.0
SYN_SENT = "02"
"""The state of a connection that waits for an answer (/proc/net/tcp)."""


def checked(site: Site, *flags: str) -> tuple[int, Any]:
    """The status of a check of all hosts, and its report."""
    done = site.run([*DISTDOCTOR, "check", "--json", *flags])
    return done.returncode, report_in(done.stdout or done.stderr)


def findings(report: Any) -> dict[str, tuple[list[str], str]]:
    """Check -> the nodes blamed, and the fix."""
    return {f["check"]: (f["nodes"], f["fixes"][0]["text"]) for f in report["findings"] if f["because_of"] is None}


def at_work(site: Site) -> list[str]:
    """Return what the run has started on the nodes and is still there."""
    return [f"{node.name}: {line}" for node in site.nodes for line in node.processes().values() if "distdoctor" in line]


def within(seconds: float, there: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not there():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def whole(with_sshd: Site) -> Iterator[Site]:
    """The site; afterwards each sshd is as it was, and nothing is left at work."""
    yield with_sshd
    for host in with_sshd.nodes:
        with_sshd.sshd.mend(host)
    assert within(5, lambda: not at_work(with_sshd)), at_work(with_sshd)


def test_a_healthy_site_passes_and_is_one_report(whole: Site) -> None:
    whole.sets("host1")
    status, report = checked(whole, "--hosts", "host[0-1],host2", "--nproc-per-node", "1")
    assert (status, report["verdict"], [f["summary"] for f in report["findings"]]) == (0, "pass", [])
    assert [(n["name"], n["arrived"], n["ranks"]) for n in report["nodes"]] == [
        ("host0", True, [0]),
        ("host1", True, [1]),
        ("host2", True, [2]),
    ]
    assert report["plan"]["sources"]["nnodes"] == "--hosts" and report["plan"]["master_addr"] == "host0"


def test_hosts_that_cannot_be_spoken_to_are_named_and_the_others_go_on(whole: Site) -> None:
    _, changed, stopped = whole.nodes
    whole.sshd.new_key(changed)
    whole.sshd.restart(changed)
    whole.sshd.stop(stopped)
    status, report = checked(whole, *ALL3, "--until", "network")
    assert (status, report["verdict"]) == (3, "incomplete")
    told = [(f["check"], f["nodes"], f["fixes"][0]["text"]) for f in report["findings"]]
    assert {(check, *nodes) for check, nodes, _ in told} == {
        ("launch/host-unreachable", "host1"),
        ("launch/host-unreachable", "host2"),
    }
    by_host = {nodes[0]: fix for _, nodes, fix in told}
    assert "`ssh-keygen -f /mnt/ssh/known_hosts -R host1`" in by_host["host1"]
    assert "Start the host and its sshd" in by_host["host2"]
    assert (report["nodes"][0]["name"], report["nodes"][0]["arrived"]) == ("host0", True)


def test_a_password_is_never_asked_for_and_no_distdoctor_is_told(whole: Site) -> None:
    asks = whole.nodes[0]
    whole.sshd.restart(asks, "AuthorizedKeysFile none\nPasswordAuthentication yes\n")
    lacks = f"[ $(hostname) = host1 ] || exec {sys.executable} -m distdoctor remote"
    status, report = checked(whole, *ALL3, "--until", "network", "--setup", lacks)
    found = findings(report)
    assert status == 3
    assert found["launch/host-unreachable"] == (
        ["host0"],
        "Install your key there, from here (it asks for the password once): `ssh-copy-id host0`.",
    )
    assert found["launch/distdoctor-missing"][0] == ["host1"]


def test_one_verdict_although_nothing_but_ssh_gets_through(whole: Site) -> None:
    for node in whole.nodes:
        node.inside(ONLY_SSH)
    try:
        status, report = checked(whole, *ALL3, "--wait", "4", "--nproc-per-node", "1")
    finally:
        for node in whole.nodes:
            node.inside("nft delete table inet lab")
    assert (status, report["verdict"]) == (1, "fail")
    assert list(findings(report)) == ["network/port-filtered"] and findings(report)["network/port-filtered"][0] == [
        "host0"
    ]
    assert all(node["arrived"] for node in report["nodes"])


HOLDS = "import socket; server = socket.create_server(('', 8000)); print('ready', flush=True); server.accept()"


@pytest.mark.parametrize("in_shell", [False, True])
def test_each_host_checks_what_the_line_says(whole: Site, in_shell: bool) -> None:
    """Its mesh and ports. The API server is node 0's alone: host1's port 8000 does not matter."""
    text = "vllm serve m --nnodes 3 --tensor-parallel-size 3 --master-addr host0 --api-key of-mine"
    line = ["bash", "-c", text] if in_shell else text.split()
    held = [node.python(HOLDS, wait_for="ready") for node in whole.nodes[:2]]
    try:
        status, report = checked(whole, *ALL3, "--until", "network", "--", *line)
    finally:
        for process in held:
            process.kill()
            process.wait()
    assert (status, report["plan"]["engine"], report["plan"]["mesh"]) == (1, "vLLM", {"tp": 3})
    assert [(f["check"], f["nodes"]) for f in report["findings"]] == [("network/engine-port-in-use", ["host0"])]
    assert "of-mine" not in json.dumps(report)


@pytest.mark.scoreboard
def test_what_no_node_can_know_by_itself_is_in_the_one_verdict(whole: Site) -> None:
    """A port that one of them exports, and a name that means another host on one."""
    exporting = f"[ $(hostname) != host1 ] || export MASTER_PORT=29511; exec {sys.executable} -m distdoctor remote"
    status, report = checked(whole, *ALL3, "--until", "network", "--wait", "5", "--setup", exporting)
    assert (status, report["verdict"]) == (0, "warn")
    (finding,) = report["findings"]
    assert (finding["check"], finding["nodes"]) == ("environment/exported-master-differs", ["host1"])
    assert finding["fixes"][0]["env"] == {"MASTER_PORT": None}
    node = whole.nodes[2]
    known = node.hosts_file
    node.hosts_file = known.replace(whole.nodes[0].address, whole.nodes[1].address)
    try:
        status, report = checked(whole, *ALL3, "--until", "network", "--wait", "5")
    finally:
        node.hosts_file = known
    told = {check: nodes for check, (nodes, _) in findings(report).items()}
    assert (status, told) == (1, {"network/master-resolves-differently": ["host2"]})


def started(site: Site, *flags: str, on: Sequence[str] = ("host0", "host1", "host2")) -> Process:
    """A check of all hosts, each of which ``on`` has tried a connection to node 0 that nobody answers.

    Node 0 tries it last, once it has imported torch; by then the others may know enough, and have ended.
    """
    process = site.popen([*DISTDOCTOR, "check", "--json", *ALL3, *flags])
    tried: set[str] = set()

    def everywhere() -> bool:
        tried.update(host.name for host in site.nodes if SYN_SENT in host.bound_ports().values())
        return tried >= {*on}

    if not within(20, everywhere):
        process.kill()
        pytest.fail(f"only {tried}: {process.communicate(timeout=5)}")
    return process


def hold(host: Host) -> str:
    """A rule that keeps the others from node 0 without a word, so that they go on trying."""
    return host.inside("nft add table inet lab; nft add chain inet lab in '{ type filter hook input priority 0; }'; "
                       "nft add rule inet lab in tcp dport 29500 drop")  # fmt: skip


@pytest.fixture
def held(whole: Site) -> Iterator[Site]:
    """The site, whose nodes do not come to an end by themselves."""
    hold(whole.nodes[0])
    yield whole
    whole.nodes[0].inside("nft delete table inet lab")


def test_ctrl_c_tells_what_is_known_and_leaves_nothing_at_work(held: Site) -> None:
    process = started(held)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert within(GONE_SECONDS, lambda: not at_work(held)), at_work(held)
    report = json.loads(out)
    assert process.returncode == 130, err
    assert report["notes"][0].startswith("interrupted by SIGINT") and report["verdict"] == "incomplete"
    assert {node["name"]: node["arrived"] for node in report["nodes"]} == dict.fromkeys(held.names, True), err
    assert "launch/connection-lost" not in findings(report)


def test_what_is_killed_here_ends_there(held: Site) -> None:
    process = started(held)
    process.kill()
    process.communicate(timeout=10)
    assert within(GONE_SECONDS, lambda: not at_work(held)), at_work(held)


def test_a_connection_that_ends_in_the_middle(held: Site) -> None:
    process = started(held, "--wait", "6", on=["host2"])
    held.sshd.stop(held.nodes[2], connections=True)
    out, err = process.communicate(timeout=60)
    report = json.loads(out)
    assert findings(report)["launch/connection-lost"][0] == ["host2"], err
    assert "host2: ssh ended with status 255" in report["findings"][-1]["evidence"][0] or "255" in out
    assert {node["name"] for node in report["nodes"] if node["arrived"]} == {"host0", "host1"}


@pytest.mark.scoreboard
def test_a_host_on_the_way_that_turns_logins_away(whole: Site) -> None:
    """All ways lead by its sshd, which takes one login at a time (MaxStartups) and drops the others."""
    config, login = whole.sshd.folder / "config", whole.login
    known = config.read_text()
    config.write_text("Host host*\n  ProxyJump login\n" + known)
    whole.sshd.restart(login, "MaxStartups 1:100:1\n")
    try:
        status, report = checked(whole, *ALL3, "--until", "network")
    finally:
        config.write_text(known)
        whole.sshd.mend(login)
    assert (status, report["verdict"]) == (0, "pass"), [f["evidence"] for f in report["findings"]]
    assert all(node["arrived"] for node in report["nodes"])


def test_into_a_running_job_of_slurm_and_nothing_is_taken_from_it(with_slurm: Site) -> None:
    """The job's own step has all of its tasks; the check's is one more on each node. What its fix says of SLURM works:
    the flag that leaves the broken node out, and the line that drains it."""
    job = with_slurm.run(["sbatch", "--parsable", "-N3", "--exclusive", "--wrap", "srun sleep 60"]).stdout.strip()
    running = ["squeue", "-h", "-j", job, "-t", "R", "-o", "%N"]
    assert within(20, lambda: bool(with_slurm.run(running).stdout.strip())), with_slurm.slurm.log()
    check = ["--slurm-job", job, "--until", "network", "--wait", "5"]
    lost = with_slurm.nodes[2]
    known = lost.hosts_file
    try:
        status, report = checked(with_slurm, *check)
        lost.hosts_file = known.replace("host0", "other0")
        failed, blaming = checked(with_slurm, *check)
        with_slurm.run(["scancel", job])
        (finding,) = [one for one in blaming["findings"] if one["because_of"] is None]
        exclude = re.search(r"`(--exclude=\S+)`", finding["fixes"][-1]["text"])
        assert exclude is not None and exclude[1] == "--exclude=host2", finding["fixes"]
        others = [
            "srun",
            "-N2",
            "--ntasks-per-node=1",
            exclude[1],
            *DISTDOCTOR,
            "check",
            "--until",
            "network",
            "--json",
        ]
        without = json.loads(with_slurm.run(others).stdout)
    finally:
        lost.hosts_file = known
        with_slurm.run(["scancel", job])
    assert (without["verdict"], without["plan"]["nnodes"]) == ("pass", 2)
    assert (status, report["verdict"]) == (0, "pass"), [f["evidence"] for f in report["findings"]]
    assert [(node["name"], node["arrived"]) for node in report["nodes"]] == [(name, True) for name in with_slurm.names]
    assert report["plan"]["sources"]["nnodes"] == "--slurm-job"
    assert (failed, finding["check"], finding["nodes"]) == (1, "network/master-unresolvable", ["host2"])
    (drain,) = finding["fixes"][-1]["commands"]
    assert with_slurm.run(["sh", "-c", drain]).returncode == 0
    drained = with_slurm.run(["sinfo", "-h", "-N", "-t", "drain", "-o", "%N %E"]).stdout
    with_slurm.run(["scontrol", "update", "NodeName=host2", "State=RESUME"])
    assert drained.strip() == "host2 distdoctor: network/master-unresolvable"
