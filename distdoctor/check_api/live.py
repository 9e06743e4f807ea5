"""A running job for ``judge_job``: its ranks and their places, its store, and shared parts of findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from distdoctor.check_api.live_activity import activity_text, not_placed, places_text
from distdoctor.check_api.text import ranks_text, some_of, together
from distdoctor.knowledge.live import flight_recorder, places, stacks, waits
from distdoctor.knowledge.live.awaited import (
    Awaited,
    awaited,
    awaits_rank,
    just_asked,
    may_be_taken,
    outside_peer,
    pipe_peers,
)
from distdoctor.knowledge.live.job import LiveJob, LiveRank
from distdoctor.knowledge.live.job import live_job as job_of
from distdoctor.knowledge.live.limits import JoinWait, agents_wait, connect_wait, ranks_wait
from distdoctor.knowledge.live.stacks import (
    awaits_orders,
    dialling,
    hosts_store,
    is_stopped,
    looks_for_a_file,
    threads_of,
)
from distdoctor.knowledge.network import contact_text
from distdoctor.model.addresses import endpoint, is_loopback
from distdoctor.model.bounds import MOST_ABSENT
from distdoctor.model.facts import AgentView, Contact, Member, RendezvousView, Socket, StoreView
from distdoctor.model.findings import Finding, Fix, Severity
from distdoctor.model.launch_variables import AGENT_STORE

__all__ = [
    "RANKS_NOT_JOINED",
    "STARTED_NOW",
    "Awaited",
    "LiveJob",
    "LiveRank",
    "Member",
    "absent_ranks",
    "activity_text",
    "agents_missing",
    "all_await_orders",
    "awaited",
    "awaits_orders",
    "awaits_rank",
    "before_store",
    "clients_missing",
    "connect_wait",
    "dialling",
    "dialling_store",
    "differing_run_ids",
    "flight_recorder",
    "is_stopped",
    "job_of",
    "just_asked",
    "looks_for_a_file",
    "master_of",
    "may_be_taken",
    "nodes_not_joined",
    "not_placed",
    "outside_peer",
    "overwritten",
    "perhaps_late",
    "pipe_peers",
    "places",
    "places_text",
    "rank_finding",
    "ranks_called",
    "ranks_meet",
    "ranks_wait",
    "silent_links",
    "sockets_to_store",
    "stacks",
    "store_contact",
    "store_finding",
    "threads_in_collectives",
    "waiting_evidence",
    "waits",
    "where_ranks_are",
]


# torchrun's agents that wait for each other, by the facts of those that joined.


FROM_OUTSIDE = "the store does not show how long the others have waited; more may still join"
STARTED_NOW = "the job started a moment ago; more may still join"
NODES_NOT_JOINED = "Some nodes have not joined the job"
SHOWN = 8
SILENT = 7.0
"""Seconds after which an agent counts as silent: it sends a heartbeat every 5 s."""
LAST_CALL = 30
"""Seconds for more nodes to join once enough have (``last_call`` in torch's dynamic_rendezvous.py)."""
THROWN_OUT = 15
"""Seconds after which the others remove a silent agent: three heartbeats (``RendezvousSettings`` in torch's
dynamic_rendezvous.py)."""


def perhaps_late(job: LiveJob) -> str:
    """Return the reason why missing ranks may still join, empty once PyTorch's limit is over."""
    return join_later(job, ranks_wait(job)) if job.ranks else FROM_OUTSIDE


def join_later(job: LiveJob, wait: JoinWait) -> str:
    """Return the reason why missing nodes or ranks may still join, empty once the limit is over."""
    if not any(job.agents) and not job.ranks:
        return FROM_OUTSIDE
    if wait.over:
        return ""
    return STARTED_NOW if job.young else f"the job runs if the others join before {wait.who} gives up"


def agents_missing(job: LiveJob) -> Iterator[Finding]:
    """Yield the findings about torchrun agents that wait for each other before any rank starts."""
    planned, view = job.first.nnodes, next((view for view in job.stores if view.known), None)
    if view is None:
        return
    if differing_run_ids(job):
        return
    ours = view.rendezvous_of(job.first.run_id)
    rendezvous = next((meeting for meeting in ours if not meeting.complete), None)
    last = next((meeting for meeting in ours if meeting.complete and meeting.waiting), None)
    if last is not None:
        yield stale_round(job, view, last)
        return
    if planned and rendezvous is not None and len(rendezvous.agents) >= planned:
        yield minimum_joined(view, rendezvous)
        return
    if not planned and rendezvous is not None and rendezvous.agents:
        yield rendezvous_open(view, rendezvous)
    if not planned or planned < 2:
        return
    came = len(rendezvous.agents) if rendezvous else view.clients if not view.rendezvous else None
    if came is None or came >= planned or (rendezvous is None and view.groups):
        return
    yield not_joined(job, view, rendezvous, came)


def not_joined(job: LiveJob, view: StoreView, rendezvous: RendezvousView | None, came: int) -> Finding:
    """Return the finding that fewer nodes joined the rendezvous than it needs."""
    planned, wait = job.first.nnodes or 0, agents_wait(job)
    again = "re" if rendezvous is not None and rendezvous.round else ""  # the start of the wait is unknown then
    absent = absent_numbers(job, came)
    hosts = [agent.host for agent in rendezvous.agents if agent.host] if rendezvous else []
    hosts = hosts or ([node.name for node, _ in job.agents] if absent else [])
    joined = f" ({together(hosts[:SHOWN])})" if hosts else ""
    waited = f" {wait.so_far}; {wait.ends}" if wait.waited and not again else ""
    late = bool(again) or not any(job.agents) or not wait.over
    return Finding.about(
        nodes_without_agents(job, came) if again else (),
        f"{came} of {planned} nodes {again}joined {endpoint(job.first.master_addr or view.host, view.port)}{joined}; "
        f"{absent_called(absent, planned - came)} not {again}joined{waited}.",
        title=NODES_NOT_JOINED,
        evidence=(
            *(
                f"{node.name}: torchrun (pid {agent.pid}) was started {agent.age:.0f} s ago"
                for node, agent in job.agents
            ),
            f"the store at {view.host} port {view.port} counts {came}",
        ),
        fixes=(start_absent_nodes(job, view, absent),),
        severity="warn" if late else None,
        matters="the nodes of the last round may still rejoin" if again else join_later(job, wait),
    )


def absent_called(numbers: Sequence[int], count: int) -> str:
    """Return the subject and verb of a sentence about nodes that have not joined, by number if known."""
    if numbers:
        nodes = f"node{'s' if numbers[1:] else ''} {together(map(str, numbers[:SHOWN]))}"
    else:
        nodes = f"{count} node{'s' if count > 1 else ''}"
    return f"{nodes} {'has' if count == 1 else 'have'}"


def absent_numbers(job: LiveJob, came: int) -> list[int]:
    """Return the node ranks that did not join a static rendezvous, if all that joined are known; else empty."""
    facts = [facts for _, facts in job.facts if any(process.role == "agent" for process in facts.processes)]
    here = {f.node_rank for f in facts if f.node_rank is not None}
    if job.first.rdzv_backend != "static" or len(here) != came:
        return []
    return [number for number in range(min(job.first.nnodes or 0, MOST_ABSENT)) if number not in here]


def start_absent_nodes(job: LiveJob, view: StoreView, absent: list[int]) -> Fix:
    """Return the fix: start torchrun on the missing nodes, or run ``distdoctor check`` there if it runs already."""
    static = job.first.rdzv_backend == "static"
    number = str(absent[0]) if len(absent) == 1 else "N" if static else ""
    line = check_line(job, job.first.nnodes or 0, job.first.nproc_per_node, number, view)
    where = f"node {number}" if len(absent) == 1 else "each node that has not joined"
    flag = f" and --node-rank {number}" if static else ""
    return Fix(
        f"Start torchrun on {where} with the same command{flag}. If it runs there already, run this there: `{line}`."
    )


def check_line(job: LiveJob, nnodes: int, nproc: str, number: str, view: StoreView) -> str:
    """Return the ``distdoctor check`` command for a node that did not join."""
    first = job.first
    line = f"distdoctor check --nnodes {nnodes}" + (f" --nproc-per-node {quote(nproc)}" if nproc else "")
    if first.rdzv_backend == "c10d":
        line += f" --rdzv-backend c10d --rdzv-endpoint {quote(endpoint(view.host, view.port))}"
        return line + (f" --rdzv-id {quote(first.run_id)}" if first.run_id not in ("", "none") else "")
    line += f" --node-rank {number}" if number else ""
    return f"{line} --master-addr {quote(first.master_addr or view.host)} --master-port {view.port}"


def differing_run_ids(job: LiveJob) -> tuple[RendezvousView, ...]:
    """Return the open rendezvous in the job's store, its own first, if they have different ids and their nodes together
    are as many as the job's; else empty."""
    view = next((view for view in job.stores if view.known), None)
    open_ = (
        [meeting for meeting in view.rendezvous if meeting.agents and not meeting.complete and not meeting.round]
        if view
        else []
    )
    open_.sort(key=lambda meeting: meeting.run_id != job.first.run_id)
    came = sum(len(meeting.agents) for meeting in open_)
    if len(open_) < 2 or open_[0].run_id != job.first.run_id or came != job.first.nnodes:
        return ()
    return tuple(open_)


def minimum_joined(view: StoreView, rendezvous: RendezvousView) -> Finding:
    """Return the finding that enough nodes joined and the rendezvous waits for more (--nnodes MIN:MAX)."""
    count = len(rendezvous.agents)
    hosts = together([agent.host for agent in rendezvous.agents[:SHOWN]])
    return Finding.about(
        (),
        f"{count} node{'s' if count > 1 else ''} {'re' if rendezvous.round else ''}joined torchrun's rendezvous "
        f"({hosts}), which is enough; the job starts after {LAST_CALL} s of waiting for more.",
        evidence=(f"the store at {view.host} port {view.port}: round {rendezvous.round}, {count} joined",),
        fixes=(Fix("Start torchrun on the other nodes of the job, or wait."),),
        severity="warn",
        matters="the job starts by itself",
    )


def nodes_without_agents(job: LiveJob, came: int) -> tuple[str, ...]:
    """Return the hosts that had ranks before and have not rejoined, if all rejoined agents are known."""
    here = [node.identity.hostname for node, _ in job.agents]
    group = job.store.default_group if job.store else None
    before = dict.fromkeys(member.host for member in (group.members if group else ()) if member.host)
    return tuple(host for host in before if host not in here) if len(here) == came else ()


def rendezvous_open(view: StoreView, rendezvous: RendezvousView) -> Finding:
    """Return the finding that agents wait in the rendezvous for an unknown number of nodes."""
    hosts = together([agent.host for agent in rendezvous.agents[:SHOWN]])
    count = len(rendezvous.agents)
    ages = [agent.heartbeat_age for agent in rendezvous.agents if agent.heartbeat_age is not None]
    silent = f"; oldest heartbeat {max(ages):.0f} s ago" if ages else ""
    return Finding.about(
        (),
        f"{count} node{'s' if count > 1 else ''} joined torchrun's rendezvous {rendezvous.run_id} ({hosts}) and "
        f"{'wait' if count > 1 else 'waits'} for more nodes.",
        evidence=(f"the store at {view.host} port {view.port}: round {rendezvous.round}, {count} joined{silent}",),
        fixes=(Fix("Start the same torchrun command on the missing nodes; its --nnodes is the number of nodes."),),
        severity="warn",
        matters=FROM_OUTSIDE,
    )


def stale_round(job: LiveJob, view: StoreView, last: RendezvousView) -> Finding:
    """Return the finding that agents wait for the next round, because the last one still counts others.

    A killed agent cannot leave it; the others remove it after its heartbeat timeout."""
    lost = {agent: why for agent in last.agents if (why := _end_of_agent(job, agent))}
    blamed = [*lost] or [*last.agents]
    waiting, counted = (together([*dict.fromkeys(map(_named, agents))][:SHOWN]) for agents in (last.waiting, blamed))
    return Finding.about(
        tuple(dict.fromkeys(agent.host for agent in lost if agent.host)),
        f"{waiting} wait{'s' if len(last.waiting) == 1 else ''} for torchrun's next rendezvous round: the last one "
        f"still counts {counted}.",
        evidence=(
            *(f"{_named(agent)}: {why}" for agent, why in [*lost.items()][:SHOWN]),
            f"the store at {view.host} port {view.port}: round {last.round}, {len(last.agents)} still in it, "
            f"{len(last.waiting)} for the next",
        ),
        fixes=(
            Fix(
                f"Restart torchrun where it has ended ({counted}), with the same command. The others remove it after "
                f"{THROWN_OUT} s without a heartbeat, and start the next round."
            ),
        ),
        severity="warn",
        matters="the next round starts once they rejoin or are removed",
    )


def _named(agent: AgentView) -> str:
    return f"{agent.host or 'a node'} (torchrun, pid {agent.pid})"


def _end_of_agent(job: LiveJob, agent: AgentView) -> str:
    """Return the evidence that an agent has ended; empty without any."""
    here = {node.identity.hostname: node.name for node, _ in job.facts}
    if agent.host in here and agent.pid not in [other.pid for _, other in job.agents]:
        return f"torchrun's process {agent.pid} on {here[agent.host]} has ended"
    age = agent.heartbeat_age
    return f"last heartbeat {age:.0f} s ago (one is due every 5 s)" if age is not None and age > SILENT else ""


# The store of a running job: ranks that cannot reach it, and distdoctor's own connection.


def master_of(job: LiveJob) -> str:
    """Return the host of the store, as the job names it."""
    view = store_answer(job)
    return job.first.master_addr or (view.host if view else "") or "the master"


def store_answer(job: LiveJob) -> StoreView | None:
    """Return distdoctor's own view of the ranks' store, else of the agents' store."""
    return job.stores[-1] if job.stores else None


def store_contact(job: LiveJob) -> Contact | None:
    """Return the outcome of that connection."""
    view = store_answer(job)
    return view.contact if view else None


def dialling_store(job: LiveJob) -> list[LiveRank]:
    """Return the ranks that are connecting to the store."""
    return [rank for rank in job.ranks if rank.place.kind == places.MASTER]


def before_store(job: LiveJob) -> bool:
    """Return whether rank 0, which hosts the store without torchrun, is known and has not started it yet."""
    first = job.numbers.get(0)
    on_the_way = (*places.TOGETHER, places.ENDED)
    if first is None:  # any rank without a number may be rank 0
        return any(rank.number is None and rank.place.kind not in on_the_way for rank in job.ranks)
    by_agent = first.process.variables.get(AGENT_STORE) != "False"
    if (job.first.launcher == "torchrun" and by_agent) or first.place.kind in on_the_way:
        return False
    return not hosts_store(first.process) and not threads_of(first.process, "gloo_tcp_loop")


def sockets_to_store(job: LiveJob, state: str) -> Iterator[tuple[str, Socket]]:
    """Yield the connections of ranks and agents to the store in this state, with their owners."""
    ports = job.master_ports
    for rank in job.ranks:
        for socket in rank.process.sockets or ():
            if socket.state == state and socket.remote_port in ports:
                yield f"{rank.node.name}: {rank.called}", socket
    for node, agent in job.agents:
        for socket in agent.sockets or ():
            if socket.state == state and socket.remote_port in ports:
                yield f"{node.name}: the agent (pid {agent.pid})", socket


SENT_AGAIN = 3
"""Retransmissions without an answer after which the other side counts as silent: some 3 s."""


def silent_links(job: LiveJob) -> dict[tuple[str, str], str]:
    """Return the links, as (node, host), on which waiting ranks got no acknowledgement, or no answer of the store.

    Each has its evidence. If distdoctor's own connection fails, too, one retransmission is enough: on a busy host or a
    slow path further ones follow late (RFC 6298, 2.3)."""
    group = job.store.default_group if job.store else None
    hosts = {member.address: member.host for member in (group.members if group else ()) if member.host}
    contact = store_contact(job)
    if contact is not None and contact.address:
        hosts.setdefault(contact.address, master_of(job))
    silent: dict[tuple[str, str], str] = {}
    lost = contact is not None and contact.outcome in ("no-answer", "unreachable") and len(job.facts) == 1
    for rank in job.waiting:
        for socket in rank.process.sockets or ():
            enough = socket.retransmits >= (1 if lost else SENT_AGAIN)
            if socket.state == "ESTABLISHED" and socket.unacknowledged and enough:
                other = hosts.get(socket.remote, socket.remote)
                silent.setdefault(
                    (rank.node.name, other),
                    f"{rank.node.name}: {socket.unacknowledged} bytes of {rank.called} for {other} port "
                    f"{socket.remote_port} were sent {socket.retransmits + 1} times and not acknowledged",
                )
    if lost and job.waiting:
        for who, _ in sockets_to_store(job, "ESTABLISHED"):
            text = f"{who} is connected to the store at {master_of(job)}; distdoctor's own connection: "
            silent.setdefault((job.facts[0][0].name, master_of(job)), f"{text}{contact_text(contact)}")
    return silent


def store_finding(job: LiveJob, how: str, fix: str, wait: JoinWait | None = None) -> Finding:
    """Return the finding that the store is unreachable; ``how`` completes ``it ...``.

    ``wait``: the clients' own, if the store may still open."""
    trying, (master, port) = dialling_store(job), _store_looked_for(job)
    who = ranks_called(trying) if trying else "The agent" if any(job.agents) and not job.ranks else "distdoctor"
    nodes = list(dict.fromkeys(rank.node.name for rank in trying)) or [node.name for node, _ in job.facts]
    itself = len(nodes) == 1 and (master == "localhost" or is_loopback(master))
    host = nodes[0] if itself else master
    late = _perhaps_late(job) if job.young else join_later(job, wait) if wait is not None else ""
    so_far = f" {wait.so_far}; {wait.ends}" if wait is not None and wait.waited else ""
    return Finding(
        f"{who} on {', '.join(nodes)} cannot reach the store at {master} port {port}: it {how}{so_far}.",
        nodes=(host,),
        links=tuple((node, host) for node in nodes if node != host),
        evidence=(*where_ranks_are(trying), *_unanswered(job), *_own_contact(job)),
        fixes=(Fix(fix, (host,)),),
        severity="warn" if late else None,
        matters=late,
    )


def _store_looked_for(job: LiveJob) -> tuple[str, int | None]:
    """Return the host and port at which the job looks for its store: the nodes may name different masters."""
    view = store_answer(job)
    if view is None:
        return master_of(job), job.first.master_port
    named = {facts.master_addr for _, facts in job.facts}
    return (view.host if view.host in named and view.host else master_of(job)), view.port


def _unanswered(job: LiveJob) -> list[str]:
    """Return evidence of connections to the store that get no answer."""
    calls = {(who, s.remote, s.remote_port, s.retransmits) for who, s in sockets_to_store(job, "SYN_SENT")}
    return [
        f"{name}: no answer from {address} port {number}, sent {times + 1} times"
        for name, address, number, times in sorted(calls)[:8]
    ]


def _own_contact(job: LiveJob) -> list[str]:
    """Return evidence of distdoctor's own connection to the store, if it tried one."""
    view = store_answer(job)
    outcome = "" if view is None else contact_text(view.contact) if view.contact else "no address"
    return [f"distdoctor's own connection to {view.host} port {view.port}: {outcome}"] if view and outcome else []


def _perhaps_late(job: LiveJob) -> str:
    if not job.first.processes:
        return "the age of the job is unknown here; the missing part may still start"
    return "the job started a moment ago; the missing part may still start"


# Shared texts about the ranks of a running job.


def ranks_called(ranks: Sequence[LiveRank]) -> str:
    """Return ``Ranks 1 and 2``, to begin a sentence with; their processes if their numbers are unknown."""
    numbers = [rank.number for rank in ranks if rank.number is not None]
    if len(numbers) == len(ranks):
        shown = ranks_text(numbers[:SHOWN])
        return f"{shown} and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else shown
    words = [f"the process {rank.process.pid}" if rank.number is None else f"rank {rank.number}" for rank in ranks]
    text = together(words[:SHOWN])
    return text[:1].upper() + text[1:]


def where_ranks_are(ranks: Iterable[LiveRank]) -> Iterator[str]:
    """Yield one line of evidence for the ranks at the same place, per node."""
    groups: dict[tuple[str, str], list[LiveRank]] = {}
    for rank in ranks:
        groups.setdefault((rank.node.name, rank.place.said()), []).append(rank)
    for (node, _), members in groups.items():
        place = members[0].place.said(len(members) > 1)
        pids = " ".join(f"{rank.process.pid} {rank.process.title}".strip() for rank in members[:SHOWN])
        names = ranks_called(members)
        yield f"{node}: {names[:1].lower()}{names[1:]} (pid {pids}) {'is' if len(members) == 1 else 'are'} {place}"


def threads_in_collectives(ranks: Iterable[LiveRank]) -> Iterator[str]:
    """Yield evidence of other threads than the main ones that are in a collective."""
    for rank in ranks:
        for thread in rank.process.threads[1:]:
            if call := stacks.call_of(thread):
                frame = stacks.own_frame(thread)
                yield f"{rank.node.name}: another thread of {rank.called} is in {call}{stacks.at_line(frame)}"


def rank_finding(
    ranks: Sequence[LiveRank],
    summary: str,
    *,
    evidence: Iterable[str] = (),
    fixes: Iterable[Fix] = (),
    severity: Severity | None = None,
    unsure: bool = False,
    matters: str = "",
) -> Finding:
    """Return the finding that blames these ranks and their nodes; ``unsure``: one of them."""
    nodes = list(dict.fromkeys(rank.node for rank in ranks))
    numbers = sorted(rank.number for rank in ranks if rank.number is not None)
    return Finding.about(
        nodes, summary, ranks=numbers, evidence=evidence, fixes=fixes, severity=severity, unsure=unsure, matters=matters
    )


def waiting_evidence(job: LiveJob, ranks: Sequence[LiveRank]) -> list[str]:
    return list(where_ranks_are(rank for rank in job.waiting if rank not in ranks))[:SHOWN]


def overwritten(job: LiveJob) -> Iterator[tuple[LiveRank, Member]]:
    """Yield the local ranks with a foreign address in the store under their number, with that entry.

    Each rank writes its own address (gloo's rendezvous/context.cc), so another process overwrote it."""
    view = job.store
    group = view.default_group if view is not None and not view.restarted else None
    written = {member.rank: member for member in (group.members if group else ()) if member.port}
    for rank in job.ranks:
        process, other = rank.process, written.get(-1 if rank.process.rank is None else rank.process.rank)
        listens = {s.local_port for s in process.sockets or () if s.state == "LISTEN"}
        # Without a gloo thread it has written nothing yet; after a restart the address may be old.
        if other is None or process.restart or not listens or not stacks.threads_of(process, "gloo_tcp_loop"):
            continue
        if other.port not in listens:
            yield rank, other


# Ranks that have not joined while others wait, on nodes that joined and on nodes that did not.


RANKS_NOT_JOINED = "Some ranks have not joined the job"


def ranks_meet(job: LiveJob) -> bool:
    """Return whether ranks wait for others in init_process_group(), and not torchrun's agents for each other."""
    store, alone = job.store, not job.ranks
    if alone:
        return not job.agents_meet and store is not None and bool(store.joined)
    return store is not None and bool(job.waiting) and job.in_rendezvous


def absent_ranks(job: LiveJob) -> tuple[list[int], list[int]]:
    """Return the ranks that have not joined: those of nodes that joined, and those of nodes of which nothing joined.

    torchrun starts ranks only once all its agents have joined. Otherwise the ranks of a node are consecutive.
    """
    store = job.store
    if store is None:
        return [], []
    absent = [rank for rank in store.missing if rank not in job.numbers] or absent_by_count(job)
    if job.first.launcher == "torchrun" or job.on_one_host:
        return absent, []
    per_node = ranks_per_node(job)
    nodes = {rank // per_node for rank in (*store.joined, *job.numbers)}
    of_joined = [rank for rank in absent if job.host_of(rank) or rank // per_node in nodes]
    return of_joined, [rank for rank in absent if rank not in of_joined]


def absent_by_count(job: LiveJob) -> list[int]:
    """Return all unknown ranks if the store counts exactly the known, waiting ones; else empty."""
    store = job.store
    if store is None or not job.world or store.arrived != len(job.numbers) or len(job.waiting) != len(job.numbers):
        return []
    return [rank for rank in range(job.world) if rank not in job.numbers] if len(job.ranks) == store.arrived else []


def ranks_per_node(job: LiveJob) -> int:
    """Return the number of ranks per node by the launcher; else the most seen on one node."""
    sizes = [rank.local_world_size for _, facts in job.facts for rank in facts.ranks if rank.local_world_size]
    group = job.store.default_group if job.store else None
    hosts = {member.rank: member.host for member in (group.members if group else ()) if member.host}
    hosts.update({number: rank.node.identity.hostname for number, rank in job.numbers.items()})
    return max(sizes or Counter(hosts.values()).values(), default=1)


def all_await_orders(job: LiveJob) -> bool:
    """Return whether all ranks are workers of an engine that wait for their next order."""
    return bool(job.ranks) and all(rank.place.kind == places.QUEUE for rank in job.ranks)


def clients_missing(job: LiveJob) -> Iterator[Finding]:
    """Yield the findings about ranks that wait in TCPStore() for further clients, as an engine for its trainer.

    The size that the program gave is unknown; the store counts the clients that have joined. Where ranks of the job's
    own world are missing in its store, these are what it waits for."""
    private = (view for view in (*job.stores, *job.further_stores) if view.arrived and not view.groups)
    own = job.store if job.store is not None and (job.world or 0) > (job.store.arrived or 0) else None
    served = {view.served_by: view for view in private if view is not own}
    hosts = [rank for rank in job.ranks if rank.place.kind == places.HOSTING and rank.process.pid in served]
    here = f"{len(job.ranks)} rank{'s' if len(job.ranks) > 1 else ''}"
    for rank in hosts if len(job.waiting) == len(job.ranks) else ():
        view, line = served[rank.process.pid], stacks.at_line(rank.place.frame)
        yield Finding.about(
            (),
            f"{rank.called.capitalize()} on {rank.node.name} waits{line} in TCPStore() for further clients of its "
            f"store at port {view.port}; {view.arrived} joined, and this job has {here} here.",
            title="A process outside the job did not join a store",
            evidence=(
                f"{rank.node.name}: the store at port {view.port} counts {view.arrived}",
                *waiting_evidence(job, []),
            ),
            fixes=(
                Fix(
                    f"Start the other side of this group (the trainer of an engine, or the engine of a trainer) with "
                    f"{endpoint(rank.node.name, view.port)}. Confirm with: `ss -tan sport = :{view.port}` on "
                    f"{rank.node.name}."
                ),
            ),
            severity="warn",
            matters="the job continues if it joins before TCPStore() gives up (default: 5 min)",
        )


def nodes_not_joined(job: LiveJob, absent: Sequence[int]) -> Finding:
    """Return the finding that ranks of other nodes have not joined; ``absent`` is empty if they are unknown."""
    store, world = job.store, job.world or 0
    assert store is not None
    joined = world - len(absent) if absent else store.arrived or 0
    hosts = dict.fromkeys(rank.node.name for rank in job.ranks)
    who = ranks_text(absent[:8]).lower() + (f" and {len(absent) - 8} more" if absent[8:] else "") if absent else ""
    wait, late = ranks_wait(job), perhaps_late(job)
    so_far = f" {wait.so_far}; {wait.ends}" if job.ranks else ""
    return Finding.about(
        (),
        f"{joined} of {world} ranks joined {endpoint(job.first.master_addr or store.host, store.port)}"
        f"{f' ({some_of(hosts)} has ' + ranks_here(job) + ')' if hosts and len(hosts) == 1 else ''}; "
        f"{who or str(world - joined) + ' more, which the store does not name,'} "
        f"{'has' if world - joined == 1 else 'have'} not joined{so_far}.",
        title=RANKS_NOT_JOINED,
        ranks=absent,
        evidence=(
            f"the store at {store.host} port {store.port} counts {store.arrived}" if store.arrived is not None else "",
            *waiting_evidence(job, []),
        ),
        fixes=(start_absent_ranks(job, absent),),
        severity="warn" if late else None,
        matters=late,
    )


def ranks_here(job: LiveJob) -> str:
    return ranks_text(sorted(job.numbers)[:8], "some").lower()


def start_absent_ranks(job: LiveJob, absent: Sequence[int]) -> Fix:
    """Return the fix: start these ranks, or run ``distdoctor check`` on their node if they run already."""
    store, world, per_node = job.store, job.world or 0, ranks_per_node(job)
    missing = ranks_text(absent[:8]).lower() if absent else "the missing ranks"
    more = " and the others" if absent[8:] else ""
    by_address = any(rank.place.call == "tcp://" for rank in job.ranks)
    common = "init_method and world_size" if by_address else "MASTER_ADDR, MASTER_PORT and WORLD_SIZE"
    text = f"Start {missing}{more} with the same {common}."
    numbers = sorted({rank // per_node for rank in absent})
    whole = world % per_node == 0 and len(absent) == len(numbers) * per_node
    if store is None or (absent and not whole) or world % per_node:
        return Fix(text)
    number = str(numbers[0]) if len(numbers) == 1 else "N"
    line = check_line(job, world // per_node, str(per_node), number, store)
    they, their = ("it runs", "its") if len(absent) == 1 else ("they run", "their")
    nodes = "nodes" if numbers[1:] else "node"
    return Fix(f"{text} If {they} already, run this on {their} {nodes}: `{line}`.")
