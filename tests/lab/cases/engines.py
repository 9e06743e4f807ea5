"""The table: start lines of inference engines, and what keeps these from starting beside the store."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases.common import BOTH
from tests.lab.faults import inside, together
from tests.lab.faults.engines import (
    ATTENTION_DP,
    DATA_PARALLEL,
    EC,
    HICACHE,
    MOONCAKE,
    NIXL,
    REPLICAS,
    SGLANG,
    SIDE,
    STORE,
    TWO_RANKS,
    VLLM,
    WRAPPED,
    data_parallel,
    own_address,
    store_described,
    store_master,
)
from tests.lab.faults.host import HTTP_SERVER, SILENT_LISTENER, port_held, shared_memory
from tests.lab.faults.launch import flag, variable
from tests.lab.faults.packet_filter import nft
from tests.lab.harness.case import Case
from tests.lab.harness.shape import Shape

M, UNREACHED = "MOONCAKE_MASTER", "network/engine-server-unreachable"
AGENT, URI = "TORCHELASTIC_USE_AGENT_STORE", "tcp://10.96.0.5:8000"
TAKEN, TWICE = "network/engine-port-in-use", "network/engine-ports-overlap"


CASES = [
    Case("vLLM: a web server has the API's port", port_held(0, HTTP_SERVER, 8000), TAKEN, ["host0"], line=VLLM, torch="at once"),
    Case("SGLang: a ZMQ port is held", port_held(0, SILENT_LISTENER, 29503), TAKEN, ["host0"], line=ATTENTION_DP, torch="30 s"),
    Case("vLLM: the port of the handshake is held", together(data_parallel, port_held(0, SILENT_LISTENER, 29550)), TAKEN, ["host0"], line=DATA_PARALLEL, torch="at once"),
    Case("SGLang: --port is behind --dist-init-addr", flag("--port", "29502", 0), TWICE, ["host0"], line=ATTENTION_DP, torch="30 s"),
    Case("vLLM: VLLM_PORT is below the store's port", variable("VLLM_PORT", "29495", 0, 1), TWICE, BOTH[:1], "warn", line=VLLM, torch="by luck"),
    Case("vLLM: the port of Mooncake's bootstrap is held", port_held(0, SILENT_LISTENER, 8998), TAKEN, ["host0"], line=MOONCAKE, torch="silent"),
    Case("SGLang: one --nccl-port for two replicas", flag("--nccl-port", "21000", 0), TWICE, ["host0"], line=REPLICAS, hosts=1, torch="at once"),
    Case("vLLM: VLLM_HOST_IP is loopback on both", variable("VLLM_HOST_IP", "127.0.0.1", 0, 1), "environment/engine-address", BOTH, line=VLLM, torch="silent"),
    Case("vLLM: NIXL's side channel is localhost", variable(SIDE, None, 0, 1), "environment/engine-address", BOTH, line=NIXL, torch="first request"),
    Case("vLLM: the EC side channel is localhost", variable("VLLM_EC_SIDE_CHANNEL_HOST", None, 0, 1), "environment/engine-address", BOTH, line=EC, torch="first request"),
    Case("vLLM: two ranks with one EC side channel", variable("VLLM_EC_SIDE_CHANNEL_HOST", "host0", 0), TWICE, ["host0"], by_hand=flag("-dp", "1", 0), line=TWO_RANKS, hosts=1, torch="at once"),
    Case("vLLM: the file of Mooncake's store is not there", together(store_master(0), store_described(0), variable("MOONCAKE_CONFIG_PATH", "/nowhere.json", 1)), "environment/invalid-variable", ["host1"], by_hand=store_described(1), line=STORE, torch="at once"),
    Case("vLLM: Mooncake's master was not started", store_described(0, 1), UNREACHED, ["host0"], by_hand=store_master(0), line=STORE, torch="92 s"),
    Case("SGLang: Mooncake's master is on the other node", together(store_master(1), variable(M, "10.77.0.10:50051", 0, 1)), UNREACHED, BOTH, line=HICACHE, torch="92 s"),
    Case("vLLM: Mooncake's master lets one node in", together(store_master(0), store_described(0, 1), nft(0, "tcp dport 50051 ip saddr 10.77.0.11 drop")), UNREACHED, ["host0"], line=STORE, torch="silent"),
    Case("SGLang: Mooncake's metadata server was not started", together(store_master(0), variable(M, "10.77.0.10:50051", 0, 1), variable("MOONCAKE_TE_META_DATA_SERVER", "http://host1:8080/metadata", 0, 1)), UNREACHED, ["host1"], by_hand=port_held(1, HTTP_SERVER, 8080), line=HICACHE, torch="at once"),
    Case("vLLM: /dev/shm is full", together(shared_memory("1m", 0), inside(0, "dd if=/dev/zero of=/dev/shm/x bs=64k count=16 2>&1")), "host/shared-memory-small", ["host0"], line=VLLM, torch="at once (SIGBUS)"),
    Case("vLLM: UCX_NET_DEVICES is another host's card", together(own_address(SIDE), variable("UCX_NET_DEVICES", "mlx5_9:1", 1)), "environment/ucx-devices", ["host1"], line=NIXL, torch="first request"),
    Case("SGLang below a rank of torchrun", variable(AGENT, "True", 0, 1), "environment/agent-store-hijack", BOTH, line=SGLANG),
    Case("vLLM: VLLM_PORT is Kubernetes' own", variable("VLLM_PORT", URI, 1), "environment/invalid-variable", ["host1"], line=VLLM),
    Case("vLLM: VLLM_PORT is an ephemeral port", variable("VLLM_PORT", "40000", 0, 1), "host/engine-port-ephemeral", BOTH, "warn", line=VLLM, torch="by luck"),
    Case("SGLang: the store's port is held", port_held(0, SILENT_LISTENER), "network/port-in-use", ["host0"], line=SGLANG),
    Case("SGLang: --dist-init-addr is 0.0.0.0", flag("--dist-init-addr", "0.0.0.0:29500", 0, 1), "network/master-not-node0", BOTH, curable=True, line=SGLANG),
]  # fmt: skip

SHAPES = [
    Shape("vLLM on 2 nodes", line=VLLM),
    Shape("vLLM with a NIXL connector, each its own address", line=NIXL, setup=own_address(SIDE, "VLLM_HOST_IP")),
    Shape("vLLM's data-parallel ranks on 2 nodes", line=DATA_PARALLEL, setup=data_parallel),
    Shape("vLLM with Mooncake, beside another bootstrap", line=(*MOONCAKE[:-1], MOONCAKE[-1].replace("producer", "consumer")), setup=port_held(0, HTTP_SERVER, 8998)),
    Shape("vLLM with Mooncake's store, and its master", line=STORE, setup=together(store_master(0), store_described(0, 1))),
    Shape("SGLang with Mooncake's store, and its master", line=HICACHE, setup=together(store_master(1), variable(M, "host1:50051", 0, 1))),
    Shape("SGLang beside variables of a store that it does not use", line=SGLANG, setup=variable(M, "10.77.0.10:50051", 0, 1)),
    Shape("SGLang with attention DP, beside another server", line=ATTENTION_DP, setup=port_held(0, HTTP_SERVER, 8000)),
    Shape("SGLang behind nohup, numactl and uv run", line=WRAPPED),
]  # fmt: skip
"""Healthy clusters for such lines."""
