"""The ranks wait for the store of a torchrun agent that does not exist.

## What you see
Every rank waits in silence, also rank 0. Then each names its own host:

    The client socket has timed out after 60000ms while trying to connect to (host0, 29500)

## Why it happens
`TORCHELASTIC_USE_AGENT_STORE=True` is set for ranks that no torchrun agent started. A script exported it, or it was
copied from a rank of another job. With it rank 0 hosts no store: it connects to its agent's, as all others do
(torch/distributed/rendezvous.py). Here no agent hosts one.

An agent also sets TORCHELASTIC_RUN_ID, and its store is up before its ranks start.

An inference engine that a torchrun rank starts inherits the variable, and no rank hosts its store. A second group with
`init_method="tcp://..."` between trainer and engine does, too. A `TCPStore(..., is_master=True)` of one's own does not
read it.

## Fix
Unset the variable on every node, `unset TORCHELASTIC_USE_AGENT_STORE`, or start the ranks with torchrun. In a rank of
torchrun set `os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"` before the second group is made.

## Confirm with
`env | grep TORCHELASTIC` prints nothing in the shell that starts the ranks.

## When it is harmless
On nodes without rank 0: their ranks connect to the store either way.

## See also
network/port-refused, environment/missing-variable
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, contact_text, launch_variables, live, names_of

SEVERITY = "fail"
PREVENTS = "plan agreed"
VARIABLE = launch_variables.AGENT_STORE
FOLLOWS = ("environment/duplicate-rank",)
LOG = (
    Line(
        ("client socket has timed out", "connect() timed out"),
        r"trying to connect to \((?:127\.0\.0\.1|localhost|::1), (?P<port>\d{1,5})\)",
        stack=r" in _tcp_rendezvous_handler\b",
        shows="symptom",
        why="below torchrun no rank hosts the store of an init_method=tcp:// of one's own; a rank 0 that ended or was "
        "late shows the same",
    ),
)
NEXT = ("the result of distdoctor hang on the node, while the ranks wait", "distdoctor hang")


def judge(cluster: Cluster) -> Iterator[Finding]:
    engines = [node for node in cluster.nodes if is_engine(node)]
    if engines:
        yield of_engines(engines)
        return
    waits = next((node for node in cluster.nodes if waits_for_itself(node)), None)
    if waits is None or any(node.meeting.joined for node in cluster.nodes):
        return
    bad = [node for node in cluster.nodes if without_agent(node)]

    yield Finding.about(
        bad,
        f"{VARIABLE}=True on {names_of(bad)} makes rank 0 on {waits.name} wait for an agent's store, and no torchrun "
        "agent hosts one.",
        evidence=(
            *(f"{node.name}: {VARIABLE}=True; TORCHELASTIC_RUN_ID, which every agent sets, is not set" for node in bad),
            f"{waits.name}: rank 0 runs here and MASTER_ADDR is this host; {contact_text(waits.network.contact)}",
        ),
        fixes=(Fix.on(bad, f"Unset {VARIABLE}; rank 0 then hosts the store itself.", env={VARIABLE: None}),),
    )


def is_engine(node: Node) -> bool:
    """Return whether an engine makes its groups with init_method=tcp:// here, and would take its store for an agent's.

    vLLM does so with --nnodes (distributed/parallel_state.py), SGLang always (srt/distributed/bootstrap.py). The store
    of vLLM's data-parallel ranks is a TCPStore of their own, which reads no variable.
    """
    plan, by = node.plan, node.plan.sources.get("master_port", "")
    tcp = plan.engine == "SGLang" or (plan.engine == "vLLM" and not plan.one_node and by == "--master-port")
    return tcp and plan.started == "node" and node.variables.get(VARIABLE) == "True"


def of_engines(nodes: list[Node]) -> Finding:
    engine = nodes[0].plan.engine
    return Finding.about(
        nodes,
        f"{VARIABLE}=True on {names_of(nodes)} makes every rank of {engine} wait for a torchrun agent's store, and the "
        "engine hosts none.",
        evidence=(
            f"{node.name}: {VARIABLE}=True; {engine} calls init_process_group(init_method=tcp://...), in which rank 0 "
            "then hosts no store"
            for node in nodes
        ),
        fixes=(Fix.on(nodes, f"Unset {VARIABLE} for the engine.", env={VARIABLE: None}),),
    )


def without_agent(node: Node) -> bool:
    """Return whether the ranks here look for an agent's store, and no agent started them."""
    return node.plan.agent_store and launch_variables.RUN_ID not in node.variables


def waits_for_itself(node: Node) -> bool:
    """Return whether rank 0 is here, looks for an agent's store on this very host, and nothing listens there."""
    contact = node.network.contact
    if node.plan.rank != 0 or not without_agent(node) or contact is None:
        return False
    return bool(node.network.master_is_own) and contact.outcome == "refused"


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    """Under torchrun, an init method of their own: no rank hosts the store that it names; each expects an agent to."""
    job = live.job_of(cluster)
    if job is None or not job.ranks:
        return
    waits = [
        rank
        for rank in job.ranks
        if rank.process.variables.get(VARIABLE) == "True" and rank.place.kind in (live.places.MASTER, live.places.STORE)
    ]
    asked = [rank for rank in waits if rank.place.call == "tcp://"]
    answered = any(view.known for view in job.stores)
    if not asked and (len(waits) < len(job.ranks) or not answered or any(rank.process.sockets for rank in waits)):
        return
    yield live.rank_finding(
        asked or waits,
        f"{live.ranks_called(asked or waits)} of torchrun wait at an init_method=tcp:// address for an agent's store, "
        "and "
        "torchrun's agent hosts none there.",
        evidence=(
            *live.where_ranks_are(asked or waits),
            f"{VARIABLE}=True, and MASTER_ADDR:MASTER_PORT answers as a store",
        ),
        fixes=(
            Fix("Call init_process_group() without init_method (env://): torchrun starts these ranks."),
            Fix(
                "Or, for a second group of these ranks, set os.environ['TORCHELASTIC_USE_AGENT_STORE'] = 'False' "
                "before it is made.",
                option=2,
            ),
        ),
    )
