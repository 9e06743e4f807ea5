"""Lines of Ray: the prefix of a worker (also vLLM's), wrapped exceptions, lost workers and nodes."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Wording

DIALECT = Dialect(
    prefixes=(
        # NeMo-RL names its actors Name[rank=8]. vLLM writes the same form (setup_proc_title_and_log_prefix() of
        # v1/executor/multiproc_executor.py, 0.10 to 0.13): there the number in the group of TP is the rank if the
        # worker is in the first groups of DP and PP
        (
            "(",
            r"\((?:(?:(?:\w{1,60}\[)?rank=|Worker(?:_DP0)?(?:_PP0)?_TP)(?P<rank>\d{1,6})(?:_[A-Z]{2,4}\d{1,4}){0,4}\]? "
            r"|[\w.:=/,-]{1,80} ){0,3}"
            r"pid=(?P<pid>\d{1,9})(?:, ip=(?P<host>\[?[\w.:-]{1,64}\]?))?\) ?",
        ),
    ),
    ends=(
        Wording(
            "killed due to memory",  # the raylet's: where the line was broken, the rest is on the next one
            r"(?<!\d)[1-9]\d{0,9} Workers (?:\(tasks / actors\) )?killed due to memory"
            r"(?:.{0,300}, IP: (?P<host>[\w.:-]{1,64})\))?",
            "out of memory",
        ),
        Wording(("due to the node running low on memory", "OutOfMemoryError: Task was killed"), "", "out of memory"),
        Wording(
            "exceeds the memory usage threshold of",
            r"Memory on the node \(IP: (?P<host>[\w.:-]{1,64})[,)].{0,600}exceeds the memory usage threshold of",
            "out of memory",
        ),
        Wording(("Worker unexpectedly exit", "actor died unexpectedly"), "", "actor died"),
        Wording(
            "by an unexpected system error",
            r"by an unexpected system error(?:.{0,600} Worker IP address: (?P<peer>[\w.:-]{1,64}) )?",
            "worker crashed",
        ),
        Wording("marked dead because", "", "node dead"),
        # of a dead actor (src/ray/gcs, python/ray/exceptions.py)
        Wording(
            ("the actor's node was preempted: ", "The actor's node was killed by a spot preemption"), "", "preempted"
        ),
        Wording("the actor's node was terminated unexpectedly: ", "", "node lost"),
        Wording(("NodeDiedError", "Raylet is terminated. Termination is unexpected"), "", "node lost"),
        Wording(
            ("actor is dead because its", "ActorDiedError", "RayActorError", "WorkerCrashedError"), "", "actor lost"
        ),
        Wording(
            "ray.exceptions.",
            r"ray\.exceptions\.(?:Actor|RayActor|Worker|Node|Owner|Object|ReferenceCounting|LocalRaylet|Raylet)\w{0,40}Error",
            "actor lost",
        ),
    ),
    wrappers=r"ray\.exceptions\.(?:RayTaskError|ActorDiedError|RayActorError)\b",
)
