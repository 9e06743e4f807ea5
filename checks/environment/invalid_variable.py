"""A launch variable has an invalid value.

## What you see
It depends on the value. `ValueError: invalid literal for int() with base 10` without the variable's name, `port number
missing`, `Port could not be cast to integer`. For an address with a scheme, a port or a space in it

    The IPv6 network addresses of (tcp://host0:29500, 29500) cannot be retrieved (gai error: -2 ...)

torchrun ends at once with `Unknown level: 'debug'`, `argument --max-restarts: invalid int value: ''` or `The rendezvous
configuration option 'timeout' must have a value specified`. With an empty --rdzv-id each node generates an id of its
own and waits.

torch ends with `Invalid value for environment variable: TORCH_GLOO_LAZY_INIT`, or by signal 6 without a Python error
for TORCH_FR_BUFFER_SIZE.

NCCL ends with `ncclInvalidUsage` and `Unrecognized element token "rings" when parsing "rings"`. For an NCCL_ALGO that
does not support the call: `no algorithm/protocol available for function Broadcast ... NCCL_ALGO was set to Tree`.

At the first use of a GPU torch ends with `Unrecognized key '...' in CUDA allocator config`, `Unrecognized
CachingAllocator option`, `Expected ... in ConfigTokenizer`, or `stoull` alone.

For a RANK that is negative or not below WORLD_SIZE the job hangs in silence.

## Why it happens
Common sources are a value copied from a URL, an unfilled placeholder, brackets around an IPv6 address or a stray space.
Others are a rank counted from 1 and a port above 65535. torchrun also reads each flag from a variable (PET_ and the
name of the flag), and a template may leave one empty. LOGLEVEL is often meant for another program.

From 2.24 on NCCL accepts only known names in NCCL_ALGO and NCCL_PROTO, without blanks. Where NCCL expects a number
(NCCL_IB_DISABLE=true, NCCL_BUFFSIZE=4M) it reads 0, or the digits before the letter, in silence.

## Fix
Correct the value, for example `export MASTER_ADDR=host0 MASTER_PORT=29500`: MASTER_ADDR is a bare host name or address,
MASTER_PORT 1 to 65535, RANK 0 to WORLD_SIZE - 1.

## Confirm with
`env | grep -E 'MASTER_|RANK|WORLD_SIZE|PET_|NCCL_'` shows the values that the job reads.

## When it is harmless
Never for a job that reads the variable. A script that passes init_method, rank and world_size itself does not read
them.

torch does not read LOCAL_RANK and LOCAL_WORLD_SIZE: only scripts that choose a GPU by them do. Without a GPU, or with a
GPU of that number, the finding is a WARN. So are values that NCCL misreads if its group is created.

## See also
environment/missing-variable, environment/world-size-mismatch, network/master-unresolvable
"""

from distdoctor.check_api import (
    DEFAULT_PORT,
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    PlanProblem,
    failed_ranks,
    is_loopback,
    missing_node_ranks,
    missing_ranks,
    names_of,
    reachable_address,
    unreadable,
)

SEVERITY = "fail"
MATTERS = "the process groups are still created, but code that reads the value may fail or act differently"
MEETS = (
    r"/(?:torch/distributed|accelerate|deepspeed|\w*lightning\w*|megatron|colossalai|vllm|sglang)/"
    r"|init_process_group|rendezvous|dist_init|init_method|MASTER_|[Ll]aunch"
)
"""Functions in the frames of an error about the port where the job meets: other programs
say the same of their own addresses."""
UNKNOWN_ALLOCATOR_OPTION = "torch does not know an option in PYTORCH_CUDA_ALLOC_CONF"
FIX_ALLOCATOR = "Unset PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF), or use options that this version of torch has."
LOG = (
    Line("Port could not be cast to integer value", stack=MEETS, unframed=True),
    Line("port number missing"),
    Line("Invoked with: ", r"Invoked with: ['\x22][\w.:-]{0,253}['\x22], (?P<port>\d{6,12}|6[6-9]\d{3}|[7-9]\d{4}),"),
    Line(  # CANN, EI0001
        "nvironment variable [",
        r"\(?EI0001\)?: .{0,80}[Ee]nvironment variable \[(?P<name>\w{1,60})[^\]]{0,80}\] is invalid",
        told="HCCL refuses the value of an environment variable",
        fix="Unset the variable that the line names, or give it a value from HCCL's documentation.",
    ),
    Line("is listening yet", r"No socket on \(.{0,253}, 0\) is listening yet"),
    Line("Invalid rank requested"),
    Line(
        ("Unrecognized ", "entries except the first must have"),
        r"NCCL WARN (?:Unrecognized (?:element|prefix) token .{1,80} when parsing"
        r"|All entries except the first must have a prefix)",
        told="NCCL does not know a name in NCCL_ALGO or NCCL_PROTO",
        fix="Unset NCCL_ALGO and NCCL_PROTO, or use names that this NCCL knows (Ring, Tree; LL, LL128, Simple).",
    ),
    Line(
        "o algorithm/protocol available for function",
        r"available for function \w+.{0,60} NCCL_ALGO was set to ",
        told="NCCL_ALGO names no algorithm that supports the called function",
        fix="Unset NCCL_ALGO, or set it for one function only (NCCL_ALGO=allreduce:tree).",
    ),
    Line(
        (
            "in ConfigTokenizer",
            "CachingAllocator option",
            "CUDA allocator config",
            "for expandable_segments",
            "collect_threshold ",
        ),
        r"(?:Error|Exception): .{0,80}(?:in ConfigTokenizer|Unrecognized CachingAllocator option"
        r"|Unrecognized key .{1,80} in CUDA allocator config|argument for expandable_segments"
        r"|garbage_collect_threshold (?:is invalid|too (?:big|small)))",
        told=UNKNOWN_ALLOCATOR_OPTION,
        fix=FIX_ALLOCATOR,
    ),
    Line(
        "Error: sto",
        r"^(?:RuntimeError|ValueError): sto(?:ull?|i|d)$",
        stack=r"/torch/cuda/__init__\.py\", line \d{1,6}, in _lazy_init",
        told=UNKNOWN_ALLOCATOR_OPTION,
        fix=FIX_ALLOCATOR,
    ),
    Line(
        "Invalid value for environment variable: ",  # c10d's Utils.hpp
        told="A variable of torch has a value that torch cannot read",
        fix="Unset the variable that the message names, or set it to a number (a switch: 1 or 0).",
    ),
    Line(
        "Invalid NCCL_COMM_ID",
        told="NCCL_COMM_ID is not an address with a port",
        fix="Unset NCCL_COMM_ID: torch gives NCCL the address of the rendezvous.",
    ),
    Line("port must be 0-65535", stack=MEETS, unframed=True),
    Line("port must have value from 0 to 65535"),
    Line(
        "network addresses of",
        r"network addresses of \((?P<value>[^, /\[\]<>{}$'\x22]{0,200}[ /\[\]<>{}$'\x22][^,]{0,200}"
        r"|(?:XX?|YY?)[.X\d]{2,20}|https?:[^,]{0,200}), ?(?P<port>\d{1,9})\) cannot be retrieved",
    ),
)
PREVENTS = "plan agreed"
BUFFERS = "NCCL_BUFFSIZE"
"""With 4 bytes, which is what NCCL makes of "4M", its ranks end by signal 6 or with ``misaligned address`` in the first
collective (2.28.9 on an H100); with NCCL_P2P_NET_CHUNKSIZE=128K, of which it makes 128, they ran."""
NUMBERS = {"rank": ("RANK",), "node_rank": ("PET_NODE_RANK", "NODE_RANK", "GROUP_RANK")}
"""The variables of each."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    # Different rendezvous backends are reported by their own check.
    alike = len({node.plan.rdzv_backend for node in cluster.nodes}) == 1
    bad = [(node, p) for node in cluster.nodes for p in invalid(node) if alike or p.variable != "PET_RDZV_BACKEND"]
    bad = [(node, p) for node, p in bad if not differs(cluster, p)]
    mild = [
        (node, p) for node, p in bad if harmless(node, p) and not (p.starts and nccl_failed_on(cluster, p.variable))
    ]
    yield from problem_findings(cluster, [item for item in bad if item not in mild])
    yield from problem_findings(cluster, mild, mild=True)


def nccl_failed_on(cluster: Cluster, variable: str) -> bool:
    """Return whether NCCL itself names the variable where the check's own group fails; or it fails, and the variable
    is the one of the buffers."""
    failed = failed_ranks(cluster, "nccl")
    warned = [text for item in failed if item.rank.nccl is not None for text in item.rank.nccl.warnings]
    return any(f"{variable} was set to" in text for text in warned) or (variable == BUFFERS and bool(failed))


def differs(cluster: Cluster, problem: PlanProblem) -> bool:
    """Return whether NCCL accepts the value and the nodes differ in it: setting-mismatch reports that."""
    values = {node.variables.get(problem.variable) for node in cluster.nodes}
    return problem.starts and problem.variable == "NCCL_ALGO" and len(values) > 1


def problem_findings(cluster: Cluster, bad: list[tuple[Node, PlanProblem]], *, mild: bool = False) -> Iterator[Finding]:
    if not bad:
        return
    nodes = list(dict.fromkeys(node for node, _ in bad))
    descriptions = list(dict.fromkeys(f"{p.variable}={p.value!r} {p.why}" for _, p in bad))
    more = f" (and {len(descriptions) - 1} more)" if len(descriptions) > 1 else ""
    yield Finding.about(
        nodes,
        f"{descriptions[0]}{more}, on {names_of(nodes)}.",
        severity="warn" if mild else None,
        ranks=dict.fromkeys(rank for node in nodes for rank in node.ranks),
        evidence=(f"{node.name}: {p.variable}={p.value!r} ({p.why})" for node, p in bad),
        fixes=subtract_one_fixes(cluster, bad) or tuple(fix(cluster, node, problem) for node, problem in bad),
    )


def harmless(node: Node, problem: PlanProblem) -> bool:
    """Return whether the ranks make their groups all the same: NCCL goes on with it, or there is no GPU to pick by
    this number, or one of this number."""
    number = _number(problem.value)
    visible = max((len(rank.gpu.visible) for rank in node.facts.ranks if rank.gpu), default=0)
    return problem.starts or (problem.local and (not visible or (number is not None and 0 <= number < visible)))


def subtract_one_fixes(cluster: Cluster, bad: list[tuple[Node, PlanProblem]]) -> tuple[Fix, ...]:
    """Return fixes that subtract one from the number of every node, if all are numbered from 1; else none."""
    for kind, total in (("rank", cluster.plan.world_size), ("node_rank", cluster.plan.nnodes)):
        wrong = {node: p for node, p in bad if p.variable in NUMBERS[kind]}
        plans = {node: getattr(node.plan, kind) for node in cluster.nodes}
        numbers = {node: _number(wrong[node].value) if node in wrong else number for node, number in plans.items()}
        if len(wrong) != 1 or any(number is None for number in numbers.values()):
            continue
        if sorted(number or 0 for number in numbers.values()) != list(range(1, (total or 0) + 1)):
            continue
        names = {node: wrong[node].variable if node in wrong else node.plan.sources.get(kind, "") for node in numbers}
        if any(name not in NUMBERS[kind] for name in names.values()):
            continue
        text = "Count from 0: these numbers start at 1, and no process has 0."
        return tuple(Fix.on(n, text, env={names[n]: str((number or 0) - 1)}) for n, number in numbers.items())
    return ()


def invalid(node: Node) -> list[PlanProblem]:
    """The node's problems with a value. Without the number of nodes its node rank cannot be wrong."""
    problems = [*(p for p in node.plan.problems if p.value is not None), *unreadable(node)]
    if any(p.variable == "PET_NNODES" for p in problems):
        return [p for p in problems if p.variable not in NUMBERS["node_rank"]]
    return problems


def fix(cluster: Cluster, node: Node, problem: PlanProblem) -> Fix:
    variable, meant = value(cluster, node, problem)
    address = address_of_node0(cluster, problem)
    if address is not None:
        text = f"Set {variable} to {address}: {meant} is not an address of {cluster.reference.name}, which is node 0."
        return Fix.on(node, text, env={variable: address})
    if meant is None and (problem.unset or variable == "PET_RDZV_BACKEND"):
        return Fix.on(node, f"Unset {variable}: {variable}={problem.value} {problem.why}.", env={variable: None})
    if meant is None:
        return Fix.on(node, f"Correct {problem.variable}: it {problem.why}.")
    return Fix.on(node, f"Set {variable} to {meant}.", env={variable: meant})


def address_of_node0(cluster: Cluster, problem: PlanProblem) -> str | None:
    """Node 0's address, where what was meant for MASTER_ADDR has been tried and did not lead to it."""
    zero = cluster.node0
    if zero is None or zero.meeting.joined or not zero.saw("meeting") or zero.network.master_is_own is not False:
        return None
    contact = zero.network.contact
    tried = zero.plan.master_addr == problem.suggestion and contact and contact.outcome != "open"
    return reachable_address(zero, cluster) if problem.variable.endswith("MASTER_ADDR") and tried else None


def value(cluster: Cluster, node: Node, problem: PlanProblem) -> tuple[str, str | None]:
    """(variable, value) that put it right, as far as the value itself or the other nodes tell."""
    variable = problem.variable
    plans = [other.plan for other in cluster.nodes if other is not node and not other.plan.broken]
    if problem.suggestion is not None:
        return variable, problem.suggestion
    if variable == "RANK":
        larger = [p.world_size for p in plans if p.world_size and node.plan.world_size]
        if _number(problem.value) is not None and any(_number(problem.value) in range(size) for size in larger):
            return "WORLD_SIZE", str(max(larger))
        return variable, _sole(missing_ranks(cluster), cluster)
    if variable in NUMBERS["node_rank"]:
        return variable, _sole(missing_node_ranks(cluster), cluster)
    field = {
        "WORLD_SIZE": "world_size",
        "LOCAL_WORLD_SIZE": "nproc_per_node",
        "PET_NNODES": "nnodes",
        "PET_NPROC_PER_NODE": "nproc_per_node",
        "MASTER_PORT": "master_port",
        "PET_MASTER_PORT": "master_port",
        "MASTER_ADDR": "master_addr",
        "PET_MASTER_ADDR": "master_addr",
        "PET_RDZV_ID": "run_id",
    }.get(variable)
    values = [getattr(plan, field) for plan in plans] if field else []
    usable = [str(v) for v in values if v not in (None, "none") and not is_loopback(str(v))]
    default = str(DEFAULT_PORT) if variable.endswith("MASTER_PORT") else None
    return variable, usable[0] if usable else default


def _sole(missing: tuple[int, ...], cluster: Cluster) -> str | None:
    # One node's facts alone cannot tell which ranks the others have, unless the job has no more than this.
    return str(missing[0]) if len(missing) == 1 and len(cluster.slices) > 1 else None


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None
