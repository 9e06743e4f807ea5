"""The lab itself: its hosts are hosts, its faults are faults, and nothing of it outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import ROOT
from tests.lab.harness.namespaces import all_pids, command_line

JOB = "import torch.distributed as d; d.init_process_group('gloo'); d.barrier(); print('rank', d.get_rank(), 'done')"
LISTEN = """
import socket, sys
s = socket.create_server(('', int(sys.argv[1])), family=socket.AF_INET)
print('listening', flush=True)
while True: s.accept()
"""


def connect(cluster: Cluster, source: int, target: str, port: int) -> str:
    """Return how a plain connect() from one host ends: ``open`` or the error's name."""
    code = (
        "import errno, socket, sys\n"
        "try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 1); print('open')\n"
        "except TimeoutError: print('no answer')\n"
        "except OSError as e: print(errno.errorcode.get(e.errno, e.errno))"
    )
    return cluster[source].run([sys.executable, "-c", code, target, str(port)]).stdout.strip()


def test_hosts_reach_each_other_by_name(pair: Cluster) -> None:
    assert pair[0].sh("hostname").stdout.strip() == "host0"
    assert connect(pair, 1, "host0", 29500) == "ECONNREFUSED"


def test_a_host_sees_only_its_own_processes_and_interfaces(pair: Cluster) -> None:
    pair[1].popen(["sleep", "60"])
    assert "sleep 60" not in pair[0].sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "sleep 60" in pair[1].sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert pair[0].sh("ip -o link | wc -l").stdout.strip() == "2"


@pytest.mark.parametrize(
    ("rule", "seen"),
    [
        ("drop", "no answer"),
        ("reject with tcp reset", "ECONNREFUSED"),
        ("reject", "ECONNREFUSED"),
        ("reject with icmpx type admin-prohibited", "EHOSTUNREACH"),
    ],
)
def test_a_firewall_is_seen_by_a_connect(pair: Cluster, rule: str, seen: str) -> None:
    pair[0].python(LISTEN, "29500", wait_for="listening")
    assert connect(pair, 1, "host0", 29500) == "open"
    pair[0].inside(
        "nft add table inet lab; nft 'add chain inet lab in { type filter hook input priority 0; }'; "
        f"nft add rule inet lab in tcp dport 29500 {rule}"
    )
    assert connect(pair, 1, "host0", 29500) == seen


def test_nobodys_address_is_unreachable(pair: Cluster) -> None:
    assert connect(pair, 1, "10.99.0.1", 29500) == "ENETUNREACH"


@pytest.mark.parametrize("subnet", ["10.77.0.0/24", "192.168.7.0/24", "fd77::/64"])
def test_addresses_are_of_the_subnet(subnet: str) -> None:
    with Cluster(2, subnets=(subnet,), interface=("ens5", "enp0s31f6")) as cluster:
        assert connect(cluster, 1, cluster[0].address, 29500) == "ECONNREFUSED"
        assert "enp0s31f6" in cluster[1].sh("ip -o link").stdout


def test_leftovers_are_seen(pair: Cluster) -> None:
    assert pair.leftovers() == []
    process = pair[0].python(LISTEN, "29500", wait_for="listening")
    pair[0].sh("touch /dev/shm/a $TMPDIR/b")
    left = "\n".join(pair.leftovers())
    assert "process" in left and "port 29500" in left and "/dev/shm/a" in left and "/run/tmp/b" in left
    process.kill()
    process.wait()
    assert [line for line in pair.leftovers() if "file" not in line] == []


def test_each_host_has_temporary_folders_of_its_own(pair: Cluster, tmp_path: Path) -> None:
    """What a fix makes there stays in the lab; of what lies there out here, a host sees what it is told to."""
    name = f"lab-{os.getpid()}-here"
    pair[0].sh(f"mkdir /tmp/{name}; touch /tmp/{name}/file")
    assert [line for line in pair.leftovers() if "file" in line] == [
        f"host0: file /tmp/{name}",
        f"host0: file /tmp/{name}/file",
    ]
    assert not Path(f"/tmp/{name}").exists() and pair[1].sh(f"[ -e /tmp/{name} ]").returncode == 1
    (tmp_path / "seen").touch()
    with Cluster(1, shown=[tmp_path]) as cluster:
        assert cluster[0].sh(f"[ -e {tmp_path}/seen ]").returncode == 0
        assert cluster.leftovers() == []
    if Path("/tmp") in tmp_path.parents:
        assert pair[0].sh(f"[ -e {tmp_path}/seen ]").returncode == 1


def test_a_signal_reaches_the_process_inside(pair: Cluster) -> None:
    process = pair[0].popen(["sh", "-c", "trap 'echo got it; exit 7' INT; echo up; while :; do sleep 0.05; done"])
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=5) == 7


BUILD = """
import sys, time
from tests.lab.harness.cluster import Cluster
with Cluster(2) as cluster:
    cluster[0].popen(["sleep", sys.argv[1]])
    print("built", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_process_that_built_it(number: signal.Signals) -> None:
    mark = f"{os.getpid()}.{int(number)}"
    builder = subprocess.Popen(
        [sys.executable, "-c", BUILD, mark], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert builder.stdout is not None and builder.stdout.readline() == "built\n"
    deadline = time.monotonic() + 20
    while not any(f"sleep {mark}" in command_line(pid) for pid in all_pids()):  # it is started, and not yet itself
        assert time.monotonic() < deadline
        time.sleep(0.02)
    builder.send_signal(number)
    builder.wait(timeout=10)
    builder.stdout.close()
    deadline = time.monotonic() + 20
    while (left := [p for p in all_pids() if f"sleep {mark}" in command_line(p)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


@pytest.mark.scoreboard
@pytest.mark.long
@pytest.mark.timeout(90)
def test_a_real_job_runs_and_127_0_1_1_breaks_it() -> None:
    """The case this project began with, by PyTorch alone."""
    with Cluster(2, subnets=("192.168.7.0/24",)) as cluster:
        assert [code for code, _ in torchrun(cluster)] == [0, 0]
        for host in cluster:
            host.hosts_file = host.hosts_file.replace(f"{host.address} {host.name}", f"127.0.1.1 {host.name}")
        ended = torchrun(cluster)
        assert all(code != 0 for code, _ in ended)
        assert any("[127.0.1.1]" in err for _, err in ended)


def torchrun(cluster: Cluster) -> list[tuple[int, str]]:
    """Run a job of one rank per host; the first host's failure ends the others. Gives (status, stderr) per host."""
    script = cluster.put("job.py", JOB)
    processes = [
        host.popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "torch.distributed.run",
                    "--nnodes",
                    str(len(cluster)),
                    "--nproc-per-node",
                    "1",
                ),
                *("--node-rank", str(host.index), "--master-addr", cluster[0].address, script),
            ],
            stdout=subprocess.DEVNULL,
        )
        for host in cluster
    ]
    deadline = time.monotonic() + 40
    while all(p.poll() is None for p in processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    if any(p.poll() for p in processes):
        for process in processes:
            process.terminate()
    return [(p.wait(timeout=40), p.stderr.read() if p.stderr else "") for p in processes]
