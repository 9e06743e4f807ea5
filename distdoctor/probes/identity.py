"""Who this process is, and the launch variables it was given."""

from __future__ import annotations

import getpass
import os
import platform
import socket
import sys
from collections.abc import Mapping

from distdoctor import __version__
from distdoctor.knowledge.variables import ALLOCATOR, KNOWN
from distdoctor.model.facts import Identity
from distdoctor.model.launch_settings import RDZV_CONF

LIBRARY_PATHS = ("LD_LIBRARY_PATH", "LD_PRELOAD")
ALLOWED = frozenset(
    (KNOWN - {RDZV_CONF.pet})
    | {
        "ROLE_RANK",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "OMP_PROC_BIND",
        "OMP_PLACES",
        "GOMP_CPU_AFFINITY",
        "KMP_AFFINITY",
        "SLURMD_NODENAME",
    }
    | {"SLURM_JOB_NODELIST", "TORCH_ELASTIC_WORKER_IDENTICAL"}
    | {"KUBERNETES_SERVICE_HOST", "VLLM_HOST_IP", "VLLM_NIXL_SIDE_CHANNEL_HOST", "SGLANG_HOST_IP"}
    | {"HOST_IP", "NODE_IP", "POD_IP"}
    | {*ALLOCATOR}
    | {*LIBRARY_PATHS}
    | {f"ACCELERATE_{name}" for name in ("MIXED_PRECISION", "DYNAMO_BACKEND", "USE_DEEPSPEED")}
    | {f"TORCHELASTIC_{name}" for name in ("RUN_ID", "RESTART_COUNT", "MAX_RESTARTS", "USE_AGENT_STORE")}
)
"""Only variables of these names get into the facts. Others that begin with NCCL_ or GLOO_ belong to plugins and sites,
and may hold secrets."""
LONGEST = 500
LONGEST_PATH = 4_000
"""Characters; a fix sets the list of folders anew, without one of them."""


def variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide how a job is launched and connected, each cut to LONGEST or LONGEST_PATH."""
    longest = dict.fromkeys(LIBRARY_PATHS, LONGEST_PATH)
    return {name: env[name][: longest.get(name, LONGEST)] for name in sorted(env) if name in ALLOWED}


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
        executable=sys.executable or "",
        kernel=os.uname().release,
        libc=_libc(),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not be in /etc/passwd
        return str(os.getuid())


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # another C library has no such name
        return ""


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
