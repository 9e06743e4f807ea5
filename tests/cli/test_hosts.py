"""``check --hosts``: what is refused before anything is started anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


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
