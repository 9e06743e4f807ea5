"""What ranks of the lab's hung jobs wait for in the kernel: a file system (FUSE) whose server is silent, or slow.

Each is called on all ranks, with whether the rank is one of those that its step names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PLACE = Path("/run/tmp/served")
_SERVE = """
import ctypes, os, struct, sys, time
silent, place = sys.argv[1], sys.argv[2].encode()
if os.fork():
    os._exit(0)
os.setsid()
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
if ctypes.CDLL(None).mount(b"served", place, b"fuse", 0, options.encode()):
    sys.exit("no FUSE here")
os.close(1)
INIT, LOOKUP, GETATTR, OPEN, READ = 26, 1, 3, 14, 15

def attr(inode):
    kind = 0o40755 if inode == 1 else 0o100644
    return struct.pack("<6Q10I", inode, 1 << 20, 2048, 0, 0, 0, 0, 0, 0, kind, 1, 0, 0, 0, 4096, 0)

while True:
    asked = os.read(device, 1 << 17)
    length, opcode, unique, node = struct.unpack_from("<IIQQ", asked)
    if silent == {INIT: "init", READ: "read"}.get(opcode):
        break
    if opcode == READ and silent == "slow":
        time.sleep(0.5)
    answers = {
        INIT: struct.pack("<IIIIHHIIHH", 7, 31, 0, 1, 0, 0, 4096, 1, 0, 0) + bytes(28),
        LOOKUP: struct.pack("<4Q2I", 2, 0, 1, 1, 0, 0) + attr(2),
        GETATTR: struct.pack("<QII", 1, 0, 0) + attr(node),
        OPEN: struct.pack("<QII", 0, 1 if silent == "read" else 0, 0),
        READ: bytes(4096),
    }
    body = answers.get(opcode)
    if opcode in (2, 42):
        continue
    error = 0 if body is not None else -38
    os.write(device, struct.pack("<IiQ", 16 + len(body or b""), error, unique) + (body or b""))
time.sleep(1e5)
"""
"""A file system of one file, mounted by hand (include/uapi/linux/fuse.h), and a server that from some request on, or
never, is silent."""


def _serve(silent: str) -> Path:
    """The file of such a file system, of which no process of the job is the server."""
    PLACE.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-c", _SERVE, silent, str(PLACE)], check=True, stdout=subprocess.PIPE)
    return PLACE / "data.bin"


def server_dead(mine: bool) -> None:
    """These ranks open a file on a server that does not answer: the kernel lets them not even be interrupted."""
    if mine:
        load_shard(_serve("init"))


def server_silent(mine: bool) -> None:
    """These ranks read a file whose server has answered so far."""
    if mine:
        load_shard(_serve("read"))


def load_shard(path: Path) -> None:
    """What they do there."""
    with open(path, "rb") as file:
        file.read(4096)


def program_on_dead_server(mine: bool) -> None:
    """These ranks start a program that lies on such a server: until it is begun, the kernel holds them, too."""
    if mine:
        subprocess.run([str(_serve("init"))], check=True)


def loader_on_dead_server(mine: bool) -> None:
    """A worker of the data loader of these ranks reads from such a server."""
    import torch

    class Shards(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> torch.Tensor:
            load_shard(PLACE / "data.bin")
            return torch.ones(4)

    if mine:
        _serve("init")
        for _ in torch.utils.data.DataLoader(Shards(), num_workers=1):
            pass


def slow_server(key: str) -> None:
    """Read a file piece by piece from a server that takes its time for each."""
    path = _serve("slow")
    while not (Path(sys.argv[1]) / key).exists():
        descriptor = os.open(path, os.O_RDONLY)
        for number in range(4):
            os.pread(descriptor, 4096, number * 4096)
            time.sleep(0.01)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


KERNEL_WAITS: dict[str, Callable[[bool], None]] = {
    "server-dead": server_dead,
    "server-silent": server_silent,
    "program-on-server": program_on_dead_server,
    "loader-on-server": loader_on_dead_server,
}
