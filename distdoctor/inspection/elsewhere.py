"""What is not known here of a job that runs, or hangs: which hosts are to be asked, and what may tell more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distdoctor.knowledge.job_places import HOSTING, MASTER
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank

MOST = 4096
"""Ranks that are told one by one."""


def hosts_elsewhere(job: LiveJob) -> Iterator[str]:
    """The hosts of ranks that are not here, as far as the store tells."""
    for number in range(min(job.world or 0, MOST)):
        if number not in job.numbers and (host := job.host_of(number)):
            yield host


def meet_apart(job: LiveJob) -> Iterator[str]:
    """Ranks of one node that may meet in different places: one serves the store, and others, that look for one, have no
    connection to it. Not sure: between two tries a client sleeps, up to a minute (c10d's socket.cpp)."""
    for host in job.ranks:
        ports = {s.local_port for s in host.process.sockets or () if s.state == "LISTEN"}
        if host.place.kind != HOSTING or len(ports) != 1:
            continue
        apart = [rank for rank in job.ranks if rank.place.kind == MASTER and rank.node is host.node]
        apart = [rank for rank in apart if not any(s.remote_port in ports for s in rank.process.sockets or ())]
        if apart:
            names = ", ".join(rank.called for rank in apart[:4]) + (f" and {len(apart) - 4} more" if apart[4:] else "")
            yield (
                f"{host.called} serves the store at port {min(ports)}, and {names} on the same host has no connection "
                "to it: see that all ranks have the same MASTER_PORT, chosen once and not by each rank"
            )


def from_outside(job: LiveJob) -> list[str]:
    """What is not to be known from a store alone, and whom to ask."""
    store = job.store
    notes = []
    if store is not None and store.clients == 1 and not store.groups and not store.agents:
        notes.append(
            "one client came to the store and waits for others: rank 0 of a job without torchrun, or the agent of "
            "torchrun's first node"
        )
    elif store is not None and store.clients and not store.groups and not store.agents and store.world is None:
        notes.append(
            f"{store.clients} clients came to the store: who they are, and how many are to come, a store of torch "
            f"{store.generation} does not tell"
        )
    if any(view.known for view in job.stores):
        hosts = list(dict.fromkeys([*hosts_elsewhere(job), *(view.host for view in job.stores)]))
        notes.append(
            "what its ranks do, and since when, cannot be known from the store: run distdoctor hang on "
            + ", ".join(hosts[:8])
        )
    return notes


def places_of(ranks: Sequence[LiveRank]) -> str:
    """Where these are, in a clause."""
    groups: dict[str, list[LiveRank]] = {}
    for rank in ranks:
        groups.setdefault(rank.place.said(), []).append(rank)
    parts = []
    for those in list(groups.values())[:3]:
        place = those[0].place.said(len(those) > 1)
        names = ", ".join(rank.called for rank in those[:4]) + (f" and {len(those) - 4} more" if len(those) > 4 else "")
        parts.append(f"{names} {'is' if len(those) == 1 else 'are'} {place}")
    return "; ".join(parts)


def ask(job: LiveJob) -> list[str]:
    """What cannot be known from here, and whom to ask."""
    ours = {name for node, _ in job.facts for name in (node.name, node.identity.hostname)}
    elsewhere = [host for host in dict.fromkeys(hosts_elsewhere(job)) if host not in ours]
    unnamed = [n for n in range(min(job.world or 0, MOST)) if n not in job.numbers and not job.host_of(n)]
    here = ", ".join(node.name for node, _ in job.facts)
    notes = []
    if elsewhere:
        notes.append(
            f"cannot be known from {here}: every rank here waits; run distdoctor hang on {', '.join(elsewhere[:8])}"
            + (f" and {len(elsewhere) - 8} more" if len(elsewhere) > 8 else "")
        )
    elif unnamed:
        shown = ", ".join(map(str, unnamed[:8])) + (" ..." if len(unnamed) > 8 else "")
        notes.append(f"cannot be known from {here}: run distdoctor hang on the nodes of ranks {shown}, too")
    elif missing := [n for n in range(min(job.world or 0, MOST)) if n not in job.numbers and job.numbers]:
        shown = ", ".join(map(str, missing[:8])) + (" ..." if len(missing) > 8 else "")
        notes.append(f"no process of rank{'s' if len(missing) > 1 else ''} {shown} was found on {here}")
    elif job.world and len(job.numbers) >= job.world:
        if len(job.waiting) == len(job.ranks):  # else who does not wait is told
            notes += [_together(job), *_works_of_some(job)]
    else:
        notes.append(f"cannot be known from {here}: run distdoctor hang on the other nodes of the job, too")
    return notes


def _works_of_some(job: LiveJob) -> Iterator[str]:
    """Ranks in one place, of which some have called there what they have not waited for, as far as variables tell."""
    frames = [rank.place.frame for rank in job.ranks]
    with_work = [r for r, f in zip(job.ranks, frames, strict=True) if f and f.given and f.given.has == "work"]
    if 0 < len(with_work) < len(frames) and len({(f.file, f.line) for f in frames if f}) == 1:
        more, rest = (
            ", ".join([r.called for r in those][:8])
            for those in (with_work, [rank for rank in job.ranks if rank not in with_work])
        )
        yield (
            f"a Work is seen among the variables there of {more}, and not of {rest}: see whether all make the call "
            "whose Work it is, and in the same order"
        )


def _together(job: LiveJob) -> str:
    """All ranks are here, and all of them wait."""
    places = {rank.place.said() for rank in job.ranks}
    where = f"in the same place ({places.pop()})" if len(places) == 1 else f"for each other ({places_of(job.ranks)})"
    return f"all ranks wait {where}, and nothing here tells why; the flight recorder may (see -v)"


def ray_without_workers(job: LiveJob) -> str:
    """Ray's driver or controller is here, and no worker of Ray Train: where these are, and how to ask Ray."""
    view = job.first.ray
    elsewhere = dict.fromkeys(view.workers.values()) if view is not None else {}
    if elsewhere:
        return f"Ray's workers of this job are on other nodes: run distdoctor hang on {', '.join([*elsewhere][:8])}"
    unread = "" if view is not None and view.status else ", whose status is on the head node"
    return (
        f"no worker of Ray Train is on this node, and nothing waits to be placed as far as is seen here{unread}: "
        "run `ray status` and `ray list actors --filter state=ALIVE`"
    )
