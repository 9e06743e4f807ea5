"""The site itself: each launcher really starts a job on every node of it."""

from __future__ import annotations

import pytest

from tests.helpers.programs import missing
from tests.launchers.harness import starting
from tests.launchers.harness.site import Site

HOSTNAME = ["/mnt/job", "hostname"]


def test_srun(with_slurm: Site) -> None:
    done = with_slurm.run(starting.srun(with_slurm, 2, HOSTNAME))
    assert sorted(done.stdout.split()) == ["host0"] * 2 + ["host1"] * 2 + ["host2"] * 2, with_slurm.slurm.log()


@pytest.mark.parametrize("launcher", [starting.mpirun, starting.hydra])
def test_mpi(with_sshd: Site, launcher: starting.Launcher) -> None:
    command = launcher(with_sshd, 2, HOSTNAME)
    if reason := missing(command[:1]):
        pytest.skip(reason)
    done = with_sshd.run(command)
    assert sorted(done.stdout.split()) == ["host0"] * 2 + ["host1"] * 2 + ["host2"] * 2, done.stderr


def test_ssh_and_what_a_node_sets(with_sshd: Site) -> None:
    with_sshd.sets("host1", SITE_SETS="here")
    done = with_sshd.run(starting.by_ssh(with_sshd, ["/mnt/job", "sh", "-c", "echo {rank} $(hostname) $SITE_SETS"]))
    with_sshd.sets("host1")
    assert sorted(done.stdout.splitlines()) == ["0 host0", "1 host1 here", "2 host2"], done.stderr
