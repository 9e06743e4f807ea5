"""Some nodes never came.

What you see
------------
Silence for 15 to 30 minutes, then `Timed out after 1801 seconds waiting for clients. 1/2 clients joined`, or a
RendezvousTimeoutError. `distdoctor hang` on a node that joined counts the others: `1 of 2 nodes joined HOST:PORT`.
Of a job of Ray Train it says what the driver waits for: `Ray to place 4 workers with 1 GPU each`.

Why it happens
--------------
The launch was not started there, died before it got to the store, was given fewer nodes by the scheduler, or it cannot
reach node 0: then its own report, or its saved facts given to `distdoctor diagnose` with the others', say why.

Fix
---
Run the same line on the nodes that are missing, and look at what it says there; or ask the scheduler for as many. With
Ray add nodes, or ask for less in the ScalingConfig; `ray status` shows what waits.

When it is harmless
-------------------
When they only come later than --wait: torchrun waits 15 minutes with the static rendezvous (`--rdzv-conf timeout=`),
10 with c10d (`join_timeout=`); ranks without torchrun wait up to 30 minutes (NCCL: 10). `distdoctor hang` warns until
then. Where those that came show why the job fails, the others are not waited for. A job of `--nnodes MIN:MAX` with
the c10d rendezvous starts without them once MIN nodes are there (last_call_timeout, 30 s, later).

See also
--------
network/port-refused, network/port-filtered, environment/world-size-mismatch, network/master-not-node0
"""

from collections.abc import Iterator, Sequence

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    MeetingFacts,
    Node,
    claims_node0,
    live,
    master,
    node0_name,
    some_of,
)

SEVERITY = "fail"
NEXT = (
    "what the nodes say that did not come: their launcher's own output, or why they were not placed (kubectl describe "
    "pod, squeue)",
    "",
)
LOG = (
    Line(
        ("clients joined", "workers joined"),
        r"(?P<here>\d+)/(?P<expected>\d+) (?:clients|workers) joined",
        shows="symptom",
        why="those that cannot reach the store, or ended before, are missing as well: their own logs say why",
    ),
    Line(
        "store based barrier",
        r"(?:[Tt]imed? ?out|Waiting in store).{0,400}world_size=(?P<expected>\d{1,9}), "
        r"(?:worker_count|num_workers_joined)=(?P<here>\d{1,9})",
        above=("expected", "here"),  # of more than the world has nobody is missing
        shows="symptom",
        why="the missing ones may have died, or still be coming",
    ),
    Line("Completed store-based barrier", shows="noise", why="everyone came"),
    Line("RendezvousTimeoutError", shows="symptom", why="nodes that cannot reach the endpoint look the same"),
    Line(
        "Socket Timeout",
        "(?:RuntimeError|DistStoreError|StoreTimeoutError)?:? ?Socket Timeout",
        shows="symptom",
        why="a store that does not answer looks the same",
    ),
    Line(
        "wait timeout after",
        r"wait timeout after \d+ ?ms, keys: (?P<keys>\S{1,300})",
        shows="symptom",
        why="who should have set the key may have died",
    ),
    Line(
        ("Timed out waiting on barrier on", "Wait timeout for key(s)", "Error: Wait timeout"),
        shows="symptom",
        why="who is not there died, hangs, or never started",
    ),
    Line(
        ("waiting for keys in EtcdStore", "members to join"),
        r"[Tt]imeout while waiting for keys in EtcdStore|timed out waiting for all \d+ members to join",
        shows="symptom",
        why="who is not there died, hangs, or never started",
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
        why="who is not placed, or has no image or volume, does not come: where it was tried again it may have",
    ),
    Line(
        "Waiting for creating a placement group",  # vLLM's, of Ray: after 10 seconds, 30, 70, 150, 310, ...
        r"placement group of specs for (?P<seconds>\d{3,6}) seconds",
        shows="symptom",
        why="GPUs that Ray does not see or that others hold, and a VLLM_HOST_IP that is no address of its nodes, show "
        "the same: `ray status` and `ray list nodes` say which",
    ),
    Line(" Started container ", shows="noise", why="it came"),
)
TOKEN = "store/token-mismatch"
PREVENTS = "all met"
SYMPTOM_OF = "all met"
INCOMPLETE = True
# Who had no thread or no memory left to look around did not get to the meeting either.
FOLLOWS = ("host/thread-limit", "host/memory-limit", "mesh/connection-loss", TOKEN)
# Of a run from one place, who was not reached cannot come; nor who does not understand node 0.
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
        numbers = ranks if len(names) == len(absent) else tuple(rank for rank in ranks if at(cluster, rank) in own)
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
        fix = f"To have {some_of(absent)} in the job from its start: {fix[0].lower()}{fix[1:]}"
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
    """Nobody joined a node that is node 0 only because it was given no other master, or an address of its own."""
    if zero is None or outside or len(zero.meeting.arrived) > 1 or zero.plan.started != "node" or zero.plan.launcher:
        return
    own = zero.plan.node_rank is None and zero.plan.sources.get("master_addr") == "--master-addr"
    if (zero.plan.announce or own) and not zero.variables.get(master.JOB_LIST):
        line = f"distdoctor check --nnodes {zero.plan.nnodes} --master-addr ADDRESS"
        yield Fix.on((zero,), f"If {some_of(absent)} is node 0, run this on {zero.name} with its address: `{line}`.", 2)


def cut_short(zero: Node | None) -> bool:
    """Return whether node 0 waited no longer for another reason, which is told: who was only slow is not to blame."""
    return zero is not None and zero.meeting.cut_short


def title(cluster: Cluster, zero: Node | None, absent: list[str], needless: bool) -> str:
    if cut_short(zero):
        return "Some nodes were not waited for"
    if needless:
        return "Nodes that may come, and need not, did not"
    return "Some nodes did not meet node 0" if zero is not None and all_elsewhere(cluster, zero, absent) else ""


def without_them(zero: Node | None, outside: list[Node]) -> bool:
    """Return whether the job is an elastic one that starts all the same, and nobody is known to have tried in vain."""
    return zero is not None and not outside and master.starts_without_the_rest(zero)


def by_reason(outside: list[Node], turned_away: list[str], absent: list[str]) -> list[list[str]]:
    """Group the absent nodes by what kept them out; last come those of which nothing is known."""
    groups: dict[object, list[str]] = {}
    for node in outside:
        groups.setdefault(reason(node), []).append(node.name)
    rest = [name for name in absent if name not in {*turned_away, *(node.name for node in outside)}]
    return [group for group in (*groups.values(), turned_away, rest) if group]


def reason(node: Node) -> object:
    """Return what kept the node out, as far as it saw it: of the same kind for nodes that saw the same."""
    network = node.network
    if network.contact is None:
        return "no address" if network.master and not network.master.addresses else "not tried"
    if network.contact.outcome == "open":
        return network.answer.kind if network.answer else "open"
    return network.contact.outcome, network.contact.address, network.contact.port, network.contact.errno


def at(cluster: Cluster, rank: int) -> str:
    """Return where a rank that did not come belongs, by the node's own facts, where they are here."""
    owner = next((n for n in cluster.nodes if rank in n.ranks or n.plan.rank == rank), None)
    return owner.name if owner else f"node{rank}"


def shut_out(node: Node) -> bool:
    """Return whether the node has waited in vain for the store of a job of several nodes."""
    meeting, plan = node.meeting, node.plan
    if not meeting.ended or meeting.joined or meeting.hosted or claims_node0(node):
        return False
    return (plan.nnodes or 0) > 1 or (plan.started == "rank" and (plan.world_size or 0) > 1)


def roll_call(cluster: Cluster, zero: Node, meeting: MeetingFacts) -> Iterator[str]:
    names = dict.fromkeys(
        cluster.by_key[k].name if k in cluster.by_key else k.partition(" ")[0] for k in meeting.arrived
    )
    yield (
        f"{zero.name}: {len(meeting.arrived)} of {meeting.expected} {meeting.counts} joined in {meeting.waited:.0f} s "
        f"(--wait {meeting.wait_limit:.0f}): {', '.join(names)}"
    )


def summary(cluster: Cluster, zero: Node | None, outside: list[Node], absent: list[str], ranks: tuple[int, ...]) -> str:
    if zero is None:
        return f"{some_of(absent)} (node 0) was not reached: {master.last_contact_text(outside[0])}."
    if zero in outside and zero.plan.started == "rank":
        return f"Rank 0 was not met on {zero.name}: {master.last_contact_text(zero)}."
    waited = f" within {zero.meeting.waited:.0f} s" if zero.meeting.waited else ""
    if cut_short(zero):
        who = f"{counted(ranks)} ({some_of(absent)})" if ranks else some_of(absent)
        return f"{who} had not come{waited}, and was waited for no longer: what had come shows why the job would fail."
    if all_elsewhere(cluster, zero, absent):  # their own facts are here: they did come
        seen = master.last_contact_text(outside[0]) if outside else ""
        return f"{some_of(absent)} did not meet {zero.name}{f': {seen}' if seen else waited}."
    if ranks:
        arrived = set(zero.meeting.arrived)
        here = sorted(s.plan.rank for s in cluster.slices if s.key in arrived and s.plan.rank is not None)
        return f"{counted(ranks)} ({some_of(absent)}) did not join{waited} (joined: {counted(here)})."
    joined = [node.name for node in cluster.nodes if node.name in met(cluster, zero)]
    said = f"{some_of(absent)} did not join{waited} (joined: {some_of(joined)})"
    if without_them(zero, outside):
        asked = f"--nnodes {zero.plan.min_nodes}:{zero.plan.nnodes}"
        return f"{said}; the job ({asked}) starts with as many."
    if len(cluster.nodes) == 1 and not zero.meeting.callers and zero.plan.started == "node":
        return f"{said}; no other check reached {master.store_of(zero)}."
    return f"{said}."


def all_elsewhere(cluster: Cluster, zero: Node, absent: list[str]) -> bool:
    """Return whether the facts of all of them are here, and none of their processes was where node 0 was."""
    return {*absent} <= {node.name for node in cluster.nodes} - met(cluster, zero)


def met(cluster: Cluster, zero: Node) -> set[str]:
    """The names of those of which a process at least was where node 0 was."""
    return {cluster.by_key[key].name for key in zero.meeting.arrived if key in cluster.by_key}


def counted(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) != 1 else ''} {some_of(map(str, ranks))}"


def fix_text(cluster: Cluster, zero: Node | None, absent: list[str], ranks: tuple[int, ...]) -> str:
    if cut_short(zero):
        return "Cure what is told beside this, then start all of them again within --wait."
    if zero is None:
        owner = next((node for node in cluster.nodes if node.plan.node_rank and node.network.master_is_own), None)
        if owner is None:
            return f"Start node 0 ({absent[0]}), and look at what it says there."
        theirs = f"MASTER_ADDR is an address of {owner.name}, which was started as node {owner.plan.node_rank}"
        return f"Start node 0: {theirs}. Where the nodes were counted from 1, give each of them one less."
    if shut_out(zero) and zero.plan.started == "rank":
        left = "where nothing starts several here, RANK, WORLD_SIZE and LOCAL_RANK are left over: unset them"
        return f"Start rank 0 on {zero.name}, and look at what it says there; {left}."
    if all_elsewhere(cluster, zero, absent):  # started: what kept them out is to be cured
        return f"{some_of(absent)} did not get to {zero.name}: cure what is told of it, then start all within --wait."
    if ranks and {*absent} <= met(cluster, zero):  # the launcher started them with those that came
        late = "one that was only late comes with a longer --wait"
        return f"Look at what {counted(ranks)} said on {some_of(absent)}; {late}."
    if ranks:
        return f"Start {counted(ranks)} on {some_of(absent)}, and look at what it says there."
    plan = zero.plan
    if plan.started == "rank":  # the launcher's own line is not known
        return f"Start the job's ranks on {some_of(absent)} as on {zero.name}, and look at what they say there."
    if plan.everywhere:
        where = f"a batch script runs on one node of its job; nothing starts the line on {some_of(absent)}"
        return f"Put `{plan.everywhere}` before the line, and before torchrun: {where}."
    line, how = master.line_for_them(zero)
    return f"Run `{line}` on {some_of(absent)}{how}, and look at what it says there."
