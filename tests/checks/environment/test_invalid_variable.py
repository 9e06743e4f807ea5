"""environment/invalid-variable: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Bind, NcclLog
from distdoctor.model.plan import PlanProblem
from distdoctor.plan.resolve import resolve
from distdoctor.plan.values import Flags
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, fixes, found, left_alone
from tests.clusters.gpu_nodes import several
from tests.clusters.launch import no_rank, per_rank, problem, url_master
from tests.facts_builder import (
    PORT,
    failing,
    healthy,
    judged,
    met,
    node,
    outside,
    waited_in_vain,
    with_gpus,
    with_identity,
    with_master,
    with_network,
    with_plan,
    with_variables,
)

CHECK = "environment/invalid-variable"


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


def of_torch(torch: str = "2.13.0+cpu", backend: str = "gloo", gpus: int = 0, **values: str) -> Facts:
    """host1 has these variables, which torch reads as it makes a group."""
    facts = tuple(with_plan(with_identity(one, torch=torch), backend=backend) for one in healthy(2))
    a, b = (with_gpus(one, gpus) for one in facts) if gpus else facts
    return met(a, with_variables(b, **values))


UNREADABLE = [
    *(("TORCH_DIST_INIT_BARRIER", value) for value in ("abc", "", "1.5")),
    *((name, value) for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
      for value in ("abc", "", "99999999999", "-")),
    *((name, value) for name in ("TORCH_FR_CPP_STACK", "TORCH_NCCL_TRACE_CPP_STACK", "TORCH_GLOO_LAZY_INIT")
      for value in ("abc", "", "-1", "1.5", " 1", "on")),
]  # fmt: skip
READABLE = [
    *(("TORCH_DIST_INIT_BARRIER", value) for value in ("0", " 1 ", "-1")),
    *(("TORCH_FR_BUFFER_SIZE", value) for value in ("0", "-1", "1.5", " 2000", "2000x", "+7", "2147483647")),
    *((name, value) for name in ("TORCH_FR_CPP_STACK", "TORCH_GLOO_LAZY_INIT") for value in ("Yes", "f", "TRUE", "0")),
]
"""Outcome of each value, as tried with torch 2.13 and gloo on one rank."""


def local_rank(value: str = "", gpus: int = 0, backend: str = "auto") -> Facts:
    """host1's LOCAL_RANK is none that its node has."""
    wrong = (PlanProblem("LOCAL_RANK", value, "is none of this node's", local=True),)
    a, b = (with_gpus(one, gpus) if gpus else one for one in per_rank())
    return met(with_plan(a, backend=backend), with_plan(b, problems=wrong, backend=backend))


UNKNOWN_KEY = "Unrecognized key 'expandable_segment' in CUDA allocator config."


def allocator(reason: str) -> Facts:
    """torch sees no GPU on node 1 for this reason, and its allocator is set there."""
    zero, one = several({}, {"torch": {"visible": (), "reason": reason}})
    return zero, with_variables(one, PYTORCH_CUDA_ALLOC_CONF="expandable_segment:True")


def ended(facts: Facts) -> Facts:
    """The ranks of node 0 were ended by signal 6 as they made NCCL's group, those of node 1 saw a CUDA error."""
    zero, one = facts
    zero = failing(zero, "nccl", "the process was ended by signal 6", killed=True)
    return zero, failing(one, "nccl", "AcceleratorError: CUDA error: misaligned address")


ROWS = [
    Row("LOCAL_RANK is empty", local_rank, ("host1",), "warn", together=True),
    Row("LOCAL_RANK is beyond the ranks, without a GPU", lambda: local_rank("1"), ("host1",), "warn", together=True),
    Row("LOCAL_RANK is the number of a GPU", lambda: local_rank("1", 2), ("host1",), "warn", together=True),
    Row("LOCAL_RANK is the number of no GPU", lambda: local_rank("2", 2), ("host1",), together=True),
    Row("LOCAL_RANK is empty, with GPUs", lambda: local_rank("", 2), ("host1",), together=True),
    Row("MASTER_ADDR is a URL", url_master, ("host1",), together=True),
    Row("MASTER_ADDR has brackets, nobody's address", bracketed_master_elsewhere, BOTH),
    Row("MASTER_PORT is no number", broken_port, ("host1",)),
    Row("PET_NNODES is no number", broken_nnodes, ("host1",), together=True),
    Row("RANK beyond WORLD_SIZE", rank_beyond, ("host1",), together=True),
]

ROWS += [
    Row(f"{name}={value!r}", lambda n=name, v=value: of_torch(**{n: v}), ("host1",), together=True)  # type: ignore[misc]
    for name, value in UNREADABLE
]
ROWS += [
    Row(
        "NCCL's, with a GPU",
        lambda: of_torch(backend="nccl", gpus=2, TORCH_NCCL_BLOCKING_WAIT="on"),
        ("host1",),
        together=True,
    )
]


def of_nccl(nccl: str | None = "2.27.5", **values: str) -> Facts:
    """host1 has these settings of NCCL, for a job on GPUs."""
    return tuple(with_identity(one, nccl=nccl, cuda="12.8") for one in of_torch(backend="nccl", gpus=2, **values))


def everywhere(nccl: str | None = "2.27.5", **values: str) -> Facts:
    """Both have."""
    return tuple(with_variables(one, **values) for one in of_nccl(nccl))


def no_algorithm() -> Facts:
    """NCCL ended in the check's own group."""
    said = "enqueue.cc:2066 NCCL WARN Error : no algorithm/protocol available for function AllGather with datatype x. "
    log = NcclLog("2.27.5", warnings=(f"{said}NCCL_ALGO was set to Tree.",))
    nodes = (failing(one, "nccl", "invalid usage") for one in everywhere(NCCL_ALGO="Tree"))
    return tuple(replace(one, ranks=tuple(replace(rank, nccl=log) for rank in one.ranks)) for one in nodes)


ROWS += [
    Row("a name that NCCL does not know", lambda: everywhere(NCCL_ALGO="rings"), BOTH, together=True),
    Row("a blank in a list of NCCL's", lambda: everywhere(NCCL_PROTO="LL, Simple"), BOTH, together=True),
    Row("a word for a number", lambda: everywhere(NCCL_P2P_DISABLE="true"), BOTH, "warn", together=True),
    Row("a size with a unit", lambda: everywhere(NCCL_BUFFSIZE="4M"), BOTH, "warn", together=True),
    Row("a size with a unit, and NCCL ended", lambda: ended(everywhere(NCCL_BUFFSIZE="4M")), BOTH, together=True),
    Row("an option the allocator does not know", lambda: allocator(UNKNOWN_KEY), ("host1",), together=True),
    Row("a size the allocator cannot read", lambda: allocator("stoull"), ("host1",), together=True),
    Row("no algorithm for a broadcast", lambda: everywhere(NCCL_ALGO="Tree"), BOTH, "warn", together=True),
    Row("no algorithm, and NCCL says so", no_algorithm, BOTH, together=True),
    Row("on one node a word for a number", lambda: of_nccl(NCCL_IB_DISABLE="yes"), ("host1",), "warn", together=True),
    Row("on one node, which the others have not", lambda: of_nccl(NCCL_ALGO="rings"), ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike(
        "the allocator is set, and there is no driver", lambda: allocator("Found no NVIDIA driver"), "gpu/none-visible"
    ),
    LookAlike("a name that an older NCCL passes over", lambda: everywhere("2.21.5", NCCL_ALGO="rings")),
    LookAlike("of an NCCL that is not known", lambda: everywhere(None, NCCL_ALGO="rings")),
    LookAlike("of an NCCL that was not read", lambda: everywhere("2.99.1", NCCL_ALGO="Rings,Tree")),
    LookAlike("for one function", lambda: everywhere(NCCL_ALGO="allreduce:tree", NCCL_PROTO="^LL128")),
    LookAlike("a word that is read as it is meant", lambda: everywhere(NCCL_NVLS_ENABLE="false")),
    LookAlike("NCCL's, and gloo alone", lambda: of_torch(gpus=2, TORCH_NCCL_ASYNC_ERROR_HANDLING="x")),
    LookAlike("of gloo, before torch had it", lambda: of_torch("2.7.1", TORCH_GLOO_LAZY_INIT="x")),
    LookAlike("of a torch that is not known", lambda: of_torch("", TORCH_FR_BUFFER_SIZE="x")),
    LookAlike("not set at all", no_rank, "environment/missing-variable"),
]


def ranks_from_one() -> Facts:
    """RANK is 1 and 2 of 2: nobody hosts the store."""
    change = {"rank": None, "problems": problem("RANK", "2", "must be below WORLD_SIZE, which is 2")}
    sources = {"rank": "RANK", "world_size": "WORLD_SIZE"}
    a, b = per_rank(2, (0, {"rank": 1, "sources": sources}), (1, {**change, "sources": sources}))
    return outside(a), outside(b)


def node_ranks_from_one() -> Facts:
    """PET_NODE_RANK is 1, 2 and 3 of 3."""
    sources = {"nnodes": "--nnodes", "master_addr": "--master-addr", "node_rank": "PET_NODE_RANK"}
    ones = [with_plan(node(f"host{n}", n, of=3, declared=True), node_rank=n + 1, sources=sources) for n in range(3)]
    ones[2] = with_plan(ones[2], node_rank=None, problems=problem("PET_NODE_RANK", "3", "node ranks go from 0 to 2"))
    return tuple(outside(one) for one in ones)


CURES = [
    Cure(
        "the allocator's own defaults",
        lambda: allocator(UNKNOWN_KEY),
        {"host1": {"env": {"PYTORCH_CUDA_ALLOC_CONF": None}}},
        only=True,
    ),
    Cure(
        "a blank in a list of NCCL's",
        lambda: everywhere(NCCL_ALGO="Ring, Tree"),
        {name: {"env": {"NCCL_ALGO": "Ring,Tree"}} for name in BOTH},
    ),
    Cure(
        "a size with a unit",
        lambda: everywhere(NCCL_BUFFSIZE="4M"),
        {name: {"env": {"NCCL_BUFFSIZE": "4194304"}} for name in BOTH},
    ),
    Cure(
        "no algorithm for a broadcast",
        lambda: everywhere(NCCL_ALGO="Tree"),
        {name: {"env": {"NCCL_ALGO": None}} for name in BOTH},
    ),
    Cure(
        "what torch cannot read",
        lambda: of_torch(TORCH_FR_BUFFER_SIZE="abc"),
        {"host1": {"env": {"TORCH_FR_BUFFER_SIZE": None}}},
    ),
    Cure("ranks from 1", ranks_from_one, {f"host{n}": {"env": {"RANK": str(n)}} for n in range(2)}),
    Cure("node ranks from 1", node_ranks_from_one, {f"host{n}": {"env": {"PET_NODE_RANK": str(n)}} for n in range(3)}),
    Cure("URL", url_master, {"host1": {"env": {"MASTER_ADDR": "host0"}}}),
    Cure("port", broken_port, {"host1": {"env": {"MASTER_PORT": "29700"}}}),
    Cure("PET_NNODES", broken_nnodes, {"host1": {"env": {"PET_NNODES": "2"}}}),
    Cure("RANK beyond", rank_beyond, {"host1": {"env": {"RANK": "1"}}}),
]

test_found = found(CHECK, ROWS)


def test_what_torch_reads_is_no_invalid_value() -> None:
    for name, value in READABLE:
        assert CHECK not in [finding.check for finding in judged(*of_torch(**{name: value})).findings]  # type: ignore[arg-type]


test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_left_over_c10d_is_unset_where_all_have_it_and_told_as_a_difference_else() -> None:
    """torchrun reads no --master-addr with it: its agents then look for node 0 each on its own host."""
    flags = Flags(nnodes="2", master_addr="10.77.0.10")
    plans = [resolve(flags, {"PET_RDZV_BACKEND": kind}, int, lambda: 2) for kind in ("c10d", "static")]
    a, b = healthy(2)
    both = judged(*(replace(one, plan=plans[0]) for one in (a, b)))
    (root,) = both.roots
    assert (root.check, root.nodes) == (CHECK, ("host0", "host1"))
    assert [fix.env for fix in root.fixes] == [{"PET_RDZV_BACKEND": None}] * 2
    mixed = judged(replace(a, plan=plans[1]), replace(b, plan=plans[0]))
    assert [root.check for root in mixed.roots] == ["environment/rendezvous-backend-mismatch"]


def test_what_was_meant_is_not_advised_where_it_was_tried_and_is_not_node_0() -> None:
    """The doctor tries what is within the brackets: where that is no address of node 0, it would not cure anything."""
    facts = bracketed_master_elsewhere()
    assert [fix.env for fix in fixes(*facts)] == [{"MASTER_ADDR": "10.77.0.10"}] * 2
    assert [fix.env for fix in fixes(*url_master())] == [{"MASTER_ADDR": "host0"}]


def test_what_nccl_ended_of_is_not_a_switch_that_it_reads_as_zero() -> None:
    roots = judged(*ended(everywhere(NCCL_P2P_DISABLE="true"))).roots
    assert {(one.check, one.severity) for one in roots} == {("nccl/init-failed", "fail"), (CHECK, "warn")}
