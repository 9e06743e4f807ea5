"""Names that mean nothing, or that nobody answers for: what the check says is what the real torchrun then does."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from tests.lab.faults.names import name_removed, no_name_server, silent_name_server
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import PRIVATE, Host
from tests.lab.harness.launch import DISTDOCTOR, Launch
from tests.lab.harness.runner import JSON, _parsed

pytestmark = pytest.mark.timeout(200)

SCRIPT = f"{PRIVATE}/lab/job.py"
JOB = "import torch.distributed as d; d.init_process_group('gloo'); d.barrier(); print('trained', d.get_rank())"
HANGS = 20.0
"""Seconds after which a launch that takes 5 counts as one that hangs."""
RUNS = 60.0
RUNS_SLOWLY = 180.0
"""torchrun asks for its own name again and again, and each time for 10 s where nobody answers: 91 s were measured."""


@pytest.fixture
def pair() -> Iterator[Cluster]:
    """A host whose name is in no hosts file, and one that may be its name server."""
    with Cluster(2) as cluster:
        name_removed(0, "host0")(Launch(cluster))
        cluster[0].anchor.path(SCRIPT).write_text(JOB)
        yield cluster


def check(host: Host, *flags: str) -> tuple[int, JSON]:
    done = host.run([*DISTDOCTOR, "check", "--json", *flags], timeout=60)
    report = _parsed(done.stdout)
    assert report is not None, done
    return done.returncode, report


def torchrun(host: Host, flags: Sequence[str], seconds: float) -> bool:
    """Return whether the launch line ends well on this host within that time; its script is the lab's."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *flags, SCRIPT]
    try:
        return host.run(command, timeout=seconds).stdout.count("trained") == 2
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.scoreboard
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("flags", "server"), [((), "refusing"), (("--standalone",), "refusing"), ((), "none"), ((), "silent")]
)
def test_one_node_whose_name_means_nothing(pair: Cluster, flags: tuple[str, ...], server: str) -> None:
    """It passed, and the line that it printed next hung. What it prints now works; so does the line of /etc/hosts."""
    host, launch = pair[0], Launch(pair)
    if server == "none":
        no_name_server(launch)
    if server == "silent":
        silent_name_server(0, 1)(launch)
    status, report = check(host, *flags)
    found = [finding for finding in report["findings"] if finding["because_of"] is None]
    assert (status, report["verdict"], [finding["id"] for finding in found]) == (1, "fail", ["host/rendezvous-name"])
    assert report["seconds"] < 15
    assert not torchrun(host, flags, HANGS), "it was harmless after all"

    first, second = (next(fix for fix in found[0]["fixes"] if fix["option"] == option) for option in (1, 2))
    given = [word for flag, value in first["flags"].items() if value is not None for word in (flag, value)]
    status, report = check(host, *given)
    assert status == 0 and report["verdict"] == ("warn" if server == "silent" else "pass"), report["findings"]
    assert torchrun(host, given, RUNS if server != "silent" else RUNS_SLOWLY)
    if server == "silent":
        return

    assert [host.sh(command).returncode for command in second["commands"]] == [0]
    status, report = check(host, *flags)
    assert status == 0, report["findings"]
    assert torchrun(host, flags, RUNS)


@pytest.mark.long
def test_the_line_printed_next_is_one_that_works(pair: Cluster) -> None:
    """As a person has it: the text report's last line, pasted, with the script's own name in it."""
    host = pair[0]
    told = host.run([*DISTDOCTOR, "check", "--nproc-per-node", "2"], timeout=60)
    assert told.returncode == 1
    again = shlex.split(told.stdout.strip().splitlines()[-1])
    assert "distdoctor" in again and "--master-port" in again, told.stdout
    again = again[again.index("distdoctor") :]  # before it, how Python is called where distdoctor is not on PATH
    told = host.run([sys.executable, "-m", *again], timeout=60)
    assert told.returncode == 0, told.stdout
    line = shlex.split(told.stdout.strip().splitlines()[-1])
    assert line[-1] == "your_script.py", told.stdout
    done = host.run([*line[:-1], SCRIPT], timeout=RUNS)
    assert done.stdout.count("trained") == 2, done


@pytest.mark.scoreboard
@pytest.mark.long
def test_two_nodes_with_a_static_rendezvous_need_no_own_name(pair: Cluster) -> None:
    """Only the master's is looked up: gloo is what fails there, for another reason."""
    name_removed(1, "host1")(Launch(pair))
    pair[1].anchor.path(SCRIPT).write_text(JOB)
    flags = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "10.77.0.10", "--master-port", "29500"]
    env = {"GLOO_SOCKET_IFNAME": "eth0"}
    launchers = [
        host.popen([sys.executable, "-m", "torch.distributed.run", *flags, "--node-rank", str(n), SCRIPT], env=env)
        for n, host in enumerate(pair)
    ]
    assert [launcher.communicate(timeout=RUNS)[0].count("trained") for launcher in launchers] == [1, 1]


@pytest.mark.scoreboard
@pytest.mark.long
def test_a_name_that_means_every_node_leads_to_node_0(pair: Cluster) -> None:
    """Plain ranks try their own address first, are refused there, and go on to node 0's: no luck is in it."""
    ranks = []
    for number, host in enumerate(pair):
        host.hosts_file = f"{host.address} {host.name}\n" + "".join(f"{other.address} job\n" for other in pair)
        host.anchor.path(SCRIPT).write_text(JOB)
        env = {"RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": "job", "MASTER_PORT": "29500"}
        ranks.append(host.popen([sys.executable, SCRIPT], env=env))
    assert [rank.communicate(timeout=RUNS)[0].count("trained") for rank in ranks] == [1, 1]
