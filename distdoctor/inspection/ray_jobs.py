"""Which jobs of this host Ray started, and what its files say of them."""

from __future__ import annotations

from collections.abc import Collection

from distdoctor.inspection import ray_session
from distdoctor.inspection.candidates import Candidate, Scan
from distdoctor.model.facts import RayView


def name_of(one: Candidate, scan: Scan) -> str:
    """Return the name of the job that a process of Ray's belongs to: of several groups of workers, its own."""
    groups = {other.ray_group for other in scan.candidates.values() if other.ray == one.ray and other.ray_group}
    return f"Ray job {one.ray}" + (f", workers of pid {one.ray_group}" if len(groups) > 1 else "")


def is_worker(one: Candidate) -> bool:
    """Return whether a process of Ray's is a worker of Ray Train: of one on another node than the head only its title
    and its threads say so."""
    return bool(one.ray_group) or one.is_distributed or "TrainWorker" in one.name


def view_of(members: Collection[Candidate], scan: Scan, alone: bool) -> RayView | None:
    """Return what Ray's files say of the job of these processes; None where they are none of Ray's.

    A driver without ranks here is a job where it trains with torch, or where it is ``alone`` on this host.
    """
    mine = [one for one in members if one.ray]
    session = next((s for s in scan.ray if mine and mine[0].ray.endswith(f" of {s.name}")), None)
    trains = any(one.ray_group or one.torch is not None or ray_session.trains(one.command) for one in mine)
    if session is None or not (trains or alone):
        return None
    if not any(is_worker(one) for one in mine) and _has_own_ranks(session, mine, scan):
        return None
    driver = next((one.pid for one in mine if ray_session.job_of_driver(one.pid, session)), None)
    starts = {one.pid for one in mine} | {one.ray_group for one in mine}
    workers = next((ranks for pid, ranks in session.groups.items() if pid in starts), {})
    return ray_session.view(session, driver, workers)


def _has_own_ranks(session: ray_session.Session, mine: Collection[Candidate], scan: Scan) -> bool:
    """Return whether actors of Ray that are none of Ray Train's are ranks, as those of a trainer with its own actors:
    they are the job, and its driver waits for them."""
    others = (one for one in scan.candidates.values() if one not in mine and not one.ray)
    return any(one.is_distributed and one.variables.get("RAY_RAYLET_PID") == str(session.raylet) for one in others)
