"""Which jobs of this host Ray started, and what its files say of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from distdoctor.inspection import ray_session
from distdoctor.inspection.candidates import Candidate, Scan

if TYPE_CHECKING:
    from distdoctor.inspection.jobs import Found


def name_of(one: Candidate, scan: Scan) -> str:
    """Return the name of the job that a process of Ray's belongs to: of several groups of workers, its own."""
    groups = {other.ray_group for other in scan.candidates.values() if other.ray == one.ray and other.ray_group}
    return f"Ray job {one.ray}" + (f", workers of pid {one.ray_group}" if len(groups) > 1 else "")


def add_views(jobs: Collection[Found], scan: Scan) -> None:
    """Add what Ray's files say. A driver alone is a job where it trains with torch, or where nothing else is here."""
    others = any(job.ranks or job.options for job in jobs)
    for job in jobs:
        mine = [one for one, _ in job.members.values() if one.ray]
        session = next((s for s in scan.ray if mine and mine[0].ray.endswith(f" of {s.name}")), None)
        torch = any(one.torch is not None or ray_session.trains(one.command) for one in mine)
        if session is None or not (job.ranks or torch or not others):
            continue
        driver = next((one.pid for one in mine if ray_session.job_of_driver(one.pid, session)), None)
        starts = {one.pid for one in mine} | {one.ray_group for one in mine}
        workers = next((ranks for pid, ranks in session.groups.items() if pid in starts), {})
        job.ray = ray_session.view(session, driver, workers)
