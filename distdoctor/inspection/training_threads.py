"""The thread in which a worker of Ray Train runs the job's own code: not its main one, which only waits for orders."""

from __future__ import annotations

from distdoctor.inspection.ray_session import TITLE
from distdoctor.model.facts import Frame

_WORKER = "ray/_private/workers/default_worker.py"
_RUNNERS = (
    "ray/air/_internal/util.py",
    "ray/train/_internal/session.py",
    "ray/train/v2/_internal/execution/worker_group/thread_runner.py",
)
"""Where such a thread begins: ``RunnerThread.run``, and ``ThreadRunner`` of Ray Train's second version."""


def training_thread(pid: int, stack: dict[int, tuple[Frame, ...]]) -> int:
    """The thread that runs the training function of the process; the main one where it has none."""
    main = stack.get(pid, ())
    if not main or not main[-1].file.endswith(_WORKER) or any(frame.own for frame in main):
        return pid
    found = [
        tid
        for tid, frames in stack.items()
        if tid != pid and any(frame.file.endswith(_RUNNERS) and frame.function != "get_next" for frame in frames)
    ]
    return found[0] if len(found) == 1 else pid


def may_have_training_thread(command: tuple[str, ...]) -> bool:
    """Whether the process is a worker of Ray's."""
    return bool(command) and command[0].startswith(TITLE)
