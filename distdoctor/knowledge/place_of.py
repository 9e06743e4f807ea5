"""Where in a job a rank is, told from what /proc and py-spy show of its process."""

from __future__ import annotations

from collections.abc import Iterable

from distdoctor.knowledge.job_movement import is_stopped
from distdoctor.knowledge.job_places import CODE, ENDED, STOPPED, Place
from distdoctor.knowledge.job_stacks import own_frame
from distdoctor.knowledge.places_by_stack import by_stack
from distdoctor.knowledge.places_by_system import by_system
from distdoctor.model.facts.job import JobProcess


def place_of(one: JobProcess, below: Iterable[JobProcess] = (), ports: Iterable[int] = ()) -> Place:
    """Where the rank is. ``below``: the processes below it; ``ports``: those of the stores of the job."""
    if one.frozen:
        return Place(STOPPED, why=f"with its control group {one.frozen}", frame=own_frame(one.main))
    if is_stopped(one):
        return Place(STOPPED, why="by a debugger" if one.state == "t" else "by a signal", frame=own_frame(one.main))
    if one.state in ("Z", "X"):
        return Place(ENDED)
    main = one.main
    if main is None:
        return Place(CODE, sure=False)
    if main.frames:
        return by_stack(one, main, list(below), set(ports))
    return by_system(one, main, list(below), set(ports))
