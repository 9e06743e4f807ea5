"""The scripts of docs/slurm, in a SLURM that calls them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.helpers.namespaces import ROOT
from tests.lab.harness.host import SHARED
from tests.launchers.harness import slurm
from tests.launchers.harness.site import LOGIN, Site, unfit
from tests.launchers.harness.slurm import Slurm, within

FOLDER = ROOT / "docs" / "slurm"
DISTDOCTOR = f"{SHARED}/distdoctor"
EXTRA = f"Prolog={SHARED}/prolog.sh\nPrologFlags=Alloc"


@pytest.fixture
def site() -> Iterator[tuple[Site, Slurm]]:
    """A site whose SLURM calls the prolog."""
    if reason := unfit(*slurm.PROGRAMS):
        pytest.skip(reason)
    with Site() as real:
        put(real, "distdoctor", f'#!/bin/sh\nexec {sys.executable} -m distdoctor "$@"\n')
        text = (FOLDER / "prolog.sh").read_text()
        assert "distdoctor=/opt/distdoctor/bin/distdoctor\n" in text
        text = text.replace("/opt/distdoctor/bin/distdoctor", DISTDOCTOR).replace("/var/log", "/run/lab")
        put(real, "prolog.sh", text)
        with Slurm(real.cluster, LOGIN, extra=EXTRA) as running:
            yield real, running


def put(site: Site, name: str, text: str) -> None:
    """A program that all hosts have."""
    site.cluster.put(name, text)
    (site.cluster.shared / name).chmod(0o755)


def drained(running: Slurm) -> dict[str, str]:
    """Node -> why it was taken out."""
    lines = running.run(["sinfo", "-h", "-N", "-t", "drain", "-o", "%N %E"]).stdout.splitlines()
    return dict(line.split(" ", 1) for line in lines)


@pytest.mark.long
def test_prolog_drains_the_node_that_is_to_blame_and_no_other(site: tuple[Site, Slurm]) -> None:
    real, running = site
    assert running.run(["srun", "-N3", "true"], timeout=60).returncode == 0, "a healthy job begins"
    assert drained(running) == {}
    real.cluster[1].hosts_file = real.cluster[1].hosts_file.replace("host0", "other0")
    running.run(["sbatch", "-N3", "--wrap", "true"])
    within(40, "drained node", lambda: bool(drained(running)))
    assert [*drained(running)] == ["host1"], running.log()
    logged = real.cluster[1].anchor.path("/run/lab/distdoctor-prolog.log").read_text()
    assert "network/master-unresolvable" in logged


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
