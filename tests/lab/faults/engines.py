"""Start lines of inference engines, and what differs from node to node in them."""

from __future__ import annotations

from tests.lab.faults.host import SILENT_LISTENER, port_held
from tests.lab.harness.launch import Fault, Launch

VLLM = ("vllm", "serve", "model", "-tp", "4")
NIXL = (*VLLM, "--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_both"}')
SGLANG = ("python3", "-m", "sglang.launch_server", "--model-path", "model", "--tp", "4")
ATTENTION_DP = (*SGLANG, "--dp", "4", "--enable-dp-attention")
MOONCAKE = (*VLLM, "--kv-transfer-config", '{"kv_connector":"MooncakeConnector","kv_role":"kv_producer"}')
EC = (*VLLM, "--ec-transfer-config", '{"ec_connector":"ECCPUConnector","ec_role":"ec_producer"}')
STORE = (*VLLM, "--kv-transfer-config", '{"kv_connector":"MooncakeStoreConnector","kv_role":"kv_both"}')
TWO_RANKS = ("vllm", "serve", "model", "-dp", "2", *EC[-2:])
REPLICAS = ("python3", "-m", "sglang.launch_server", "--model-path", "model", "--dp", "2")
DATA_PARALLEL = ("vllm", "serve", "model", "-dp", "4", "-dpl", "2")
WRAPPED = ("nohup", "numactl", "--interleave=all", "uv", "run", *SGLANG)
HICACHE = (*SGLANG, "--enable-hierarchical-cache", "--hicache-storage-backend", "mooncake")
MASTER = 50051
SIDE = "VLLM_NIXL_SIDE_CHANNEL_HOST"


def data_parallel(launch: Launch) -> None:
    """Each node has its own part of vLLM's data-parallel ranks; none of torchrun's options says so."""
    for start in launch.starts:
        start.flags = {"--data-parallel-address": "host0"}
        if start.node_rank:
            start.flags["--data-parallel-start-rank"] = str(2 * start.node_rank)


def own_address(*names: str) -> Fault:
    """The variables are each node's own address."""

    def setup(launch: Launch) -> None:
        for start in launch.starts:
            start.env |= dict.fromkeys(names, start.host.address)

    return setup


def store_described(*hosts: int) -> Fault:
    """These hosts have a file that describes Mooncake's store, and its master is to be on the first host."""

    def inject(launch: Launch) -> None:
        text = f'{{"master_server_address": "10.77.0.10:{MASTER}", "metadata_server": "P2PHANDSHAKE"}}'
        path = launch.cluster.put("mooncake.json", text)
        for index in hosts:
            for start in launch.on(index):
                start.env["MOONCAKE_CONFIG_PATH"] = path

    return inject


def store_master(on: int) -> Fault:
    """A process on this host accepts connections on the port of Mooncake's master."""
    return port_held(on, SILENT_LISTENER, MASTER)
