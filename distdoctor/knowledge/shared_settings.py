"""Settings that all nodes must have alike: which these are, and what a value of one amounts to.

Each was tried in two hosts with torch 2.13 and gloo, set on one of them only. What torch, gloo and NCCL make of a value
is in torch/distributed/distributed_c10d.py (TORCH_DISTRIBUTED_DEBUG, TORCH_DIST_INIT_BARRIER), in c10d's
GlooDeviceFactory.cpp and ProcessGroupGloo.cpp and in gloo/common/utils.cc. The others of GLOO_* and TORCH_GLOO_*
(GLOO_DISABLE_CONNECTION_RETRIES, GLOO_ENABLE_STORE_V2_API, GLOO_LOG_LEVEL), and USE_LIBUV, need not be alike: a job on
nodes that differ in them ran.

Of NCCL's own 31 were tried, each on one of two ranks that met over sockets as two hosts do, in seven operations of five
sizes (2.28.9, on an H100; tests/gpu/settings.py). Its ranks tell each other the graphs that they found (src/init.cc,
``initTransportsRank``), and then each for itself takes algorithm, protocol, threads, chunks and buffers from its own
environment (``ncclTopoTuneModel``, ``ncclTopoPostset``, ``computeBuffSizes``). Where those differ it ends or hangs:
NCCL_ALGO, NCCL_PROTO, NCCL_MIN_CTAS and NCCL_MAX_CTAS in the first collective, NCCL_MIN_P2P_NCHANNELS,
NCCL_MAX_P2P_NCHANNELS, NCCL_NET_SHARED_BUFFERS and NCCL_ALLOC_P2P_NET_LL_BUFFERS in the first all_to_all, NCCL_NTHREADS
in an all_reduce of 8 KB, and FATAL_SETTINGS has those that a small one does not show. With the 18 others all went well.
"""

from __future__ import annotations

import re

_TRUE = ("y", "yes", "t", "true", "1")
DEBUG, BARRIER, GLOO_INTERFACES = "TORCH_DISTRIBUTED_DEBUG", "TORCH_DIST_INIT_BARRIER", "GLOO_SOCKET_IFNAME"
LAZY, TRANSPORT, SEQUENCE = "TORCH_GLOO_LAZY_INIT", "GLOO_DEVICE_TRANSPORT", "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER"
EVERY_BACKEND = (DEBUG, BARRIER)
GLOO_SETTINGS = (GLOO_INTERFACES, LAZY, TRANSPORT, SEQUENCE)
IDENTICAL = "TORCH_ELASTIC_WORKER_IDENTICAL"
"""torchrun's own, where its agents are to start the ranks: with 1 an agent numbers its ranks itself, as if all nodes
had as many, and does not tell the others how many it has (torch 2.6 and later, elastic/agent/server/api.py)."""
BUFFERS = "NCCL_BUFFSIZE"
"""With 1048576 on one of two hosts NCCL's first small collectives passed, and one of 16 MB ended with ``message
truncated : receiving 1048576 bytes instead of 262144`` (2.28.9 over sockets, on an H200)."""
SIZES = (BUFFERS, "NCCL_LL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_CHUNK_SIZE")
"""What only larger messages show: a broadcast of 8 KB hung with the second on one of two hosts, an all_to_all of 256 KB
hung on one and gave the other wrong data with the third, one of 4 MB hung with the last (2.28.9, on an H100)."""
FATAL_SETTINGS = (DEBUG, BARRIER, GLOO_INTERFACES, IDENTICAL, *SIZES)
"""Where these differ a job hangs or ends, with every version of torch or NCCL that has them. The others are newer, or
of one build: a version that does not read them runs."""
RANKS_PER_ROOT, _USUAL_RANKS_PER_ROOT = "TORCH_NCCL_RANKS_PER_ROOT", 128
"""Where it leaves several roots, the ranks look for their ids under other keys of the store than where there is one
(ProcessGroupNCCL.cpp, useScalableInit): with 1 on one of two hosts none of them was found (torch 2.11, an H100)."""
TORCH_NCCL = (RANKS_PER_ROOT,)
"""torch's own settings of NCCL that decide how its ranks find each other; the others are about timeouts, dumps and
checks within a process (with TORCH_NCCL_USE_COMM_NONBLOCKING on one of two ranks the other's operations all passed)."""
_LOCAL = re.compile(
    r".*(_IFNAME|_FILE|_PATH|_DIR|_HCA|HOSTID|_DEBUG|_SUBSYS|_LOGGING|_LOG_LEVEL|_UUID|_CLIQUE_ID|_GID_INDEX|_ADDR_RANGE"
    r"|_CPU_AFFINITY|_THREAD_NAME|_TIMESTAMP_FORMAT|_COMM_ID|_STACK_SIZE|_NVTX_DISABLE|_PROXY_CPUSET|_ASYNC_EVENTS"
    r"|_TIMEOUT|_RETRY_CNT|_RETRY_SLEEP_MSEC|_CONNECT_PROGRESS|_RELAXED_ORDERING|_USE_INLINE)"
    r"|NCCL_(RAS|TOPO|GRAPH|DEBUG|SHM|CHECK)_.*|NCCL_CHECKS_DISABLE"
)
"""NCCL's variables whose values may rightly differ from node to node, or that do not concern the others."""


_NAMES = ("NCCL_ALGO", "NCCL_PROTO")
_DEFAULTS = {
    BUFFERS: 1 << 22,
    "NCCL_COLLNET_ENABLE": 0,
    "NCCL_CROSS_NIC": 2,
    "NCCL_IB_DISABLE": 0,
    "NCCL_IB_PKEY": 0,
    "NCCL_IB_QPS_PER_CONNECTION": 1,
    "NCCL_IB_ROCE_VERSION_NUM": 2,
    "NCCL_P2P_DISABLE": 0,
    "NCCL_P2P_NET_CHUNKSIZE": 1 << 17,
    "NCCL_PXN_DISABLE": 0,
}
"""What NCCL of all versions takes where nothing is set (NCCL_PARAM in its source)."""


def must_be_alike(name: str, nccl: bool, gloo: bool) -> bool:
    """Whether nodes whose job uses these backends must have this setting alike."""
    if name in EVERY_BACKEND:
        return nccl or gloo
    if name in GLOO_SETTINGS:
        return gloo
    if name in TORCH_NCCL:
        return nccl
    return nccl and name.startswith("NCCL_") and not _LOCAL.fullmatch(name)


def setting_effect(name: str, value: str | None, ranks: int) -> str | None:
    """What a value amounts to in a job of so many ranks; None where that is what a variable that is not set does."""
    if not value:
        return None
    if name == RANKS_PER_ROOT:
        roots = _roots(_number(value), ranks)
        return None if roots == _roots(_USUAL_RANKS_PER_ROOT, ranks) else str(roots)
    if name == DEBUG:
        return "DETAIL" if value.upper() == "DETAIL" else None
    if name in (BARRIER, IDENTICAL):
        return "1" if value.strip() == "1" else None
    if name == LAZY:
        return "1" if value.lower() in _TRUE else None
    if name == SEQUENCE:
        return "1" if value in ("1", "True") else None
    if name == TRANSPORT:
        return None if value in ("TCP", "LINUX") else value
    if name == GLOO_INTERFACES:
        count = len(gloo_device_names(value))
        return None if count == 1 else str(count)
    if name in _NAMES:  # of any case, in any order, and after a colon of one function alone (src/graph/tuning.cc)
        return ";".join(sorted(_sorted_list(part) for part in value.lower().split(";")))
    return None if name in _DEFAULTS and _number(value) == _DEFAULTS[name] else value


def _roots(each: int | None, ranks: int) -> int:
    """How many ranks make an id of NCCL's that others ask for, if one does for ``each`` of them."""
    return 1 if not each or each < 1 else max(1, -(-ranks // each))


def _sorted_list(text: str) -> str:
    function, colon, names = text.rpartition(":")
    mark = "^" if names.startswith("^") else ""
    return f"{function}{colon}{mark}{','.join(sorted(names.removeprefix('^').split(',')))}"


def _number(text: str) -> int | None:
    """A whole number as C's strtol() reads one with base 0; None for what is none."""
    try:
        return int(text.strip(), 0)
    except ValueError:
        return None


def gloo_device_names(value: str) -> tuple[str, ...]:
    """The names in GLOO_SOCKET_IFNAME: gloo makes a device, and connects all ranks, for each of them.

    As std::getline() takes a list apart: a comma at the end ends the last name and begins no other. A value of one
    character counts as none (torch 2.13 starts with ``x`` where no interface is called so, and refuses ``xy``).
    """
    return tuple(value.removesuffix(",").split(",")) if len(value.encode(errors="replace")) > 1 else ()
