"""What checks share to tell of the ranks of a job that runs now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from distdoctor.check_api.text import ranks_said, together
from distdoctor.knowledge import job_stacks as stacks
from distdoctor.knowledge import job_threads as threads
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.model.facts import Member
from distdoctor.model.findings import Finding, Fix, Severity

SHOWN = 8


def called(ranks: Sequence[LiveRank]) -> str:
    """``Ranks 1 and 2``, to begin a sentence with; by their processes where their numbers are not known."""
    numbers = [rank.number for rank in ranks if rank.number is not None]
    if len(numbers) == len(ranks):
        shown = ranks_said(numbers[:SHOWN])
        return f"{shown} and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else shown
    words = [f"the process {rank.process.pid}" if rank.number is None else f"rank {rank.number}" for rank in ranks]
    said = together(words[:SHOWN])
    return said[:1].upper() + said[1:]


def where_ranks_are(ranks: Iterable[LiveRank]) -> Iterator[str]:
    """A line of evidence for those who are at the same place, node by node."""
    groups: dict[tuple[str, str], list[LiveRank]] = {}
    for rank in ranks:
        groups.setdefault((rank.node.name, rank.place.said()), []).append(rank)
    for (node, _), those in groups.items():
        place = those[0].place.said(len(those) > 1)
        pids = " ".join(str(rank.process.pid) for rank in those[:SHOWN])
        said = called(those)
        yield f"{node}: {said[:1].lower()}{said[1:]} (pid {pids}) {'is' if len(those) == 1 else 'are'} {place}"


def other_threads(ranks: Iterable[LiveRank]) -> Iterator[str]:
    """Evidence of the threads beside the main ones that are in a collective."""
    for rank in ranks:
        for thread in rank.process.threads[1:]:
            if call := stacks.call_of(thread):
                frame = stacks.own_frame(thread)
                at = f" at {frame.file}:{frame.line}" if frame else ""
                yield f"{rank.node.name}: another thread of {rank.called} is in {call}{at}"


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
    """The finding that blames these ranks and the nodes they are on; ``unsure``: one of them."""
    nodes = list(dict.fromkeys(rank.node for rank in ranks))
    numbers = sorted(rank.number for rank in ranks if rank.number is not None)
    return Finding.about(
        nodes,
        summary,
        ranks=numbers,
        evidence=evidence,
        fixes=fixes,
        severity=severity,
        unsure=unsure,
        matters=matters,
    )


def others_wait(job: LiveJob, ranks: Sequence[LiveRank]) -> list[str]:
    """Evidence of who waits meanwhile."""
    return list(where_ranks_are(rank for rank in job.waiting if rank not in ranks))[:SHOWN]


def overwritten(job: LiveJob) -> Iterator[tuple[LiveRank, Member]]:
    """The ranks here in whose name the store holds an address at which they do not listen, with what it holds: another
    process wrote it, for each writes its own under its number (gloo's rendezvous/context.cc)."""
    view = job.store
    group = view.default_group if view is not None and not view.restarted else None
    written = {member.rank: member for member in (group.members if group else ()) if member.port}
    for rank in job.ranks:
        one, other = rank.process, written.get(-1 if rank.process.rank is None else rank.process.rank)
        listens = {s.local_port for s in one.sockets or () if s.state == "LISTEN"}
        # Before it has a thread of gloo's it has written nothing; after a restart the address may be an older one's.
        if other is None or one.restart or not listens or not threads.threads_of(one, "gloo_tcp_loop"):
            continue
        if other.port not in listens:
            yield rank, other
