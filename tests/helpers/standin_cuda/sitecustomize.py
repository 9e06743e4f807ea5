"""A stand-in for GPUs and NCCL, at torch's boundary: for programs with this folder on PYTHONPATH, a CPU build of torch
has ``STANDIN_GPUS`` devices, and its "nccl" is gloo. Tensors stay on the CPU.

``STANDIN_NODE`` is what this node is called; ``STANDIN_BROKEN`` lists groups that cannot be made: ``b`` (any with b),
``a+b`` (any with both); a device is ``NODE/INDEX``. ``STANDIN_COPIES``:
``0>1=zeros,1>2=endless``, what becomes of copies from device to device. ``STANDIN_CUDA``: what CUDA raises where it is
begun. ``STANDIN_SPOILT``: ``0>2``, what rank 0 sends to rank 2 by all_to_all arrives as zeros. ``STANDIN_SICK``:
``2=CUDA error: ...``, what device 2 raises where something is copied to it, ``2=gone``: it has no properties, either;
``2=endless``, ``2=died``: what is done there never ends, or ends the process.
``STANDIN_MS``: ``0.4 0.4 1.1``, how long what is timed takes on each device.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any


class _Loader(importlib.abc.Loader):
    """Loads torch as it is, and then changes it."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.real.exec_module(module)
        _change(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _timers(milliseconds: list[str]) -> tuple[Any, Any]:
    """torch.cuda.device and torch.cuda.Event, by which what is done on each device takes so long; none where none is
    told."""
    current = [0]

    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            if not milliseconds:
                raise RuntimeError("no timers")

        def record(self) -> None:
            pass

        def synchronize(self) -> None:
            pass

        def elapsed_time(self, later: Any) -> float:
            return float(milliseconds[current[0]])

    @contextmanager
    def device(index: int) -> Iterator[None]:
        current[0] = index
        yield

    return device, Event


def _change(torch: Any) -> None:
    torch.version.cuda = "12.8"
    chosen = [0]
    _change_devices(torch.cuda, chosen)
    torch.Tensor.to = _copies(torch)
    _change_groups(importlib.import_module("torch.distributed"), chosen)


def _change_devices(cuda: Any, chosen: list[int]) -> None:
    """The devices; which of them a rank has chosen is kept in ``chosen``."""
    count, node = int(os.environ["STANDIN_GPUS"]), os.environ["STANDIN_NODE"]
    broken, sick = os.environ.get("STANDIN_CUDA", ""), os.environ.get("STANDIN_SICK", "").partition("=")

    def begin() -> None:
        if broken:
            raise RuntimeError(broken)

    def properties(index: int) -> SimpleNamespace:
        if (str(index), "gone") == (sick[0], sick[2]):
            raise AssertionError("Invalid device id")
        return SimpleNamespace(name="Stand-in", uuid=f"{node}-{index}", total_memory=80 << 30, major=9, minor=0)

    cuda.is_available = lambda: count > 0 and not broken
    cuda.init, cuda.get_device_properties = begin, properties
    cuda.device_count = lambda: count
    cuda.get_arch_list = lambda: ["sm_90", "compute_90"]
    cuda.get_device_name = lambda index: "Stand-in"
    cuda.set_device = lambda device: chosen.__setitem__(0, device)
    cuda.synchronize = lambda *_: None
    cuda.device, cuda.Event = _timers(os.environ.get("STANDIN_MS", "").split())
    cuda.nccl = SimpleNamespace(version=lambda: (2, 27, 3))
    cuda.can_device_access_peer = lambda source, target: True


def _copies(torch: Any) -> Any:
    """Tensor.to()."""
    to, sick = torch.Tensor.to, os.environ.get("STANDIN_SICK", "").partition("=")
    broken = dict(pair.split("=") for pair in os.environ.get("STANDIN_COPIES", "").split(",") if pair)

    def copied(tensor: Any, *args: Any) -> Any:
        """To a device, which is kept beside the numbers, for one that copies to another."""
        if not str(args[0]).startswith("cuda"):
            return to(tensor, *args)
        target = str(args[0]).partition(":")[2]
        if sick[0] and target == sick[0]:
            while sick[2] == "endless":
                time.sleep(1)
            if sick[2] == "died":
                os.abort()
            raise RuntimeError(f"{sick[2]}\nCUDA kernel errors might be asynchronously reported at some other API call")
        how = broken.get(f"{getattr(tensor, 'standin', '')}>{target}")
        while how == "endless":
            time.sleep(1)
        there = torch.zeros_like(tensor) if how == "zeros" else tensor.clone()
        there.standin = target
        return there

    return copied


def _say(text: str) -> None:
    """As NCCL does: into libc's stdout, where it is asked to."""
    if os.environ.get("NCCL_DEBUG") == "INFO":
        ctypes.CDLL(None).printf(b"%s\n", text.encode())


def _change_groups(dist: Any, chosen: list[int]) -> None:
    """Process groups; ``chosen``: the device of this rank."""
    node, spoilt = os.environ["STANDIN_NODE"], os.environ.get("STANDIN_SPOILT", "")
    init, to_all = dist.init_process_group, dist.all_to_all_single

    def init_process_group(backend: str, *, store: Any, rank: int, world_size: int, timeout: Any) -> None:
        if backend == "nccl":
            _say("NCCL version 2.27.3+cuda12.8")
            _say(f"{node}:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<4>")
            _say(f"{node}:1:1 [0] NCCL INFO Using network Socket")
            store.set(f"standin/{rank}", f"{node} {node}/{chosen[0]}")
            names = {name for peer in range(world_size) for name in store.get(f"standin/{peer}").decode().split()}
            for broken in filter(None, os.environ.get("STANDIN_BROKEN", "").split(",")):
                if set(broken.split("+")) <= names:
                    _say(f"\n{node}:1:1 [0] stand-in.cc:1 NCCL WARN no group of {' '.join(sorted(names))}")
                    raise dist.DistBackendError(f"NCCL error in: stand-in:1, unhandled system error, of {world_size}")
        init("gloo", store=store, rank=rank, world_size=world_size, timeout=timeout)

    def all_to_all_single(output: Any, sent: Any) -> None:
        """Between two ranks what arrives is something else, and no error is told."""
        to_all(output, sent)
        giver, _, taker = spoilt.partition(">")
        if spoilt and dist.get_rank() == int(taker):
            output.view(dist.get_world_size(), -1)[int(giver)].zero_()

    dist.is_nccl_available = lambda: True
    dist.all_to_all_single = all_to_all_single
    dist.init_process_group = init_process_group


sys.meta_path.insert(0, _Finder())
