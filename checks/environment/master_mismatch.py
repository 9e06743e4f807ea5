"""The nodes look for the store in different places.

## What you see
Node 0 waits in silence. The others print, after one to thirty minutes,

    The client socket has timed out after 60000ms while trying to connect to (10.77.0.99, 29500)

## Why it happens
MASTER_ADDR or MASTER_PORT (--master-addr, --master-port, --rdzv-endpoint) changed on one node only. Or each node names
itself, or each rank chooses a free or random port of its own.

## Fix
Give every node the same address and port, those of node 0: `--master-addr host0 --master-port 29500`.

## Confirm with
`for h in host0 host1; do ssh $h 'echo $MASTER_ADDR $MASTER_PORT'; done` prints the same line for every node.

## When it is harmless
Different spellings that lead to the same host are fine and are not reported. So are localhost on node 0 itself and
different interfaces of node 0.

## See also
network/master-resolves-differently, network/master-not-node0, network/port-refused
"""

from collections.abc import Callable, Iterable, Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    MasterTarget,
    Node,
    NodeFacts,
    correct_master_target,
    is_loopback,
    live,
    master_targets,
    names_with_different_masters,
    node0_name,
    reachable_address,
    set_master_fixes,
    together,
)

SEVERITY = "fail"
PREVENTS = "plan agreed"
LOOKS_AT = ("everyone",)
FOLLOWS = (
    "environment/rendezvous-backend-mismatch",
    "network/master-not-node0",
    "environment/invalid-variable",
    "environment/missing-variable",
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    if strays := stray_ranks(cluster):
        yield ports_differ_on_host(cluster, strays)
        return
    targets = master_targets(cluster)
    # One name with several addresses is a name service's fault (network/master-resolves-differently), and no setting's.
    split = {node.name for nodes in names_with_different_masters(cluster, targets).values() for node in nodes}
    known = [n for n in cluster.nodes if n.name in targets]
    right, sure = correct_master_target(known, targets) if known else (None, False)
    # Nodes that resolve the name correctly are right, and show that the setting of another node is wrong.
    nodes = [n for n in known if n.name not in split or (sure and targets[n.name] == right)]
    if len({targets[n.name] for n in nodes}) > 1:
        yield finding(cluster, nodes, targets)
    elif cluster.node0 is None or cluster.node0.plan.rank:  # a later rank on node 0's host knows no node 0 either
        for node in cluster.nodes:
            run = node.network.elsewhere
            if run is not None and not node.meeting.joined and run.plan.rdzv_backend == node.plan.rdzv_backend:
                yield other_port_finding(cluster, node)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    methods = group_by(lambda rank: live.stacks.meets_at(rank.process.main), job.ranks)
    if len(methods) > 1:
        yield other_places(job, methods)
        return
    if result := own_host_finding(job):
        yield result
        return
    values = group_by(lambda rank: rank.process.variables.get("MASTER_PORT", ""), () if any(job.agents) else job.ranks)
    if len(values) < 2:
        return
    usual, odd = split_by_majority(values)
    # A script may name another port than its environment does: those that have met need not care.
    if not all(rank.place.kind in (live.places.MASTER, live.places.HOSTING, live.places.STORE) for rank in odd):
        return
    wording = [f"MASTER_PORT={port} in {live.ranks_called(members).lower()}" for port, members in values.items()]
    nodes = list(dict.fromkeys(rank.node for rank in odd))
    majority = "most have" if len(values[usual]) > 1 else f"{values[usual][0].called} has"
    text = f"Choose MASTER_PORT once for all ranks: {majority} {usual}."
    yield live.rank_finding(
        odd,
        f"The ranks look for the store on different ports: {together(wording)}.",
        evidence=live.where_ranks_are(job.ranks),
        fixes=(Fix.on(nodes, text, env={"MASTER_PORT": usual}),),
    )


def group_by(values: Callable[[live.LiveRank], str], ranks: Iterable[live.LiveRank]) -> dict[str, list[live.LiveRank]]:
    """Return value -> the ranks that have it, for ranks with a known number and a value."""
    result: dict[str, list[live.LiveRank]] = {}
    for rank in ranks:
        if (value := values(rank)) and rank.number is not None:
            result.setdefault(value, []).append(rank)
    return result


def split_by_majority(values: dict[str, list[live.LiveRank]]) -> tuple[str, list[live.LiveRank]]:
    """Return the most common value, in a tie that of the lowest rank, and the ranks with another value."""
    usual = max(values, key=lambda value: len(values[value]))
    return usual, [rank for value, members in values.items() if value != usual for rank in members]


def own_host_finding(job: live.LiveJob) -> Finding | None:
    """Ranks that look for the store on their own host, while rank 0 serves it on another; None where none do."""
    first = job.numbers.get(0)
    if first is None or first.place.kind != live.places.HOSTING or any(job.agents):
        return None
    odd: list[live.LiveRank] = []
    masters: dict[str, str] = {}
    for node, facts in job.facts:
        masters[node.name] = facts.master_addr
        own = facts.master_addr in (node.name, node.identity.hostname, "localhost") or is_loopback(facts.master_addr)
        if own and node.host_key != first.node.host_key:
            odd += [rank for rank in job.ranks if rank.node is node and rank.place.kind == live.places.MASTER]
    if not odd:
        return None
    given = masters[first.node.name]
    right = first.node.identity.hostname if given == "localhost" or is_loopback(given) else given
    nodes = list(dict.fromkeys(rank.node for rank in odd))
    look = "looks for the store on its" if len(odd) == 1 else "look for the store on their"
    wording = together(f"MASTER_ADDR={masters[node.name]} on {node.name}" for node in [first.node, *nodes])
    return live.rank_finding(
        odd,
        f"{live.ranks_called(odd)} {look} own host, but rank 0 serves it on {first.node.name}: {wording}.",
        evidence=live.where_ranks_are(job.ranks),
        fixes=(Fix.on(nodes, "Set MASTER_ADDR to the host of rank 0 on every node.", env={"MASTER_ADDR": right}),),
    )


def other_places(job: live.LiveJob, methods: dict[str, list[live.LiveRank]]) -> Finding:
    """Ranks are in init_process_group() with other places to meet."""
    _, odd = split_by_majority(methods)
    wording = [f"{method} in {live.ranks_called(members).lower()}" for method, members in methods.items()]
    text = "Give all ranks the same init_method: one address and port, or one file in a folder that all nodes share."
    return live.rank_finding(
        odd,
        f"The ranks look for each other in different places: init_method is {together(wording)}.",
        evidence=live.where_ranks_are(job.ranks),
        fixes=(Fix.on(list(dict.fromkeys(rank.node for rank in odd)), text),),
    )


def stray_ranks(cluster: Cluster) -> list[NodeFacts]:
    """Return the ranks that found their store on another port than theirs, if ranks of one node have different ports.

    The node as a whole has no single setting then.
    """
    mixed = any(len({process.plan.master_port for process in ranks}) > 1 for ranks in cluster.slices_of.values())
    return [
        process
        for process in cluster.slices
        if mixed and process.plan.rank is not None and process.network and process.network.elsewhere
        if not (process.meeting and process.meeting.joined)
    ]


def ports_differ_on_host(cluster: Cluster, strays: list[NodeFacts]) -> Finding:
    """Return the finding about ranks, some on one node, that look for the store on different ports of its host."""
    ports: dict[int, list[NodeFacts]] = {}
    for process in cluster.slices:
        ports.setdefault(process.plan.master_port, []).append(process)
    run = strays[0].network.elsewhere if strays[0].network else None
    hosted = run.port if run is not None else cluster.plan.master_port
    usual = max(ports, key=lambda port: (len(ports[port]), port == hosted))
    odd = [process for port, processes in ports.items() if port != usual for process in processes]
    nodes = list(dict.fromkeys(cluster.by_key[process.key].name for process in odd))

    def ranks_named(processes: list[NodeFacts]) -> str:
        numbers = sorted(process.plan.rank for process in processes if process.plan.rank is not None)
        return f"rank{'s' if len(numbers) > 1 else ''} {together(map(str, numbers))}"

    def wording(port: int, processes: list[NodeFacts]) -> str:
        sources = together(dict.fromkeys(process.plan.sources.get("master_port", "default") for process in processes))
        hosts = ", where the store is" if port == hosted else ""
        names = together(dict.fromkeys(cluster.by_key[process.key].name for process in processes))
        return (
            f"{ranks_named(processes)} on {names}: {processes[0].plan.master_addr} port {port} (from {sources}){hosts}"
        )

    return Finding.about(
        [node for node in cluster.nodes if node.name in nodes],
        "The ranks look for the store on different ports: "
        + "; ".join(f"{port} in {ranks_named(processes)}" for port, processes in ports.items())
        + ".",
        ranks=[process.plan.rank for process in odd if process.plan.rank is not None],
        evidence=(wording(port, processes) for port, processes in ports.items()),
        fixes=(Fix.on(nodes, f"Give {ranks_named(odd)} the port of the others.", env={"MASTER_PORT": str(usual)}),),
    )


def other_port_finding(cluster: Cluster, node: Node) -> Finding:
    """The finding of a node that knows only itself, and found a store that waits for one on another port."""
    run = node.network.elsewhere
    assert run is not None
    plan, theirs = node.plan, run.plan
    source, their_source = (process.sources.get("master_port", "default") for process in (plan, theirs))
    text = f"Use the same port on every node: {run.host} waits on {run.port}."
    wording = f"{node.name} looks for the store on port {plan.master_port} of {run.host}, which has it on {run.port}."
    address = None
    if run.port == plan.master_port:  # it is MASTER_ADDR that leads elsewhere
        wording = f"{node.name} looks for the store at {plan.master_addr}, but {run.host} hosts it."
        address = theirs.master_addr
        text = f"Use the same address on every node: {theirs.master_addr} is {run.host}'s."
    other = run.host if run.host != node.name else node0_name(cluster, node)  # both may be on one host
    nodes = tuple(dict.fromkeys((node.name, other)))
    return Finding.about(
        nodes,
        wording,
        links=((node.name, other),) if other != node.name else (),
        unsure=len(nodes) == 2,
        evidence=(
            line(node),
            f"{run.host}: its check of {theirs.nnodes or theirs.world_size} waits for nodes on {run.address} port "
            f"{run.port} (from {their_source})",
            f"{node.name}: nothing listens on port {plan.master_port} there (from {source})",
        ),
        fixes=set_master_fixes([node], text, address, None if address else run.port),
    )


def finding(cluster: Cluster, nodes: list[Node], targets: dict[str, MasterTarget]) -> Finding:
    right, sure = correct_master_target(nodes, targets)
    blamed = [n for n in nodes if not sure or targets[n.name] != right]
    wrong = [n for n in nodes if targets[n.name] != right]
    parts = [f"{n.plan.master_addr} port {n.plan.master_port} on {n.name}" for n in nodes]
    return Finding.about(
        blamed,
        f"The nodes have different masters: {'; '.join(parts)}.",
        unsure=not sure,
        evidence=map(line, nodes),
        fixes=(fix for n in wrong for fix in set_master_fixes([n], *correction(cluster, n, nodes, targets, right))),
    )


def correction(
    cluster: Cluster, node: Node, nodes: list[Node], targets: dict[str, MasterTarget], right: MasterTarget
) -> tuple[str, str | None, int | None]:
    """(text, address or None, port or None) that lead ``node`` to the right place."""
    place, port = right
    mine, mine_port = targets[node.name]
    address = None
    if mine != place:
        owner = next((n for n in cluster.nodes if n.host_key == place), None)
        given = [n.plan.master_addr for n in nodes if targets[n.name][0] == place and n is not owner]
        address = given[0] if given else reachable_address(owner, cluster) if owner else None
    return "Use the same address and port on every node.", address, port if port != mine_port else None


def line(node: Node) -> str:
    addresses = node.master_addresses
    sources = node.plan.sources
    resolved = f" = {', '.join(addresses)}" if addresses != (node.plan.master_addr,) else ""
    hosts = ", hosts the store" if node.meeting.hosted else ""
    return (
        f"{node.name}: {node.plan.master_addr}{resolved} (from {sources.get('master_addr', 'default')}) port "
        f"{node.plan.master_port} (from {sources.get('master_port', 'default')}){hosts}"
    )
