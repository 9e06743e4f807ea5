"""Facts of healthy nodes, for tests to alter with ``dataclasses.replace`` and the helpers here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distdoctor.judge.catalog import load
from distdoctor.judge.engine import Judgement, judge
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.facts import (
    Account,
    AddressChoice,
    Bind,
    Contact,
    Firewall,
    FirewallChain,
    Gpu,
    GpuFacts,
    HostFacts,
    HostsLine,
    Identity,
    Interface,
    MeshFacts,
    NetworkFacts,
    NodeFacts,
    RankFacts,
    RankStage,
    RendezvousFacts,
    Resolution,
    Route,
    StageFacts,
)
from distdoctor.model.plan import Plan
from distdoctor.model.stages import STAGES

CHECKS = load()
PORT = 29500
CLEAN = Firewall(True)
UNREAD = Firewall(False, "only root may read the firewall's rules")


def address(number: int) -> str:
    """The address of the host of that number."""
    return f"10.77.0.{10 + number}"


def node(
    hostname: str = "host0",
    rank: int = 0,
    *,
    of: int = 2,
    ip: str | None = None,
    master: str | None = None,
    pid: int | None = None,
    netns: str | None = None,
    nproc: int = 2,
    declared: bool = False,
) -> NodeFacts:
    """A healthy node of a job of ``of`` nodes, started once per node, after the whole ladder was climbed.

    ``declared``: it was given its --node-rank; else the rank was assigned at the meeting.
    """
    ip = ip or address(rank)
    master = master or (ip if rank == 0 else address(0))
    loopback = ip.startswith("127.")
    sources = {"nnodes": "--nnodes", "master_addr": "--master-addr", "master_port": "default"}
    sources["node_rank"] = "--node-rank" if declared else "assigned at the meeting"
    plan = Plan(
        nnodes=of,
        nproc_per_node=nproc,
        node_rank=rank if declared else None,
        world_size=of * nproc,
        master_addr=master,
        sources=sources,
    )
    interfaces = [Interface("lo", ("127.0.0.1", "::1"), (8, 128), loopback=True, mtu=65536)]
    if not loopback:
        interfaces.append(Interface("eth0", (ip,), (64 if ":" in ip else 24,), mtu=1500))
    identity = Identity(
        hostname, f"boot-{hostname}", netns or f"net-{hostname}", pid or 1000 + rank, "0.1.0", "3.11.2", torch="2.13.0"
    )
    ranks = range(rank * nproc, (rank + 1) * nproc)
    return NodeFacts(
        identity,
        plan,
        node_rank=rank,
        host=HostFacts(
            Resolution(hostname, (ip,)),
            tuple(interfaces),
            gloo=AddressChoice(ip, "lo" if loopback else "eth0", "hostname"),
            account=Account(1000, named="USER", home="/home/ann"),
        ),
        network=NetworkFacts(
            master=Resolution(master, (master,)),
            master_is_own=rank == 0 or loopback,
            route=Route(master, ip, "lo" if loopback else "eth0"),
            primary=None if loopback else AddressChoice(ip, "eth0", "route"),
            bind=Bind(True, PORT) if rank == 0 else None,
            contact=Contact(master, PORT, "open"),
            firewall=CLEAN,
        ),
        meeting=RendezvousFacts(joined=True, ours=True, hosted=rank == 0, waited=1.0, wait_limit=60, ended=rank == 0),
        mesh=MeshFacts(good=of - 1),
        ranks=tuple(rank_facts(number, number - ranks[0], ip) for number in ranks),
        stages=tuple(StageFacts(stage, "ok") for stage in STAGES),
    )


def rank_facts(number: int | None, local: int, ip: str) -> RankFacts:
    """A rank without a GPU whose stages all went well."""
    stages = [RankStage(stage, "ok") for stage in ("store", "barrier", "collective")]
    stages.insert(1, RankStage("gloo", "ok", detail={"address": ip, "port": 40000 + local}))
    return RankFacts(number, local, gpu=GpuFacts(reason="this torch is a CPU build"), stages=tuple(stages))


def rank_node(hostname: str, rank: int, *, world: int = 2, local: int = 0, per_node: int | None = 1) -> NodeFacts:
    """A healthy process started once per rank, on a host of its own unless ``local`` is given."""
    place = rank if per_node is None else rank // per_node
    one = node(hostname, place, of=world, pid=2000 + rank)
    sources = {name: name.upper() for name in ("rank", "world_size", "master_addr", "master_port")}
    plan = replace(
        one.plan,
        started="rank",
        nnodes=None if per_node is None else -(-world // per_node),
        nproc_per_node=per_node,
        node_rank=None,
        rank=rank,
        local_rank=local,
        world_size=world,
        sources=sources,
    )
    ranks = (rank_facts(rank, local, address(place)),)
    assert one.meeting is not None
    meeting = replace(one.meeting, hosted=rank == 0, ended=rank == 0)
    one = replace(one, plan=plan, ranks=ranks, meeting=meeting, node_rank=None)
    return one if local == 0 else replace(one, host=None)


def met(*facts: NodeFacts, expected: int | None = None) -> tuple[NodeFacts, ...]:
    """These processes after they met: node 0's record of the meeting names all of them that joined."""
    came = tuple(f.key for f in facts if f.meeting and f.meeting.joined)
    host = next(f for f in facts if f.meeting and f.meeting.hosted)
    counts = "ranks" if host.plan.started == "rank" else "nodes"
    planned = host.plan.world_size if counts == "ranks" else host.plan.nnodes
    return tuple(
        with_meeting(f, arrived=came, expected=expected or planned or 1, counts=counts, ended=True) if f is host else f
        for f in facts
    )


def healthy(count: int, **given: Any) -> tuple[NodeFacts, ...]:
    """``count`` healthy nodes that have met."""
    return met(*(node(f"host{n}", n, of=count, **given) for n in range(count)))


# -- altering -------------------------------------------------------------------------------------------------------


def with_plan(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts with another plan; ``sources`` is added to."""
    if "sources" in changes:
        changes["sources"] = {**facts.plan.sources, **changes["sources"]}
    return replace(facts, plan=replace(facts.plan, **changes))


def with_network(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts with other network facts."""
    assert facts.network is not None
    return replace(facts, network=replace(facts.network, **changes))


def with_meeting(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts with another meeting."""
    assert facts.meeting is not None
    return replace(facts, meeting=replace(facts.meeting, **changes))


def with_host(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts with another host; what gloo advertised goes where its prediction changes."""
    assert facts.host is not None
    facts = replace(facts, host=replace(facts.host, **changes))
    if "gloo" in changes:
        facts = replace(
            facts, ranks=tuple(replace(r, stages=tuple(s for s in r.stages if s.stage == "store")) for r in facts.ranks)
        )
    return facts


def with_identity(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts of another build or version."""
    return replace(facts, identity=replace(facts.identity, **changes))


def with_variables(facts: NodeFacts, **values: str) -> NodeFacts:
    """The facts with these variables set, too."""
    return replace(facts, variables={**facts.variables, **values})


def with_mesh(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts with another mesh."""
    assert facts.mesh is not None
    return replace(facts, mesh=replace(facts.mesh, **changes))


def with_host_lines(facts: NodeFacts, *lines: HostsLine) -> NodeFacts:
    """The facts with these lines of /etc/hosts."""
    assert facts.host is not None
    return replace(facts, host=replace(facts.host, hosts_lines=lines))


def with_master(
    facts: NodeFacts, master: str, *, own: bool | None = False, resolved: Sequence[str] | None = None
) -> NodeFacts:
    """The facts with another MASTER_ADDR."""
    addresses = tuple(resolved) if resolved is not None else (master,)
    facts = with_plan(facts, master_addr=master)
    return with_network(facts, master=Resolution(master, addresses), master_is_own=own)


def outside(
    facts: NodeFacts, outcome: str | None = "refused", *, control: str | None = None, **changes: Any
) -> NodeFacts:
    """The node after it waited in vain for the store: its last contact ended in ``outcome``, no later stage was run."""
    at = facts.plan.master_addr or ""
    resolved = facts.network.master.addresses if facts.network and facts.network.master else ()
    at = resolved[0] if resolved else at
    contact = Contact(at, facts.plan.master_port, outcome, **changes) if outcome else None  # type: ignore[arg-type]
    other = Contact(at, 22, control) if control else None  # type: ignore[arg-type]
    facts = with_network(facts, contact=contact, control=other, bind=None)
    facts = alone(facts)
    return with_meeting(facts, joined=False, ours=None, hosted=False, ended=True, waited=60.0, arrived=(), expected=0)


def alone(facts: NodeFacts) -> NodeFacts:
    """The facts of a process that climbed no further than the network stage."""
    return replace(
        facts,
        node_rank=facts.plan.node_rank,
        mesh=None,
        ranks=tuple(replace(r, rank=None if facts.plan.started == "node" else r.rank, stages=()) for r in facts.ranks),
        stages=facts.stages[:4],
    )


def waited_in_vain(facts: NodeFacts, expected: int = 2) -> NodeFacts:
    """Node 0 after nobody else came."""
    return with_meeting(alone(facts), arrived=(facts.key,), expected=expected, ended=True, waited=60.0)


def loopback_name(facts: NodeFacts, at: str = "127.0.1.1") -> NodeFacts:
    """Debian's /etc/hosts: the own name means 127.0.1.1, and gloo believes it."""
    assert facts.host is not None
    own_name = Resolution(facts.identity.hostname, (at,))
    return with_host(facts, own_name=own_name, gloo=AddressChoice(at, "lo", "hostname"))


def failing(facts: NodeFacts, stage: str, error: str, **detail: Any) -> NodeFacts:
    """The facts with ``stage`` failed on all of its ranks, and nothing after it."""
    order = list(STAGES)
    ranks = tuple(
        replace(
            r,
            stages=(
                *(s for s in r.stages if order.index(s.stage) < order.index(stage)),
                RankStage(stage, "failed", error=error, detail=detail),
            ),
        )
        for r in facts.ranks
    )
    return replace(facts, ranks=ranks)


def with_gpus(facts: NodeFacts, count: int, mask: str | None = None) -> NodeFacts:
    """The facts of a node whose ranks all see ``count`` devices."""
    devices = tuple(Gpu(n, "H200", f"GPU-{n}") for n in range(count))
    gpu = GpuFacts(devices, cuda_visible_devices=mask)
    return replace(facts, ranks=tuple(replace(r, gpu=gpu) for r in facts.ranks))


def blocking(*rules: str, hook: str = "input", policy: str = "accept", tool: str = "nft") -> Firewall:
    """A firewall with one blocking chain."""
    return Firewall(True, chains=(FirewallChain(tool, "inet", "filter", hook, hook, policy, rules),))  # type: ignore[arg-type]


# -- judging --------------------------------------------------------------------------------------------------------


def cluster(*facts: NodeFacts) -> Cluster:
    """The cluster of these facts."""
    return build(facts)


def judged(*facts: NodeFacts) -> Judgement:
    """Return what all checks say of these facts; a check that raises fails the test."""
    result = judge(build(facts), CHECKS)
    assert not result.broken, result.broken
    return result


def roots(*facts: NodeFacts) -> list[tuple[str, tuple[str, ...], str | None, str]]:
    """The roots: (id, nodes, severity, blame)."""
    return [(f.id, f.nodes, f.severity, f.blame) for f in judged(*facts).roots]
