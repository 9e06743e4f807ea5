"""How a job that runs now fares with its store: who tries to reach it in vain, and what the doctor's own try gave."""

from __future__ import annotations

from collections.abc import Iterator

from distdoctor.check_api.live_ranks import called, where_ranks_are
from distdoctor.knowledge import job_places
from distdoctor.knowledge.connect_text import contact_text
from distdoctor.knowledge.job_threads import hosts_store, threads_of
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.model.addresses import is_loopback
from distdoctor.model.facts import Contact, Socket, StoreView
from distdoctor.model.findings import Finding, Fix
from distdoctor.model.launch_variables import AGENT_STORE


def master_of(job: LiveJob) -> str:
    """The host of the store, as the job calls it."""
    view = asked_store(job)
    return job.first.master_addr or (view.host if view else "") or "the master"


def asked_store(job: LiveJob) -> StoreView | None:
    """What the doctor's own try at the ranks' store gave; without one, at that of the agents."""
    return job.stores[-1] if job.stores else None


def store_contact(job: LiveJob) -> Contact | None:
    """How that connection ended."""
    view = asked_store(job)
    return view.contact if view else None


def dialling_store(job: LiveJob) -> list[LiveRank]:
    """The ranks that try to reach the store."""
    return [rank for rank in job.ranks if rank.place.kind == job_places.MASTER]


def before_store(job: LiveJob) -> bool:
    """Whether rank 0, which serves the store where no torchrun does, is here and has not come so far: where it is, and
    whether it gets on there, is why nobody listens."""
    first = job.numbers.get(0)
    on_way = (*job_places.TOGETHER, job_places.ENDED)
    if first is None:  # any whose number is not known may be the one, as where one script starts them all
        return any(rank.number is None and rank.place.kind not in on_way for rank in job.ranks)
    by_agent = first.process.variables.get(AGENT_STORE) != "False"
    if (job.first.launcher == "torchrun" and by_agent) or first.place.kind in on_way:
        return False
    return not hosts_store(first.process) and not threads_of(first.process, "gloo_tcp_loop")


def sockets_to_store(job: LiveJob, state: str) -> Iterator[tuple[str, Socket]]:
    """The connections of ranks and agents to the store that are in this state, and whose they are."""
    ports = job.master_ports
    for rank in job.ranks:
        for one in rank.process.sockets or ():
            if one.state == state and one.remote_port in ports:
                yield f"{rank.node.name}: {rank.called}", one
    for node, agent in job.agents:
        for one in agent.sockets or ():
            if one.state == state and one.remote_port in ports:
                yield f"{node.name}: the agent (pid {agent.pid})", one


SENT_AGAIN = 3
"""How often a job's data was sent again without an answer from which the other side counts as silent: some 3 s."""


def silent_links(job: LiveJob) -> dict[tuple[str, str], str]:
    """From which node to which host nothing comes through any more, as ranks that wait are connected to it: their data
    is not acknowledged, or their store does not answer; each with what shows it."""
    group = job.store.default_group if job.store else None
    hosts = {one.address: one.host for one in (group.members if group else ()) if one.host}
    contact = store_contact(job)
    if contact is not None and contact.address:
        hosts.setdefault(contact.address, master_of(job))
    silent: dict[tuple[str, str], str] = {}
    for rank in job.waiting:
        for one in rank.process.sockets or ():
            if one.state == "ESTABLISHED" and one.unacknowledged and one.retransmits >= SENT_AGAIN:
                other = hosts.get(one.remote, one.remote)
                silent.setdefault(
                    (rank.node.name, other),
                    f"{rank.node.name}: {one.unacknowledged} bytes of {rank.called} for {other} port {one.remote_port} "
                    f"were sent {one.retransmits + 1} times and not acknowledged",
                )
    if contact is not None and contact.outcome == "no-answer" and len(job.facts) == 1 and job.waiting:
        for who, _ in sockets_to_store(job, "ESTABLISHED"):
            told = f"{who} is connected to the store at {master_of(job)}; the doctor's own connection: "
            silent.setdefault((job.facts[0][0].name, master_of(job)), f"{told}{contact_text(contact)}")
    return silent


def store_finding(job: LiveJob, how: str, fix: str) -> Finding:
    """The finding that the store is not reached; ``how`` says how it fails."""
    view, trying = asked_store(job), dialling_store(job)
    # Not all nodes need mean the same place.
    master = view.host if view is not None and view.host in {facts.master_addr for _, facts in job.facts} else ""
    master = master or master_of(job)
    port = view.port if view else job.first.master_port
    who = called(trying) if trying else "The agent" if any(job.agents) and not job.ranks else "The doctor"
    tried = f"the doctor's own connection to {view.host} port {view.port}: " if view else ""
    said = contact_text(view.contact) if view and view.contact else "no address" if view else ""
    unanswered = sorted({(who, s.remote, s.remote_port, s.retransmits) for who, s in sockets_to_store(job, "SYN_SENT")})
    nodes = list(dict.fromkeys(rank.node.name for rank in trying)) or [node.name for node, _ in job.facts]
    itself = len(nodes) == 1 and (master == "localhost" or is_loopback(master))
    host = nodes[0] if itself else master
    return Finding(
        f"{who} on {', '.join(nodes)} cannot reach the store at {master} port {port}: it {how}.",
        nodes=(host,),
        links=tuple((node, host) for node in nodes if node != host),
        evidence=(
            *where_ranks_are(trying),
            *(
                f"{name}: no answer from {address} port {number}, sent {times + 1} times"
                for name, address, number, times in unanswered[:8]
            ),
            *([f"{tried}{said}"] if tried and said else []),
        ),
        fixes=(Fix(fix, (host,)),),
        severity="warn" if job.young else None,
        matters=_perhaps_late(job) if job.young else "",
    )


def _perhaps_late(job: LiveJob) -> str:
    if not job.first.processes:
        return "whether the job runs, and since when, is not known here: what is missing may still come"
    return "the job was started only now: what is missing may still come"
