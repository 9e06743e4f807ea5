"""The limit of processes and threads is used up.

## What you see
`OpenBLAS blas_thread_init: pthread_create failed`, `libgomp: Thread creation failed`, `can't start new thread`, `fork:
Resource temporarily unavailable`.

## Why it happens
A limit of processes and threads is used up: the user's (ulimit -u; root has none) or the machine's (kernel.threads-max,
kernel.pid_max). Or that of the container or unit (pids.max: docker run --pids-limit, TasksMax=, the kubelet's
podPidsLimit).

A rank has some four threads with a gloo group, three with each further one (--mesh, --groups), and its compute threads.
torchrun sets one per rank (OMP_NUM_THREADS=1) if a node has several ranks, else each CPU gets one. numpy's OpenBLAS
adds as many. libgomp counts the host's cores, not the container's. Or a sandbox allows no thread: an old Docker's
seccomp profile answers clone3() with EPERM.

## Fix
Raise the limit, `ulimit -u 65536` or `docker run --pids-limit 65536`; or use fewer threads, `export OMP_NUM_THREADS=4`;
or end ranks of earlier runs.

For the seccomp profile, update Docker and libseccomp on the host.

## Confirm with
`ulimit -u; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current` shows the limits in the job's environment.

## When it is harmless
If the ranks could start, the finding is a WARN: threads of data loaders and computation are additional. A check has up
to ten more processes and threads than torchrun and two ranks. With a limit between the two the check fails, but a
minimal job runs.

## See also
host/open-files-limit, host/leftover-processes
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, device_mesh, errors_with_words, names_of, rank_count

SEVERITY = "fail"
MATTERS = "the ranks could start; threads for computation and data loading may fail"
PREVENTS = "store used"
LOOKS_AT = ("host.limits",)
AMPLE = 2
"""Factor over the ranks' own threads that should be free: data loaders and numpy have threads, too."""
OF_A_RANK = 4
"""Threads that a rank has with a gloo group, counted in a job of torch 2.13 with OMP_NUM_THREADS=1."""
MOST_NUMBERS = 4 << 20
"""PID_MAX_LIMIT of linux/threads.h on 64 bits."""
CALLED = {
    "user": "the user's limit (ulimit -u)",
    "cgroup": "the limit of the container or unit (pids.max)",
    "machine": "the machine's limit (kernel.threads-max)",
    "numbers": "the limit of process numbers (kernel.pid_max)",
}
NO_THREAD = "can't start new thread"
SHARED_LIMIT = 4096
"""Largest limit of a user that processes out of sight are believed to use up: RHEL's default for users (20-nproc.conf).
The kernel counts a user's processes in all containers of the machine (setrlimit(2), RLIMIT_NPROC)."""
OF_THE_CHECK = 10
"""Most processes and threads of a check in addition to its ranks; not all of them exist when it counts."""
ABORTED = "by signal 6"
"""End of a rank that got no thread where nobody catches that: C++ calls abort() (std::terminate)."""
WORDS = ("Resource temporarily unavailable", NO_THREAD, "Thread creation failed")
RAISE_ANY = (
    "Raise the limit of processes and threads in the shell that starts the job (ulimit -u). Or raise that of its "
    "container or unit (docker run --pids-limit, TasksMax=, the kubelet's podPidsLimit)."
)
UNKNOWN_CALL = (
    "Update Docker and libseccomp on the host: their seccomp profile does not know clone3(). Until then, run without "
    "it."
)
SANDBOX_OFF = ("docker run --security-opt seccomp=unconfined ...",)
LOG = (
    Line("blas_thread_init", "pthread_create failed", unless="Operation not permitted"),
    Line("Thread creation failed", "libgomp|OMP: "),
    Line("start new thread", "can.?t start new thread"),
    Line(
        "Resource temporarily unavailable",
        "fork|clone|thread|BlockingIOError|pthread|Errno 11",
        unless="lock file|lock on|locked|non-blocking|without blocking",  # a lock that another process has
    ),
    Line(
        "pthread_create",
        "pthread_create.{0,60}(?:Resource temporarily|failed|EAGAIN)",
        unless="Operation not permitted",
    ),
    Line(
        "pthread_create failed",
        "Operation not permitted",
        shows="symptom",
        why="a container's seccomp profile without clone3 shows the same",
    ),
    Line(
        "rejected by pids controller",  # the kernel's: the cgroup's pids.max
        r"fork:? rejected by pids controller",
    ),
)


@dataclass(frozen=True)
class Room:
    """One limit, and what is left of it."""

    of: str
    """Owner: a key of ``CALLED``."""
    most: int
    used: int

    @property
    def left(self) -> int:
        return self.most - self.used


def judge(cluster: Cluster) -> Iterator[Finding]:
    forbidden = [node for node in cluster.nodes if node.limits.threads_forbidden]
    if forbidden:
        yield Finding.about(
            forbidden,
            f"A sandbox on {names_of(forbidden)} forbids new threads.",
            evidence=(f"{node.name}: clone3() fails with EPERM, and starting a thread fails" for node in forbidden),
            fixes=[Fix.on(forbidden, UNKNOWN_CALL, commands=SANDBOX_OFF)],
        )
    errors = errors_with_words(cluster, WORDS)
    # Who had no thread for the look at its limits has none for its ranks.
    without_facts = [
        n for n in cluster.nodes if n not in forbidden and tightest(n) is None and NO_THREAD in str(errors.get(n.name))
    ]
    if without_facts:
        yield Finding.about(
            without_facts,
            f"The check could not start another thread on {names_of(without_facts)}.",
            title="The check itself cannot start a thread",
            evidence=(line for node in without_facts for line in errors[node.name]),
            fixes=[Fix.on(without_facts, RAISE_ANY)],
        )
    tight = {
        node: room
        for node in cluster.nodes
        if node not in forbidden and (room := tightest(node)) and is_tight(node, room, node.name in errors)
    }
    if not tight:
        return
    refused = [node for node in tight if node.name in errors or ended_there(node, tight[node])]
    blamed = refused or list(tight)
    yield Finding.about(
        blamed,
        f"A limit on {names_of(blamed)} allows too few processes and threads for the ranks there.",
        severity="fail" if refused else "warn",
        evidence=(line for node in blamed for line in (evidence_line(node, tight[node]), *errors.get(node.name, ()))),
        fixes=(fix for node in blamed for fix in fixes(node, tight[node])),
    )


def is_tight(node: Node, room: Room, refused: bool) -> bool:
    """Return whether the limit leaves too little; ``refused``: the kernel refused a process or thread there."""
    hidden = refused and room.of == "user" and room.most <= SHARED_LIMIT
    return hidden or room.left < AMPLE * need(node)


def ended_there(node: Node, room: Room) -> bool:
    """Return whether the store's process or a rank ended there without a message, for lack of room for all ranks.

    A library that gets no thread ends its process in its own way."""
    died = [entry.error or "" for rank in node.facts.ranks for entry in rank.stages if entry.detail.get("died")]
    if room.left < need(node) + OF_THE_CHECK and any(error.endswith(ABORTED) for error in died):
        return True
    if room.left >= need(node):
        return False
    entries = [entry for rank in node.facts.ranks for entry in rank.stages]
    if any(entry.detail.get("during") == "new_group" and entry.detail.get("killed") for entry in entries):
        return True  # gloo's constructor waits for its own threads then
    bind = node.network.bind
    error = bind.error or "" if bind is not None and not bind.ok and not bind.errno else ""
    store = any(word in error for word in ("closed its channel", *WORDS))
    own_store = node.meeting.hosted and (node.meeting.host_lost or {*node.keys} & {*node.meeting.lost})
    return bool(store or own_store or any("closed its channel" in error for error in died))


def tightest(node: Node) -> Room | None:
    """The limit of which the least is left; None where none is known."""
    limits = node.limits
    errors = (
        ("user", limits.processes, limits.user_processes),
        ("cgroup", limits.pids_max, limits.pids_used),
        ("machine", limits.threads_max, limits.threads),
        ("numbers", limits.pid_max, limits.threads if limits.pids_seen is None else limits.pids_seen),
    )
    rooms = [Room(of, most, used) for of, most, used in errors if most is not None and used is not None]
    return min((room for room in rooms if room.most >= 0), key=lambda room: room.left, default=None)


def computing(node: Node) -> int:
    """With how many threads a rank computes, by OMP_NUM_THREADS or what it is where that is not set."""
    value = node.variables.get("OMP_NUM_THREADS", "")
    if value.isdecimal():
        return int(value)
    # torch/distributed/run.py, config_from_args(): 1 where it starts several on a node.
    return 1 if node.plan.started == "node" and rank_count(node) > 1 else node.limits.cpus or 1


def need(node: Node) -> int:
    """Return how many processes and threads the ranks of the node take."""
    threads, groups = computing(node), node.plan.gloo_group_sizes()
    return rank_count(node) * (OF_A_RANK + device_mesh.THREADS_OF_GROUP * len(groups) + (threads if threads > 1 else 0))


def evidence_line(node: Node, room: Room) -> str:
    elsewhere = " here; the user's processes in other containers count, too" if room.left >= AMPLE * need(node) else ""
    limit = f"{node.name}: {CALLED[room.of]} is {room.most}, with {room.used} in use{elsewhere}"
    threads = computing(node)
    each = f"{threads} compute thread{'s' if threads > 1 else ''} each"
    return f"{limit}; {rank_count(node)} ranks with {each} need {need(node)}"


def fixes(node: Node, room: Room) -> Iterator[Fix]:
    each = max(1, (node.limits.cpus or 1) // rank_count(node))
    fewer = Fix.on(node, "Use fewer compute threads per rank.", env={"OMP_NUM_THREADS": str(each)})
    if computing(node) > (node.limits.cpus or computing(node)):  # more than there are CPUs serves nobody
        yield fewer
        yield replace(raised(node, room), option=2)
        return
    yield raised(node, room)
    if each < computing(node):
        yield replace(fewer, text="Or use fewer compute threads per rank.", option=2)


def raised(node: Node, room: Room) -> Fix:
    """Return the fix that raises the limit."""
    wanted = 1 << (room.used + 8 * need(node)).bit_length()
    hard = node.limits.processes_hard
    if room.of == "machine":
        return Fix.on(node, "Raise the limit, as root.", commands=(f"sysctl -w kernel.threads-max={wanted}",))
    if room.of == "numbers":
        most = min(wanted, MOST_NUMBERS)
        return Fix.on(node, "Raise the limit, as root.", commands=(f"sysctl -w kernel.pid_max={most}",))
    if room.of == "cgroup":
        text = f"Raise the limit to {wanted} (docker run --pids-limit, TasksMax=, the kubelet's podPidsLimit)."
        return Fix.on(node, text)
    if hard is not None and 0 <= hard < wanted:
        text = f"Raise the limit to {wanted} as root (nproc in /etc/security/limits.conf), then log in again."
        return Fix.on(node, text)
    return Fix.on(node, "Raise the limit in the shell that starts the job.", commands=(f"ulimit -u {wanted}",))
