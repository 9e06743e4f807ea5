"""A port of the engine is in use.

## What you see
`[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000)` of vLLM's API server, `scheduler_input_port at
5005 is not available in 30 seconds` of SGLang, `zmq.error.ZMQError: Address already in use`, or on a random port

    The server socket has failed to listen on any local network address. port: 32847, useIpv6: false, code: -98, name:
    EADDRINUSE, message: address already in use

## Why it happens
Engines bind more ports than that of the store: for HTTP, ZMQ, and the transfer of the KV cache. Another server, or the
last one, still holds one of them. A random port was free when the engine picked it, and was taken before the engine
bound it. An outgoing connection took it, or a second engine that picks from the same VLLM_PORT on.

## Fix
Give the line another port, such as `--port 8001`, or end the process that holds this one. For a random port start again
with a first port below net.ipv4.ip_local_port_range, for each engine of a node another: `export VLLM_PORT=21000` for
vLLM, `--nccl-port 21000` for SGLang.

## Confirm with
`ss -ltnp 'sport = :8000'` shows no listener before the start.

## When it is harmless
The holder is the server that this line is to replace, and ends first.

## See also
network/port-in-use, network/engine-ports-overlap, host/engine-port-ephemeral
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, end_leftover_fix, port_holder_evidence

SEVERITY = "fail"
PREVENTS = "results right"
LOOKS_AT = ("network",)
FOLLOWS_ANYWHERE = ("environment/duplicate-node-rank", "network/engine-ports-overlap")
OF_ITS_OWN = r"(?![\s\S]*_env_rendezvous_handler)"
"""In the frames: the store is not that of MASTER_ADDR and MASTER_PORT."""
IN_USE, SAYS = ("EADDRINUSE", "ddress already in use"), r"EADDRINUSE|ddress already in use"
LOG = (
    Line(  # of trl/generation/vllm_client.py, swift/rlhf_trainers/vllm_client.py, vLLM's and SGLang's weight transfer
        IN_USE,
        SAYS,
        stack=r"\bin (?:init_communicator|init_weights?_update_group|init_weight_transfer\w*"
        r"|stateless_init_process_group|stateless_init_metadata_group)\b",
        told="The port of the group between trainer and engine is in use on this host",
        fix="End the engine or trainer that still holds the port (`ss -ltnp 'sport = :51216'` names it). Or give the "
        "group another port: `--vllm_group_port 51300` (TRL), `--vllm_server_group_port 51300` (ms-swift).",
    ),
    Line(
        "EADDRINUSE",
        stack=rf"/sglang/srt/{OF_ITS_OWN}",
        told="The port of SGLang's own store is in use",
        fix="Start it again with a free port: on several nodes `--dist-init-addr HOST:PORT`, the same on every node; "
        "on one `--nccl-port PORT`, below net.ipv4.ip_local_port_range. With `--dp-size` leave --nccl-port out: each "
        "replica would bind it.",
    ),
    Line(
        "EADDRINUSE",
        stack=rf"/vllm/(?:v1|distributed|worker|executor)/{OF_ITS_OWN}",
        told="The port of vLLM's own store is in use",
        fix="Set a first port below net.ipv4.ip_local_port_range, for each engine of a node another: `export "
        "VLLM_PORT=21000`. With `--nnodes` give `--master-port` another value, the same on every node.",
    ),
    Line(
        "ddress already in use",
        r"ZMQError: Address already in use(?: \(addr='tcp://\S{1,253}:(?P<port>\d{1,5})'\))?",
        stack=r"/vllm/(?:v1|distributed|entrypoints)/",
        told="Another process took a ZMQ port that vLLM had chosen",
        fix="Start the engine again. If it happens again, give each engine of the node a range of its own: `export "
        "VLLM_PORT=21000`, or start fewer API servers (`--api-server-count 1`).",
    ),
    Line(
        "Port is already in use. dist_init_port=",
        r"dist_init_port=(?P<port>\d{1,5})",
        told="A port that SGLang derives from --dist-init-addr is in use",
        fix="Give `--dist-init-addr` another port, the same on every node; SGLang also binds the six ports behind it.",
    ),
    Line(
        "is not available in",
        r"\b(?P<use>\w{0,40}?port\w{0,40}) at (?P<port>\d{1,5}) is not available in \d+ seconds",
        told="A port of SGLang is in use",
        fix="End the process that the line names, or give the server another port (`--port`, `--dist-init-addr`).",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        for bind in node.network.engine_binds:
            mine = next((port for port in node.plan.ports if port.port == bind.port), None)
            if mine is None:
                continue
            yield Finding.about(
                [node],
                f"Port {bind.port} of {node.plan.engine} ({mine.use}) is in use on {node.name}.",
                evidence=(
                    f"{node.name}: {node.plan.engine} takes port {bind.port} by {mine.setting}: {bind.error}",
                    *(f"{node.name}: {port_holder_evidence(holder, bind.port)}" for holder in bind.holders),
                ),
                fixes=(
                    *another(cluster, node, mine.setting, bind.port, bind.free_port),
                    end_leftover_fix(bind.holders, node),
                ),
            )


def another(cluster: Cluster, node: Node, setting: str, port: int, free: int | None) -> Iterator[Fix]:
    """Yield the fix that changes the setting: an option, or a variable."""
    if setting == "--dist-init-addr":
        address = node.plan.master_addr
        yield Fix.on(
            cluster.nodes,
            "Move all ports that SGLang derives from --dist-init-addr, the same on every node.",
            flags={setting: f"{address}:{node.plan.master_port + 1000}"},
        )
    elif free is not None and setting.startswith("--"):
        nodes = cluster.nodes if setting == node.plan.sources.get("master_port") else [node]
        yield Fix.on(nodes, f"Give the line another port: {free} is free.", flags={setting: str(free)})
    elif free is not None:
        yield Fix.on(node, f"Use another port: {free} is free.", env={setting: str(free)})
    else:
        yield Fix.on(node, f"Set {setting} to another port than {port}.")
