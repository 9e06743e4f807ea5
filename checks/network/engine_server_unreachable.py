"""A node cannot connect to a server that its engine needs.

## What you see
The engine retries for a minute and a half, and ends. Of Mooncake: `Client not available`, `Failed to create client on
port 12552, retry 11/20`, then vLLM's `Initialize MooncakeDistributedStore failed.` or SGLang's `Failed to setup
Mooncake store, error code`. Of Ray: `Failed to connect to GCS at address 10.77.0.10:6379`, `Timed out while waiting
for GCS to become available`.

## Why it happens
A KV cache that engines share is kept by servers outside the job. Each rank asks Mooncake's master at its start, and
its metadata server unless that is P2PHANDSHAKE. Of several addresses of etcd one is enough. LMCache connects to the
server of its remote_url, and goes on without it: that is a WARN. Ray's nodes and drivers ask the GCS of the head node.
The server was not started, the address is that of another node, or a firewall lets only some nodes in.

## Fix
Start the server on the host that the setting names: `mooncake_master --rpc_port=50051`. Or correct the address, or
allow its TCP port from the nodes that got no answer. Of Ray: `ray start --head --port=6379` on the head node.

## Confirm with
`nc -vz HOST 50051` on each node.

## When it is harmless
The job's own script starts the server after this check. A script that names mooncake_master is taken for one.

## See also
environment/invalid-variable, environment/engine-address
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    EngineServer,
    Finding,
    Fix,
    Line,
    Node,
    ServerContact,
    Severity,
    contact_text,
    endpoint,
    is_loopback,
    lookup_failed,
    names_of,
    open_firewall_fix,
    port_holder_evidence,
    reachable_address,
)

SEVERITY = "fail"
MATTERS = "the engine runs without this cache"
PREVENTS = "results right"
LOOKS_AT = ("network",)
HELPED_BY = ("host.interfaces",)
FOLLOWS = ("environment/invalid-variable",)
NEXT = ("the answer of that server to this node", "nc -vz HOST PORT")
NOT_REACHED = "Mooncake's client cannot connect to its master"
START = (
    "Start the master on the host that the engine's file or MOONCAKE_MASTER names: `mooncake_master --rpc_port=50051`. "
    "If it runs, correct the address, or allow its TCP port from this node."
)
LOG = (
    Line("Client not available", r"^Client not available$", told=NOT_REACHED, fix=START),
    Line("Failed to create client on port ", r"on port \d+, retry \d+/\d+", told=NOT_REACHED, fix=START),
    Line(
        "metadata?key=",
        r"(?:PUT|POST|GET) (?P<url>http\S{1,300}/metadata)\?key=\S{0,300} curl: (?P<why>.{1,60}?)(?: err:|$)",
        told="Mooncake's client cannot use its HTTP metadata server",
        fix="Start the metadata server at the address in the line (`mooncake_master --enable_http_metadata_server=true "
        "--http_metadata_server_port=8080`), correct metadata_server, or set it to P2PHANDSHAKE.",
    ),
    Line(
        "EtcdStoragePlugin: unable to",
        told="Mooncake's client cannot use etcd as its metadata server",
        fix="Set metadata_server (MOONCAKE_TE_META_DATA_SERVER) to P2PHANDSHAKE, to http://HOST:PORT/metadata, or to "
        "the address of a running etcd.",
    ),
    Line(
        ("Initialize MooncakeDistributedStore failed", "Failed to setup Mooncake store, error code"),
        shows="symptom",
        why="a master of another version, or an RDMA device that is not there, shows the same",
    ),
    Line(  # gcs_client.cc and rpc_client.h of Ray; ray_token has the other errors
        ("Timed out while waiting for GCS to become available", "Failed to connect to GCS at address "),
        r"(?:Timed out while waiting for GCS|GCS at address (?P<server>\S{3,260}) with)",
        shows="symptom",
        why="a head node that has ended, or is started later, shows the same",
    ),
    Line(("Ray runtime started.", "Connected to Ray cluster."), shows="noise", why="Ray's GCS answers by then"),
)
_START = {
    "Mooncake master": "mooncake_master --rpc_port={port}",
    "HTTP metadata server of Mooncake": (
        "mooncake_master --enable_http_metadata_server=true --http_metadata_server_port={port}"
    ),
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    asked: dict[tuple[str, int], dict[Node, ServerContact]] = {}
    for node in cluster.nodes:
        for attempt in node.network.engine_servers:
            others = alternatives(node, attempt)
            if not (others and (any(map(reached, others)) or attempt != others[0])):
                asked.setdefault((attempt.host, attempt.port), {})[node] = attempt
    for tried in asked.values():
        failed = {node: attempt for node, attempt in tried.items() if not reached(attempt)}
        if failed:
            yield finding(cluster, failed, [node for node in tried if node not in failed])


def finding(cluster: Cluster, failed: dict[Node, ServerContact], others: list[Node]) -> Finding:
    (first, attempt), *_ = failed.items()
    server = server_of(first, attempt)
    owner, names, contact = owner_of(cluster, attempt), names_of([*failed]), attempt.contact
    blamed, because = [*failed], None
    if contact is None:
        summary = f"{names} cannot resolve {server.host}, the host of the {server.use}."
        fixes = [Fix.on(blamed, f"Correct the address ({server.setting}), or give the name an address.")]
    elif contact.outcome != "refused":
        summary = f"{names} cannot connect to the {server.use}: {contact_text(contact)}."
        sources = [at for node in failed if (at := reachable_address(node, cluster)) is not None]
        fixes = [open_firewall_fix(owner, owner.name if owner else server.host, "input", sources, server.port)]
        blamed, because = [owner] if owner else blamed, "store reached"
    else:
        summary = f"The {server.use} is not at {server.host}:{server.port}: {names} got a refusal."
        moved = [*elsewhere(cluster, failed, server.setting)]
        fixes = [*moved, start(owner, server.host, server.use, server.port, 1 + len(moved))]
        blamed = [owner] if owner and not moved and not others else blamed
    evidence = [
        f"{node.name}: {how_it_ended(one)} ({server.setting})"
        for node, each in failed.items()
        for one in alternatives(node, each) or (each,)
    ]
    evidence += [f"{node.name} reaches it" for node in others]
    for node, each in failed.items():
        evidence += [f"{node.name}: {port_holder_evidence(holder, each.port)}" for holder in each.holders]
    severity: Severity = "fail" if server.needed else "warn"
    return Finding.about(blamed, summary, severity=severity, evidence=evidence, fixes=fixes, because_of=because)


def server_of(node: Node, attempt: ServerContact) -> EngineServer:
    return next(one for one in node.plan.servers if (one.host, one.port) == (attempt.host, attempt.port))


def alternatives(node: Node, attempt: ServerContact) -> tuple[ServerContact, ...]:
    """Return the attempts at all servers of the setting, if one of these is enough; itself among them."""
    server = server_of(node, attempt)
    its = {(one.host, one.port) for one in node.plan.servers if one.setting == server.setting and server.one_of}
    return tuple(one for one in node.network.engine_servers if (one.host, one.port) in its)


def reached(attempt: ServerContact) -> bool:
    """Return whether the server was reached, or it is unknown."""
    if attempt.contact is None:
        return attempt.resolution is None or bool(attempt.resolution.addresses)
    return attempt.contact.outcome == "open"


def how_it_ended(attempt: ServerContact) -> str:
    if attempt.contact is None and attempt.resolution is not None:
        return lookup_failed(attempt.resolution)
    at = f"{attempt.host} is {attempt.contact.address}; " if attempt.resolution and attempt.contact else ""
    return f"{at}{contact_text(attempt.contact)}"


def owner_of(cluster: Cluster, attempt: ServerContact) -> Node | None:
    """Return the node that has the server's address; None if no node does, or each of them (loopback)."""
    address = attempt.contact.address if attempt.contact is not None else ""
    return next((node for node in cluster.nodes if address in node.addresses and not is_loopback(address)), None)


def elsewhere(cluster: Cluster, failed: dict[Node, ServerContact], setting: str) -> Iterator[Fix]:
    """Yield the fix that names another node, if exactly one has a listener on the port for others to reach."""
    listening = [n for n, a in failed.items() if any(not is_loopback(holder.address) for holder in a.holders)]
    address = reachable_address(listening[0], cluster) if len(listening) == 1 else None
    if address is not None:
        right = endpoint(address, failed[listening[0]].port)
        text = f"Correct the address ({setting}): {listening[0].name} has a listener on that port, {right}."
        yield Fix.on([*failed], text, env={setting: right} if setting == "MOONCAKE_MASTER" else {})


def start(owner: Node | None, host: str, use: str, port: int, option: int) -> Fix:
    """Return the fix that starts the server, for all addresses of its host."""
    command = f": `{_START[use].format(port=port)}`" if use in _START else f" with port {port}"
    return Fix.on([owner] if owner else [], f"Start the {use} on {owner.name if owner else host}{command}.", option)
