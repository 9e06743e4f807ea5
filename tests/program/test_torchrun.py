"""Under a real torchrun: one report however often the ranks are started, and the cause in torchrun's own table."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.runs import environment


def test_the_table_names_the_cause_and_a_restart_tells_one_line() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    done = subprocess.run(
        [*command, "-m", "distdoctor", "check", "--until", "network"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(GLOO_SOCKET_IFNAME="nosuch0"),
    )
    cause = "gloo/interface-not-found"
    assert done.stdout.count("distdoctor 0") == 1 and done.stdout.count(f"FAIL {cause}") == 1
    (again,) = [line for line in done.stdout.splitlines() if line.startswith("distdoctor: started again (1): FAIL: ")]
    assert cause in again and "1 node x 2 ranks (torchrun)" in done.stdout
    table = done.stderr.partition("ChildFailedError")[2]
    assert f"traceback : distdoctor: {cause}: GLOO_SOCKET_IFNAME=nosuch0" in table, done.stderr
