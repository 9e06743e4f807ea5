"""More nodes than planned: what plain torchrun does with them, and what is said of it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from distdoctor.model.facts import encode
from distdoctor.session.protocol.messages import Command
from tests.helpers.hostile import FURTHER, RUN, USUAL_BACKEND, forged_report, hostile_node_0
from tests.helpers.runs import ended, environment, started
from tests.helpers.servers import unused_port

MANY = "environment/too-many-nodes"
_JOB = """
import time
import torch.distributed as dist
dist.init_process_group("gloo")
time.sleep(3)
dist.barrier()
dist.destroy_process_group()
"""


def flags(port: int, nnodes: int = 2) -> tuple[str, ...]:
    return (
        *("--nnodes", str(nnodes), "--master-addr", "127.0.0.1", "--master-port", str(port)),
        *("--nproc-per-node", "1", "--wait", "20", "--timeout", "20"),
    )


@FURTHER
def test_of_three_nodes_that_say_two_torchrun_has_no_use_for_one(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(_JOB)
    rendezvous = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{unused_port()}", "--rdzv-id", "x")
    launchers = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nnodes",
                "2",
                "--nproc-per-node",
                "1",
                *rendezvous,
                script,
            ],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]
    try:
        assert sorted(launcher.wait(90) for launcher in launchers) == [0, 0, 1]
    finally:
        for launcher in launchers:
            launcher.kill()
            launcher.wait()


def test_the_third_of_two_nodes_is_found() -> None:
    """Three checks of the same plan say who may be too many."""
    port = unused_port()
    with started(*flags(port)) as one, started(*flags(port)) as two, started(*flags(port)) as three:
        results = [ended(process) for process in (one, two, three)]
    assert [status for status, _ in results] == [1, 1, 1]
    for _, report in results:
        assert [f["id"] for f in report["findings"] if f["because_of"] is None and f["severity"] == "fail"] == [MANY]


@FURTHER
def test_the_second_option_cures_it() -> None:
    """Of the fix that is printed: all three are told of three nodes."""
    port = unused_port()
    with started(*flags(port, 3)) as one, started(*flags(port, 3)) as two, started(*flags(port, 3)) as three:
        assert [ended(process)[0] for process in (one, two, three)] == [0, 0, 0]


@USUAL_BACKEND
def test_who_comes_when_the_report_is_written_is_not_counted_and_says_so(libuv: str) -> None:
    data = encode(forged_report())
    over = Command("report", parts=1, digest=hashlib.sha256(data).hexdigest(), met={"1": "somebody else's"})
    with hostile_node_0(libuv, over) as store:
        store.set(f"distdoctor/{RUN}/report/0", data.decode())
        with started(*flags(store.port)) as third:
            status, report = ended(third)
    assert (status, report["verdict"]) == (1, "fail")
    assert [f["id"] for f in report["findings"] if f["because_of"] is None and f["severity"] == "fail"] == [MANY]
