"""Several torchruns were started, and each takes itself for the whole job.

What you see
------------
Nothing fails: every node trains, all of them as rank 0 of a world of one node, with as many logs and checkpoints, one
over the other. The job is no faster than on one node. Of a batch script's nodes all but the first do nothing.

Why it happens
--------------
torchrun does not read what srun, mpirun or a scheduler say of other nodes. Without --nnodes it starts a job of one
node, and `srun torchrun --nproc-per-node 8 train.py` starts one such job on each; so does accelerate launch without
--num_machines. In a batch script without srun it runs on the first node alone.

Fix
---
`srun --ntasks-per-node=1 torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint
HOST:29500 train.py`, HOST being one of the nodes.

When it is harmless
-------------------
Where each is to train by itself, as in a search for parameters: say so with --standalone.

See also
--------
environment/pod-world-size, environment/world-size-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, names_of

SEVERITY = "warn"
MATTERS = "each torchrun trains by itself, as a job of its own"


def judge(cluster: Cluster) -> Iterator[Finding]:
    apart = [node for node in cluster.nodes if node.plan.beside]
    if apart:
        yield Finding.about(
            apart,
            f"torchrun on {names_of(apart)} takes itself for the whole job, and there are more nodes.",
            evidence=(f"{node.name}: {node.plan.beside}; its agent has started a job of one node" for node in apart),
            fixes=map(fix, apart),
        )


def fix(node: Node) -> Fix:
    flags: dict[str, str | None] = {**node.plan.together}
    if "--nnodes" in flags:
        return Fix.on(node, "Give torchrun the number of nodes, and where they meet.", flags=flags)
    return Fix.on(
        node,
        "Start torchrun once on every node, with --nnodes N, --node-rank and --master-addr, or with --rdzv-backend "
        "c10d and --rdzv-endpoint HOST:29500 (accelerate launch with --num_machines N, --machine_rank and "
        "--main_process_ip); or, where torchrun is to be alone, with --standalone.",
    )
