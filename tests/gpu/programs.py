"""Small programs that provoke what torch, CUDA, NVML and NCCL say on a real GPU: ``python programs.py NAME``.

They use no part of distdoctor. tests/gpu/facts.py runs them and keeps what they print.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

SECONDS = 25
MASKS = (
    *("", "-1", "0", "9", "0,9", "0,0", "none", "NoDevFiles", "GPU-00000000-dead", " 0", "0x0", "MIG-1"),
    *("0 1", "0;1", "0,-1", "0,all", "'0'", "GPU-", "all"),
)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def attempt(name: str, function: Callable[[], object]) -> None:
    """What it gives, or raises."""
    try:
        say(name, "=", repr(function()))
    except Exception as err:
        say(name, "raised", type(err).__name__, err)


def versions() -> None:
    import torch

    say(torch.__version__, torch.version.cuda, torch.version.hip, torch.__file__)
    attempt("arch", torch.cuda.get_arch_list)
    attempt("nccl", torch.cuda.nccl.version)
    say(torch.__config__.show())
    subprocess.run([sys.executable, "-m", "pip", "list"], check=False)


def nvml() -> None:
    """Every question of NVML that takes a device alone, and its answer."""
    import pynvml

    pynvml.nvmlInit()
    asked = sorted(name for name in dir(pynvml) if name.startswith(("nvmlSystemGet", "nvmlDeviceGet")))
    for name in asked:
        if name.startswith("nvmlSystemGet"):
            attempt(name, getattr(pynvml, name))
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        for name in asked:
            if name.startswith("nvmlDeviceGet") and "Handle" not in name:
                attempt(f"{index} {name}", lambda name=name, handle=handle: getattr(pynvml, name)(handle))  # type: ignore[misc]
        info = pynvml.c_nvmlGpuFabricInfo_v2_t()
        attempt(f"{index} fabric", partial(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info)))
        say(index, "fabric", info.state, info.status, info.healthMask)


def device() -> None:
    import torch

    began = time.monotonic()
    attempt("available", torch.cuda.is_available)
    attempt("count before init", torch.cuda.device_count)
    attempt("init", torch.cuda.init)
    say("seconds", time.monotonic() - began)
    attempt("count", torch.cuda.device_count)
    for index in range(torch.cuda.device_count()):
        attempt("properties", lambda index=index: torch.cuda.get_device_properties(index))  # type: ignore[misc]
        attempt("uuid", lambda index=index: str(torch.cuda.get_device_properties(index).uuid))  # type: ignore[misc]
        began = time.monotonic()
        ones = torch.ones(512, 512, device=f"cuda:{index}")
        attempt("product", lambda ones=ones: float((ones @ ones).sum()))  # type: ignore[misc]
        say("seconds", time.monotonic() - began)
    with open("/proc/self/maps") as maps:
        say(
            *sorted(
                {line.split()[-1] for line in maps if "libcuda.so" in line or "nvidia-ml" in line or "nccl" in line}
            )
        )


def count() -> None:
    """How many devices torch counts under masks, before and after CUDA began."""
    code = "import torch; print(torch.cuda.device_count(), torch.cuda.is_available()); torch.cuda.init()"
    asked = {
        mask: subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": mask},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for mask in MASKS
    }
    for mask, process in asked.items():
        out, err = process.communicate()
        say(repr(mask), process.returncode, out.strip(), err.strip()[-600:])


def ordinal() -> None:
    import torch

    attempt("set_device", lambda: torch.cuda.set_device(torch.cuda.device_count()))
    torch.zeros(1, device=f"cuda:{torch.cuda.device_count()}")


def group(rank: int, world: int, port: int, device: int = 0) -> None:
    """A rank of an NCCL group, and its collectives."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.cuda.set_device(device)
    store = dist.TCPStore("127.0.0.1", port, world, rank == 0, timedelta(seconds=SECONDS))
    dist.init_process_group("nccl", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=SECONDS))
    one = torch.full((1024,), rank + 1, dtype=torch.int64, device="cuda")
    dist.all_reduce(one)
    several = torch.zeros(1024 * world, dtype=torch.int64, device="cuda")
    dist.all_gather_into_tensor(several, one)
    dist.reduce_scatter_tensor(one, several)
    dist.all_to_all_single(several, several.clone())
    dist.barrier()
    torch.cuda.synchronize()
    say("rank", rank, "done", one[0].item(), several[0].item())
    dist.destroy_process_group()


def groups(world: int, **env: str) -> None:
    """So many ranks on the one device."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {**os.environ, "NCCL_DEBUG": "INFO", **env}
    words = [sys.executable, __file__, "group"]
    ranks = [subprocess.Popen([*words, str(rank), str(world), str(port)], env=given) for rank in range(world)]
    for rank in ranks:
        try:
            say("status", rank.wait(SECONDS * 2))
        except subprocess.TimeoutExpired:
            rank.kill()
            say("did not end")


def take(share: float) -> None:
    """Take this share of the memory, say so, and wait."""
    import torch

    left = int(torch.cuda.mem_get_info()[1] * share)
    size, held = left, list[Any]()
    while size >= 1 << 21 and left > 0:
        try:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            left -= size
        except torch.OutOfMemoryError:
            size //= 2
    say("ready", len(held))
    time.sleep(120)


def memory() -> None:
    import torch

    torch.empty(1 << 42, dtype=torch.uint8, device="cuda")


def illegal() -> None:
    import torch

    table = torch.zeros(4, device="cuda")
    table.index_select(0, torch.tensor([1 << 20], device="cuda")).cpu()


def fails() -> None:
    import torch

    torch.nn.functional.nll_loss(torch.zeros(2, 3, device="cuda"), torch.tensor([7, 9], device="cuda")).item()


def fork() -> None:
    import torch

    torch.zeros(1, device="cuda")
    if os.fork() == 0:
        try:
            torch.zeros(1, device="cuda")
        except Exception:
            traceback.print_exc()
        os._exit(0)
    os.wait()


def torchrun(ranks: int) -> None:
    """A script below torchrun, as the job has it."""
    code = (
        "import os, torch, torch.distributed as d; torch.cuda.set_device(int(os.environ['LOCAL_RANK'])); "
        "d.init_process_group('nccl'); x = torch.ones(1, device='cuda'); d.all_reduce(x); print(x.item()); "
        "d.destroy_process_group()"
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "--no-python"]
    subprocess.run([sys.executable, *words, sys.executable, "-c", code], check=False)


def attributes() -> None:
    """All that CUDA tells of the device by number (cuda.h, CUdevice_attribute)."""
    cuda, found = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    say("cuInit", cuda.cuInit(0))
    cuda.cuDriverGetVersion(ctypes.byref(found))
    say("driver", found.value)
    for number in range(1, 160):
        if cuda.cuDeviceGetAttribute(ctypes.byref(found), number, 0) == 0:
            say(number, found.value)


def alone(code: str, **env: str) -> None:
    """The only rank of a job."""
    given = {**os.environ, "MASTER_ADDR": "127.0.0.1", "RANK": "0", "WORLD_SIZE": "1", **env}
    say("status", subprocess.run([sys.executable, "-c", code], env=given, check=False).returncode)


def several() -> None:
    """A group with a device_id, one that is split off, and one that is made anew after the end of the first."""
    code = (
        "import os, torch, torch.distributed as d; one = torch.device('cuda', 0)\n"
        "for n in range(2):\n"
        "    d.init_process_group('nccl', device_id=one); own = d.new_group([0]); x = torch.ones(4, device=one)\n"
        "    d.all_reduce(x); d.all_reduce(x, group=own); torch.cuda.synchronize(); print(n, x[0].item())\n"
        "    d.destroy_process_group()"
    )
    alone(code, MASTER_PORT="29571", NCCL_DEBUG="INFO")


def no_nvml() -> None:
    """An NCCL group where the driver's management library cannot be loaded."""
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "libnvidia-ml.so.1"), "w").close()
        groups(1, LD_LIBRARY_PATH=os.pathsep.join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")])))


def own_group(port: int) -> Any:
    """An NCCL group of one rank that has worked."""
    import torch
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", port, 1, True)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    dist.all_reduce(torch.ones(1, device="cuda"))
    torch.cuda.synchronize()
    return dist


def stuck() -> None:
    """A rank of an NCCL group whose kernel does not end; it says that it is ready once it waits."""
    import torch

    dist = own_group(29573)
    torch.cuda._sleep(1 << 39)  # type: ignore[no-untyped-call]  # some minutes of cycles
    dist.all_reduce(torch.ones(1, device="cuda"))
    say("ready")
    torch.cuda.synchronize()


def timeout() -> None:
    """A group whose second rank never comes, and NCCL's watchdog: a collective behind a kernel that does not end."""
    code = (
        "import os, torch, torch.distributed as d; from datetime import timedelta as t\n"
        "d.init_process_group('nccl', timeout=t(seconds=8)); x = torch.ones(1, device='cuda'); d.all_reduce(x)\n"
        "torch.cuda._sleep(1 << 37); d.all_reduce(x); torch.cuda.synchronize()"
    )
    alone(code, MASTER_PORT="29575", TORCH_NCCL_TRACE_BUFFER_SIZE="200")


def events() -> None:
    """The threads of a process that has an NCCL group, by name; and the files of the driver that it has open."""
    dist = own_group(29577)
    for thread in sorted(os.listdir("/proc/self/task"), key=int):
        with open(f"/proc/self/task/{thread}/comm") as comm, open(f"/proc/self/task/{thread}/wchan") as wchan:
            say(thread, comm.read().strip(), wchan.read().strip())
    for number in os.listdir("/proc/self/fd"):
        attempt(number, partial(os.readlink, f"/proc/self/fd/{number}"))
    subprocess.run(["nvidia-smi"], check=False)
    dist.destroy_process_group()


PROGRAMS: dict[str, Callable[[], None]] = {
    "versions": versions,
    "nvml": nvml,
    "device": device,
    "attributes": attributes,
    "count": count,
    "ordinal": ordinal,
    "duplicate": lambda: groups(2),
    "shared": lambda: groups(2, NCCL_MULTI_RANK_GPU_ENABLE="1"),
    "several": several,
    "no-nvml": no_nvml,
    "stuck": stuck,
    "timeout": timeout,
    "events": events,
    "interface": lambda: groups(1, NCCL_SOCKET_IFNAME="nothing0"),
    "collectives": lambda: groups(1),
    "memory": memory,
    "illegal": illegal,
    "assert": fails,
    "fork": fork,
    "torchrun": lambda: torchrun(1),
    "torchrun-two": lambda: torchrun(2),
}

if __name__ == "__main__":
    if sys.argv[1] == "group":
        group(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1] == "take":
        take(float(sys.argv[2]))
    else:
        PROGRAMS[sys.argv[1]]()
