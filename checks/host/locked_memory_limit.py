"""The limit of locked memory is too low for RDMA.

## What you see
NCCL prints `ibv_reg_mr failed` or `ibv_create_qp failed ... Cannot allocate memory`, on nodes with InfiniBand or RoCE.

## Why it happens
An RDMA adapter needs its buffers locked in memory. The limit of this shell, of the scheduler's daemon or of the
container is below the amount that NCCL registers.

## Fix
Remove the limit where the job starts: `ulimit -l unlimited`; for SLURM set LimitMEMLOCK=infinity in slurmd's unit file,
for docker `--ulimit memlock=-1`.

/etc/security/limits.conf has the hard limit.

## Confirm with
`srun bash -c 'ulimit -l'` prints unlimited on every node.

## When it is harmless
Without RDMA, with NCCL_IB_DISABLE=1, and for processes that hold CAP_IPC_LOCK (root outside containers, some pods):
nothing is reported.

## See also
nccl/init-failed
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, names_of, plans_nccl_group

SEVERITY = "warn"
LOG = (
    Line(
        ("ibv_reg_mr", "ibv_create_qp", "ibv_create_cq"),
        r"ibv_(?:reg_mr\w*|create_[qc]p?q?\w*)\b.{0,80}Cannot allocate memory",
    ),
    Line(
        ("ibv_create_qp", "ibv_create_cq", "ibv_reg_mr"),
        r"ibv_(?:create_[qc]p?q?\w*|reg_mr\w*)\b.{0,40}failed",
        shows="symptom",
        why="the reason is missing: ulimit -l, or the adapter's own limit",
        unless="Cannot allocate memory|Bad address|not supported",
    ),
)
MATTERS = "NCCL over InfiniBand or RoCE may fail to register its buffers; over sockets the job runs"
LOOKS_AT = ("host.limits",)
ENOUGH = 1 << 30
"""Bytes; NCCL registers some megabytes per connection and channel."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    if not cluster.multi_host:
        return
    bad = [node for node in cluster.nodes if low(node)]
    if not bad:
        return
    yield Finding.about(
        bad,
        f"{names_of(bad)} may lock too little memory for RDMA.",
        evidence=map(line, bad),
        fixes=(
            Fix.on(
                bad,
                "Remove the limit where the job starts (slurmd: LimitMEMLOCK=infinity; docker: --ulimit memlock=-1).",
                commands=("ulimit -l unlimited",),
            ),
        ),
    )


def low(node: Node) -> bool:
    its = node.limits
    if its.may_lock_memory or not its.rdma_devices or its.locked_memory is None or its.locked_memory == -1:
        return False
    if node.variables.get("NCCL_IB_DISABLE", "0") not in ("", "0"):
        return False
    return its.locked_memory < ENOUGH and plans_nccl_group(node)


def line(node: Node) -> str:
    its = node.limits
    assert its.locked_memory is not None
    return f"{node.name}: ulimit -l is {its.locked_memory // 1024} KiB; RDMA devices: {', '.join(its.rdma_devices)}"
