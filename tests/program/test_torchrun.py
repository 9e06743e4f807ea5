"""Under a real torchrun: one report however often the ranks are started, and the cause in torchrun's own table."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.runs import environment
from tests.helpers.servers import unused_port


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
    assert done.stdout.count("distdoctor 0") == 1 and done.stdout.count(f"[{cause}]") == 1
    (again,) = [line for line in done.stdout.splitlines() if line.startswith("distdoctor: started again (1): FAIL: ")]
    assert cause in again and "1 node x 2 ranks (torchrun)" in done.stdout
    table = done.stderr.partition("ChildFailedError")[2]
    assert f"traceback : distdoctor: {cause}: GLOO_SOCKET_IFNAME=nosuch0" in table, done.stderr


@pytest.mark.scoreboard
def test_torchx_starts_an_agent_for_each_node(tmp_path: Path) -> None:
    """Two nodes on this machine, as its scheduler local_cwd has them: one report of the first rank."""
    torchx = shutil.which("torchx")
    if torchx is None:
        pytest.skip("not installed: torchx")
    port = str(unused_port())
    job = [torchx, "run", "-s", "local_cwd", "dist.ddp", "-j", "2x2", "--rdzv_port", port, "-m", "distdoctor"]
    env = environment(HOME=str(tmp_path), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    done = subprocess.run(
        [*job, "--", "check", "--json", "-q"], check=False, capture_output=True, text=True, timeout=120, env=env
    )
    told = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr).splitlines()
    lines = [line.partition("[0]:")[2] for line in told if line.startswith("distdoctor/") and "[0]:" in line]
    report = json.loads("\n".join(lines[lines.index("{") : lines.index("}") + 1]))
    assert (report["verdict"], report["plan"]["launcher"]) == ("pass", "torchrun")
    assert [(node["node_rank"], node["ranks"]) for node in report["nodes"]] == [(0, [0, 1]), (1, [2, 3])]
