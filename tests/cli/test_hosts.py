"""``check --hosts``: what is refused before anything is started anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor.cli import one_place
from distdoctor.cli.flags import HostFlags
from distdoctor.launch.host_list import NamedHost
from distdoctor.launch.ways import Target
from distdoctor.model.calls import Way


@pytest.mark.parametrize("hosts", ["localhost,gpu1", "tunnel,gpu1"])
def test_a_first_host_that_every_other_would_look_for_on_itself(hosts: str, tmp_path: Path) -> None:
    """``tunnel``: a forwarded port on this host, by ssh's configuration. A check up to the network passed: each host
    found itself."""
    ssh = tmp_path / "ssh"
    ssh.write_text(
        '#!/bin/sh\n[ "$1" = -G ] || exit 255\n[ "$3" = tunnel ] && echo "hostname 127.0.0.1" || echo "hostname $3"\n'
    )
    ssh.chmod(0o755)
    command = [sys.executable, "-m", "distdoctor", "check", "--hosts", hosts, "--until", "network"]
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and f"{hosts.partition(',')[0]} is the first, and so node 0" in done.stderr, done.stderr
    given = [*command, "--master-addr", "gpu0"]
    done = subprocess.run(given, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "is the first, and so node 0" not in done.stderr and done.returncode != 2, done.stderr


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("check", "--pods", "app=train", "--tree"), "srun and kubectl lead everywhere by one place anyway"),
        (("hang", "--pods", "app=train", "--tree"), "srun and kubectl lead everywhere by one place anyway"),
        (("diagnose", "train.log", "--hosts", "gpu[1-3]", "--tree"), "--tree is not for logs"),
    ],
)
def test_where_there_is_no_tree_it_is_refused(command: tuple[str, ...], why: str, tmp_path: Path) -> None:
    pods = {"items": [{"metadata": {"name": "train-0"}, "status": {"podIP": "192.0.2.1", "phase": "Running"}}]}
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\necho '{json.dumps(pods)}'\n")
    (tmp_path / "kubectl").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [sys.executable, "-m", "distdoctor", *command]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and why in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("number", "way", "tree", "grows"),
    [(128, "ssh", None, True), (127, "ssh", None, False), (3, "ssh", True, True), (500, "ssh", False, False),
     (500, "srun", None, False)],
)  # fmt: skip
def test_of_which_hosts_a_tree_is_made(number: int, way: Way, tree: bool | None, grows: bool) -> None:
    targets = [Target(NamedHost(f"gpu{n}"), way, ("true",)) for n in range(number)]
    assert one_place.grows(HostFlags(tree=tree), targets) is grows
