"""Who this process is, and the launch variables it was given."""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
from collections.abc import Mapping

from distdoctor import __version__
from distdoctor.facts import Identity

ALLOWED = re.compile(
    r"RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|MASTER_ADDR|MASTER_PORT"
    r"|PET_(NNODES|NPROC_PER_NODE|NODE_RANK|MASTER_ADDR|MASTER_PORT|RDZV_BACKEND|RDZV_ENDPOINT|RDZV_ID|STANDALONE)"
    r"|(GLOO|NCCL|TORCH_NCCL|TORCH_GLOO|TORCH_DISTRIBUTED)_[A-Z0-9_]+|TORCHELASTIC_[A-Z_]+|TORCH_DIST_INIT_BARRIER"
    r"|CUDA_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|USE_LIBUV|OMP_NUM_THREADS|TP_SOCKET_IFNAME"
)
"""Only variables of these names get into the facts: a report must hold no secrets."""


def variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide how a job is launched and connected, each cut to 500 characters."""
    return {name: env[name][:500] for name in sorted(env) if ALLOWED.fullmatch(name)}


def identity() -> Identity:
    """This process on this host. What torch is here is filled in once it is imported."""
    return Identity(
        hostname=socket.gethostname(),
        boot_id=_read("/proc/sys/kernel/random/boot_id"),
        netns=_link("/proc/self/ns/net"),
        pid=os.getpid(),
        distdoctor=__version__,
        python=platform.python_version(),
        user=_user(),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not be in /etc/passwd
        return str(os.getuid())


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
