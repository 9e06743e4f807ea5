"""Clauses about the activity of a rank of a running job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from distdoctor.check_api.text import together
from distdoctor.knowledge.live import places
from distdoctor.knowledge.live.awaited import busy_children, called_thread, outside_peer
from distdoctor.knowledge.live.job import YOUNG, LiveJob, LiveRank
from distdoctor.knowledge.live.stacks import (
    MUCH,
    at_line,
    awaits_ray,
    awaits_thread,
    gets_about,
    own_frame,
    polls,
    ran_programs,
    serves,
    switches_of,
    waiting,
    who_has,
)
from distdoctor.model.addresses import is_loopback
from distdoctor.model.facts import JobProcess, RayBundle, RayDemand, RayView
from distdoctor.model.findings import Finding, Fix
from distdoctor.model.text import duration_text


def places_text(ranks: Sequence[LiveRank]) -> str:
    """Return ``in all_reduce at job.py:6``: the places where these ranks wait, the most common first."""
    places = [rank.place.said(len(ranks) > 1) for rank in ranks]
    usual = sorted(dict.fromkeys(places), key=lambda place: -places.count(place))[:3]
    return " or ".join(place if place.startswith("in ") else f"({place})" for place in usual)


def activity_text(job: LiveJob, rank: LiveRank) -> str:
    """Return ``polls at job.py:5 (...)``: the rank's activity, its place and reason, as far as known."""
    verb, reason = _activity(job, rank)
    frame = rank.place.frame
    if rank.waits and (thread := called_thread(rank)) is not None:
        verb, reason, frame = "has not ended what they called", f"in a thread; {waiting(thread)}", own_frame(thread)
    return f"{verb}{at_line(frame)}{f' ({reason})' if reason else ''}"


def _activity(job: LiveJob, rank: LiveRank) -> tuple[str, str]:
    """Return the verb and the reason; the reason may be empty."""
    return _named_wait(job, rank) or _work(rank) or _other_wait(rank)


def _named_wait(job: LiveJob, rank: LiveRank) -> tuple[str, str] | None:
    """Return the wait for something that is seen: a lock, another host's answer, a time."""
    process, lock = rank.process, rank.lock
    if lock is not None:
        return "waits for a lock", f"{lock.path}{who_has(lock)}"
    if peer := outside_peer(job, rank):
        asks = rank.answerer
        who = f", pid {asks.pid} ({asks.name})" if asks is not None else ""
        still = f"; none for {duration_text(rank.still)} so far" if rank.still else ""
        return "waits for an answer", f"from {peer}{who}{still}"
    if polls(process):
        # The object that it polls for is in its own code; only a lock or a build is seen.
        times = round(switches_of(process))
        again = f"it sleeps and checks {'once' if times <= 1 else f'{times} times'} a second"
        builds = rank.place.kind == places.LOCK
        return "polls", "for the lock file of an extension build" if builds else again
    if rank.asleep is not None and rank.asleep >= 1.0:
        return "sleeps", f"for {duration_text(rank.asleep)} more"
    return None


def _work(rank: LiveRank) -> tuple[str, str] | None:
    """Return the work of a rank that works, or whose place in torch is that of work."""
    process, moves = rank.process, _moves(rank)
    if rank.place.kind in (places.SAVING, places.COMPILING, places.STARTING, places.LOADER):
        return f"is {rank.place.kind}", moves
    if not rank.works:
        return None
    idle = process.moved is not None and process.moved.cpu < 0.1 * process.moved.seconds and not moves
    if idle and switches_of(process) > 1:
        return "polls", _wakes(process)
    return _works(rank), moves or _stays(rank)


def _other_wait(rank: LiveRank) -> tuple[str, str]:
    """Return the wait of a rank that does not work, as far as its stack shows for what."""
    process = rank.process
    if awaits_ray(process.main):
        return "waits for a result of Ray", "of a task or an actor"
    if rank.gets_data:
        return "waits for data", "one of its threads or processes gets some from time to time"
    if awaits_thread(process):
        return "waits for its own thread", "which runs from time to time"
    if ran_programs(process):
        return "runs one program after another", ""
    if process.main is not None and serves(process.main):
        return "waits", f"for {process.main.reads}; whether a client is to come is unknown"
    if rank.answerer is not None:
        return "waits for an answer", f"of pid {rank.answerer.pid} ({rank.answerer.name})"
    if switches_of(process) > 1:
        return "polls", _wakes(process)
    seconds = rank.still or 0.0
    still = f"has not moved for {duration_text(seconds)}" if seconds >= 1.0 else "does not move"
    return "is in its own code", f"{rank.place.why}; {still}" if rank.place.why else still


def _wakes(process: JobProcess) -> str:
    return f"it wakes up {switches_of(process):.1f} times a second"


def _works(rank: LiveRank) -> str:
    moved = rank.process.moved
    return "computes" if moved is not None and moved.cpu > 0.5 * moved.seconds else "works"


def _moves(rank: LiveRank) -> str:
    """Return the kind of activity in it, or below it."""
    moved = rank.process.moved
    if moved is None:
        return ""
    if moved.cpu < 0.1 * moved.seconds and (children := busy_children(rank)):
        return f"pid {children[0].pid} ({children[0].name}) below it works"
    if moved.read + moved.written > MUCH:
        return f"it reads and writes {(moved.read + moved.written) / 1e6 / max(moved.seconds, 0.1):.1f} MB/s"
    if gets_about(rank.process):
        return f"its stack had {moved.paths} different paths"
    return ""


def _stays(rank: LiveRank) -> str:
    moved = rank.process.moved
    if moved is None or not (moved.stack is False or moved.paths):
        return ""
    return f"it stayed in this function for the {moved.seconds:.1f} s of the look"


# Workers of Ray Train that Ray has not placed: their number, their resources, and those of the cluster.


ASKED = "what the task or actor asks for (num_cpus, num_gpus, resources)"
BUNDLES = (
    "the bundles of the placement group (verl: trainer.nnodes, trainer.n_gpus_per_node; vLLM: --tensor-parallel-size, "
    "--pipeline-parallel-size)"
)
TRAIN = re.compile(r"Train(?:er|able|Controller|Worker)")
NOT_PLACED = "Ray has not placed the workers"
LONG = 60.0
"""Seconds after which missing resources are not just on their way: the autoscaler checks every 5 s."""
_NAMES = {"CPU": "CPU", "GPU": "GPU"}


def not_placed(job: LiveJob) -> Iterator[Finding]:
    """Yield the finding that the job's workers wait to be placed; nothing if the cluster has no such request."""
    view = job.first.ray
    if view is None or not view.demands:
        return
    demand = max(view.demands, key=lambda demand: (bool(demand.strategy), demand.count))
    counted = [name for name in _resources(demand) if not name.startswith(_NODE)]
    lacking = [name for name in counted if demand.total(name) > view.resources.get(name, (0.0, 0.0))[1]]
    spread = demand.strategy == "STRICT_SPREAD" and view.nodes < demand.count
    starts, age = ray_process(job), max((process.age for process in job.first.processes), default=0.0)
    busy = bool(_addresses(demand) and _held(view, demand))  # whatever the autoscaler says of that one node
    never = bool(lacking or spread or (view.impossible and not busy)) and not view.starting
    late = age >= (YOUNG if view.impossible else LONG)
    less = asked(job, demand, too_large=view.impossible and not lacking)
    yield Finding.about(
        (),
        f"{starts} waits for Ray to place {workers_text(demand)}; "
        f"{cluster_text(view, demand, lacking, spread)}.",
        title=NOT_PLACED,
        evidence=(
            *titles(job),
            f"monitor.log of {view.session}: {demand.count} {'bundle waits' if demand.count == 1 else 'bundles wait'}, "
            f"{amounts_text(_totals(demand))} in all"
            + (f" ({demand.strategy})" if demand.strategy else ""),
            f"{view.nodes} node{'' if view.nodes == 1 else 's'} in Ray's cluster; used: {usage_text(view)}",
            *(["Ray's autoscaler: no node type that it has can hold the request"] if view.impossible else []),
            *(f"Ray's autoscaler is starting a node: {node}" for node in view.starting),
        ),
        fixes=(
            Fix(
                f"{remedy(view, demand, lacking, spread, less)} Confirm with: `ray status`, "
                f"`ray list {'placement-groups' if demand.strategy else 'actors'}`."
            ),
        ),
        severity=None if never and late else "warn",
        matters="" if never and late else "Ray places them once the resources are there" if not never else
        "the job was started only now: nodes may still join",
    )  # fmt: skip


def ray_process(job: LiveJob) -> str:
    """Return ``The driver (pid 7, train.py:12)``, or Ray Train's controller if the driver is on another node."""
    view = job.first.ray
    driver = next((process for process in job.first.processes if view is not None and process.pid == view.driver), None)
    process = driver or next((process for process in job.first.processes if process.role == "launcher"), None)
    if process is None:
        return "The driver"
    frame = own_frame(process.main) if process.main is not None else None
    at = f", {frame.file}:{frame.line}" if frame else ""
    return f"The {'driver' if driver else 'controller'} (pid {process.pid}{at})"


def titles(job: LiveJob) -> Iterator[str]:
    """Yield evidence of Ray's own processes in the job."""
    for node, facts in job.facts:
        for process in facts.processes:
            if process.role == "launcher":
                what = _what(process, facts.ray)
                yield f"{node.name}: {what} (pid {process.pid}) was started {process.age:.0f} s ago"


def _what(process: JobProcess, view: RayView | None) -> str:
    return "the driver" if view is not None and process.pid == view.driver else f"Ray's actor {process.name}"


def _resources(demand: RayDemand) -> list[str]:
    return list(dict.fromkeys(name for bundle in demand.bundles for name in bundle.amounts))


def _totals(demand: RayDemand) -> dict[str, float]:
    return {name: demand.total(name) for name in _resources(demand)}


def amounts_text(amounts: dict[str, float]) -> str:
    """Return ``1 CPU and 2 GPUs``."""
    return together(_amount(name, amount) for name, amount in amounts.items())


def _amount(name: str, amount: float) -> str:
    return f"{amount:g} {name}" + ("s" if name in _NAMES and amount != 1 else "")


def workers_text(demand: RayDemand) -> str:
    """Return ``4 workers with 1 GPU each``, if all need as much; the first may include the driver's part."""
    shared = _shared(demand.bundles)
    if not demand.strategy:  # the autoscaler does not count them
        return f"a task or actor with {amounts_text(shared)}"
    each = f" with {amounts_text(shared)}{'' if demand.count == 1 else ' each'}" if shared else ""
    return f"{demand.count} worker{'' if demand.count == 1 else 's'}{each}"


def _shared(bundles: Iterable[RayBundle]) -> dict[str, float]:
    """Return the least amount of each resource in all bundles: the first also has those of Ray Train's own trainer."""
    amounts = [bundle.amounts for bundle in bundles]
    return {name: min(each[name] for each in amounts) for name in amounts[0] if all(name in each for each in amounts)}


def cluster_text(view: RayView, demand: RayDemand, lacking: list[str], spread: bool) -> str:
    """Return the resources of the cluster next to those that are needed."""
    if lacking:
        return "Ray's cluster has " + together(_amount(name, view.resources.get(name, (0, 0))[1]) for name in lacking)
    if spread:
        return f"each needs a node of its own, and Ray's cluster has {view.nodes}"
    held, pinned = _held(view, demand), _addresses(demand)
    if pinned and not held:
        return f"one of them must be on {together(pinned)}, and Ray has no node there, or none with as much"
    if view.impossible and not pinned:
        return "no single node of Ray's cluster has as much as one of them needs"
    if held:
        return "Ray's cluster has " + together(f"{_free(view, name):g} of {_amount(name, view.resources[name][1])} free"
                                               for name in held)  # fmt: skip
    return f"Ray's cluster has {usage_text(view)} in use"


_NODE = "node:"
"""Beginning of a resource that each node of Ray has, with its address. Ray's status leaves it out."""


def _addresses(demand: RayDemand) -> list[str]:
    """Return the addresses of the nodes on which a bundle must be."""
    return [name.removeprefix(_NODE) for name in _resources(demand) if name.startswith(_NODE)]


def _held(view: RayView, demand: RayDemand) -> list[str]:
    """Return the resources that the cluster has, and not enough of them free."""
    return [name for name in _resources(demand) if name in view.resources and _free(view, name) < demand.total(name)]


def _free(view: RayView, name: str) -> float:
    used, total = view.resources.get(name, (0.0, 0.0))
    return total - used


def usage_text(view: RayView) -> str:
    """Return ``0 of 2 CPUs``."""
    counted = {name: pair for name, pair in view.resources.items() if "memory" not in name}
    return together(f"{used:g} of {_amount(name, total)}" for name, (used, total) in counted.items()) or "nothing"


def asked(job: LiveJob, demand: RayDemand, too_large: bool) -> str:
    """Return what asks for the resources: Ray Train's trainer, a placement group of the program's own, or an actor.

    ``too_large``: no node has enough for one worker, so that fewer workers would not help.
    """
    if not demand.strategy:
        return ASKED
    processes = job.first.processes
    frames = (frame for process in processes for thread in process.threads for frame in thread.frames)
    if any("ray/train/" in frame.file for frame in frames) or any(TRAIN.search(one.name) for one in processes):
        return f"{'' if too_large else 'num_workers, use_gpu or '}resources_per_worker of the ScalingConfig"
    return BUNDLES


def remedy(view: RayView, demand: RayDemand, lacking: list[str], spread: bool, less: str) -> str:
    """Return how to add the missing resources, or to request ``less``."""
    host = view.address.rpartition(":")[0].strip("[]")
    join = f" (on each: `ray start --address={view.address}`)" if host and not is_loopback(host) else ""
    if view.starting:
        return "Wait for the nodes that Ray's autoscaler starts."
    if spread:
        return f"Add nodes to Ray's cluster until it has {demand.count}{join}, or place the workers with PACK."
    if lacking:
        need = amounts_text({name: demand.total(name) for name in lacking})
        return f"Add nodes to Ray's cluster until it has {need}{join}, or lower {less}."
    pinned, held = _addresses(demand), _held(view, demand)
    if pinned and not held:
        return (
            f"Look for {together(pinned)} in `ray list nodes`. If it is not there, set VLLM_HOST_IP on each node to "
            "its address in that list, for `ray start` and for vLLM. If it is there, start vLLM on a node of Ray that "
            "has such free resources."
        )
    if view.impossible and not pinned:
        return f"Lower {less} to what one node has, or add larger nodes."
    return "Wait for the jobs that hold these resources, or end those that are done (`ray list jobs`)."
