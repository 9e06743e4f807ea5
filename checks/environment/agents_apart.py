"""Several processes were started, and each takes itself for the whole job.

What you see
------------
Nothing fails: every node trains, all of them as rank 0 of a world of one node, with as many logs and checkpoints, one
over the other. The job is no faster than on one node. Of a batch script's nodes all but the first do nothing.

Why it happens
--------------
torchrun does not read what srun, mpirun or a scheduler say of other nodes. Without --nnodes it starts a job of one
node, and `srun torchrun --nproc-per-node 8 train.py` starts one such job on each; so do accelerate launch without
--num_machines, deepspeed without --hostfile, and horovodrun without -H. In a batch script without srun it runs on the
first node alone. RANK=0 and WORLD_SIZE=1, which a shell,
an image or a start script has set, do the same to ranks: env:// reads nothing else. So
does a script under srun that starts the ranks of its node itself (torch.multiprocessing.spawn, composer), and numbers
them from 0 on each node.

Fix
---
`srun --ntasks-per-node=1 torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint
HOST:29500 train.py`, HOST being one of the nodes. For ranks: RANK and WORLD_SIZE of the whole job, in each.

When it is harmless
-------------------
Where each is to train by itself, as in a search for parameters: say so with --standalone, or ignore it.

See also
--------
environment/pod-world-size, environment/world-size-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, names_of

SEVERITY = "warn"
MATTERS = "each trains by itself, as a job of its own"
COMMANDS = {"torchrun": "torchrun", "DeepSpeed": "deepspeed", "Horovod": "horovodrun"}
"""What starts the ranks of a node, and takes that node for the whole job unless it is told of others."""
INSTEAD = {
    "DeepSpeed": "Start deepspeed once, with --hostfile FILE (a line `HOST slots=N` for each node), and not by srun or "
    "mpirun; or once on every node, with --hostfile FILE --no_ssh --node_rank R --master_addr HOST.",
    "Horovod": "Start horovodrun once, with -np N -H HOST:2,HOST:2 (ranks of each), and not by srun or mpirun.",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    apart = [node for node in cluster.nodes if node.plan.beside]
    for launcher, command in COMMANDS.items():
        agents = [node for node in apart if node.plan.launcher == launcher]
        if agents:
            yield Finding.about(
                agents,
                f"{command} on {names_of(agents)} takes itself for the whole job, and there are more nodes.",
                title=f"Several times {command} was started, and each takes itself for the whole job",
                evidence=(f"{node.name}: {node.plan.beside}; {command} has made a job of one node" for node in agents),
                fixes=(fix(node) for node in agents),
            )
    ranks = [node for node in apart if node.plan.launcher not in COMMANDS]
    if ranks:
        sizes = "WORLD_SIZE is " + " or ".join(map(str, sorted({node.plan.world_size or 1 for node in ranks})))
        yield Finding.about(
            ranks,
            f"{sizes} on {names_of(ranks)}, where other settings tell of more processes.",
            evidence=(f"{node.name}: {node.plan.beside}, and WORLD_SIZE is {node.plan.world_size}" for node in ranks),
            fixes=(
                Fix.on(
                    ranks,
                    "Give each process its own RANK (0 to N-1) and WORLD_SIZE=N, by what the launcher tells; or unset "
                    "both here, and start the ranks with torchrun.",
                ),
            ),
        )


def fix(node: Node) -> Fix:
    if node.plan.launcher in INSTEAD:
        return Fix.on(node, INSTEAD[node.plan.launcher])
    flags: dict[str, str | None] = {**node.plan.together}
    if "--nnodes" in flags:
        return Fix.on(node, "Give torchrun the number of nodes, and where they meet.", flags=flags)
    return Fix.on(
        node,
        "Start torchrun once on every node, with --nnodes N, --node-rank and --master-addr, or with --rdzv-backend "
        "c10d and --rdzv-endpoint HOST:29500 (accelerate launch with --num_machines N, --machine_rank and "
        "--main_process_ip); or, where torchrun is to be alone, with --standalone.",
    )
