"""Some nodes did not join.

## What you see
Silence for 15 to 30 minutes, then `Timed out after 1801 seconds waiting for clients. 1/2 clients joined`, or a
RendezvousTimeoutError. `distdoctor hang` on a node that joined counts the others: `1 of 2 nodes joined HOST:PORT`. For
Ray it shows the resources that the driver waits for: `Ray to place 4 workers with 1 GPU each`.

## Why it happens
The launcher was not started there, or ended before it reached the store. Or the scheduler allocated fewer nodes, or
the node cannot reach node 0. The node's own report shows which. `distdoctor diagnose` on the saved facts of all nodes
shows it, too.

## Fix
Run the same command on each missing node: `distdoctor check --nnodes 2 --master-addr 10.0.0.10`. Or request as many
nodes as the job needs: `sbatch --nodes 2 job.sh`. With Ray, add nodes, or ask for less: num_workers
in the ScalingConfig, the bundles of the placement group, num_gpus of an actor.

## Confirm with
`squeue -j JOBID`, `kubectl get pods -o wide` or `ray status`.

## When it is harmless
When the nodes join later than --wait. torchrun waits 15 minutes with the static rendezvous (`--rdzv-conf timeout=`)
and 10 with c10d (`join_timeout=`). Ranks without torchrun wait up to 30 minutes (NCCL: 10). `distdoctor hang` warns
until then. If the nodes that joined already show why the job fails, distdoctor does not wait for the others. A job
with `--nnodes MIN:MAX` and the c10d rendezvous starts with MIN nodes (after last_call_timeout, 30 s).

## See also
network/port-refused, network/port-filtered, environment/world-size-mismatch, network/master-not-node0
"""

from collections.abc import Iterator, Sequence

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    RendezvousFacts,
    claims_node0,
    live,
    master,
    node0_name,
    some_of,
)

SEVERITY = "fail"
NEXT = (
    "the launcher's output on the missing nodes, or the scheduler's reason for not placing them (kubectl describe pod, "
    "squeue)",
    "",
)
LOG = (
    Line(
        ("clients joined", "workers joined"),
        r"(?<!\d)(?P<here>\d{1,7})/(?P<expected>\d{1,7}) (?:clients|workers) joined",
        shows="symptom",
        why="nodes that cannot reach the store or that ended before are missing as well; their logs show why",
    ),
    Line(
        "store based barrier",
        r"(?:[Tt]imed? ?out|Waiting in store).{0,400}world_size=(?P<expected>\d{1,9}), "
        r"(?:worker_count|num_workers_joined)=(?P<here>\d{1,9})",
        above=("expected", "here"),  # with more workers than the world size none is missing
        shows="symptom",
        why="the missing ranks may have died, or may still join",
    ),
    Line(  # torch/csrc/distributed/c10d/socket.cpp, of each wait at the store
        "waitForInput: socket",
        r"waitForInput: socket (?:SocketImpl.{1,300})?timed out after \d{1,9}ms",
        shows="hint",
        why="a program that asks again after a short wait shows the same",
    ),
    Line("Completed store-based barrier", shows="noise", why="all ranks joined"),
    Line(  # of JAX's coordination service, which waits for all processes (xla/pjrt/distributed/client.cc)
        "Barrier timed out",
        r"Barrier timed out\. (?:Id: \[Init\]Wait_for_all_tasks_to_register|Barrier_id: PjRT_Client_Connect)",
        shows="symptom",
        why="processes that started late, died before, or cannot reach the coordinator are missing as well",
    ),
    Line(
        "RendezvousTimeoutError",
        unless="has failed to s(?:end a keep-alive heartbeat to|hutdown) the rendezvous",  # of an agent that had joined
        shows="symptom",
        why="nodes that cannot reach the endpoint show the same",
    ),
    Line(
        "Socket Timeout",
        "(?:RuntimeError|DistStoreError|StoreTimeoutError)?:? ?Socket Timeout",
        shows="symptom",
        why="a store that does not answer shows the same",
    ),
    Line(
        "wait timeout after",
        r"wait timeout after \d+ ?ms, keys: (?P<keys>\S{0,300}/(?P<peers>\d{1,6}/\d{1,6})(?![\w/])|\S{1,300})",
        shows="symptom",
        why="the rank that sets the key may have died",
    ),
    Line(
        ("Timed out waiting on barrier on", "Wait timeout for key(s)", "Error: Wait timeout"),
        shows="symptom",
        why="the missing rank died, hangs, or was never started",
    ),
    Line(
        ("waiting for keys in EtcdStore", "members to join"),
        r"[Tt]imeout while waiting for keys in EtcdStore|timed out waiting for all \d+ members to join",
        shows="symptom",
        why="the missing rank died, hangs, or was never started",
    ),
    Line(
        (
            "FailedScheduling",
            " nodes are available: ",
            "ImagePullBackOff",
            "ErrImagePull",
            "FailedMount",
            "FailedAttachVolume",
            "CapacityError: ",
            "InsufficientInstanceCapacity",
            "No available node types can fulfill resource request",  # Ray's autoscaler
        ),
        shows="symptom",
        why="a pod without a node, image or volume does not join; a later attempt may have succeeded",
    ),
    Line(
        "Waiting for creating a placement group",  # vLLM's, of Ray: after 10 seconds, 30, 70, 150, 310, ...
        r"placement group of specs for (?P<seconds>\d{3,6}) seconds",
        shows="symptom",
        why="GPUs that Ray does not see or that other jobs hold, and a wrong VLLM_HOST_IP, show the same: `ray status` "
        "and `ray list nodes` tell them apart",
    ),
    Line(
        "worker group startup timed out after",  # Ray Train's controller, which tries again
        r"worker group startup timed out after [\d.]+ seconds waiting for (?P<expected>\d{1,7}) workers",
        shows="symptom",
        why="GPUs that other jobs hold or that Ray does not have, and a slow runtime environment, show the same: `ray "
        "status` tells them apart",
    ),
    Line(" Started container ", shows="noise", why="the container started"),
)
TOKEN = "store/token-mismatch"
PREVENTS = "all met"
SYMPTOM_OF = "all met"
INCOMPLETE = True
# A node without a free thread or free memory does not reach the store either.
FOLLOWS = ("host/thread-limit", "host/memory-limit", "mesh/connection-loss", TOKEN)
# In a remote run an unreachable node cannot join; nor can a node that does not understand node 0.
FOLLOWS_ANYWHERE = ("launch/*", "store/protocol-mismatch")


def judge(cluster: Cluster) -> Iterator[Finding]:
    zero = cluster.node0 or master.fullest(cluster)
    absent: list[str] = []
    ranks: tuple[int, ...] = ()
    roll: list[str] = []
    if zero is not None and master.incomplete(zero.meeting):
        absent, ranks = master.missing(cluster, zero, zero.meeting)
        roll += roll_call(cluster, zero, zero.meeting)
    outside = [node for node in cluster.nodes if shut_out(node)]
    if outside and zero is None:
        absent.append(node0_name(cluster, outside[0]))
    elif outside:
        absent += [node.name for node in outside if node.name not in absent]
    absent = list(dict.fromkeys(absent))
    if not absent:
        return
    if zero is None:
        yield finding(cluster, None, outside, absent, ranks, roll)
        return
    turned_away = master.turned_away(cluster, zero, outside, absent)
    for names in by_reason(outside, turned_away, absent):
        its = [node for node in outside if node.name in names]
        own = {*names}
        numbers = (
            ranks if len(names) == len(absent) else tuple(rank for rank in ranks if node_of_rank(cluster, rank) in own)
        )
        yield finding(cluster, zero, its, names, numbers, roll, TOKEN if names == turned_away else None)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    if job.first.ray is not None and not job.ranks:
        yield from live.not_placed(job)
        return
    if not live.ranks_meet(job):
        yield from () if job.ranks else live.agents_missing(job)
        return
    of_joined, absent = live.absent_ranks(job)
    store = job.store
    if absent:
        yield live.nodes_not_joined(job, absent)
    elif not of_joined and store and not store.tells_missing and 0 <= (store.arrived or 0) < (job.world or 0):
        yield live.nodes_not_joined(job, ())
    else:
        yield from live.clients_missing(job)


def finding(
    cluster: Cluster,
    zero: Node | None,
    outside: list[Node],
    absent: list[str],
    ranks: tuple[int, ...],
    roll: list[str],
    cause: str | None = None,
) -> Finding:
    fix, needless = fix_text(cluster, zero, absent, ranks), without_them(zero, outside)
    if needless:
        fix = f"To start the job with {some_of(absent)}: {fix[0].lower()}{fix[1:]}"
    return Finding.about(
        absent,
        summary(cluster, zero, outside, absent, ranks),
        title=title(cluster, zero, absent, needless),
        severity="info" if needless else "fail",
        because_of="environment/*" if cut_short(zero) else cause,
        ranks=ranks,
        links=() if zero is not None else tuple((node.name, absent[0]) for node in outside),
        evidence=(*roll, *(f"{node.name}: {master.last_contact_text(node)}" for node in outside)),
        fixes=(
            *(first := master.too_few_nodes_fix(zero)),
            Fix(fix, () if zero and zero.plan.everywhere else tuple(absent), 1 + len(first)),
            *master.other_hosts_evidence(cluster, zero or outside[0]),
            *another_node0(zero, outside, absent),
        ),
    )


def another_node0(zero: Node | None, outside: list[Node], absent: list[str]) -> Iterator[Fix]:
    """Yield the fix for a node that is node 0 only because it got no master address, or its own, and nobody joined."""
    if zero is None or outside or len(zero.meeting.arrived) > 1 or zero.plan.started != "node" or zero.plan.launcher:
        return
    own_address = zero.plan.node_rank is None and zero.plan.sources.get("master_addr") == "--master-addr"
    if (zero.plan.announce or own_address) and not zero.variables.get(master.JOB_LIST):
        line = f"distdoctor check --nnodes {zero.plan.nnodes} --master-addr ADDRESS"
        yield Fix.on(
            (zero,), f"If {some_of(absent)} is node 0, run this on {zero.name}, with that node's address: `{line}`.", 2
        )


def cut_short(zero: Node | None) -> bool:
    """Return whether node 0 stopped waiting early, for another finding: slow nodes are then not to blame."""
    return zero is not None and zero.meeting.cut_short


def title(cluster: Cluster, zero: Node | None, absent: list[str], needless: bool) -> str:
    if cut_short(zero):
        return "node 0 stopped waiting for some nodes"
    if needless:
        return "Optional nodes did not join"
    return "Some nodes did not reach node 0" if zero is not None and all_kept_out(cluster, zero, absent) else ""


def without_them(zero: Node | None, outside: list[Node]) -> bool:
    """Return whether the job is elastic and starts without these nodes, and none of them failed to reach node 0."""
    return zero is not None and not outside and master.starts_without_the_rest(zero)


def by_reason(outside: list[Node], turned_away: list[str], absent: list[str]) -> list[list[str]]:
    """Group the absent nodes by what kept them out; nodes without facts come last."""
    groups: dict[object, list[str]] = {}
    for node in outside:
        groups.setdefault(reason(node), []).append(node.name)
    rest = [name for name in absent if name not in {*turned_away, *(node.name for node in outside)}]
    return [group for group in (*groups.values(), turned_away, rest) if group]


def reason(node: Node) -> object:
    """Return what kept the node out, by its own facts; equal for nodes with the same facts."""
    network = node.network
    if network.contact is None:
        return "no address" if network.master and not network.master.addresses else "not tried"
    if network.contact.outcome == "open":
        return network.answer.kind if network.answer else "open"
    return network.contact.outcome, network.contact.address, network.contact.port, network.contact.errno


def node_of_rank(cluster: Cluster, rank: int) -> str:
    """Return the node of a missing rank: by the node's own facts if they are known."""
    owner = next((n for n in cluster.nodes if rank in n.ranks or n.plan.rank == rank), None)
    return owner.name if owner else f"node{rank}"


def shut_out(node: Node) -> bool:
    """Return whether the node waited for the store of a job of several nodes and did not join."""
    meeting, plan = node.meeting, node.plan
    if not meeting.ended or meeting.joined or meeting.hosted or claims_node0(node):
        return False
    return (plan.nnodes or 0) > 1 or (plan.started == "rank" and (plan.world_size or 0) > 1)


def roll_call(cluster: Cluster, zero: Node, meeting: RendezvousFacts) -> Iterator[str]:
    names = dict.fromkeys(
        cluster.by_key[k].name if k in cluster.by_key else k.partition(" ")[0] for k in meeting.arrived
    )
    yield (
        f"{zero.name}: {len(meeting.arrived)} of {meeting.expected} {meeting.counts} joined in {meeting.waited:.0f} s "
        f"(--wait {meeting.wait_limit:.0f}): {', '.join(names)}"
    )


def summary(cluster: Cluster, zero: Node | None, outside: list[Node], absent: list[str], ranks: tuple[int, ...]) -> str:
    if zero is None:
        return f"{some_of(absent)} (node 0) did not answer: {master.last_contact_text(outside[0])}."
    if zero in outside and zero.plan.started == "rank":
        return f"Rank 0 on {zero.name} did not answer: {master.last_contact_text(zero)}."
    waited = f" within {zero.meeting.waited:.0f} s" if zero.meeting.waited else ""
    if cut_short(zero):
        who = f"{ranks_named(ranks)} ({some_of(absent)})" if ranks else some_of(absent)
        return f"{who} had not joined{waited}; node 0 stopped waiting because another finding already fails the job."
    if all_kept_out(cluster, zero, absent):  # their facts are known, so they were started
        contact = master.last_contact_text(outside[0]) if outside else ""
        return f"{some_of(absent)} did not reach {zero.name}{f': {contact}' if contact else waited}."
    if ranks:
        arrived = set(zero.meeting.arrived)
        joined_ranks = sorted(s.plan.rank for s in cluster.slices if s.key in arrived and s.plan.rank is not None)
        return f"{ranks_named(ranks)} ({some_of(absent)}) did not join{waited} (joined: {ranks_named(joined_ranks)})."
    joined = [node.name for node in cluster.nodes if node.name in joined_names(cluster, zero)]
    text = f"{some_of(absent)} did not join{waited} (joined: {some_of(joined)})"
    if without_them(zero, outside):
        asked = f"--nnodes {zero.plan.min_nodes}:{zero.plan.nnodes}"
        return f"{text}; the job ({asked}) starts without them."
    if len(cluster.nodes) == 1 and not zero.meeting.callers and zero.plan.started == "node":
        return f"{text}; no other check reached {master.store_of(zero)}."
    return f"{text}."


def all_kept_out(cluster: Cluster, zero: Node, absent: list[str]) -> bool:
    """Return whether the facts of all absent nodes are known, and none of their processes reached node 0."""
    return {*absent} <= {node.name for node in cluster.nodes} - joined_names(cluster, zero)


def joined_names(cluster: Cluster, zero: Node) -> set[str]:
    """Return the names of the nodes of which at least one process joined node 0."""
    return {cluster.by_key[key].name for key in zero.meeting.arrived if key in cluster.by_key}


def ranks_named(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) != 1 else ''} {some_of(map(str, ranks))}"


def fix_text(cluster: Cluster, zero: Node | None, absent: list[str], ranks: tuple[int, ...]) -> str:
    if cut_short(zero):
        return "Fix the other findings first, then start all nodes again within --wait."
    if zero is None:
        owner = next((node for node in cluster.nodes if node.plan.node_rank and node.network.master_is_own), None)
        if owner is None:
            return f"Start node 0 on {absent[0]}, and fix the error that it prints."
        theirs = f"MASTER_ADDR is an address of {owner.name}, which was started as node {owner.plan.node_rank}"
        return f"Start node 0: {theirs}. If the node ranks were counted from 1, subtract 1 from each --node-rank."
    if shut_out(zero) and zero.plan.started == "rank":
        leftover = "if no launcher starts ranks here, run `unset RANK WORLD_SIZE LOCAL_RANK`"
        return f"Start rank 0 on {zero.name}; {leftover}."
    if all_kept_out(cluster, zero, absent):  # started, so something kept them out
        return f"Fix the other findings of {some_of(absent)}, then start all nodes within --wait."
    if ranks and {*absent} <= joined_names(cluster, zero):  # the launcher started them with those that joined
        return (
            f"Fix the error that {ranks_named(ranks)} printed on {some_of(absent)}; if only late, use a longer --wait."
        )
    if ranks:
        return f"Start {ranks_named(ranks)} on {some_of(absent)}; if already started, fix the error printed there."
    plan = zero.plan
    if plan.started == "rank":  # the launcher's own line is not known
        return (
            f"Start the job's ranks on {some_of(absent)} as on {zero.name}; if already started, fix their first error."
        )
    if plan.everywhere:
        reason = f"a batch script runs on its first node only, so no command was started on {some_of(absent)}"
        return f"Put `{plan.everywhere}` before this command, and before torchrun: {reason}."
    line, how = master.command_for_missing_nodes(zero)
    return f"Run `{line}` on {some_of(absent)}{how}."
