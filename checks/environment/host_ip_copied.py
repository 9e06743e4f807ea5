"""An address of another node is set on this one.

What you see
------------
`Cannot assign requested address (addr='tcp://172.17.0.5:...')`, `Every node should have a unique IP address`.

Why it happens
--------------
A variable that is to hold each node's own address (torchrun's PET_LOCAL_ADDR, VLLM_HOST_IP, HOST_IP,
*_SIDE_CHANNEL_HOST) was copied to all nodes, as part of one environment for all. What reads it binds to an address that
the host has not, or announces another node's as its own.

Fix
---
Set it on each node to that node's own address.

When it is harmless
-------------------
Where the address is no node's of the job (the host's, of containers with a network of their own) nothing is found.

See also
--------
network/master-not-node0
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, names_of, parse_address, reachable_address

SEVERITY = "fail"
PREVENTS = "plan agreed"
MATTERS = "torch itself does without, what reads the variable binds to an address that is not there"
LOOKS_AT = ("host.interfaces", "everyone")
OWN_ADDRESS = (
    "PET_LOCAL_ADDR",
    "VLLM_HOST_IP",
    "VLLM_NIXL_SIDE_CHANNEL_HOST",
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
        wrong = {node: owner for node in cluster.nodes if (owner := whose(cluster, node, variable))}
        if wrong:
            yield Finding.about(
                wrong,
                f"{variable} on {names_of(wrong)} is the address of another node.",
                severity="warn",
                evidence=(
                    f"{node.name}: {variable}={node.variables[variable]}, which is {owner.name}'s and on no interface "
                    f"of {node.name}"
                    for node, owner in wrong.items()
                ),
                fixes=(fix(cluster, node, variable) for node in wrong),
            )


def whose(cluster: Cluster, node: Node, variable: str) -> Node | None:
    """The other node that has the address of this one's variable; None where it has it itself, or none is known to."""
    address = parse_address(node.variables.get(variable))
    if address is None or has(node, address):
        return None
    return next((other for other in cluster.peers(node) if has(other, address)), None)


def has(node: Node, address: object) -> bool:
    return any(parse_address(own) == address for own in node.addresses)


def fix(cluster: Cluster, node: Node, variable: str) -> Fix:
    own = reachable_address(node, cluster)
    if own is None:
        return Fix.on(node, f"Set {variable} to the address of {node.name} itself.")
    return Fix.on(node, f"Set it to the address of {node.name} itself.", env={variable: own})
