"""Rows about what the nodes were launched with: ranks, world sizes, the master's name, versions."""

from dataclasses import replace

from distdoctor.model.facts import Bind, NodeFacts, Shadow, TorchFailure
from distdoctor.model.plan import PlanProblem
from tests.checks.row import Facts, Row
from tests.facts_builder import (
    PORT,
    alone,
    failing,
    healthy,
    met,
    node,
    outside,
    rank_node,
    waited_in_vain,
    with_master,
    with_meeting,
    with_network,
    with_plan,
)

BOTH = ("host0", "host1")


def problem(variable: str, value: str | None, why: str, suggestion: str | None = None) -> tuple[PlanProblem, ...]:
    return (PlanProblem(variable, value, why, suggestion),)


def per_rank(count: int = 2, *changes: tuple[int, dict[str, object]]) -> list[NodeFacts]:
    ones = [rank_node(f"host{r}", r, world=count) for r in range(count)]
    for number, change in changes:
        ones[number] = with_plan(ones[number], **change)
    return ones


def no_master_addr() -> Facts:
    a, b = per_rank()
    b = with_plan(b, master_addr=None, problems=problem("MASTER_ADDR", None, "not set"))
    b = with_meeting(with_network(alone(b), master=None, contact=None), joined=False, ours=None, ended=True)
    return waited_in_vain(a), b


def no_rank() -> Facts:
    a, b = per_rank(2, (1, {"rank": None, "problems": problem("RANK", None, "not set")}))
    return met(a, replace(b, ranks=(replace(b.ranks[0], rank=None),)))


def url_master() -> Facts:
    a, b = per_rank(2, (1, {"problems": problem("MASTER_ADDR", "tcp://host0:29500", "is a URL", "host0")}))
    return met(a, b)


def bracketed_master_elsewhere() -> Facts:
    """MASTER_ADDR has brackets everywhere, and within them is nobody's address."""
    wrong = problem("MASTER_ADDR", "[10.77.0.200]", "has brackets, which belong into URLs only", "10.77.0.200")
    a, b = (
        with_plan(outside(with_master(one, "10.77.0.200"), "unreachable", errno=113), problems=wrong)
        for one in per_rank()
    )
    return with_network(a, bind=Bind(True, PORT)), b


def broken_port() -> Facts:
    a, b = per_rank(2, (1, {"problems": problem("MASTER_PORT", "abc", "is not a whole number")}))
    a = with_plan(a, master_port=29700)
    return waited_in_vain(a), outside(b)


def broken_nnodes() -> Facts:
    a, b = node("host0", 0, declared=True), node("host1", 1)
    problems = (PlanProblem("PET_NNODES", "two", "not a number of nodes"), *problem("PET_NODE_RANK", "1", "0 to 0"))
    b = with_plan(
        b, nnodes=1, node_rank=0, problems=problems, sources={"nnodes": "PET_NNODES", "node_rank": "PET_NODE_RANK"}
    )
    return met(a, b)


def rank_beyond() -> Facts:
    a, b = per_rank(
        2, (1, {"rank": None, "problems": problem("RANK", "2", "RANK must be below WORLD_SIZE, which is 2")})
    )
    return met(a, replace(b, ranks=(replace(b.ranks[0], rank=None),)))


def two_rank_0() -> Facts:
    a, b = per_rank(2, (1, {"rank": 0}))
    return met(a, replace(b, ranks=(replace(b.ranks[0], rank=0),)))


def two_rank_1() -> Facts:
    a, b, c = per_rank(3, (2, {"rank": 1}))
    return met(a, b, replace(c, ranks=(replace(c.ranks[0], rank=1),)))


def two_node_0() -> Facts:
    a, b = node("host0", 0, declared=True), node("host1", 1, declared=True)
    b = with_network(with_plan(b, node_rank=0), bind=Bind(True, PORT))
    return met(a, b)


def two_node_0_apart() -> Facts:
    """The second node 0 came first, hosted a store that nobody looks for, and left again before the first one came."""
    a, b = node("host0", 0, declared=True), node("host1", 1, declared=True)
    b = replace(outside(with_plan(b, node_rank=0)), started_at=1.0)
    return waited_in_vain(a), with_network(b, bind=Bind(True, PORT))


def two_node_1() -> Facts:
    a, b, c = (node(f"host{n}", n, of=3, declared=True) for n in range(3))
    return met(a, b, with_plan(c, node_rank=1))


def nnodes(*values: int) -> Facts:
    return met(*(with_plan(node(f"host{n}", n, of=v), nnodes=v) for n, v in enumerate(values)))


def world_sizes() -> Facts:
    return met(*per_rank(2, (1, {"world_size": 3})))


def other_port() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(with_plan(b, master_port=29501, sources={"master_port": "--master-port"}))


def other_address() -> Facts:
    a, b = healthy(2, declared=True)
    return waited_in_vain(a), outside(with_master(b, "host1", own=True, resolved=["10.77.0.11"]))


def nobodys_address_on_one() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(with_master(b, "host0", resolved=["10.77.0.99"]), "unreachable", errno=113)


def own_addresses() -> Facts:
    """Each names itself, no node rank given: two stores, and nobody comes to either."""
    a, b = healthy(2)
    b = with_meeting(waited_in_vain(with_master(b, "10.77.0.11", own=True)), hosted=True)
    return waited_in_vain(a), with_network(b, bind=Bind(True, PORT))


def no_torch(which: int) -> Facts:
    a, b = healthy(2, declared=True)
    if which == 1:
        b = replace(b, identity=replace(b.identity, torch=None, torch_error="No module named 'torch'"))
        return (failing(a, "store", "Wait timeout"), replace(b, ranks=()))
    a = replace(a, identity=replace(a.identity, torch=None, torch_error="No module named 'torch'"))
    a = with_meeting(with_network(alone(a), bind=None), joined=False, ours=None, hosted=False, ended=True)
    return a, outside(b)


def torch_fails(failure: TorchFailure, error: str = "", which: int = 1) -> Facts:
    """Node ``which`` of two has a torch that cannot be imported."""
    nodes = list(no_torch(which))
    identity = replace(nodes[which].identity, torch_error=error or f"{failure.type}: {failure.text}")
    nodes[which] = replace(
        nodes[which], identity=replace(identity, torch_failure=failure, executable="/opt/py/bin/python3")
    )
    return tuple(nodes)


def agent_store(*nodes: int, **variables: str) -> Facts:
    """TORCHELASTIC_USE_AGENT_STORE=True on these of two nodes, whose ranks no agent has started."""
    ones = [with_plan(one, agent_store=number in nodes) for number, one in enumerate(per_rank())]
    return tuple(outside(replace(one, variables={**one.variables, **variables})) for one in ones)


SHADOW = Shadow("random", "/job/random.py", "/usr/lib/python3.11/random.py", "/job")
HIDDEN = TorchFailure(
    "ImportError", "cannot import name 'Random'", "random", found="/site/torch", looked=True, shadows=(SHADOW,)
)
NO_CUDA = TorchFailure(
    "ImportError", "libcudart.so.12: cannot open shared object file: No such file or directory",
    found="/site/torch", looked=True,
)  # fmt: skip


def other_version() -> Facts:
    a, b, c = healthy(3)
    return a, b, replace(c, identity=replace(c.identity, distdoctor="0.0.9"))


ROWS = [
    Row("MASTER_ADDR not set", no_master_addr, "environment/missing-variable", ("host1",)),
    Row("RANK not set", no_rank, "environment/missing-variable", ("host1",), together=True),
    Row("MASTER_ADDR is a URL", url_master, "environment/invalid-variable", ("host1",), together=True),
    Row("MASTER_ADDR has brackets, nobody's address", bracketed_master_elsewhere, "environment/invalid-variable", BOTH),
    Row("MASTER_PORT is no number", broken_port, "environment/invalid-variable", ("host1",)),
    Row("PET_NNODES is no number", broken_nnodes, "environment/invalid-variable", ("host1",), together=True),
    Row("RANK beyond WORLD_SIZE", rank_beyond, "environment/invalid-variable", ("host1",), together=True),
    Row("two rank 0", two_rank_0, "environment/duplicate-rank", ("host1",), together=True),
    Row("two rank 1", two_rank_1, "environment/duplicate-rank", ("host1", "host2"), blame="one-of", together=True),
    Row("two node 0", two_node_0, "environment/duplicate-node-rank", ("host1",), together=True),
    Row("two node 0 that never met", two_node_0_apart, "environment/duplicate-node-rank", ("host1",), together=True),
    Row("two node 1", two_node_1, "environment/duplicate-node-rank", ("host1", "host2"), blame="one-of", together=True),
    Row("nnodes 2 and 3", lambda: nnodes(2, 3), "environment/world-size-mismatch", BOTH, blame="one-of", together=True),
    Row("nnodes 3 and 2", lambda: nnodes(3, 2), "environment/world-size-mismatch", BOTH, blame="one-of", together=True),
    Row("nnodes 3, 2 and 3", lambda: nnodes(3, 2, 3), "environment/world-size-mismatch", ("host1",), together=True),
    Row("WORLD_SIZE 2 and 3", world_sizes, "environment/world-size-mismatch", BOTH, blame="one-of", together=True),
    Row("another port", other_port, "environment/master-mismatch", ("host1",)),
    Row("another address", other_address, "environment/master-mismatch", ("host1",)),
    Row("another meaning", nobodys_address_on_one, "environment/master-mismatch", ("host1",)),
    Row("each names itself", own_addresses, "environment/master-mismatch", BOTH, blame="one-of"),
    Row("torch missing on node 1", lambda: no_torch(1), "environment/torch-missing", ("host1",), together=True),
    Row("torch missing on node 0", lambda: no_torch(0), "environment/torch-missing", ("host0",)),
    Row("torch hidden on node 1", lambda: torch_fails(HIDDEN), "environment/torch-shadowed", ("host1",), together=True),
    Row("torch hidden on node 0", lambda: torch_fails(HIDDEN, which=0), "environment/torch-shadowed", ("host0",)),
    Row("torch broken on node 1", lambda: torch_fails(NO_CUDA), "environment/torch-broken", ("host1",), together=True),
    Row("torch broken on node 0", lambda: torch_fails(NO_CUDA, which=0), "environment/torch-broken", ("host0",)),
    Row("an agent's store without an agent", lambda: agent_store(0, 1), "environment/agent-store-hijack", BOTH),
    Row(
        "an agent's store without an agent, rank 0", lambda: agent_store(0), "environment/agent-store-hijack", BOTH[:1]
    ),
    Row("another version", other_version, "environment/version-mismatch", ("host2",), "warn", together=True),
]
