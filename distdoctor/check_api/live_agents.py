"""torchrun's agents that wait for each other, as those see it that came: who is missing, and who is still counted."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from distdoctor.check_api.text import together
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_limits import JoinWait, agents_wait, ranks_wait
from distdoctor.model.addresses import endpoint
from distdoctor.model.bounds import MOST_ABSENT
from distdoctor.model.facts import AgentView, RendezvousView, StoreView
from distdoctor.model.findings import Finding, Fix

FROM_OUTSIDE = "since when the others wait, their store does not tell: they may still come"
STARTED_NOW = "the job was started only now: they may still come"
NOT_JOINED = "Some nodes have not joined the job"
SHOWN = 8
SILENT = 7.0
"""Seconds from which an agent counts as silent: it says every 5 s that it lives."""
LAST_CALL = 30
"""Seconds for which others may come once enough are there (``last_call`` in torch's dynamic_rendezvous.py)."""
THROWN_OUT = 15
"""Seconds after which the others throw out a silent one: three times those 5 (``RendezvousSettings`` in torch's
dynamic_rendezvous.py)."""


def perhaps_late(job: LiveJob) -> str:
    """Return why the ranks that have not joined may still join; empty once PyTorch's limit is over."""
    return join_later(job, ranks_wait(job)) if job.ranks else FROM_OUTSIDE


def join_later(job: LiveJob, wait: JoinWait) -> str:
    """Return why whoever has not joined may still join; empty once the limit is over."""
    if not any(job.agents) and not job.ranks:
        return FROM_OUTSIDE
    if wait.over:
        return ""
    return STARTED_NOW if job.young else f"the job runs if the others join before {wait.who} gives up"


def agents_missing(job: LiveJob) -> Iterator[Finding]:
    """torchrun's agents wait for each other: no rank was started yet."""
    planned, view = job.first.nnodes, next((view for view in job.stores if view.known), None)
    if view is None:
        return
    if other_ids(job):
        return
    ours = view.rendezvous_of(job.first.run_id)
    rendezvous = next((one for one in ours if not one.complete), None)
    last = next((one for one in ours if one.complete and one.waiting), None)
    if last is not None:
        yield still_counted(job, view, last)
        return
    if planned and rendezvous is not None and len(rendezvous.agents) >= planned:
        yield enough(view, rendezvous)
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
    """Fewer nodes joined the rendezvous than it waits for."""
    planned, wait = job.first.nnodes or 0, agents_wait(job)
    again = "re" if rendezvous is not None and rendezvous.round else ""  # since when it waits is not known then
    absent = absent_numbers(job, came)
    who = f"node{'s' if absent[1:] else ''} {together(map(str, absent[:SHOWN]))}" if absent else ""
    who = who or f"{planned - came} node{'s' if planned - came > 1 else ''}"
    hosts = [agent.host for agent in rendezvous.agents if agent.host] if rendezvous else []
    hosts = hosts or ([node.name for node, _ in job.agents] if absent else [])
    meets = endpoint(job.first.master_addr or view.host, view.port)
    late = bool(again) or not any(job.agents) or not wait.over
    return Finding.about(
        not_back(job, came) if again else (),
        f"{came} of {planned} nodes {again}joined {meets}{f' ({together(hosts[:SHOWN])})' if hosts else ''}; {who} "
        f"{'has' if planned - came == 1 else 'have'} not {again}joined"
        f"{'' if again or not wait.waited else f' {wait.so_far}; {wait.ends}'}.",
        title=NOT_JOINED,
        evidence=(
            *(
                f"{node.name}: torchrun (pid {agent.pid}) was started {agent.age:.0f} s ago"
                for node, agent in job.agents
            ),
            f"the store at {view.host} port {view.port} counts {came}",
        ),
        fixes=(start_absent(job, view, absent),),
        severity="warn" if late else None,
        matters="the nodes that were in it before may still come back" if again else join_later(job, wait),
    )


def absent_numbers(job: LiveJob, came: int) -> list[int]:
    """The node ranks of those that did not join a static rendezvous, where all that joined are here; else empty."""
    facts = [facts for _, facts in job.facts if any(one.role == "agent" for one in facts.processes)]
    here = {one.node_rank for one in facts if one.node_rank is not None}
    if job.first.rdzv_backend != "static" or len(here) != came:
        return []
    return [number for number in range(min(job.first.nnodes or 0, MOST_ABSENT)) if number not in here]


def start_absent(job: LiveJob, view: StoreView, absent: list[int]) -> Fix:
    """Start torchrun on the nodes that did not join; where it runs there, ``distdoctor check`` says what keeps them."""
    static = job.first.rdzv_backend == "static"
    number = str(absent[0]) if len(absent) == 1 else "N" if static else ""
    line = check_line(job, job.first.nnodes or 0, job.first.nproc_per_node, number, view)
    where = f"node {number}" if len(absent) == 1 else "each node that has not joined"
    flag = f" and --node-rank {number}" if static else ""
    return Fix(
        f"Start torchrun on {where}, with the same line{flag}. If it runs there already, run this there: `{line}`."
    )


def check_line(job: LiveJob, nnodes: int, nproc: str, number: str, view: StoreView) -> str:
    """The ``distdoctor check`` to run on a node that did not join, as its part of this job."""
    first = job.first
    line = f"distdoctor check --nnodes {nnodes}" + (f" --nproc-per-node {quote(nproc)}" if nproc else "")
    if first.rdzv_backend == "c10d":
        line += f" --rdzv-backend c10d --rdzv-endpoint {quote(endpoint(view.host, view.port))}"
        return line + (f" --rdzv-id {quote(first.run_id)}" if first.run_id not in ("", "none") else "")
    line += f" --node-rank {number}" if number else ""
    return f"{line} --master-addr {quote(first.master_addr or view.host)} --master-port {view.port}"


def other_ids(job: LiveJob) -> tuple[RendezvousView, ...]:
    """The rendezvous in the job's store, its own first, where they have different ids and wait for others, and those
    who came to all of them are as many as the job is to have nodes; empty where it is not so."""
    view = next((view for view in job.stores if view.known), None)
    open_ = [one for one in view.rendezvous if one.agents and not one.complete and not one.round] if view else []
    open_.sort(key=lambda one: one.run_id != job.first.run_id)
    came = sum(len(one.agents) for one in open_)
    if len(open_) < 2 or open_[0].run_id != job.first.run_id or came != job.first.nnodes:
        return ()
    return tuple(open_)


def enough(view: StoreView, rendezvous: RendezvousView) -> Finding:
    """As many came as it has to have, and it waits a while for more (--nnodes MIN:MAX)."""
    count = len(rendezvous.agents)
    hosts = together([agent.host for agent in rendezvous.agents[:SHOWN]])
    return Finding.about(
        (),
        f"{count} node{'s' if count > 1 else ''} came {'back ' if rendezvous.round else ''}to torchrun's rendezvous "
        f"({hosts}), which {'are' if count > 1 else 'is'} enough: it begins once {LAST_CALL} s have passed for "
        "others to come.",
        evidence=(f"the store at {view.host} port {view.port}: round {rendezvous.round}, {count} came",),
        fixes=(Fix("Start torchrun on the nodes that are to take part, or wait."),),
        severity="warn",
        matters="it begins by itself",
    )


def not_back(job: LiveJob, came: int) -> tuple[str, ...]:
    """The hosts that had ranks before, where those agents that are back are all here."""
    here = [node.identity.hostname for node, _ in job.agents]
    group = job.store.default_group if job.store else None
    before = dict.fromkeys(member.host for member in (group.members if group else ()) if member.host)
    return tuple(host for host in before if host not in here) if len(here) == came else ()


def rendezvous_open(view: StoreView, rendezvous: RendezvousView) -> Finding:
    """Agents wait in it, and how many they are to be is not known."""
    hosts = together([agent.host for agent in rendezvous.agents[:SHOWN]])
    count = len(rendezvous.agents)
    ages = [agent.heartbeat_age for agent in rendezvous.agents if agent.heartbeat_age is not None]
    silent = f"; the longest silent of them said so {max(ages):.0f} s ago" if ages else ""
    return Finding.about(
        (),
        f"{count} node{'s' if count > 1 else ''} came to torchrun's rendezvous {rendezvous.run_id} ({hosts}), and "
        f"{'wait' if count > 1 else 'waits'} for more: it is not complete.",
        evidence=(f"the store at {view.host} port {view.port}: round {rendezvous.round}, {count} came{silent}",),
        fixes=(
            Fix("Start the same torchrun line on the nodes that are missing: --nnodes there says how many they are."),
        ),
        severity="warn",
        matters=FROM_OUTSIDE,
    )


def still_counted(job: LiveJob, view: StoreView, last: RendezvousView) -> Finding:
    """Agents wait for the next round, because the last one still counts others: they have not left it. Who was killed
    cannot, until it is thrown out."""
    lost = {one: why for one in last.agents if (why := _lost(job, one))}
    blamed = [*lost] or [*last.agents]
    came, counted = (together([*dict.fromkeys(map(_named, those))][:SHOWN]) for those in (last.waiting, blamed))
    return Finding.about(
        tuple(dict.fromkeys(one.host for one in lost if one.host)),
        f"{came} wait{'s' if len(last.waiting) == 1 else ''} for the next round of torchrun's rendezvous: the last one "
        f"still counts {counted}.",
        evidence=(
            *(f"{_named(one)}: {why}" for one, why in [*lost.items()][:SHOWN]),
            f"the store at {view.host} port {view.port}: round {last.round}, {len(last.agents)} still in it, "
            f"{len(last.waiting)} for the next",
        ),
        fixes=(
            Fix(
                f"Look whether torchrun still runs there ({counted}), and start the same line there once more where it "
                f"does not: who is silent for {THROWN_OUT} s is thrown out, and the next round begins."
            ),
        ),
        severity="warn",
        matters="the next round begins once they are back, or thrown out",
    )


def _named(agent: AgentView) -> str:
    return f"{agent.host or 'a node'} (torchrun, pid {agent.pid})"


def _lost(job: LiveJob, agent: AgentView) -> str:
    """What shows that an agent does not run any more; empty where nothing does."""
    here = {node.identity.hostname: node.name for node, _ in job.facts}
    if agent.host in here and agent.pid not in [one.pid for _, one in job.agents]:
        return f"no process {agent.pid} of torchrun is on {here[agent.host]} any more"
    age = agent.heartbeat_age
    return f"it said {age:.0f} s ago that it lives, and does so every 5 s" if age is not None and age > SILENT else ""
