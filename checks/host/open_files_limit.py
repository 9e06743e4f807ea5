"""The limit of open files is too low.

## What you see
`Too many open files` (errno 24) from the store, gloo, NCCL or a DataLoader. Often only one rank fails, and the others
wait for it.

## Why it happens
Every connection is an open file. A rank has one to every other rank in gloo, several to each in NCCL, and one to the
store. Each further gloo group (--mesh, --groups) has one to each of its ranks, and four more. Python and torch open
some twenty files. The limit is that of the shell, the scheduler's daemon or the container runtime that started the job.

An NCCL thread watches 65 or more files at once, open or not. With a lower limit poll(2) fails, NCCL warns `[Proxy
Service] Poll failed: Invalid argument`, and hangs.

## Fix
Raise the limit where the job starts: `ulimit -n 65536`; in a container `docker run --ulimit nofile=65536`.

The hard limit is in /etc/security/limits.conf, or in the scheduler's unit file (LimitNOFILE=).

## Confirm with
`srun bash -c 'ulimit -n'` prints 65536 on every node.

## When it is harmless
If the limit is enough for this job, but little more, the finding is a WARN: DataLoader workers and checkpoints need
files, too.

## See also
store/failed, gloo/init-failed
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    device_mesh,
    errors_with_words,
    gpus,
    names_of,
    planned_rank_count,
    plans_nccl_group,
    together,
)

SEVERITY = "fail"
LOG = (
    Line("Too many open files"),
    Line("items of ancdata", r"received \d+ items of ancdata"),
    Line(
        "Poll failed: Invalid argument",  # NCCL's src/proxy.cc: what poll(2) says of more than RLIMIT_NOFILE
        r"\[Proxy Service\S{0,20}\] Poll failed: Invalid argument",
        told="The limit of open files is too low for NCCL to watch its connections",
        fix="Raise the limit where the job starts: ulimit -n 65536.",
    ),
)
MATTERS = "DataLoader workers and checkpoints need files, too"
PREVENTS = "store reached"
LOOKS_AT = ("host.limits",)
EACH = 20
"""Files that a rank has open without any peer: measured with torch 2.13, 32 are enough for 4 ranks, 64 for 16."""
OF_AGENT = 24
"""Files that torchrun's agent has open if it hosts the stores of its c10d rendezvous and of the ranks, without nodes or
ranks: measured with torch 2.13, one rank alone needs 25, one on each of two nodes 26, four on one node 26 or 27."""
POLLED = 65
"""Least number of descriptors that NCCL's proxy gives poll(2), which takes no more than may be open: one per possible
local rank (64 in older versions, 72 in newer ones), and one or two more (src/proxy.cc). With 64 it hung on an H100
(2.28.9)."""
COMFORT = 128
USUAL = 65536
MESSAGES = ("Too many open files", "Errno 24", "EMFILE")
SYSTEM = "Too many open files in system"
"""ENFILE: the kernel's own table is full, and no process's limit is why."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    ranks = planned_rank_count(cluster)
    needs = {node.name: need_of(node, ranks) for node in cluster.nodes}
    reported = errors_with_words(cluster, MESSAGES, unless=SYSTEM)
    polls = {
        node.name: text for node in cluster.nodes if (text := gpus.nccl_warned(node, "Poll failed: Invalid argument"))
    }
    hit, comfort = {**reported, **crowded(cluster), **polls}, max(COMFORT, 2 * max(needs.values(), default=0))
    used_up = [
        node
        for node in cluster.nodes
        if ((left := room(node)) is not None and left < needs[node.name]) or refuses_nccl(node, ranks)
    ]
    bad = [
        n for n in cluster.nodes if n.name in hit or n in used_up or ((its := limit(n)) is not None and its < comfort)
    ]
    if not bad:
        return
    short = [node for node in bad if node.name in hit or node in used_up]
    blamed = short or bad
    enough = "" if short else ": enough for this job, but little more"
    yield Finding.about(
        blamed,
        f"A process on {names_of(blamed)} may open only {together(limits_text(blamed))} files{enough}.",
        severity="fail" if short else "warn",
        evidence=(line for node in blamed for line in (*evidence(node, needs[node.name]), *hit.get(node.name, ()))),
        fixes=(fix(node, needs[node.name]) for node in blamed),
    )


def need_of(node: Node, ranks: int) -> int:
    """Return how many a process of the job has open on this node: a rank, or torchrun's agent where it may host both
    stores, its own and that of the ranks."""
    plan = node.plan
    alone = plan.nnodes == 1 and plan.sources.get("master_port") == "any free port"
    agent = plan.started == "node" and plan.init_method is None and (alone or plan.rdzv_backend == "c10d")
    groups = sum(length + device_mesh.FILES_OF_GROUP for length in plan.gloo_group_sizes(ranks))
    return max(EACH + ranks + groups, OF_AGENT + max(plan.nnodes or 1, (ranks + 1) // 2) if agent else 0)


def crowded(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Return node name -> the line of evidence that its store has no descriptor left for further nodes."""
    full_stores: dict[str, tuple[str, ...]] = {}
    for node in cluster.nodes:
        bind = node.network.bind
        if bind is not None and bind.files is not None:
            held, most = bind.files
            text = f"the store has {held} of {most} files open, and none left for a node: connections occupy port"
            full_stores[node.name] = (f"{node.name}: {text} {bind.port}",)
    return full_stores


def refuses_nccl(node: Node, ranks: int) -> bool:
    """Return whether NCCL, where it has a group of several ranks, cannot watch its connections."""
    most = limit(node)
    return most is not None and most < POLLED and ranks > 1 and node.gpus and plans_nccl_group(node)


def limit(node: Node) -> int | None:
    """The limit on open files; None where it is not known or there is none."""
    most = node.limits.open_files
    return most if most is not None and most >= 0 else None


def room(node: Node) -> int | None:
    """Return how many more a process may open that is started here: what is open already, and not closed at its
    start, it has too; None where that is not known."""
    most = limit(node)
    return None if most is None else most - (node.limits.open_files_inherited or 0)


def limits_text(nodes: list[Node]) -> list[str]:
    return list(dict.fromkeys(str(limit(node)) if limit(node) is not None else "too few" for node in nodes))


def evidence(node: Node, need: int) -> Iterator[str]:
    its = node.limits
    if node.host.limits is not None:
        hard = "unlimited" if its.open_files_hard == -1 else its.open_files_hard
        needed = f"a process of this job needs about {need}"
        if node.gpus and plans_nccl_group(node):
            needed = f"NCCL watches {POLLED} or more at once"
        yield f"{node.name}: ulimit -n is {its.open_files} (hard limit {hard}); {needed}"
        if its.open_files_inherited and (left := room(node)) is not None and left < need:
            yield (
                f"{node.name}: {its.open_files_inherited} files were open already, inherited from its parent (ls -l "
                "/proc/$$/fd shows the shell's)"
            )


def fix(node: Node, need: int) -> Fix:
    hard, held = node.limits.open_files_hard, node.limits.open_files_inherited or 0
    wanted = max(USUAL, 4 * need + held, 2 * (limit(node) or 0))  # never less than there is
    if hard is None or hard == -1 or hard >= max(COMFORT, 2 * need) + held:
        value = wanted if hard is None or hard == -1 else min(wanted, hard)
        return Fix.on(node, "Raise the limit in the shell that starts the job.", commands=(f"ulimit -n {value}",))
    text = "Raise the hard limit, as root, and log in again; in a container: docker run --ulimit nofile=65536."
    lines = rf"* soft nofile {wanted}\n* hard nofile {wanted}\n"
    return Fix.on(node, text, commands=(f"printf '{lines}' >> /etc/security/limits.conf",))
