"""The steps of stas00's torch-distributed-gpu-test.py (ml-engineering, debug/), with gloo where it has NCCL and GPUs:
form the group, reduce one number, meet at a barrier, print a line for each rank, meet again."""

import os
import socket
import sys

import torch
import torch.distributed as dist

name = f"[{socket.gethostname()}:{os.environ['LOCAL_RANK']}]"
try:
    dist.init_process_group("gloo")
    value = torch.ones(1)
    dist.all_reduce(value)
    dist.barrier()
    sys.stdout.write(f"{name} sum {value.item()}, rank {dist.get_rank()} of {dist.get_world_size()} is OK\n")
    dist.barrier()
except Exception:
    sys.stdout.write(f"{name} is broken, or a rank that it waits for is\n")
    raise
