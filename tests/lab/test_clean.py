"""Nothing left behind, and nothing bad gets in."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.faults.launch import not_started
from tests.lab.faults.packet_filter import only_master_port
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import Host, Process
from tests.lab.harness.launch import DISTDOCTOR, PORT, Launch
from tests.lab.harness.runner import run

pytestmark = pytest.mark.timeout(120)

JOB = "import torch.distributed as d; d.init_process_group('gloo'); d.barrier(); d.destroy_process_group()"


def node(cluster: Cluster, rank: int, *flags: str) -> Process:
    """Start one node's check of two."""
    arguments = ["check", "--nnodes", "2", "--node-rank", str(rank), "--master-addr", "host0", "--json", *flags]
    return cluster[rank].popen([*DISTDOCTOR, *arguments])


def wait_for_store(host: Host) -> None:
    """Return once node 0's store listens."""
    deadline = time.monotonic() + 20
    while host.bound_ports().get(PORT) != "LISTEN":
        assert time.monotonic() < deadline, f"nobody listens on {PORT}: {host.processes()}"
        time.sleep(0.01)


def those_that_stay(host: Host) -> list[int]:
    """The processes on it, once no other has come or gone for half a second: some are there for a moment only."""
    deadline = time.monotonic() + 20
    seen, since = sorted(host.processes()), time.monotonic()
    while time.monotonic() < since + 0.5:
        assert time.monotonic() < deadline, f"they come and go: {host.processes()}"
        time.sleep(0.02)
        if (now := sorted(host.processes())) != seen:
            seen, since = now, time.monotonic()
    return seen


def leftovers_after(cluster: Cluster, seconds: float) -> list[str]:
    """Return what is still there after at most that long."""
    deadline = time.monotonic() + seconds
    while (left := cluster.leftovers()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


@pytest.mark.long
def test_nothing_is_left_after_success_and_failure(pair: Cluster) -> None:
    assert [one.status for one in run(Launch(pair), diagnose=False).ended] == [0, 0]
    assert pair.leftovers() == []
    blocked = Launch(pair, check_flags=("--wait", "15"))  # they meet; this is no matter of how soon
    only_master_port(0)(blocked)
    assert [one.status for one in run(blocked, diagnose=False).ended] == [1, 1]
    assert pair.leftovers() == []
    alone = Launch(pair, check_flags=("--wait", "2"))
    not_started(1)(alone)
    assert [one.status for one in run(alone, diagnose=False).ended] == [3]
    assert pair.leftovers() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_a_partial_report(pair: Cluster, number: signal.Signals) -> None:
    process = node(pair, 0, "--wait", "60")
    wait_for_store(pair[0])
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 128 + number, err
    report = json.loads(out)
    assert [n["name"] for n in report["nodes"] if n["arrived"]] == ["host0"]
    assert "Traceback" not in err
    assert leftovers_after(pair, 1) == []


@pytest.mark.parametrize("delay", [0.3, *(pytest.param(n, marks=pytest.mark.scoreboard) for n in (0, 0.8))])
def test_a_signal_before_the_nodes_can_meet_ends_it_too(pair: Cluster, delay: float) -> None:
    process = node(pair, 0, "--wait", "60")
    assert process.stderr is not None and "environment" in process.stderr.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130, err
    assert leftovers_after(pair, 1) == []


@pytest.mark.long
def test_kill_9_of_each_process_while_it_waits(pair: Cluster) -> None:
    """Node 0 waits for node 1; each of its processes is killed in a run of its own."""
    victim, count = 0, 1
    while victim < count:
        process = node(pair, 0, "--wait", "6", "--timeout", "5")
        wait_for_store(pair[0])
        below = those_that_stay(pair[0])
        count = len(below)
        assert victim < count, f"{victim} were killed one by one, and now only these wait: {pair[0].processes()}"
        os.kill(below[victim], signal.SIGKILL)
        out, _ = process.communicate(timeout=20)
        if victim == 0:
            assert process.returncode == -signal.SIGKILL
        else:
            assert process.returncode in (1, 3), (victim, process.returncode)
            assert json.loads(out)["verdict"] in ("fail", "incomplete")
        assert leftovers_after(pair, 2) == [], f"after kill -9 of process {victim} of {count}"
        victim += 1
    assert count >= 2


@pytest.mark.long
@pytest.mark.parametrize("on", [0, pytest.param(1, marks=pytest.mark.scoreboard)])
def test_kill_9_of_a_rank(pair: Cluster, on: int) -> None:
    """A rank is killed as soon as the ranks are there. The run ends, in time, with a verdict or without harm."""
    before = node(pair, 0, "--wait", "20", "--timeout", "10")
    wait_for_store(pair[0])
    waiting = {host.name: set(host.processes()) for host in pair}
    after = node(pair, 1, "--wait", "20", "--timeout", "10")
    deadline = time.monotonic() + 20
    threshold = 2 if on == 0 else 3  # node 1: its supervisor and zygote come first
    while len(new := sorted(set(pair[on].processes()) - waiting[f"host{on}"])) < threshold:
        assert time.monotonic() < deadline, "no ranks were seen"
        if before.poll() is not None:
            pytest.fail("the run was over before its ranks were seen")
    os.kill(new[-1], signal.SIGKILL)
    for process in (before, after):
        out, err = process.communicate(timeout=30)
        assert process.returncode in (0, 1, 3), err
        assert json.loads(out)["schema_version"] == 1
    assert leftovers_after(pair, 2) == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("turns", [1, pytest.param(20, marks=pytest.mark.scoreboard)])
def test_the_job_starts_on_the_same_port_right_after(pair: Cluster, turns: int) -> None:
    """``distdoctor check && torchrun ...`` on two nodes, many times in a row."""
    job = pair.put("job.py", JOB)
    for turn in range(turns):
        flags = f"--nnodes 2 --nproc-per-node 1 --master-addr host0 --master-port {PORT}"
        line = (
            f"{shlex.join(DISTDOCTOR)} check {flags} --node-rank %d && "
            f"{shlex.quote(sys.executable)} -m torch.distributed.run {flags} --node-rank %d {job}"
        )
        both = [host.popen(["sh", "-c", line % (host.index, host.index)]) for host in pair]
        ended = [(process.communicate(timeout=60), process.returncode) for process in both]
        assert [status for _, status in ended] == [0, 0], (turn, ended)


ATTACK = """
import os, socket, struct, sys, time
target = sys.argv[1]
ping = bytes([0]) + struct.pack("<I", 0x3C85F7CE) + bytes(4)
payloads = {
    "garbage": os.urandom(1 << 20),
    "an HTTP request": b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
    "half a handshake": ping[:3],
    "a set with a huge key": ping[:5] + bytes([1]) + struct.pack("<Q", 1 << 62),
    "a set with a huge value": ping[:5] + bytes([1]) + struct.pack("<Q", 1) + b"k" + struct.pack("<Q", 1 << 40),
    "a wait for 2**31 keys": ping[:5] + bytes([5]) + struct.pack("<Q", 1 << 31),
    "a length of 4 GiB": b"\\xff\\xff\\xff\\xff" + bytes(4096),
    "a line without end": b"{" * (4 << 20),
    "nothing": b"",
}
held = []
print("ready", flush=True)
for line in sys.stdin:
    port = int(line)
    for payload in payloads.values():
        for _ in range(3):
            try:
                s = socket.create_connection((target, port), 2)
                s.settimeout(0.5)
                s.sendall(payload)
                held.append(s)
            except OSError:
                pass
    for _ in range(300):
        try:
            held.append(socket.create_connection((target, port), 2))
        except OSError:
            pass
    print("done", port, len(held), flush=True)
time.sleep(60)
"""


def resident(host: Host) -> int:
    """The memory that the host's processes have to themselves, in bytes."""
    total = 0
    for pid in host.processes():
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) * 1024
    return total


@pytest.mark.long
def test_hostile_input_changes_neither_verdict_nor_memory() -> None:
    """Every port it opens gets garbage, half a handshake, huge lengths and a flood; the check passes all the same."""
    with Cluster(3) as cluster:
        first = node(cluster, 0, "--wait", "60")
        wait_for_store(cluster[0])
        time.sleep(1.5)
        before = resident(cluster[0])
        ports = [port for port, state in cluster[0].bound_ports().items() if state == "LISTEN"]
        assert PORT in ports
        attacker = cluster[2].popen(
            [sys.executable, "-u", "-c", ATTACK, "host0"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert attacker.stdin is not None and attacker.stdout is not None
        assert attacker.stdout.readline() == "ready\n"
        for port in ports:
            attacker.stdin.write(f"{port}\n")
            attacker.stdin.flush()
            assert attacker.stdout.readline().startswith(f"done {port} ")
        grown = resident(cluster[0]) - before
        assert grown < 64 << 20, f"{grown >> 20} MiB more after the attack on {ports}"
        second = node(cluster, 1, "--wait", "20")
        # What opens later gets the same while the run goes on.
        while second.poll() is None and first.poll() is None:
            for port, state in cluster[0].bound_ports().items():
                if state == "LISTEN" and port not in ports:
                    ports.append(port)
                    attacker.stdin.write(f"{port}\n")
                    attacker.stdin.flush()
            time.sleep(0.01)
        reports = [json.loads(process.communicate(timeout=30)[0]) for process in (first, second)]
        assert [report["verdict"] for report in reports] == ["pass", "pass"], reports
        assert [host.leftovers() for host in (cluster[0], cluster[1])] == [[], []]
