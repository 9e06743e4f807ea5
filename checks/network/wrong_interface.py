"""A backend picked an interface that the other hosts do not share.

## What you see
The store works, then init_process_group() hangs or fails on one side with

    connectFullMesh failed with [...] connect [172.17.0.1]:PORT: Connection refused

NCCL shows its choice with NCCL_DEBUG=INFO: `NET/Socket : Using [0]docker0:172.17.0.1`, a veth, or an fe80 address.

## Why it happens
gloo uses GLOO_SOCKET_IFNAME, else the first address of the host's own name. NCCL uses the first interface that is
neither docker nor lo. On hosts with containers, virtual machines or a VPN that may be docker0, virbr0, a veth or tun0.
docker0 has the same address, 172.17.0.1, on every host: a peer that connects to it reaches itself.

## Fix
Set the interface that reaches the other nodes, on each node its own: `export GLOO_SOCKET_IFNAME=eth0`
(NCCL_SOCKET_IFNAME for nccl); in containers, `docker run --network=host`.

## Confirm with
`ip route get 10.77.0.10` prints the interface that reaches node 0.

## When it is harmless
The other nodes reach the address: a VPN or overlay network of all nodes is fine. Of two gloo nodes the one with the
numerically larger address connects. If only that one's address is unreachable, the job runs, and the finding is
a WARN.

## See also
gloo/interface-unreachable, gloo/loopback-address, network/ipv6-mismatch
"""

from distdoctor.check_api import (
    INTERFACE_VARIABLES,
    NO_GLOO,
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    PickedAddress,
    by_luck,
    gloo_errors_name,
    in_network,
    primary_interface,
    some_of,
    together,
    wrongly_picked,
)

SEVERITY = "fail"
FIX_NCCL = (
    "Set the interface that reaches the other nodes: `export NCCL_SOCKET_IFNAME=eth0`, on each node its own (ip -br "
    "addr lists them). Other hosts cannot reach the address above: it is that of lo, docker0 or a DNS cache. In "
    "containers, use `--network=host`."
)
LOG = (
    Line("settings: NCCL uses ", shows="hint", why="on one host alone it may be the right one"),
    Line(
        "connectFullMesh failed",
        r"remote=\[?(?P<address>172\.17\.0\.\d+|169\.254\.\d+\.\d+|fe80:[\w:%]+)",
        of_peer=True,
    ),
    Line(
        ("socketStartConnect", "Connect to "),
        r"Connect to (?P<address>172\.17\.0\.\d+|169\.254\.\d+\.\d+|fe80:[\w:%]+)<\d+> failed",
        fix=FIX_NCCL,
        of_peer=True,
    ),
    Line(
        "ocketPollConnect",
        r"onnect to (?P<address>169\.254\.\d+\.\d+|fe80:[\w:%]+)<\d+> returned",
        fix=FIX_NCCL,
        of_peer=True,
    ),
    Line(
        "onnect to 127.",  # of a peer whose NCCL took lo, as with NCCL_SOCKET_IFNAME=lo
        r"onnect to (?P<address>127\.\d+\.\d+\.\d+)<\d+> (?:failed|returned)",
        shows="symptom",
        several=True,
        why="on a single host, a rank that died shows the same",
        fix=FIX_NCCL,
        of_peer=True,
    ),
    Line(
        "gloo/transport",
        r"(?:connect|remote=) ?\[?(?P<address>172\.17\.0\.\d+|169\.254\.\d+\.\d+|fe80:[\w:%]+)",
        of_peer=True,
    ),
    Line(
        ("NET/Socket : Using", "Bootstrap : Using"),
        r"Using (?:\[\d\])?(?P<interface>(?:docker|veth|virbr|br-)[\w.-]{0,15}):(?P<address>[\w.:]+)",
        shows="hint",
        why="on a single host it does not matter",
    ),
)
MATTERS = "gloo connects from the larger address to the smaller, and no rank connects to this one"
PREVENTS = "peers connected"
LOOKS_AT = ("host.gloo", "everyone")
SHOWN = 6
OWN_NETWORK = (
    "Start {node} with the network of its machine ({machine}): `docker run --network=host ...` (podman alike; "
    "hostNetwork: true in a pod; a bridged card for a virtual machine)."
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    wrong = wrongly_picked(cluster)
    if not wrong:
        return
    nodes = tuple(dict.fromkeys(pick.node for pick in wrong))
    choices = together(
        dict.fromkeys(f"{p.backend} picked {p.address} ({p.interface or 'no interface'})" for p in wrong)
    )
    why = "which other hosts also have" if any(p.shared_with for p in wrong) else "which other nodes cannot reach"
    if hidden := [p for p in wrong if p.seen_as]:
        why = f"which only its own machine ({together(dict.fromkeys(p.seen_as for p in hidden))}) can reach"
    fails = any(p.fails and (p.backend == "nccl" or cluster.gloo_planned) for p in wrong)
    blamed = cluster.gloo_planned and gloo_errors_name(cluster, {p.address for p in wrong})
    yield Finding.about(
        nodes,
        f"{choices} on {some_of(node.name for node in nodes)}, {why}.",
        links=dict.fromkeys((e.source.name, p.node.name) for p in wrong for e in p.unreached[:SHOWN]),
        severity="fail" if fails or blamed else "warn",
        matters=by_luck(cluster) if cluster.gloo_planned else NO_GLOO,
        evidence=dict.fromkeys(line for pick in wrong for line in evidence(pick)),
        fixes=map(fix, wrong),
    )


def evidence(pick: PickedAddress) -> Iterator[str]:
    node, host = pick.node, pick.node.host
    choice = host.gloo if pick.backend == "gloo" else host.nccl
    if choice is not None and choice.reason == "variable":
        why = f"by {INTERFACE_VARIABLES[pick.backend]}={choice.variable}"
    elif pick.backend == "gloo":
        why = f"the first address of its own name {host.own_name.name}".rstrip()
    else:
        why = "the first interface that NCCL's rules allow"
    known = node.reached_at and not pick.seen_as
    reached = f"; it is reached at {node.reached_at} ({primary_interface(node)})" if known else ""
    where = f"{pick.address} on {pick.interface or 'no interface of it'}"
    yield f"{node.name}: {pick.backend} uses {where}, {why}{reached}"
    if pick.seen_as:
        yield f"{node.name}: packets from {pick.address} arrive at other hosts with the source {pick.seen_as}"
    if pick.shared_with:
        yield f"{pick.address} is also an address of {some_of(n.name for n in pick.shared_with)}, on another host"
    for edge in pick.unreached[:SHOWN]:
        choices = edge.link.outcome.replace("-", " ")
        yield f"{edge.source.name} to {node.name}: {edge.link.address}:{edge.link.port} {choices}"


def fix(pick: PickedAddress) -> Fix:
    node, interface = pick.node, primary_interface(pick.node)
    if length := before_the_right_one(pick):
        text = (
            f"On {node.name}, move {pick.address} after {node.reached_at} on {interface}: {pick.backend} uses the "
            "first "
            "address of its interface."
        )
        place = f"{pick.address}/{length} dev {interface}"
        return Fix.on(node, text, commands=(f"ip address del {place} && ip address add {place}",))
    if interface is None or interface == pick.interface:
        if pick.seen_as:
            return Fix.on(node, OWN_NETWORK.format(node=node.name, machine=pick.seen_as))
        text = (
            f"On {node.name}, give {pick.interface or 'the interface'} an address that no other host has; start a "
            "container on a bridge of its machine with --network=host instead."
        )
        return Fix.on(node, text)
    text = f"On {node.name}, set {pick.backend}'s interface to the one that reaches the other nodes."
    return Fix.on(node, text, env={INTERFACE_VARIABLES[pick.backend]: interface})


def before_the_right_one(pick: PickedAddress) -> int:
    """The prefix length of the address, where the one that the others reach is a later one of the same interface, of
    another network: with one that is of its own network, the kernel deletes that, too. 0 where it is not so."""
    node, at = pick.node, pick.node.reached_at
    card = next((card for card in node.host.interfaces if card.name == pick.interface), None)
    if card is None or pick.shared_with or pick.address not in card.addresses or at not in card.addresses:
        return 0
    place = card.addresses.index(pick.address)
    length = card.prefix_lengths[place] if place < min(card.addresses.index(at), len(card.prefix_lengths)) else 0
    other_family = (":" in pick.address) is not (":" in at)
    return 0 if other_family or in_network(pick.address, length, at) else length
