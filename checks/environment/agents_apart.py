"""Several processes were started, and each treats itself as the whole job.

## What you see
Nothing fails. Every node trains as rank 0 of a one-node job, and each overwrites the logs and checkpoints of the
others. The job is no faster than on one node. In a batch script without srun only the first node works.

## Why it happens
torchrun does not read the number of nodes from srun, mpirun or a scheduler. Without --nnodes it starts a job of one
node, so `srun torchrun --nproc-per-node 8 train.py` starts one such job on each node. accelerate launch without
--num_machines, deepspeed without --hostfile and horovodrun without -H do the same.

RANK=0 and WORLD_SIZE=1 from a shell, an image or a start script have the same effect: env:// reads nothing else. So
does a script under srun that starts the ranks of its node itself (torch.multiprocessing.spawn, composer) and numbers
them from 0 on each node.

## Fix
Give torchrun the number of nodes and the rendezvous: `srun --ntasks-per-node=1 torchrun --nnodes $SLURM_NNODES
--nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint host0:29500 train.py`.

For ranks that a script starts itself, set RANK and WORLD_SIZE of the whole job in each process.

## Confirm with
`python -c "import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'])"`, started as the job's ranks are, prints the
size of the whole job.

## When it is harmless
Each process is meant to train by itself, as in a parameter search. Say so with --standalone, or ignore the check.

## See also
environment/pod-world-size, environment/world-size-mismatch
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, names_of

SEVERITY = "warn"
MATTERS = "each trains by itself, as a job of its own"
COMMANDS = {"torchrun": "torchrun", "DeepSpeed": "deepspeed", "Horovod": "horovodrun"}
"""Launchers that treat their node as the whole job unless a flag names others, each with its fix."""
INSTEAD = {
    "DeepSpeed": "Start deepspeed once, without srun or mpirun, with --hostfile FILE (a line `HOST slots=N` for each "
    "node). Without ssh, start it once on every node with --no_ssh --node_rank R --master_addr HOST.",
    "Horovod": "Start horovodrun once, without srun or mpirun, with -np N -H HOST:2,HOST:2 (ranks of each host).",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    separate = [node for node in cluster.nodes if node.plan.beside]
    for launcher, command in COMMANDS.items():
        agents = [node for node in separate if node.plan.launcher == launcher]
        if agents:
            yield Finding.about(
                agents,
                f"{command} on {names_of(agents)} starts a job of one node, and the job has more nodes.",
                title=f"{command} was started several times, and each starts a job of one node",
                evidence=(f"{node.name}: {node.plan.beside}; {command} started a job of one node" for node in agents),
                fixes=(fix(node) for node in agents),
            )
    ranks = [node for node in separate if node.plan.launcher not in COMMANDS]
    if ranks:
        sizes = "WORLD_SIZE is " + " or ".join(map(str, sorted({node.plan.world_size or 1 for node in ranks})))
        yield Finding.about(
            ranks,
            f"{sizes} on {names_of(ranks)}, but other settings there name more processes.",
            evidence=(f"{node.name}: {node.plan.beside}, and WORLD_SIZE is {node.plan.world_size}" for node in ranks),
            fixes=(
                Fix.on(
                    ranks,
                    "Give each process its own RANK (0 to N-1) and WORLD_SIZE=N from the launcher's variables; or "
                    "unset both and start the ranks with torchrun.",
                ),
            ),
        )


def fix(node: Node) -> Fix:
    if node.plan.launcher in INSTEAD:
        return Fix.on(node, INSTEAD[node.plan.launcher])
    flags: dict[str, str | None] = {**node.plan.together}
    if "--nnodes" in flags:
        return Fix.on(node, "Give torchrun the number of nodes and the rendezvous.", flags=flags)
    return Fix.on(
        node,
        "Start torchrun once on every node, with --nnodes N --rdzv-backend c10d --rdzv-endpoint HOST:29500. For "
        "accelerate launch: --num_machines N --machine_rank R --main_process_ip HOST. For one node: --standalone.",
    )
