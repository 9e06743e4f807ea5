"""The scripts of docs/slurm, in a SLURM that calls them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest

from tests.helpers.namespaces import ROOT
from tests.lab.harness.host import SHARED
from tests.launchers.harness import slurm
from tests.launchers.harness.site import LOGIN, Site, unfit
from tests.launchers.harness.slurm import Slurm, within

FOLDER = ROOT / "docs" / "slurm"
SUBMIT = (FOLDER / "job_submit.lua").read_text()
DISTDOCTOR = f"{SHARED}/distdoctor"
WITHIN = 120.0
"""Seconds for what SLURM does by itself; the prolog alone may take 60."""
EXTRA = f"""MessageTimeout=60
Prolog={SHARED}/prolog.sh
PrologFlags=Alloc
HealthCheckProgram={SHARED}/healthcheck.sh
HealthCheckInterval=3
HealthCheckNodeState=IDLE
JobSubmitPlugins=lua
"""


@pytest.fixture(scope="module")
def calling() -> Iterator[tuple[Site, Slurm]]:
    """A site whose SLURM calls the prolog and the health check, which goes on and on: for the tests at the end."""
    if reason := unfit(*slurm.PROGRAMS):
        pytest.skip(reason)
    with Site() as real:
        put(real, "distdoctor", f'#!/bin/sh\nexec {sys.executable} -m distdoctor "$@"\n')
        for name in ("prolog.sh", "taskprolog.sh", "healthcheck.sh"):
            text = (FOLDER / name).read_text()
            assert "distdoctor=/opt/distdoctor/bin/distdoctor\n" in text
            text = text.replace("/opt/distdoctor/bin/distdoctor", DISTDOCTOR).replace("/var/log", "/run/lab")
            # Neither has SLURM_CONF: scontrol reads /etc/slurm/slurm.conf, which the hosts of the tests lack.
            conf = f"export SLURM_CONF={slurm.FOLDER}/slurm.conf\n" if name in ("healthcheck.sh", "prolog.sh") else ""
            # Every 3 s on each node, it would slow the other tests down.
            conf += f"[ -e {SHARED}/examine ] || exit 0\n" if name == "healthcheck.sh" else ""
            put(real, name, text.replace("\ndistdoctor=", f"\n{conf}distdoctor="))
        with Slurm(real.cluster, LOGIN, extra=EXTRA, files={"job_submit.lua": SUBMIT}) as running:
            yield real, running


@pytest.fixture
def site(calling: tuple[Site, Slurm]) -> Iterator[tuple[Site, Slurm]]:
    """The same; afterwards all hosts and nodes are as they were."""
    real, running = calling
    known = {node.name: node.hosts_file for node in real.nodes}
    yield calling
    for node in real.nodes:
        node.hosts_file = known[node.name]
    for name in drained(running):
        running.run(["scontrol", "update", f"NodeName={name}", "State=RESUME"])


def put(site: Site, name: str, text: str) -> None:
    """A program that all hosts have."""
    site.cluster.put(name, text)
    (site.cluster.shared / name).chmod(0o755)


def drained(running: Slurm) -> dict[str, str]:
    """Node -> why it was taken out."""
    lines = running.run(["sinfo", "-h", "-N", "-t", "drain", "-o", "%N %E"]).stdout.splitlines()
    return dict(line.split(" ", 1) for line in lines)


def test_task_prolog_tells_in_the_output_of_the_task(with_slurm: Site) -> None:
    """Of a node whose file systems have turned read-only, as after an error of the disk."""
    text = (FOLDER / "taskprolog.sh").read_text().replace('"$distdoctor"', f"{sys.executable} -m distdoctor")
    put(with_slurm, "taskprolog.sh", text)
    job = ["srun", "-w", "host0", "-n2", "--chdir=/proc", f"--task-prolog={SHARED}/taskprolog.sh", "echo", "trains"]
    healthy = with_slurm.run(job)
    host = with_slurm.nodes[0]
    # What lies below /tmp stays as it is: this checkout may be there, and its Python.
    host.inside(
        "mount --bind /var/tmp /var/tmp; for folder in /tmp /var/tmp; do mount -o remount,bind,ro $folder; done"
    )
    try:
        broken = with_slurm.run(job, env={"TMPDIR": None})
    finally:
        host.inside("umount /var/tmp; mount -o remount,bind,rw /tmp")
    assert healthy.returncode == 0 and healthy.stdout == "trains\n" * 2, healthy.stdout + healthy.stderr
    assert broken.stdout.count("[host/temporary-folder]") == 1 and broken.stdout.count("trains\n") == 2, broken.stdout


@pytest.mark.long
def test_job_script_checks_and_then_begins(real_site: Site, with_slurm: Site) -> None:
    text = (FOLDER / "job.sbatch").read_text().replace("distdoctor check", f"{sys.executable} -m distdoctor check -q")
    put(with_slurm, "job.sbatch", text.replace("python train.py", "echo trains"))
    done = with_slurm.run(["sbatch", "--wait", f"--output={SHARED}/job.out", f"{SHARED}/job.sbatch"])
    out = (real_site.cluster.shared / "job.out").read_text()
    assert done.returncode == 0 and out.count("trains") == 3 and out.count("PASS") == 1, out


@pytest.mark.scoreboard
def test_maintenance_checks_the_nodes_in_a_reservation_that_it_takes_back(with_slurm: Site) -> None:
    text = (
        (FOLDER / "maintenance.sh").read_text().replace("distdoctor check", f"{sys.executable} -m distdoctor check -q")
    )
    put(with_slurm, "maintenance.sh", text)
    done = with_slurm.run([f"{SHARED}/maintenance.sh", "host[0-2]"])
    assert done.returncode == 0 and "3 nodes" in done.stdout and "PASS" in done.stdout, done.stdout + done.stderr
    assert "No reservations" in with_slurm.run(["scontrol", "show", "reservation"]).stdout


@pytest.mark.long
@pytest.mark.timeout(400)
def test_prolog_drains_the_node_that_is_to_blame_and_no_other(site: tuple[Site, Slurm]) -> None:
    real, running = site
    assert running.run(["srun", "-N3", "true"], timeout=WITHIN).returncode == 0, "a healthy job begins"
    assert drained(running) == {}
    real.cluster[1].hosts_file = real.cluster[1].hosts_file.replace("host0", "other0")
    running.run(["sbatch", "-N3", "--wrap", "true"])
    within(WITHIN, "drained node", lambda: bool(drained(running)))
    assert [*drained(running)] == ["host1"], running.log()
    logged = real.cluster[1].anchor.path("/run/lab/distdoctor-prolog.log").read_text()
    failed = [line for line in logged.splitlines() if "network/master-unresolvable" in line]
    assert len(failed) == 1 and re.match(r"\d{4}-\d\d-\d\dT\S+ host1 job \d+ FAIL: ", failed[0]), logged
    assert all(re.match(r"\S+ host1 job \d+ (PASS|FAIL|INCOMPLETE|TIMEOUT): \S", line) for line in logged.splitlines())
    assert drained(running)["host1"].startswith("distdoctor: ") and "host0" in drained(running)["host1"]


@pytest.mark.long
def test_a_submitted_job_that_checks_nothing_gets_a_hint(site: tuple[Site, Slurm]) -> None:
    real, running = site
    for name, line, hint in (("plain", "torchrun x", True), ("checked", "srun distdoctor check && torchrun x", False)):
        put(real, f"{name}.sbatch", f"#!/bin/sh\n# {line}\ntrue\n")
        for nodes in ("2", "1"):
            done = running.run(["sbatch", f"-N{nodes}", "--output=/dev/null", f"{SHARED}/{name}.sbatch"])
            assert done.returncode == 0 and "Submitted batch job" in done.stdout, done.stderr
            assert ("distdoctor check" in done.stderr) == (hint and nodes == "2"), done.stderr


@pytest.mark.long
@pytest.mark.timeout(400)
def test_health_check_drains_a_node_once_and_says_why(site: tuple[Site, Slurm]) -> None:
    """Of a node that somebody has drained the reason stays."""
    real, running = site
    put(real, "examine", "")
    for broken in (1, 2):
        if broken == 2:
            running.run(["scontrol", "update", "NodeName=host2", "State=DRAIN", "Reason=its disk"])
        real.cluster[broken].hosts_file = real.cluster[broken].hosts_file.replace(f"host{broken}\n", "other\n")
    within(WITHIN, "drained node", lambda: "host1" in drained(running))
    assert drained(running)["host1"].startswith(
        "distdoctor: host/rendezvous-name on host1: torchrun on host1 looks for"
    )
    assert drained(running)["host2"] == "its disk" and "host0" not in drained(running)
