"""A launch variable is not set.

## What you see
init_process_group() raises at once

    ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but
    not set

in the processes without it. The others wait in silence for up to 30 minutes.

## Why it happens
env:// reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from the environment. torchrun sets all four for each
process. Without a launcher, or through ssh, sudo or a container that drops the environment, some are missing.

## Fix
Start the ranks with torchrun, which sets all four: `torchrun --nnodes 2 --node-rank 0 --master-addr host0
--nproc-per-node 8 train.py`.

Or set the missing variable. RANK differs in every process; the other three are the same everywhere.

## Confirm with
`env | grep -E '^(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)='` prints all four in the shell of the process.

## When it is harmless
If none of the four is set, the process is not one of several, and nothing is reported. Scripts that pass init_method,
rank and world_size themselves need none of them.

## See also
environment/invalid-variable, environment/duplicate-rank
"""

from distdoctor.check_api import (
    DEFAULT_PORT,
    LAUNCH_VARIABLES,
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    PlanProblem,
    is_loopback,
    missing_ranks,
    misspellings_of,
    names_of,
    together,
)

SEVERITY = "fail"
LOG = (
    Line("required for env://", r"(?P<variable>[\w ]{2,20}) is not set but it is required for env://"),
    Line("environment variable", r"environment variable (?P<variable>\w+) expected, but not set"),
    Line("parameter missing", "rendezvous: (?P<variable>rank|world_size|world size) parameter missing"),
    Line(
        "KeyError: ",
        r"KeyError: ['\x22](?P<variable>(?:LOCAL_|GROUP_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_(?:ADDR|PORT)"
        r"|SLURM_PROCID)(?:['\x22]|$)",
        # A column or a key may be called so, too: then the frame right above it is another's.
        stack=r"environ|\bos\.py\"|<frozen os>",
        unframed=True,
    ),
    Line(
        "KeyError: ",
        r"KeyError: ['\x22](?P<variable>NODE_RANK|SLURM_(?:NODEID|LOCALID|NTASKS|NPROCS|N?NODES|(?:JOB_)?NODELIST)"
        r"|(?:(?:OMPI|MV2)_COMM_WORLD|PMI)_(?:LOCAL_)?(?:RANK|SIZE))['\x22]",
        told="The program's variable for its rank or node is not set",
        fix="Start the program with the launcher that sets this variable: mpirun or mpiexec (OMPI_, PMI_), srun "
        "(SLURM_). torchrun sets none of them. Or set it: NODE_RANK is the number of this node, from 0 on.",
    ),
    Line(
        ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        # every one of these names has an A or a Z
        r"(?:Error|Exception|ERROR|error)\b(?=[^AZ]{0,200}[AZ])"
        r"(?:.{0,80}(?:[Cc]ould not find|[Mm]issing|not (?:set|found|defined)).{0,60}"
        r"\b(?P<variable>(?:LOCAL_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_(?:ADDR|PORT))\b"
        r"|.{0,120}\b(?P<name>(?:LOCAL_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_(?:ADDR|PORT))"
        r"['\x22`]?.{0,40}(?:is |are )?(?:not set|missing|not found|not defined|undefined|must be set))",
    ),
    Line("is not in the environment", r"(?P<variable>(?:LOCAL_)?RANK) is not in the environment"),
    Line("Unable to determine rank and size from environment variables"),
)
PREVENTS = "plan agreed"


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = {n: missing for n in cluster.nodes if (missing := [p for p in n.plan.problems if p.value is None])}
    if not bad:
        return
    variables = list(dict.fromkeys(p.variable for problems in bad.values() for p in problems))
    yield Finding.about(
        bad,
        f"{together(variables)} {'is' if len(variables) == 1 else 'are'} not set on {names_of(bad)}.",
        evidence=(f"{node.name}: {line}" for node, problems in bad.items() for line in evidence(node, problems)),
        fixes=(
            *(fix for node, problems in bad.items() for fix in fixes(cluster, node, problems)),
            Fix.on(bad, "Start the ranks with torchrun, which sets all four.", 2),
            *stray(cluster),
        ),
    )


def evidence(node: Node, problems: list[PlanProblem]) -> Iterator[str]:
    present = [f"{name}={node.variables[name]}" for name in LAUNCH_VARIABLES if name in node.variables]
    for problem in problems:
        yield f"{problem.variable} is not set" + (f", but {', '.join(present)}" if present else "")
        for name in misspellings_of(node, problem.variable):
            yield f"{name} is set: is that {problem.variable}, misspelled?"


def fixes(cluster: Cluster, node: Node, problems: list[PlanProblem]) -> Iterator[Fix]:
    known = {p.variable: value(cluster, node, p.variable) for p in problems}
    env = {name: text for name, text in known.items() if text is not None}
    if env:
        yield Fix.on(node, f"Set {together(env)} as in the other processes.", env=dict(env))
    unknown = [name for name, text in known.items() if text is None]
    if unknown:
        yield Fix.on(node, f"Set {together(f'{name} ({meaning(name)})' for name in unknown)}.")


def stray(cluster: Cluster) -> Iterator[Fix]:
    """Yield the fix for a lone process: its variables may be left over from another job in this shell."""
    node = cluster.nodes[0]
    present = {name: None for name in LAUNCH_VARIABLES if name in node.variables}
    if len(cluster.nodes) == 1 and len(node.keys) == 1 and present:
        text = f"Or, if this is not a rank of a job, unset {together(present)}."
        yield Fix.on(node, text, 3, env=dict(present))


def value(cluster: Cluster, node: Node, variable: str) -> str | None:
    """The value it should have, where another node's plan or the roll call tells it."""
    plans = [other.plan for other in cluster.nodes if other is not node]
    if variable == "RANK":
        missing = missing_ranks(cluster)
        return str(missing[0]) if len(missing) == 1 else None
    if variable == "WORLD_SIZE":
        return next((str(plan.world_size) for plan in plans if plan.world_size is not None), None)
    if variable == "MASTER_ADDR":
        return next((p.master_addr for p in plans if p.master_addr and not is_loopback(p.master_addr)), None)
    return next((str(plan.master_port) for plan in plans), str(DEFAULT_PORT))


def meaning(variable: str) -> str:
    return {
        "RANK": "this process's number, from 0 to WORLD_SIZE - 1, a different one in each process",
        "WORLD_SIZE": "the number of processes of the whole job",
        "MASTER_ADDR": "the address of the node of rank 0",
    }.get(variable, "a free port of the node of rank 0")
