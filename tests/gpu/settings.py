"""Which of NCCL's settings two ranks must have alike: each is set on one of two that share a GPU.

    python3 tests/gpu/settings.py FOLDER [--minutes 2] [--at-once 8]

NCCL takes the two for two machines (NCCL_HOSTID), so they meet over sockets as two nodes do. They run seven operations
in five sizes; what does not end within SECONDS hangs. FOLDER gets settings.jsonl: for each setting what each rank said.
What came of it with NCCL 2.28.9 stands in distdoctor/knowledge/settings.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.facts import end_all, tell

SECONDS = 28
SETTINGS = """
    NCCL_ALGO=Tree NCCL_PROTO=Simple NCCL_PROTO=LL128 NCCL_NTHREADS=64 NCCL_NTHREADS=128 NCCL_LL128_NTHREADS=64
    NCCL_THREAD_THRESHOLDS=1 NCCL_BUFFSIZE=1048576 NCCL_LL_BUFFSIZE=65536 NCCL_LL128_BUFFSIZE=245760
    NCCL_P2P_NET_CHUNKSIZE=65536 NCCL_CHUNK_SIZE=65536 NCCL_MIN_CTAS=16 NCCL_MAX_CTAS=1 NCCL_NCHANNELS_PER_NET_PEER=4
    NCCL_MIN_P2P_NCHANNELS=8 NCCL_MAX_P2P_NCHANNELS=1 NCCL_NET_SHARED_BUFFERS=0 NCCL_NET_SHARED_COMMS=0
    NCCL_ALLOC_P2P_NET_LL_BUFFERS=1 NCCL_P2P_LL_THRESHOLD=0 NCCL_PXN_DISABLE=1 NCCL_COLLNET_ENABLE=1 NCCL_NVLS_ENABLE=0
    NCCL_CROSS_NIC=0 NCCL_NSOCKS_PERTHREAD=4 NCCL_RUNTIME_CONNECT=0 NCCL_GRAPH_MIXING_SUPPORT=0 NCCL_PAT_ENABLE=0
    NCCL_MNNVL_ENABLE=0 NCCL_CGA_CLUSTER_SIZE=1 NCCL_SINGLE_PROC_MEM_REG_ENABLE=0 NCCL_NET_OVERHEAD=100000
    TORCH_NCCL_USE_COMM_NONBLOCKING=1
"""
RANK = """
import os
from datetime import timedelta
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(0)
dist.init_process_group("nccl", timeout=timedelta(seconds=60))

def filled(*parts):
    return torch.cat([torch.full((n,), float(value), device="cuda") for n, value in parts])

def reduced(n):
    value = filled((n, 1))
    dist.all_reduce(value)
    return value, filled((n, 2))

def gathered(n):
    value = filled((2 * n, 0))
    dist.all_gather_into_tensor(value, filled((n, rank + 1)))
    return value, filled((n, 1), (n, 2))

def scattered(n):
    value = filled((n, 0))
    dist.reduce_scatter_tensor(value, filled((2 * n, 1)))
    return value, filled((n, 2))

def broadcast(n):
    value = filled((n, rank + 1))
    dist.broadcast(value, 0)
    return value, filled((n, 1))

def all_to_all_single(n):
    value = filled((2 * n, 0))
    dist.all_to_all_single(value, filled((2 * n, rank + 1)))
    return value, filled((n, 1), (n, 2))

def all_to_all(n):
    values = [filled((n, 0)) for _ in range(2)]
    dist.all_to_all(values, [filled((n, rank + 1)) for _ in range(2)])
    return torch.cat(values), filled((n, 1), (n, 2))

def send_recv(n):
    value = filled((n, 0))
    pair = [dist.P2POp(dist.isend, filled((n, rank + 1)), 1 - rank), dist.P2POp(dist.irecv, value, 1 - rank)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    return value, filled((n, 2 - rank))

for n in (16, 2048, 1 << 16, 1 << 20, 1 << 23):
    for operation in (reduced, gathered, scattered, broadcast, all_to_all_single, all_to_all, send_recv):
        try:
            got, wanted = operation(n)
            torch.cuda.synchronize()
            said = "right" if bool((got == wanted).all()) else "WRONG"
        except Exception as error:
            said = f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
        print(n, operation.__name__, said, flush=True)
print("end", flush=True)
os._exit(0)
"""


def pair(number: int, setting: str, into: Path) -> str:
    """Both ranks, the first with this setting, and what came of it."""
    name, _, value = setting.partition("=")
    with tempfile.TemporaryDirectory() as place:
        started = list[subprocess.Popen[str]]()
        for rank in range(2):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "NCCL_HOSTID": f"node{rank}"}
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(31000 + number), "NCCL_RAS_ENABLE": "0"}
            with open(Path(place, f"{rank}.txt"), "w") as file:
                started.append(
                    subprocess.Popen(
                        [sys.executable, "-c", RANK],
                        env=env | ({name: value} if setting and rank == 0 else {}),
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,
                        text=True,
                    )
                )
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and any(one.poll() is None for one in started):
            time.sleep(0.2)
        statuses = [one.poll() for one in started]
        for one in started:
            end_all(one)
        said = [Path(place, f"{rank}.txt").read_text().splitlines() for rank in range(2)]
    with open(into, "a") as file:
        file.write(json.dumps({"setting": setting, "statuses": statuses, "said": said}) + "\n")
    bad = [next((line for line in lines if not line.endswith(("right", "end"))), "") for lines in said]
    last = [lines[-1] if lines else "nothing" for lines in said]
    how = "well" if last == ["end", "end"] and not any(bad) else f"last {last}, first not right {bad}"
    return f"{setting or 'nothing set'}: {how}"


def main(words: Sequence[str]) -> int:
    """Try them all, as far as there is time. Gives the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--at-once", type=int, default=8)
    given = parser.parse_args(words)
    end = time.monotonic() + given.minutes * 60
    given.folder.mkdir(parents=True, exist_ok=True)
    settings = ["", *SETTINGS.split()]

    def one(number: int, setting: str) -> None:
        tell(pair(number, setting, given.folder / "settings.jsonl") if time.monotonic() < end else f"NO TIME {setting}")

    with ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(one, range(len(settings)), settings))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
