"""A variable on this node holds the address of another node.

## What you see
`Cannot assign requested address (addr='tcp://172.17.0.5:...')`, `Every node should have a unique IP address`.

## Why it happens
A variable for each node's own address (torchrun's PET_LOCAL_ADDR, VLLM_HOST_IP, HOST_IP, *_SIDE_CHANNEL_HOST) was
copied to all nodes with the rest of the environment. The program that reads it binds to an address that the host does
not have, or advertises another node's address.

## Fix
Set the variable to the node's own address on each node: `export VLLM_HOST_IP=$(ip -4 route get 10.77.0.10 | grep -oP
'src [^ ]+' | cut -c5-)`.

## Confirm with
`ip -br address` lists the address of the variable on the node where it is set.

## When it is harmless
The address belongs to no node of the job, for example to the host of a container. Then nothing is reported.

## See also
network/master-not-node0
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, names_of, parse_address, reachable_address

SEVERITY = "fail"
PREVENTS = "plan agreed"
MATTERS = "torch itself does not need it, but programs that read it bind to an address that the host does not have"
LOOKS_AT = ("host.interfaces", "everyone")
OWN_ADDRESS = (
    "PET_LOCAL_ADDR",
    "VLLM_HOST_IP",
    "VLLM_NIXL_SIDE_CHANNEL_HOST",
    "VLLM_P2P_SIDE_CHANNEL_HOST",
    "VLLM_EC_SIDE_CHANNEL_HOST",
    "SGLANG_HOST_IP",
    "HOST_IP",
    "NODE_IP",
    "POD_IP",
)
"""Variables that hold the address of the node itself: torchrun's --local-addr, vLLM's, SGLang's, of pods."""
LOG = (
    Line("should have a unique IP address"),
    Line(
        "Cannot assign requested address",
        r"Cannot assign requested address \(addr=|ZMQError: Cannot assign requested address",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for variable in OWN_ADDRESS:
        wrong = {node: owner for node in cluster.nodes if (owner := owner_of(cluster, node, variable))}
        if wrong:
            yield Finding.about(
                wrong,
                f"{variable} on {names_of(wrong)} holds the address of another node.",
                severity="warn",
                evidence=(
                    f"{node.name}: {variable}={node.variables[variable]} is an address of {owner.name} and of no "
                    f"interface of {node.name}"
                    for node, owner in wrong.items()
                ),
                fixes=(fix(cluster, node, variable) for node in wrong),
            )


def owner_of(cluster: Cluster, node: Node, variable: str) -> Node | None:
    """The other node that has the address of this one's variable; None where it has it itself, or none is known to."""
    address = parse_address(node.variables.get(variable))
    if address is None or has_address(node, address):
        return None
    return next((other for other in cluster.peers(node) if has_address(other, address)), None)


def has_address(node: Node, address: object) -> bool:
    return any(parse_address(own) == address for own in node.addresses)


def fix(cluster: Cluster, node: Node, variable: str) -> Fix:
    own = reachable_address(node, cluster)
    if own is None:
        return Fix.on(node, f"Set {variable} to an address of {node.name} (ip -br address lists them).")
    return Fix.on(node, f"Set {variable} to the address of {node.name}.", env={variable: own})
