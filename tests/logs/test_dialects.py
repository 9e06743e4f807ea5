"""Dialects of frameworks: places, own words, causes and ends, in the form in which each prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.logs.attribution import mentioned, split
from tests.logs.judging import judged

PLACES = {
    "[2025-11-03 10:00:00 TP3] x": (3, None, None),
    "[2026-09-24 01:50:43.001 DP1 TP1 EP1] x": (1, None, None),
    "[2026-09-24 01:50:43 TP2 EP0 ATTN_CP1] x": (2, None, None),
    "[2025-11-03 10:00:00 DP2 TP0] x": (None, None, None),  # another replica of the engine
    "[2025-11-03 10:00:00 PP1 TP3] x": (None, None, None),
    "[2025-11-03 10:00:00 TP3 PP1] x": (None, None, None),  # older versions
    "(Worker_TP1 pid=4713) ERROR 11-03 10:00:00 [multiproc_executor.py:597] x": (1, None, 4713),
    "(Worker_DP0_PP0_TP1_EP1 pid=4713) x": (1, None, 4713),
    "(VllmWorker rank=2 pid=7) x": (2, None, 7),
    "(Worker_DP1_TP1 pid=4713) x": (None, None, 4713),
    "(EngineCore_DP0 pid=4711) x": (None, None, 4711),
    "(WorkerDict pid=4711, ip=10.0.0.5) x": (None, None, 4711),
    "(MegatronPolicyWorker[rank=8] pid=4711, ip=10.0.0.5) x": (8, None, 4711),
    "[2025-11-03 10:00:10,123] [ERROR] [axolotl.train:158] [PID:4712] [RANK:1] x": (None, 1, 4712),
    "[2025-11-03 10:00:10,123] [ERROR] [axolotl.train] [RANK:1] x": (None, 1, None),
    "[NeMo W 2025-11-03 10:00:00 nemo_logging:405 rank:5] x": (5, None, None),
    "[NeMo W 2025-11-03 10:00:00 nemo_logging:405] x": (None, None, None),
    "[ERROR] 2025-11-03-10:11:12 (PID:4711, Device:3, RankID:11) ERR02200 DIST x": (11, None, 4711),
    "[ERROR] 2025-11-03-10:11:12 (PID:4711, Device:3, RankID:-1) ERR02200 DIST x": (None, None, None),
    "[rank0]:[titan] 2025-11-03 10:00:00,123 - root - INFO - x": (0, None, None),
    "[INFO|2025-11-03 10:00:00] llamafactory.launcher:143 >> x": (None, None, None),
    "[WARNING|trainer.py:2519] 2025-11-03 10:00:01,123 >> x": (None, None, None),
}


@pytest.mark.parametrize("line", PLACES, ids=range(len(PLACES)))
def test_the_place_and_the_time_that_a_line_names(line: str) -> None:
    who = mentioned(*split(line))
    assert (who.rank, who.local_rank, who.pid) == PLACES[line]
    assert (who.time is not None) == (("10:00" in line or "01:50" in line) and "RankID" not in line)


HCCL = "RuntimeError: createHCCLComm:torch_npu/csrc/distributed/HCCLUtils.cpp:140 HCCL function error: {call}\n"
NPU = "[ERROR] 2025-11-03-10:11:12 (PID:4711, Device:3, RankID:3) ERR02200 DIST call hccl api failed.\n"
BOUND = (
    "[PID: 4711] 2025-11-03-10:11:11.669.968 Bind_Failed(EJ0003): Failed to bind the IP port. Reason: The IP address "
    "and port have been bound already.\n"
)
LATE = "EI0006: [PID: 4711] 2025-11-03-10:11:10.123.456 Getting socket times out. Reason: a rank is late.\n"
SCHEDULER = """[2025-11-03 10:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):
  File "/x/sglang/srt/managers/scheduler.py", line 2500, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args)
{error}

[2025-11-03 10:00:01] Received sigquit from a child process. It usually means the child failed.
"""
BARRIER = """jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: {id}. This usually \
happens because a task triggered the barrier too early or too slowly.
# of tasks that reached the barrier: 1/3.
The first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out task names:
/job:jax_worker/replica:0/task:2
/job:jax_worker/replica:0/task:1
"""
DEAD = """F1103 17:26:32.075587  157988 client.h:77] Terminating process because the JAX distributed service detected \
fatal errors. This most likely indicates that another task died; absl::Status: UNAVAILABLE: The following tasks are \
unhealthy (stopped sending heartbeats):
/job:jax_worker/replica:0/task:3
The tasks have crashed.
"""
DIED = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
    "problem, check the logs for the dead worker. Worker ID: 5a99 Node ID: 1537 Worker IP address: 10.0.0.18 Worker "
    "port: 4 Worker PID: 909447 Worker exit type: SYSTEM_ERROR Worker exit detail: x\n"
)
BEATS_NOT = (
    "/job:jax_worker/replica:0/task:3 has been set to ERROR in coordination service: UNAVAILABLE: Task "
    "/job:jax_worker/replica:0/task:3 heartbeat timeout. This indicates that the remote task has failed.\n"
)
UNBALANCED = "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."
CCL = """2025:11:03-10:00:00:( 4711) |CCL_ERROR| atl_ofi_helper.cpp:1000 atl_ofi_open: can not open network providers
 fails with status: 1
2025:11:03-10:00:00:( 4711) |CCL_ERROR| atl_ofi_comm.cpp:273 init_transport: condition transport->init() failed
terminate called after throwing an instance of 'ccl::v1::exception'
  what():  oneCCL: atl_ofi_comm.cpp:273 init_transport: EXCEPTION: failed to initialize ATL
"""


@pytest.mark.parametrize(
    ("text", "check", "parts"),
    [
        (HCCL.format(call="HcclGetRootInfo(&hcclID)") + NPU + BOUND, "network/port-in-use", ["HCCL_IF_BASE_PORT"]),
        (f"[rank3]: {HCCL.format(call='x')}[rank3]: {NPU}[rank3]: {LATE}", "nccl/init-failed", ["a rank is late"]),
        (NPU, "nccl/init-failed", ["rank 3", "HCCL reports only"]),
        (
            "[PID: 7] 2025-11-03-10:11:10.1.2 Invalid(EI0001): Environment variable [HCCL_IF_IP] is invalid.\n",
            "environment/invalid-variable",
            ["HCCL_IF_IP"],
        ),
        (SCHEDULER.format(error=UNBALANCED), "gpu/out-of-memory", ["rank 3", "--mem-fraction-static"]),
        (SCHEDULER.format(error="KeyError: 'x'"), "process/exception", ["Rank 3 failed"]),
        (BARRIER.format(id="[Init]Wait_for_all_tasks_to_register::0"), "barrier/rank-missing", ["ranks 2, 1"]),
        (BARRIER.format(id="save_checkpoint_3"), "barrier/rank-missing", ["ranks 2, 1"]),
        (DEAD, "process/peer-died", ["the log of rank 3"]),
        (DIED, "process/crashed", ["the logs of the ranks on 10.0.0.18"]),
        (BEATS_NOT, "process/peer-died", ["the log of rank 3"]),
        (CCL, "process/crashed", ["oneCCL: atl_ofi_helper.cpp:1000 atl_ofi_open: can not open network providers"]),
    ],
)
def test_the_cause_or_the_candidate_with_its_own_words(tmp_path: Path, text: str, check: str, parts: list[str]) -> None:
    found = judged(tmp_path, text)
    first = found.candidates[0] if found.candidates else None
    assert (first.check if first else found.findings[0].check) == check
    said = " ".join([first.why, first.against, first.next]) if first else ""
    said += " ".join(f"{one.summary} {one.evidence} {one.fixes[0].text}" for one in found.findings[:1])
    assert [part for part in parts if part not in said] == []


FAILS = "RuntimeError: DataLoader worker (pid 3) exited unexpectedly\n"
SUCCESS = {
    "ms-swift": """[INFO:swift] End time of running main: 2025-11-03 10:01:20.374820
[INFO:swift] last_model_checkpoint: /o
[INFO:swift] best_model_checkpoint: None
""",
    "axolotl": "[2025-11-03 10:00:10,123] [INFO] [axolotl.train.train:580] [PID:1] Model successfully saved to ./out\n",
    "titan": "[rank0]:[titan] 2025-11-03 10:00:12,123 - root - INFO - Training completed\n",
    "nemo": "[NeMo I 2025-11-03 10:00:12 nemo_logging:393] saved\n`Trainer.fit` stopped: `max_steps=10` reached.\n",
    "transformers": "{'train_runtime': '45.0', 'train_loss': 1.2, 'epoch': 1.0}\n",
}


@pytest.mark.parametrize("engine", SUCCESS)
def test_a_run_that_ended_well(tmp_path: Path, engine: str) -> None:
    assert judged(tmp_path, SUCCESS[engine]).verdict == "pass"


@pytest.mark.parametrize("engine", ["ms-swift", "axolotl"])
def test_an_error_after_success_is_no_failure_and_before_it_is_one_if_the_run_ends_there(
    tmp_path: Path, engine: str
) -> None:
    assert judged(tmp_path, SUCCESS[engine] + FAILS).verdict != "fail"
    assert judged(tmp_path, FAILS).verdict in ("fail", "incomplete")
