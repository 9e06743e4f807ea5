"""What a job that runs, or hangs, now does, in a word; the verdict; and what is not known here, and whom to ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distdoctor.inspection.elsewhere import ask, from_outside, meet_apart, places_of, ray_without_workers
from distdoctor.judge.engine import OF_CALLS, Judgement
from distdoctor.knowledge.job_movement import awaits_thread, gets_about, polls
from distdoctor.knowledge.job_places import ENDED, UNSEEN
from distdoctor.knowledge.job_stacks import awaits_process
from distdoctor.knowledge.job_threads import serves
from distdoctor.knowledge.live_awaited import awaited
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.model.report import Verdict


def state_of(job: LiveJob, judgement: Judgement) -> tuple[str, Verdict, list[str]]:
    """In a word what the job does, the verdict, and what is to be noted."""
    # A host that could not be looked at says nothing of the job.
    if any(f.severity == "fail" and f.check.partition("/")[0] not in OF_CALLS for f in judgement.findings):
        return "hangs", judgement.verdict, []
    busy = [rank for rank in job.ranks if not rank.waits and rank.works]
    still = [rank for rank in job.ranks if rank.waits]
    lost = [rank for rank in job.ranks if not rank.waits and not rank.works]
    if not job.first.processes:
        return "outside", "incomplete", from_outside(job)
    if judgement.verdict == "incomplete":
        return "unknown", "incomplete", ask(job)
    if not job.ranks and job.store is not None and job.store.joined and not job.agents_meet:
        return "unknown", "incomplete", ["torchrun's agent is here, and no rank of it is to be seen", *ask(job)]
    warned = any(finding.severity == "warn" for finding in judgement.findings)
    if warned and (job.young or not lost or awaited(job) is not None):
        return "moves" if busy and not still and not lost else "waits", "warn", []
    if not job.ranks and job.first.ray is not None:
        return "unknown", "incomplete", [ray_without_workers(job)]
    if not job.ranks:
        return "unknown", "incomplete", ["torchrun's agent is here, and no rank of it runs; nothing says why"]
    if lost and all(rank.place.kind == ENDED for rank in lost):
        said = ", ".join(rank.called for rank in lost[:4]) + (f" and {len(lost) - 4} more" if lost[4:] else "")
        ended = f"{said} {'has' if len(lost) == 1 else 'have'} ended, and nobody has taken notice of it yet"
        return "unknown", "incomplete", [f"{ended}: what was written last says why", *ask(job)]
    if lost and not busy and not still and all(rank.pauses for rank in lost):
        return _pauses(lost)
    if lost:
        unseen = any(rank.place.kind == UNSEEN for rank in lost)
        alone = not still and not busy and len(job.numbers) >= (job.world or 0)
        return "unknown", "incomplete", [
            f"{places_of(lost)}: {_does_there(lost, job)}",
            *_beside(busy),
            *(["no rank is seen to wait for another: so look workers that wait for orders"] if alone else []),
            *(["the kernel shows this user too little of it: run this as root, with CAP_SYS_PTRACE"] if unseen else []),
            *ask(job),
        ]  # fmt: skip
    if busy and not still and all(rank.may_spin for rank in busy):
        return "computes", "incomplete", _spins(busy, job)
    if busy and not still:
        return "moves", "pass", []
    if busy:
        return _others_wait(busy, job)
    if job.young and job.in_rendezvous:
        return "starts", "warn", [f"it was started {job.age:.0f} s ago, and its ranks still meet"]
    return "unknown", "incomplete", [*meet_apart(job), *ask(job)]


def _does_there(lost: Sequence[LiveRank], job: LiveJob) -> str:
    """What these do where nothing comes of it, and nothing tells why."""
    if all(map(job.answered, lost)):
        who = " and ".join(dict.fromkeys(f"pid {one.pid} ({one.name})" for rank in lost[:4] if (one := rank.answerer)))
        return f"it waits there for an answer of {who} on its host, which works: whether on that is not to be seen"
    idle = {f"pid {one.pid} ({one.name})" for rank in lost if (one := rank.answerer) is not None}
    if len(idle) == 1 and all(rank.answerer is not None for rank in lost):
        return f"it waits there for an answer of {idle.pop()} on its host, which does nothing: look what that waits for"
    locks = [rank.process.main.lock for rank in lost if rank.process.main is not None and rank.process.main.lock]
    if locks and len(locks) == len(lost):
        left = "; where who made it runs no more, delete it" if any(lock.age is not None for lock in locks) else ""
        return f"it looks again and again whether it can have that lock: see what has it, and what that does{left}"
    if all(awaits_thread(rank.process) for rank in lost):
        return "it waits there for a thread of its own, which runs for a moment now and then: look what that does"
    if all(polls(rank.process) for rank in lost):
        return "it sleeps there for a moment, again and again, and it cannot be told what it waits for"
    if all(rank.process.main is not None and serves(rank.process.main) for rank in lost):
        return "a server waits so for its clients, and it cannot be told whether any is to come"
    if all(awaits_process(rank.process.main) for rank in lost):
        return (
            "it waits there for another process, to have a lock or something that is sent, and which is not to be seen"
        )
    if all(rank.process.main is not None and rank.process.main.other_ends for rank in lost):
        return "it waits there at a pipe of which another process of the job has the other end"
    return "nothing moves there, and it cannot be told why"


_SPINS = (
    "{said}: all that moves there is the processor, and every rank here is where it was",
    "so looks a long step on a GPU, and so a collective of NCCL that never ends: look again in a minute (--watch 60), "
    "and see whether its log goes on",
)


def _spins(busy: Sequence[LiveRank], job: LiveJob) -> list[str]:
    """What is to be noted of these, which may wait for their GPUs."""
    gone = [f"rank {number}" for number in job.gone][:4]
    over = f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} gone: where it is a collective, it never ends"
    return [*(line.format(said=places_of(busy)) for line in _SPINS), *([over] if gone else [])]


def _others_wait(busy: Sequence[LiveRank], job: LiveJob) -> tuple[str, Verdict, list[str]]:
    """The same, where some work and others wait, though not for them as far as is known."""
    if all(rank.may_spin for rank in busy):
        return "computes", "incomplete", _spins(busy, job)
    return "moves", "pass", [f"it is slow, not stuck: {places_of(busy)}, and that moves{_about(busy)}; the others wait"]


def _pauses(lost: Sequence[LiveRank]) -> tuple[str, Verdict, list[str]]:
    """The same, where these stand still for a moment, and none is seen to wait for another."""
    still, asleep = max(rank.still or 0.0 for rank in lost), [rank.asleep for rank in lost]
    now = f", and nothing moves there for {still:.0f} s at most"
    if None not in asleep:
        yet = max(seconds for seconds in asleep if seconds is not None)
        itself = all(rank.process.main is not None and rank.process.main.left is not None for rank in lost)
        now = f"{'' if itself else ', and what it waits for sleeps'} for {yet:.0f} s yet"
    if all(rank.gets_data for rank in lost):
        now = ", and a thread or a process of it gets some data now and then"
    return "pauses", "warn", [
        f"it is slow so far: {places_of(lost)}{now}; no rank here waits for another",
        "whether that is a pause or the end cannot be known yet: look again in some seconds (--watch 10)",
    ]  # fmt: skip


def _beside(busy: Sequence[LiveRank]) -> list[str]:
    """That these work, where others do not wait for them as far as is seen."""
    return [f"{places_of(busy)}, and something moves there"] if busy else []


def _about(busy: Sequence[LiveRank]) -> str:
    """At how many places those were seen that only compute, where that is how one knows that they get on."""
    paths = [rank.process.moved.paths or 0 for rank in busy if rank.process.moved and gets_about(rank.process)]
    return f" (its stack was seen on {max(paths)} different paths)" if paths else ""


_NO_STORE = {
    "silent": "takes connections and does not answer: its process is stopped, or it waits for its name servers",
    "closed": "hangs up on whoever asks it",
    "foreign": "is no store of torch",
    "partly": "was not read whole",
}


def stores_say(job: LiveJob) -> Iterator[str]:
    """Why a store that takes connections did not tell who is there."""
    for view in job.stores:
        if view.state in _NO_STORE:
            more = "; ".join([*view.problems, *([f"it says {view.sample!r}"] if view.sample else [])])
            yield f"the store at {view.host} port {view.port} {_NO_STORE[view.state]}{f' ({more})' if more else ''}"
        elif view.restarted:
            yield (
                f"{view.arrived} ranks came to the store at {view.host} port {view.port}, more than the job has: some "
                "were started again, and what is there may be old"
            )


def ras_says(job: LiveJob) -> Iterator[str]:
    """What NCCL's RAS told, on each host where it was asked."""
    for node, facts in job.facts:
        view = facts.ras
        if view is None or not view.answers:
            continue
        said = [*view.errors, *view.warnings]
        yield from (f"NCCL's RAS on {node.name}: {one}" for one in said[:8])
        if not said:
            yield f"NCCL's RAS on {node.name} has nothing to say, which clears nothing: so it said of jobs that hung"
