"""network/weight-sync-failed, and what an engine's own store shows in a log: told by the frames above the line."""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged

SYNC, OWN, STORE = "network/weight-sync-failed", "network/engine-port-in-use", "network/port-in-use"
HOLD = "The server socket has failed to listen on any local network address. port: 18103, code: -98, name: EADDRINUSE"
TIMED_OUT = "The client socket has timed out after 300000ms while trying to connect to ({}, 51216)."
RAY = "(autoscaler +8s) Error: No available node types can fulfill resource request {}. Add suitable node types."


def raised(path: str, function: str, error: str) -> str:
    """A traceback whose last frame but one is in this function."""
    return (
        f'Traceback (most recent call last):\n  File "{path}", line 7, in {function}\n    store = make()\n'
        f'  File "/torch/distributed/rendezvous.py", line 200, in _create_c10d_store\n    return TCPStore(\n{error}\n'
    )


NO_WORKERS = """Traceback (most recent call last):
  File "/site-packages/vllm/distributed/utils.py", line 256, in create_tcp_store
    return TCPStore(
torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 1/2 clients joined.

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/site-packages/trl/generation/vllm_client.py", line 771, in init_communicator
    self.communicator = open_trainer_endpoint(init_info)
  File "/site-packages/vllm/distributed/utils.py", line 567, in create
    store = create_tcp_store(
  File "/site-packages/vllm/distributed/utils.py", line 263, in create_tcp_store
    socket.close(listen_fd)
OSError: [Errno 9] Bad file descriptor"""


ROWS = [
    (raised("/trl/vllm_client.py", "init_communicator", f"DistNetworkError: {TIMED_OUT.format('10.0.0.9')}"), SYNC, "allow this port"),
    (raised("/trl/vllm_client.py", "init_communicator", f"DistNetworkError: {TIMED_OUT.format('0.0.0.0')}"), SYNC, "own address"),
    (raised("/vllm/distributed/weight_transfer/nccl_common.py", "worker_init_process_group", f"DistNetworkError: {TIMED_OUT.format('10.0.0.9')}"), SYNC, "to the trainer's"),
    (raised("/vllm/v1/worker/gpu_worker.py", "init_weight_transfer_engine", f"DistNetworkError: {TIMED_OUT.format('0.0.0.0')}"), SYNC, "VLLM_HOST_IP"),
    (f"[2026-09-01 10:00:00 TP0] Failed to initialize custom process group: {TIMED_OUT.format('10.0.0.9')}.", SYNC, "to the trainer's"),
    (NO_WORKERS, SYNC, "the engine that was to join"),
    (raised("/trl/vllm_client.py", "stateless_init_process_group", "OSError: [Errno 98] Address already in use"), OWN, "--vllm_group_port"),
    (raised("/swift/rollout.py", "init_communicator", "OSError: [Errno 98] Address already in use"), OWN, "--vllm_server_group_port"),
    (raised("/sglang/srt/distributed/parallel_state.py", "f", f"DistNetworkError: {HOLD}"), OWN, "--nccl-port"),
    (raised("/vllm/v1/worker/gpu_worker.py", "init_device", f"DistNetworkError: {HOLD}"), OWN, "VLLM_PORT"),
    (raised("/vllm/v1/worker/gpu_worker.py", "_env_rendezvous_handler", f"DistNetworkError: {HOLD}"), STORE, "MASTER_PORT"),
    (raised("/train.py", "main", f"DistNetworkError: {HOLD}"), STORE, "MASTER_PORT"),
    (RAY.format("{'GPU': 1.0, 'node:192.0.2.7': 0.001}"), "environment/engine-address", "ray list nodes"),
]  # fmt: skip
UNPROVEN = [
    (raised("/train.py", "main", f"DistNetworkError: {TIMED_OUT.format('10.0.0.9')}"), "network/port-filtered"),
    (raised("/torch/distributed/rendezvous.py", "_tcp_rendezvous_handler", f"DistNetworkError: {TIMED_OUT.format('localhost')}"), "environment/agent-store-hijack"),
    (RAY.format("{'GPU': 1.0}"), "store/nodes-missing"),
    ("The worker group startup timed out after 30.0 seconds waiting for 8 workers. Potential causes include", "store/nodes-missing"),
]  # fmt: skip


@pytest.mark.parametrize(("log", "check", "fix"), ROWS)
def test_proven(tmp_path: Path, log: str, check: str, fix: str) -> None:
    (root,) = [one for one in judged(tmp_path, f"starting\n{log}\n").findings if one.because_of is None]
    assert root.check == check
    assert fix in root.fixes[0].text


@pytest.mark.parametrize(("log", "check"), UNPROVEN)
def test_unproven(tmp_path: Path, log: str, check: str) -> None:
    found = judged(tmp_path, f"starting\n{log}\n")
    assert not found.findings
    assert check in [one.check for one in found.candidates]
