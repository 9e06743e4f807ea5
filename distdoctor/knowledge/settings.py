"""Settings that all nodes must share, the effect of their values, known variables, and likely misspellings.

Each was tried in two hosts with torch 2.13 and gloo, set on one of them only. torch, gloo and NCCL read the values in
torch/distributed/distributed_c10d.py (TORCH_DISTRIBUTED_DEBUG, TORCH_DIST_INIT_BARRIER), in c10d's
GlooDeviceFactory.cpp and ProcessGroupGloo.cpp and in gloo/common/utils.cc. The other variables of GLOO_* and
TORCH_GLOO_* (GLOO_DISABLE_CONNECTION_RETRIES, GLOO_ENABLE_STORE_V2_API, GLOO_LOG_LEVEL), and USE_LIBUV, may differ: a
job on nodes that differ in them ran.

Of NCCL's own 31 were tried, each on one of two ranks that met over sockets as two hosts do, in seven operations of five
sizes (2.28.9, on an H100; tests/gpu/settings.py). Its ranks exchange the graphs that they found (src/init.cc,
``initTransportsRank``), and then each for itself takes algorithm, protocol, threads, chunks and buffers from its own
environment (``ncclTopoTuneModel``, ``ncclTopoPostset``, ``computeBuffSizes``). If those differ it ends or hangs:
NCCL_ALGO, NCCL_PROTO, NCCL_MIN_CTAS and NCCL_MAX_CTAS in the first collective, NCCL_MIN_P2P_NCHANNELS,
NCCL_MAX_P2P_NCHANNELS, NCCL_NET_SHARED_BUFFERS and NCCL_ALLOC_P2P_NET_LL_BUFFERS in the first all_to_all, NCCL_NTHREADS
in an all_reduce of 8 KB, and FATAL_SETTINGS has those that a small one does not show. With the 18 others everything
passed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping

from distdoctor.model.launch_settings import RDZV_CONF, SETTINGS
from distdoctor.model.launch_variables import AGENT_STORE, MAX_RESTARTS, RESTART_COUNT, RUN_ID, SLURM_LISTS, SLURM_NODE

_TRUE = ("y", "yes", "t", "true", "1")
DEBUG, BARRIER, GLOO_INTERFACES = "TORCH_DISTRIBUTED_DEBUG", "TORCH_DIST_INIT_BARRIER", "GLOO_SOCKET_IFNAME"
LAZY, TRANSPORT, SEQUENCE = "TORCH_GLOO_LAZY_INIT", "GLOO_DEVICE_TRANSPORT", "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER"
GLOO_SETTINGS = (GLOO_INTERFACES, LAZY, TRANSPORT, SEQUENCE)
TORCHCOMMS = "TORCH_DISTRIBUTED_USE_TORCHCOMMS"
"""TorchComms makes the groups instead, if its package is installed; it keeps other keys in the store
(torch/distributed/distributed_c10d.py, _new_process_group_helper())."""
IDENTICAL = "TORCH_ELASTIC_WORKER_IDENTICAL"
"""Variable of torchrun itself, set if its agents are to start the ranks: with 1 an agent numbers its ranks by itself,
as if all nodes had as many, and does not publish its number of ranks (torch 2.6 and later,
elastic/agent/server/api.py)."""
EVERY_BACKEND = (DEBUG, BARRIER, TORCHCOMMS)
BUFFERS = "NCCL_BUFFSIZE"
"""Size of NCCL's buffers. With 1048576 on one of two hosts NCCL's first small collectives passed, and one of 16 MB
ended with ``message truncated : receiving 1048576 bytes instead of 262144`` (2.28.9 over sockets, on an H200)."""
SIZES = (BUFFERS, "NCCL_LL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_CHUNK_SIZE")
"""Settings that only fail with larger messages: a broadcast of 8 KB hung with the second on one of two hosts, an
all_to_all of 256 KB hung on one and gave the other wrong data with the third, one of 4 MB hung with the last (2.28.9,
on an H100)."""
FATAL_SETTINGS = (DEBUG, BARRIER, GLOO_INTERFACES, IDENTICAL, *SIZES)
"""Settings whose difference makes a job hang or end, with every version of torch or NCCL that has them. The others are
newer, or of one build: a version that does not read them runs."""
RANKS_PER_ROOT, _USUAL_RANKS_PER_ROOT = "TORCH_NCCL_RANKS_PER_ROOT", 128
"""Ranks per root, and NCCL's default. With several roots the ranks look for their ids under other keys of the store
than with one (ProcessGroupNCCL.cpp, useScalableInit): with 1 on one of two hosts none of them was found (torch 2.11, an
H100)."""
TORCH_NCCL = (RANKS_PER_ROOT,)
"""Settings of torch for NCCL that decide how its ranks find each other; the others are about timeouts, dumps and checks
within a process (with TORCH_NCCL_USE_COMM_NONBLOCKING on one of two ranks the other's operations all passed)."""
_LOCAL = re.compile(
    r".*(_IFNAME|_FILE|_PATH|_DIR|_HCA|HOSTID|_DEBUG|_SUBSYS|_LOGGING|_LOG_LEVEL|_UUID|_CLIQUE_ID|_GID_INDEX|_ADDR_RANGE"
    r"|_CPU_AFFINITY|_THREAD_NAME|_TIMESTAMP_FORMAT|_COMM_ID|_STACK_SIZE|_NVTX_DISABLE|_PROXY_CPUSET|_ASYNC_EVENTS"
    r"|_TIMEOUT|_RETRY_CNT|_RETRY_SLEEP_MSEC|_CONNECT_PROGRESS|_RELAXED_ORDERING|_USE_INLINE)"
    r"|NCCL_(RAS|TOPO|GRAPH|DEBUG|SHM|CHECK)_.*|NCCL_CHECKS_DISABLE"
)
"""Variables of NCCL whose values may rightly differ from node to node, or that do not concern the others."""


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
"""Defaults of NCCL in all versions (NCCL_PARAM in its source)."""


def must_be_alike(name: str, nccl: bool, gloo: bool) -> bool:
    """Return whether nodes whose job uses these backends must share this setting."""
    if name in EVERY_BACKEND:
        return nccl or gloo
    if name in GLOO_SETTINGS:
        return gloo
    if name in TORCH_NCCL:
        return nccl
    return nccl and name.startswith("NCCL_") and not _LOCAL.fullmatch(name)


_SWITCHES: dict[str, Callable[[str], bool]] = {
    BARRIER: lambda value: value.strip() == "1",
    IDENTICAL: lambda value: value.strip() == "1",
    TORCHCOMMS: lambda value: value != "0",  # torch/utils/_config_module.py: "0" is False, all else is not empty
    LAZY: lambda value: value.lower() in _TRUE,
    SEQUENCE: lambda value: value in ("1", "True"),
}
"""Variable -> whether a value turns it on."""


def setting_effect(name: str, value: str | None, ranks: int) -> str | None:
    """Return the effect of a value in a job of so many ranks, None if it is that of an unset variable."""
    if not value:
        return None
    if name == RANKS_PER_ROOT:
        roots = _roots(_c_integer(value), ranks)
        return None if roots == _roots(_USUAL_RANKS_PER_ROOT, ranks) else str(roots)
    if name == DEBUG:
        return "DETAIL" if value.upper() == "DETAIL" else None
    if name in _SWITCHES:
        return "1" if _SWITCHES[name](value) else None
    if name == TRANSPORT:
        return None if value in ("TCP", "LINUX") else value
    if name == GLOO_INTERFACES:
        count = len(gloo_device_names(value))
        return None if count == 1 else str(count)
    if name in _NAMES:  # of any case, in any order, and after a colon of one function alone (src/graph/tuning.cc)
        return ";".join(sorted(_sorted_list(part) for part in value.lower().split(";")))
    return None if name in _DEFAULTS and _c_integer(value) == _DEFAULTS[name] else value


def _roots(each: int | None, ranks: int) -> int:
    """Return the number of ranks that create an id of NCCL's for others, with one for ``each`` of them."""
    return 1 if not each or each < 1 else max(1, -(-ranks // each))


def _sorted_list(text: str) -> str:
    function, colon, names = text.rpartition(":")
    mark = "^" if names.startswith("^") else ""
    return f"{function}{colon}{mark}{','.join(sorted(names.removeprefix('^').split(',')))}"


def _c_integer(text: str) -> int | None:
    """Return a whole number as C's strtol() reads one with base 0, None if it is none."""
    try:
        return int(text.strip(), 0)
    except ValueError:
        return None


def gloo_device_names(value: str) -> tuple[str, ...]:
    """Return the names in GLOO_SOCKET_IFNAME: gloo makes a device, and connects all ranks, for each of them.

    The list is split as by std::getline(): a comma at the end ends the last name and begins no other. A value of one
    character counts as none (torch 2.13 starts with ``x`` where no interface is called so, and refuses ``xy``).
    """
    return tuple(value.removesuffix(",").split(",")) if len(value.encode(errors="replace")) > 1 else ()


# Known variables of PyTorch's launcher and backends, and likely misspellings. Names: torch/distributed/run.py and
# argparse_util.py, torch/csrc/distributed/c10d (ProcessGroupNCCL.hpp, ProcessGroupGloo.cpp, TCPStore.cpp), NCCL's user
# guide (2.27) and the source of NCCL 2.30 (NCCL_PARAM and getenv).


_LAUNCH = (*(name for setting in SETTINGS for name in setting.all_variables), "PET_MAX_RESTARTS")
_GLOO = """
GLOO_SOCKET_IFNAME GLOO_DEVICE_TRANSPORT TORCH_GLOO_LAZY_INIT TP_SOCKET_IFNAME
GLOO_DISABLE_CONNECTION_RETRIES GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER GLOO_ENABLE_STORE_V2_API GLOO_LOG_LEVEL
"""
_TORCH = """
TORCH_DISTRIBUTED_DEBUG TORCH_CPP_LOG_LEVEL TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_ASYNC_ERROR_HANDLING
TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_NCCL_DESYNC_DEBUG TORCH_NCCL_ENABLE_TIMING TORCH_NCCL_ENABLE_MONITORING
TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC TORCH_NCCL_TRACE_BUFFER_SIZE TORCH_NCCL_USE_COMM_NONBLOCKING
TORCH_NCCL_AVOID_RECORD_STREAMS TORCH_NCCL_HIGH_PRIORITY TORCH_NCCL_CUDA_EVENT_CACHE TORCH_FR_BUFFER_SIZE
TORCH_NCCL_TRACE_CPP_STACK TORCH_NCCL_DEBUG_INFO_TEMP_FILE TORCH_NCCL_DEBUG_INFO_PIPE_FILE
TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC TORCH_NCCL_COORD_CHECK_MILSEC TORCH_NCCL_RETHROW_CUDA_ERRORS TORCH_NCCL_NAN_CHECK
TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN TORCH_NCCL_PROPAGATE_ERROR TORCH_NCCL_RANKS_PER_ROOT
TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK TORCH_NCCL_EXTRA_DUMP_ON_EXEC
TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING
TORCH_FR_CPP_STACK TORCH_FR_DUMP_DYNAMIC_FILE_NAME TORCH_FR_DUMP_TEMP_FILE
USE_LIBUV TORCH_DIST_INIT_BARRIER TORCH_DISTRIBUTED_USE_TORCHCOMMS
"""
_NCCL = """
NCCL_ALGO NCCL_ALLGATHERV_ENABLE NCCL_ALLOC_P2P_NET_LL_BUFFERS NCCL_BUFFSIZE NCCL_CGA_CLUSTER_SIZE NCCL_CHECKS_DISABLE
NCCL_CHECK_MODE NCCL_CHECK_POINTERS NCCL_CHUNK_SIZE NCCL_COLLNET_ENABLE NCCL_COLLNET_NODE_THRESHOLD NCCL_COMM_BLOCKING
NCCL_COMM_ID NCCL_COMM_PROPERTIES_INITIALIZER NCCL_COMM_SHRINK_SHARE_RESOURCES NCCL_COMM_SPLIT_SHARE_RESOURCES
NCCL_CONF_FILE NCCL_CONNECT_ROUND_MAX_PEERS NCCL_CROSS_NIC NCCL_CTA_POLICY NCCL_CUMEM_ENABLE NCCL_CUMEM_HOST_ENABLE
NCCL_DEBUG NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS NCCL_DEBUG_TIMESTAMP_FORMAT NCCL_DEV_API_JIT
NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER NCCL_DISABLE_MEM_MANAGER NCCL_DMABUF_ENABLE NCCL_ELASTIC_BUFFER_REGISTER
NCCL_ENABLE_VERSION_CHECK NCCL_ENV_PLUGIN NCCL_GDAKI_USE_RELIABLE_DB NCCL_GDRCOPY_ENABLE NCCL_GDRCOPY_FIFO_ENABLE
NCCL_GDRCOPY_FLUSH_ENABLE NCCL_GDRCOPY_SYNC_ENABLE NCCL_GDR_FLUSH_DISABLE NCCL_GIN_CONNECTION_RAIL NCCL_GIN_ENABLE
NCCL_GIN_ERROR_QUERY_SEC NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC NCCL_GIN_GDAKI_NIC_HANDLER
NCCL_GIN_GDAKI_QP_DEPTH NCCL_GIN_IB_TC NCCL_GIN_NCONNECTIONS NCCL_GIN_PLUGIN NCCL_GIN_PLUGIN_REF_COUNT
NCCL_GIN_PROXY_QUEUE_SIZE NCCL_GIN_TYPE NCCL_GRAPH_DUMP_FILE NCCL_GRAPH_DUMP_FILE_RANK NCCL_GRAPH_FILE
NCCL_GRAPH_HELPER_DISABLE NCCL_GRAPH_MIXING_SUPPORT NCCL_GRAPH_REGISTER NCCL_GRAPH_STREAM_ORDERING
NCCL_GROUP_CUDA_STREAM NCCL_HOSTID NCCL_IBVERBS_LIB NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE
NCCL_IB_AR_THRESHOLD NCCL_IB_CUDA_SUPPORT NCCL_IB_DATA_DIRECT NCCL_IB_DEVICE_PCI_ORDER NCCL_IB_DISABLE
NCCL_IB_ECE_ENABLE NCCL_IB_FIFO_TC NCCL_IB_GID_INDEX NCCL_IB_HCA NCCL_IB_MERGE_NICS NCCL_IB_MERGE_VFS
NCCL_IB_MQP_RETRY_ALL NCCL_IB_MQP_RETRY_CNT NCCL_IB_MQP_RETRY_SLEEP_MSEC NCCL_IB_OOO_RQ NCCL_IB_PCI_RELAXED_ORDERING
NCCL_IB_PKEY NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS NCCL_IB_QPS_PER_CONNECTION NCCL_IB_QUERY_PORT_SPEED
NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME NCCL_IB_RESILIENCY_PORT_FAILOVER NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS
NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY NCCL_IB_RESILIENCY_PORT_RECOVERY
NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL
NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE
NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX
NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY NCCL_IB_RETRY_CNT NCCL_IB_RETURN_ASYNC_EVENTS NCCL_IB_ROCE_VERSION_NUM
NCCL_IB_ROUTABLE_FLID_GID_INDEX NCCL_IB_SL NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_SUBNET_AWARE_ROUTING
NCCL_IB_SUBNET_PREFIX_LEN NCCL_IB_TC NCCL_IB_TIMEOUT NCCL_IB_USE_INLINE NCCL_IB_WARN_RAIL_LOCAL
NCCL_IGNORE_COLLNET_MISMATCH NCCL_IGNORE_CPU_AFFINITY NCCL_IGNORE_DISABLED_P2P NCCL_IGNORE_NET_MISMATCH
NCCL_IPC_USE_ABSTRACT_SOCKET NCCL_L1_SHARED_MEMORY_CARVEOUT NCCL_LAUNCH_MODE NCCL_LAUNCH_ORDER_IMPLICIT
NCCL_LAUNCH_RACE_FATAL NCCL_LEGACY_CUDA_REGISTER NCCL_LL128_BUFFSIZE NCCL_LL128_C2C NCCL_LL128_NTHREADS
NCCL_LL_BUFFSIZE NCCL_LL_THRESHOLD NCCL_LOCAL_REGISTER NCCL_LSA_TEAM_SIZE NCCL_MAX_CTAS NCCL_MAX_NCHANNELS
NCCL_MAX_NRINGS NCCL_MAX_P2P_NCHANNELS NCCL_MAX_RINGS NCCL_MEM_SYNC_DOMAIN NCCL_MIN_CTAS NCCL_MIN_NCHANNELS
NCCL_MIN_NRINGS NCCL_MIN_P2P_NCHANNELS NCCL_MLOPART_RDMA_ENABLE NCCL_MNNVL_CLIQUE_ID NCCL_MNNVL_CROSS_CLIQUE
NCCL_MNNVL_ENABLE NCCL_MNNVL_RAIL_PER_HOST NCCL_MNNVL_SCATTER_NETS_ENABLE NCCL_MNNVL_UUID NCCL_MULTI_RANK_GPU_ENABLE
NCCL_MULTI_SEGMENT_REGISTER NCCL_NCHANNELS_PER_NET_PEER NCCL_NET NCCL_NETDEVS_POLICY NCCL_NET_DISABLE_INTRA
NCCL_NET_FORCE_FLUSH NCCL_NET_FORCE_MERGE NCCL_NET_GDR_C2C NCCL_NET_GDR_LEVEL NCCL_NET_GDR_MLOPART NCCL_NET_GDR_READ
NCCL_NET_MERGE_LEVEL NCCL_NET_MERGE_POLICY NCCL_NET_OPTIONAL_RECV_COMPLETION NCCL_NET_OVERHEAD NCCL_NET_PLUGIN
NCCL_NET_PLUGIN_REF_COUNT NCCL_NET_SHARED_BUFFERS NCCL_NET_SHARED_COMMS NCCL_NO_CACHE NCCL_NSOCKS_PERTHREAD
NCCL_NTHREADS NCCL_NUM_RMA_CTX NCCL_NVB_DISABLE NCCL_NVB_PRECONNECT NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE
NCCL_NVLSTREE_MAX_CHUNKSIZE NCCL_NVLS_CHUNKSIZE NCCL_NVLS_ENABLE NCCL_NVLS_NCHANNELS NCCL_NVTX_DISABLE
NCCL_OOB_NET_ENABLE NCCL_OOB_NET_IFNAME NCCL_P2P_DIRECT_DISABLE NCCL_P2P_DISABLE NCCL_P2P_EPOCH_ENABLE NCCL_P2P_LEVEL
NCCL_P2P_LL_THRESHOLD NCCL_P2P_MAX_PEERS NCCL_P2P_NET_CHUNKSIZE NCCL_P2P_NVL_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE
NCCL_P2P_PER_CHANNEL_NET_BW NCCL_P2P_PXN_LEVEL NCCL_P2P_READ_ENABLE NCCL_P2P_SCHEDULE_GROUP_SIZE
NCCL_P2P_USE_CUDA_MEMCPY NCCL_PARAM_DUMP_ALL NCCL_PAT_ENABLE NCCL_PROFILER_PLUGIN NCCL_PROGRESS_APPENDOP_FREQ
NCCL_PROTO NCCL_PROXY_APPEND_BATCH_SIZE NCCL_PROXY_CPUSET NCCL_PROXY_DUMP_SIGNAL NCCL_PXN_C2C NCCL_PXN_DISABLE
NCCL_RAS_ADDR NCCL_RAS_ENABLE NCCL_RAS_TIMEOUT_FACTOR NCCL_REPORT_CONNECT_PROGRESS NCCL_RMA_DISABLE NCCL_RMA_PLUGIN
NCCL_RMA_PLUGIN_REF_COUNT NCCL_RMA_PROXY_DUMP_SIGNAL NCCL_RMA_PROXY_QUEUE_SIZE NCCL_RUNTIME_CONNECT
NCCL_SET_CPU_STACK_SIZE NCCL_SET_STACK_SIZE NCCL_SET_THREAD_NAME NCCL_SHADOW_MEMPOOL_MAX_SIZE NCCL_SHM_DISABLE
NCCL_SHM_LOCALITY NCCL_SHM_MEMCPY_MODE NCCL_SHM_USE_CUDA_MEMCPY NCCL_SINGLE_PROC_MEM_REG_ENABLE
NCCL_SINGLE_RING_THRESHOLD NCCL_SOCKET_FAMILY NCCL_SOCKET_IFNAME NCCL_SOCKET_INLINE NCCL_SOCKET_MAGIC
NCCL_SOCKET_MIN_TASKSIZE NCCL_SOCKET_NTHREADS NCCL_SOCKET_POLL_TIMEOUT_MSEC NCCL_SOCKET_RCVBUF NCCL_SOCKET_RETRY_CNT
NCCL_SOCKET_RETRY_SLEEP_MSEC NCCL_SOCKET_SNDBUF NCCL_STORK_ENABLE NCCL_SYM_CE_THRESHOLD NCCL_SYM_CTAS
NCCL_SYM_GIN_KERNELS_ENABLE NCCL_SYM_KERNEL NCCL_SYM_NOWIN_ENABLE NCCL_SYM_REUSE_SYSMEM_HANDLES
NCCL_SYM_RS_GIN_CHUNK_SIZE NCCL_SYM_TMA_ENABLE NCCL_THREAD_THRESHOLDS NCCL_TOPO_DUMP_FILE NCCL_TOPO_DUMP_FILE_RANK
NCCL_TOPO_FILE NCCL_TOPO_SPLIT_MLOPART NCCL_TREE_THRESHOLD NCCL_TUNER_CONFIG_PATH NCCL_TUNER_PLUGIN
NCCL_UID_STAGGER_RATE NCCL_UID_STAGGER_THRESHOLD NCCL_UNPACK_DOUBLE_NCHANNELS NCCL_USE_CMAKE NCCL_WIN_ENABLE
NCCL_WIN_STRIDE NCCL_WORK_ARGS_BYTES NCCL_WORK_FIFO_BYTES
"""
DEPRECATED_VARIABLES = {
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
}
"""Old name -> the name since torch 2.2 (ProcessGroupNCCL.hpp warns of the old one)."""
KNOWN = frozenset([*_LAUNCH, *f"{_GLOO} {_TORCH} {_NCCL}".split(), *DEPRECATED_VARIABLES])
ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""Variables of torch's GPU memory allocator (c10/core/AllocatorConfig.h)."""
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
        SLURM_NODE,
    }
    | {SLURM_LISTS[0], "TORCH_ELASTIC_WORKER_IDENTICAL"}
    | {"KUBERNETES_SERVICE_HOST", "VLLM_HOST_IP", "SGLANG_HOST_IP", "HOST_IP", "NODE_IP", "POD_IP", "VLLM_PORT"}
    | {f"VLLM_{name}_SIDE_CHANNEL_{of}" for name in ("NIXL", "P2P", "EC") for of in ("HOST", "PORT")}
    | {"UCX_NET_DEVICES", "UCX_TLS"}
    | {*ALLOCATOR}
    | {*LIBRARY_PATHS}
    | {f"ACCELERATE_{name}" for name in ("MIXED_PRECISION", "DYNAMO_BACKEND", "USE_DEEPSPEED")}
    | {RUN_ID, RESTART_COUNT, MAX_RESTARTS, AGENT_STORE}
)
"""Names of the only variables that get into the facts. Others that begin with NCCL_ or GLOO_ belong to plugins and
sites, and may hold secrets."""
_SECRET = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|KEYS?(?:_|$)|(?:^|_)(?:PASS|PWD|AUTH|COOKIE)(?:_|$)"
)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OF_BACKENDS = KNOWN - {*_LAUNCH}
"""Variables that configure a backend, rather than identify a process."""
_OF_BACKENDS_IN_ORDER = tuple(sorted(OF_BACKENDS))
_OF_SHELL = re.compile(r"NCCL_|GLOO_|TORCH_|MASTER_(ADDR|PORT)$|PYTORCH_\w*ALLOC_CONF$|VLLM_|SGLANG_|UCX_|FI_")


def of_backends(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that configure a backend, by name. It looks each up, as every node collects them all."""
    return {name: variables[name] for name in _OF_BACKENDS_IN_ORDER if name in variables}


def of_shell(env: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a person expects to be the job's: the backends' and the engines'. Values only of
    ALLOWED."""
    names = (name for name, value in env.items() if value and _OF_SHELL.match(name) and not looks_secret(name))
    return {name: env[name] if name in ALLOWED else "" for name in names}


SIMILAR = 0.86
"""Ratio of difflib from which a name counts as a misspelling of another."""
_OF_OTHERS = {"NCCL_IBEXT_DISABLE", "NCCL_SHARP_DISABLE"}
"""Variables of NVIDIA's plugin for InfiniBand and SHARP (nccl-rdma-sharp-plugins)."""
_FORGOTTEN = {"", "TORCH", "PET"}
"""Words that a misspelled name may lack or add; the first is a single underscore."""
_PREFIXES = ("NCCL_", "GLOO_", "TORCH_NCCL_", "TORCH_GLOO_", "MASTER_", "WORLD_", "LOCAL_", "PET_")


def intended_variable(name: str) -> str | None:
    """Return the known variable that ``name`` most probably stands for, None if it is known itself or like none."""
    if name in KNOWN or name in _OF_OTHERS or len(name) < 5:
        return None
    close = difflib.get_close_matches(name, KNOWN, 1, SIMILAR)
    return close[0] if close and not _has_other_words(name, close[0]) else None


def _has_other_words(name: str, known: str) -> bool:
    """Return whether one of two similar names has a whole word more: that is another name, no misspelling.

    For example NCCL_TIMEOUT, which scripts read themselves, and NCCL_IB_TIMEOUT.
    """
    words, its = {*name.split("_")}, {*known.split("_")}
    return (words < its or its < words) and not words ^ its <= _FORGOTTEN


def near_misses(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that look like a misspelled launch or backend variable. Only names: values may be secrets."""
    misses = []
    for name in names:
        likely = name.isupper() and any(
            difflib.SequenceMatcher(None, name[: len(prefix)], prefix).ratio() > 0.7 for prefix in _PREFIXES
        )
        if likely and intended_variable(name) is not None:
            misses.append(name)
    return tuple(sorted(misses))


def looks_secret(name: str) -> bool:
    """Return whether the value of a variable of this name is probably a secret. Such a value is never collected."""
    return name not in ALLOWED and name not in ("PWD", "OLDPWD") and _SECRET.search(name.upper()) is not None
