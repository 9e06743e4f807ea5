"""A peer does not answer over InfiniBand or RoCE.

## What you see
`NCCL WARN NET/IB : Got completion from peer ... with status=12 opcode=... vendor err 129`; `status=5` follows it. Or,
before the first byte, `Call to ibv_modify_qp failed with 110 Connection timed out`.

## Why it happens
The transport stopped sending (status 12, retries exceeded). Causes are rails without a route to each other, a fabric
that loses packets, and a peer with its link down. InfiniBand ports with different subnet prefixes (the first half of a
GID) are in different subnets, and need an InfiniBand router between them.

## Fix
If rails are separate networks, run `export NCCL_CROSS_NIC=0` and name the common adapters:
`export NCCL_IB_HCA=mlx5_0`. If one link fails, remove its node from the job.

## Confirm with
`ib_write_bw -d mlx5_0` on one node and `ib_write_bw -d mlx5_0 10.0.0.11` on the other.

## When it is harmless
When the peer died before: its queue pairs no longer answer.

## See also
nccl/infiniband-link, nccl/infiniband-gid
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, failed_ranks, gpus, names_of, rdma

SEVERITY = "fail"
MATTERS = "without a router between the subnets, NCCL cannot connect these nodes"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = ("ib_write_bw between both HCAs", "ib_write_bw -d HCA HOST")
LOG = (
    Line(
        "Got completion",
        r"Got completion (?:from peer (?P<peer>\S{1,64}) )?with (?:status=12|error 12"
        r"|status=IBV_WC_RETRY_EXC_ERR\(12\))",
        shows="end",
    ),
    Line(
        "Got completion",
        r"Got completion (?:from peer \S{1,64} )?with (?:status=(?!12\b)\d+|error (?!12\b)\d+"
        r"|status=IBV_WC_\w{1,40}\((?!12\))\d+\))",
        shows="symptom",
        why="status 5 is a consequence of an earlier failure of the connection",
    ),
    Line(  # of RoCE: the kernel asks who has the peer's address, and looks for a route to it
        "ibv_modify_qp",
        r"ibv_modify_qp (?:failed|returned).{0,20}(?:Connection timed out|Network is unreachable)",
        told="A RoCE port gets no answer from its peer's address, or has no route to it",
        fix="Add a route between the two RoCE addresses; if each rail is a separate network, run "
        "`export NCCL_CROSS_NIC=0`. Confirm with: `ping -I LOCAL REMOTE` with the addresses of their GIDs.",
    ),
    Line(
        ("Attempted to connect incompatible devices", "Attempted to merge incompatible devices", "device is incompat"),
        r"incompatible devices|NET/IB : Remote \w{1,8} device is incompatible with the local",
        told="NCCL tried to connect an InfiniBand port to a RoCE port",
        fix="On all nodes, set NCCL_IB_HCA to ports of one kind: `export NCCL_IB_HCA=mlx5_0`. Confirm with: `ibstat`.",
    ),
    Line(
        ("ibv_post_send() failed", "ibv_post_recv() failed", "Call to ibv_poll_cq() returned"),
        shows="symptom",
        why="an earlier loss of the connection shows the same",
    ),
)
LOOKS_AT = ("ranks.devices", "everyone")
ROCE = "RoCE"
GIVEN_UP = ("Got completion", "ibv_modify_qp", "ibv_poll_cq")
"""NCCL's warnings if packets reach no peer; any other warning has another cause."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    fabrics = {node: its for node in cluster.nodes if rdma.uses_rdma(cluster, node) and (its := fabrics_of(node))}
    reached = {node: [other for other in fabrics if fabrics[node] & fabrics[other]] for node in fabrics}
    most = max(map(len, reached.values()), default=0)
    if most == len(fabrics) or gpus.nccl_made(cluster.nodes):
        return
    sure = most * 2 > len(fabrics)
    usual = next(others for others in reached.values() if len(others) == most)
    separated = [node for node in fabrics if not sure or node not in usual]
    failed = [failure.rank for failure in failed_ranks(cluster, "nccl")]
    warned = [text for rank in failed if rank.nccl is not None for text in rank.nccl.warnings]
    stopped = bool(failed) and all(any(word in text for word in GIVEN_UP) for text in warned)
    unlike = {ROCE in its for its in fabrics.values()} == {True, False}
    if unlike:
        difference = (
            f"of {'another kind' if sure else 'different kinds'} (InfiniBand, "
            f"RoCE){' than those of the other nodes' if sure else ''}"
        )
    else:
        difference = (
            "in another InfiniBand subnet than those of the other nodes" if sure else "in different InfiniBand subnets"
        )
    yield Finding.about(
        separated,
        f"The RDMA ports of {names_of(separated)} are {difference}.",
        unsure=not sure,
        severity="fail" if unlike or stopped else "warn",
        evidence=[f"{node.name}: {', '.join(sorted(fabrics[node]))}" for node in fabrics],
        fixes=[
            Fix.on(
                separated,
                "Use nodes of one fabric, or set NCCL_IB_HCA to ports of a common one. Confirm with: `ibstat`.",
            ),
            Fix.on(cluster.nodes, "Or use TCP on all nodes; it is slower.", option=2, env=rdma.over_tcp(cluster.nodes)),
        ],
    )


def fabrics_of(node: Node) -> frozenset[str]:
    """Return the subnets of the node's active ports, with RoCE as one; empty if one is unknown."""
    ports = rdma.active_ports(node)
    if not all(port.link_layer == "Ethernet" or (port.link_layer == "InfiniBand" and port.gids) for port in ports):
        return frozenset()
    return frozenset(
        ROCE if port.link_layer == "Ethernet" else f"subnet {rdma.subnet(port.gids[0].address)}" for port in ports
    )
