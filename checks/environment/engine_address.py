"""The engine gives other nodes an address that is this host's own.

## What you see
The first server waits without end for the workers of the other node. Or the first request makes NIXL report
`NIXL_ERR_REMOTE_DISCONNECT` or a failed handshake with localhost:5600.

## Why it happens
vLLM binds its message queue to VLLM_HOST_IP, and sends this address to the workers of the other nodes. Mooncake gives
it (SGLang: SGLANG_HOST_IP) to the instance that fetches the KV cache. The scheduler of the NIXL connector listens at
VLLM_NIXL_SIDE_CHANNEL_HOST, localhost unless it is set. The P2P tier of the KV cache and the EC connector have such
variables, too: VLLM_P2P_SIDE_CHANNEL_HOST, VLLM_EC_SIDE_CHANNEL_HOST. A loopback address or 0.0.0.0 means the reader's
own host on every other node. Under Ray, vLLM also looks for its own node by this address.

## Fix
Set the variable to the node's own address, on each node another: `export VLLM_HOST_IP=10.77.0.10`, `export
VLLM_NIXL_SIDE_CHANNEL_HOST=10.77.0.10`.

## Confirm with
`ip -br address` lists the address, and `env | grep VLLM_` shows it.

## When it is harmless
All instances that exchange KV caches run on this node; the finding is then a WARN.

## See also
environment/host-ip-copied
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, names_of, reachable_address, reaches_no_other

SEVERITY = "fail"
MATTERS = "an instance on another node cannot fetch the KV cache from here"
PREVENTS = "results right"
LOOKS_AT = ()
HELPED_BY = ("host.interfaces",)
NEXT = ("the address that each engine gives, on each node", "env | grep -E 'VLLM_(NIXL_SIDE_CHANNEL_HOST|HOST_IP)'")
LOG = (
    Line(  # vLLM's NixlConnector: the engine at the address of a request is another one than that of the request
        "Remote NIXL agent engine ID mismatch",
        shows="symptom",
        why="an engine that was restarted, or another one at the same port, shows the same",
    ),
    Line(  # vLLM's first bundle asks for its driver's own node (v1/executor/ray_utils.py, initialize_ray_cluster())
        "No available node types can fulfill resource request",
        r"resource request \{(?=[^{}]*'GPU')[^{}]*'node:(?P<address>[\da-fA-F.:]{2,45})': 0\.001",
        told="Ray has no node with GPUs at the address that vLLM takes for its own host's",
        fix="Compare the address in the line with `ray list nodes`. If it is not there, set VLLM_HOST_IP on each node "
        "to its address in that list, for `ray start` and for vLLM. If it is there, start vLLM on a node of Ray that "
        "has GPUs.",
    ),
)
_TRANSFERS = ("Mooncake bootstrap", "bootstrap of the transfer")
_OWN = {"vLLM": "VLLM_HOST_IP", "SGLang": "SGLANG_HOST_IP"}


def judge(cluster: Cluster) -> Iterator[Finding]:
    queue = [node for node in cluster.nodes if several(node) and own_only(node, _OWN.get(node.plan.engine, ""))]
    for variable in dict.fromkeys(_OWN[node.plan.engine] for node in queue):
        bad = [node for node in queue if _OWN[node.plan.engine] == variable]
        yield Finding.about(
            bad,
            f"{variable} on {names_of(bad)} is an address that no other node can reach.",
            evidence=(
                f"{node.name}: {variable}={node.variables[variable]}, and the line has several nodes" for node in bad
            ),
            fixes=(fix(cluster, node, variable) for node in bad),
        )
    senders = [node for node in cluster.nodes if node not in queue and own_only(node, sender(node))]
    if senders:
        yield of_senders(cluster, senders)
    for variable in dict.fromkeys(name for node in cluster.nodes for name in side_channels(node)):
        listeners = [
            node
            for node in cluster.nodes
            if variable in side_channels(node) and (unset(node, variable) or own_only(node, variable))
        ]
        if listeners:
            yield of_listeners(cluster, listeners, variable)


def of_listeners(cluster: Cluster, nodes: list[Node], variable: str) -> Finding:
    channel = side_channels(nodes[0])[variable]
    return Finding.about(
        nodes,
        f"The {channel} of vLLM on {names_of(nodes)} listens at {nodes[0].variables.get(variable) or 'localhost'}, "
        "where no other node reaches it.",
        severity="fail" if any(several(node) for node in nodes) else "warn",
        evidence=(f"{node.name}: {variable}{value(node, variable)}; the line needs a {channel}" for node in nodes),
        fixes=(fix(cluster, node, variable) for node in nodes),
    )


def of_senders(cluster: Cluster, nodes: list[Node]) -> Finding:
    variable = sender(nodes[0])
    return Finding.about(
        nodes,
        f"{variable} on {names_of(nodes)} is an address where no other node reaches the KV cache.",
        severity="warn",
        evidence=(f"{node.name}: {variable}={node.variables[variable]}; the line has a {use(node)}" for node in nodes),
        fixes=(fix(cluster, node, variable) for node in nodes),
    )


def sender(node: Node) -> str:
    """Return the variable of the address that a transfer engine on this node gives to the others; empty without one.

    vLLM takes get_ip() (v1/mooncake/mooncake_connector.py), SGLang get_local_ip_auto() (disaggregation/common/conn.py).
    """
    return _OWN.get(node.plan.engine, "") if use(node) else ""


def use(node: Node) -> str:
    """Return the use of the port that a transfer engine binds here; empty without one."""
    return next((port.use for port in node.plan.ports if port.use in _TRANSFERS), "")


def several(node: Node) -> bool:
    return (node.plan.nnodes or 1) > 1


def side_channels(node: Node) -> dict[str, str]:
    """Return the variables of the addresses at which vLLM's side channels listen, each with its use."""
    named = {port.setting: port.use for port in node.plan.ports if port.setting.endswith("_SIDE_CHANNEL_PORT")}
    return {setting.removesuffix("PORT") + "HOST": use for setting, use in named.items()}


def unset(node: Node, variable: str) -> bool:
    return not node.variables.get(variable)


def own_only(node: Node, variable: str) -> bool:
    """Return whether the variable is set to an address that means each host itself."""
    address = node.variables.get(variable) if variable else None
    return bool(address) and (address == "localhost" or reaches_no_other(address or ""))


def value(node: Node, variable: str) -> str:
    given = node.variables.get(variable)
    return f"={given}" if given else " is not set: localhost"


def fix(cluster: Cluster, node: Node, variable: str) -> Fix:
    own = reachable_address(node, cluster)
    if own is None:
        return Fix.on(node, f"Set {variable} to the address by which the other nodes reach {node.name}.")
    return Fix.on(node, f"Set {variable} to the address of {node.name}.", env={variable: own})
