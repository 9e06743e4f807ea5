"""A launcher that breaks, before a check or in the middle of one: the check ends in time and says what it knows."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from shlex import join
from typing import Any

import pytest

from tests.lab.harness.host import SHARED, Process
from tests.launchers.harness.site import JOB, Site
from tests.launchers.harness.slurm import within
from tests.launchers.test_hosts import at_work

DISTDOCTOR = [sys.executable, "-m", "distdoctor"]
WAITING = [JOB, *DISTDOCTOR, "check", "--json", "--wait", "15"]
"""A check that waits for a host that does not come (:func:`held`)."""
UNREACHABLE = "launch/host-unreachable"


@pytest.fixture
def site(with_slurm: Site) -> Iterator[Site]:
    """The site, whose SLURM works again afterwards, without a job."""
    yield with_slurm
    with_slurm.run(["scancel", "--state=RUNNING", "--user=root"])
    with_slurm.run(["scancel", "--state=PENDING", "--user=root"])
    with_slurm.nodes[0].inside("nft delete table inet lab 2>/dev/null || true")
    for node in with_slurm.nodes[1:]:
        with_slurm.slurm.mend(node)


@pytest.fixture
def job(site: Site) -> str:
    """A job whose step runs on all nodes. One that is yet to be launched on a node that is down ends the whole job."""
    number = site.run(["sbatch", "--parsable", "-N3", "--exclusive", "--wrap", "srun sleep 120"]).stdout.strip()
    running = ["squeue", "-h", "-j", number, "-t", "R", "-o", "%N"]
    within(60, "running job", lambda: bool(site.run(running).stdout.strip()))
    within(20, "its step on all nodes", lambda: all(node.inside("pgrep -x sleep || true") for node in site.nodes))
    return number


def found(out: str) -> dict[str, tuple[list[str], str]]:
    """Check -> the nodes blamed, and all that is seen of it."""
    return {
        f["check"]: (f["nodes"], " ".join([f["summary"], *f["evidence"], *(fix["text"] for fix in f["fixes"])]))
        for f in json.loads(out)["findings"]
        if f["because_of"] is None
    }


def beside(site: Site, job: str) -> tuple[int, dict[str, tuple[list[str], str]], float]:
    """The status of a check into the running job, what it found, and its seconds."""
    began = time.monotonic()
    done = site.run([*DISTDOCTOR, "check", "--json", "--slurm-job", job, "--until", "network", "--wait", "5"])
    return done.returncode, found(done.stdout), time.monotonic() - began


def held(site: Site) -> Process:
    """A check below srun, whose nodes wait for node 0 until the time for that is over."""
    site.nodes[0].inside(
        "nft add table inet lab; nft add chain inet lab in '{ type filter hook input priority 0; }'; "
        "nft add rule inet lab in tcp dport 15000-29500 drop"
    )
    process = site.popen(["srun", "-N3", "--kill-on-bad-exit=0", *WAITING])
    everywhere = lambda: len({line.partition(":")[0] for line in at_work(site) if " check " in line}) == 3  # noqa: E731
    within(20, "check on every node", everywhere)
    time.sleep(1)
    return process


@pytest.mark.scoreboard
def test_another_munge_key_on_one_node(site: Site, job: str) -> None:
    site.slurm.bad_key(site.nodes[1])
    status, told, seconds = beside(site, job)
    assert (status, [*told]) == (3, [UNREACHABLE]), "\n".join(map(str, told.items()))
    nodes, text = told[UNREACHABLE]
    assert nodes == ["host1"] and "munge -n | ssh host1 unmunge" in text, text
    assert seconds < 45


@pytest.mark.scoreboard
def test_a_node_whose_slurmd_is_dead(site: Site, job: str) -> None:
    site.slurm.crash(site.nodes[2])
    status, told, seconds = beside(site, job)
    assert (status, [*told]) == (3, [UNREACHABLE]), "\n".join(map(str, told.items()))
    nodes, text = told[UNREACHABLE]
    assert nodes == ["host2"] and "systemctl status slurmd" in text, text
    assert seconds < 45


@pytest.mark.scoreboard
def test_a_slurmd_that_dies_in_the_middle_changes_nothing(site: Site) -> None:
    """The step is held by a process of its own; srun still has the report."""
    process = held(site)
    site.slurm.crash(site.nodes[2])
    out, err = process.communicate(timeout=60)
    assert "network/port-filtered" in err and [*found(out)] in (["store/nodes-missing"], ["network/port-filtered"]), err


@pytest.mark.scoreboard
def test_scancel_tells_what_is_known(site: Site) -> None:
    process = held(site)
    job = site.run(["squeue", "-h", "-t", "R", "-o", "%A"]).stdout.split()[0]
    site.run(["scancel", job])
    out, err = process.communicate(timeout=20)
    report: Any = json.loads(out)
    assert report["verdict"] == "incomplete" and report["notes"][0].startswith("interrupted by SIGTERM"), err
    within(5, "end of all", lambda: not at_work(site))


def told_in_time(out: str, err: str) -> None:
    """The one report of a step that SLURM ended, with SIGKILL after KillWait (slurm.conf(5))."""
    report: Any = json.loads(out)
    assert report["verdict"] == "incomplete" and report["notes"][0].startswith("interrupted by SIGTERM"), err
    assert [node["name"] for node in report["nodes"] if node["arrived"]], report["nodes"]


def without_the_third(instead: str) -> list[str]:
    """A step whose first two tasks check, and wait for the third, which does something else."""
    script = f'[ "$SLURM_PROCID" != 2 ] || {{ {instead}; }}; exec "$@"'
    return ["sh", "-c", script, "sh", *DISTDOCTOR, "check", "--json", "--wait", "300"]


@pytest.mark.scoreboard
def test_a_task_that_fails_ends_the_step_and_what_is_known_is_told(site: Site) -> None:
    """srun -K: the check would wait for longer than SLURM does."""
    began = time.monotonic()
    done = site.run(["srun", "-N3", "-K", JOB, *without_the_third("sleep 8; exit 1")])
    told_in_time(done.stdout, done.stderr)
    assert time.monotonic() - began < 45


@pytest.mark.scoreboard
def test_a_job_whose_time_is_up_tells_what_is_known(site: Site) -> None:
    """A minute, the shortest that SLURM knows."""
    files = [f"--output={SHARED}/limit.out", f"--error={SHARED}/limit.err"]
    step = join(["srun", "-N3", JOB, *without_the_third("exec sleep 300")])
    site.run(["sbatch", "--wait", "--quiet", "-N3", "--time=1", *files, "--wrap", step])
    out, err = ((site.cluster.shared / f"limit.{name}").read_text() for name in ("out", "err"))
    assert "DUE TO TIME LIMIT" in err and out, (out, err)
    told_in_time(out, err)


@pytest.mark.scoreboard
def test_a_node_that_is_down(with_sshd: Site) -> None:
    """Nothing answers there: the others begin once ssh has given up, and the report names it."""
    down = with_sshd.nodes[2]
    down.inside("ip link set eth0 down")
    began = time.monotonic()
    try:
        done = with_sshd.run([*DISTDOCTOR, "check", "--json", "--hosts", "host[0-2]", "--until", "network"])
    finally:
        down.inside("ip link set eth0 up")
    told = found(done.stdout)
    assert (done.returncode, [*told], told[UNREACHABLE][0]) == (3, [UNREACHABLE], ["host2"])
    assert time.monotonic() - began < 40
