"""A peer does not answer over InfiniBand or RoCE.

What you see
------------
`NCCL WARN NET/IB : Got completion from peer ... with status=12 opcode=... vendor err 129`; `status=5` follows it. Or,
before the first byte, `Call to ibv_modify_qp failed with 110 Connection timed out`.

Why it happens
--------------
The transport gave up sending (status 12, retry exceeded): rails that are not routed to each other, a fabric that loses
packets, a peer whose link is down. InfiniBand ports with different subnet prefixes (the first half of a GID) are in
different subnets, and reach each other over an InfiniBand router alone.

Fix
---
Test that pair of HCAs with ib_write_bw; where rails are separate networks, NCCL_CROSS_NIC=0 and the right NCCL_IB_HCA.

When it is harmless
-------------------
Where the peer had died before: its queue pairs do not answer any more.

See also
--------
nccl/infiniband-link, nccl/infiniband-gid
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, failed_ranks, gpus, names_of, rdma

SEVERITY = "fail"
MATTERS = "without a router between the subnets, NCCL's connections between these nodes cannot be made"
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
        why="status 5 follows an earlier failure of the same connection",
    ),
    Line(  # of RoCE: the kernel asks who has the peer's address, and looks for a route to it
        "ibv_modify_qp",
        r"ibv_modify_qp (?:failed|returned).{0,20}(?:Connection timed out|Network is unreachable)",
        told="A port of RoCE gets no answer from its peer's address, or has no way to it",
        fix="See that the two addresses reach each other (ping -I LOCAL REMOTE, the ends of their GIDs); where each "
        "rail is a network of its own, NCCL_CROSS_NIC=0.",
    ),
    Line(
        ("Attempted to connect incompatible devices", "Attempted to merge incompatible devices", "device is incompat"),
        r"incompatible devices|NET/IB : Remote \w{1,8} device is incompatible with the local",
        told="NCCL tried to connect a port of InfiniBand and one of RoCE",
        fix="Let NCCL take ports of one kind on all nodes: NCCL_IB_HCA names them.",
    ),
    Line(
        ("ibv_post_send() failed", "ibv_post_recv() failed", "Call to ibv_poll_cq() returned"),
        shows="symptom",
        why="a connection that was lost before shows the same",
    ),
)
LOOKS_AT = ("ranks.devices", "everyone")
ROCE = "RoCE"
GIVEN_UP = ("Got completion", "ibv_modify_qp", "ibv_poll_cq")
"""What NCCL may warn of where its packets get to no peer; any other warning tells of something else."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    fabrics = {node: its for node in cluster.nodes if rdma.uses_rdma(cluster, node) and (its := fabrics_of(node))}
    reached = {node: [other for other in fabrics if fabrics[node] & fabrics[other]] for node in fabrics}
    most = max(map(len, reached.values()), default=0)
    if most == len(fabrics) or gpus.nccl_made(cluster.nodes):
        return
    sure = most * 2 > len(fabrics)
    usual = next(others for others in reached.values() if len(others) == most)
    apart = [node for node in fabrics if not sure or node not in usual]
    failed = [one.rank for one in failed_ranks(cluster, "nccl")]
    warned = [text for rank in failed if rank.nccl is not None for text in rank.nccl.warnings]
    stopped = bool(failed) and all(any(word in text for word in GIVEN_UP) for text in warned)
    unlike = {ROCE in its for its in fabrics.values()} == {True, False}
    if unlike:
        what = (
            f"of {'another kind' if sure else 'different kinds'} (InfiniBand, RoCE){' than the others' if sure else ''}"
        )
    else:
        what = "in another InfiniBand subnet than the others" if sure else "in different InfiniBand subnets"
    yield Finding.about(
        apart,
        f"The RDMA ports of {names_of(apart)} are {what}.",
        unsure=not sure,
        severity="fail" if unlike or stopped else "warn",
        evidence=[f"{node.name}: {', '.join(sorted(fabrics[node]))}" for node in fabrics],
        fixes=[
            Fix.on(apart, "Take nodes of one fabric, or let NCCL take the ports of one that all have (NCCL_IB_HCA)."),
            Fix.on(cluster.nodes, "Or go over TCP on all nodes, slower.", option=2, env=rdma.over_tcp(cluster.nodes)),
        ],
    )


def fabrics_of(node: Node) -> frozenset[str]:
    """The subnets of the node's active ports, and RoCE as one; empty where that is not known of each."""
    ports = rdma.active_ports(node)
    if not all(port.link_layer == "Ethernet" or (port.link_layer == "InfiniBand" and port.gids) for port in ports):
        return frozenset()
    return frozenset(
        ROCE if port.link_layer == "Ethernet" else f"subnet {rdma.subnet(port.gids[0].address)}" for port in ports
    )
