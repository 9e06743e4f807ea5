"""accelerate's number of processes counts one machine instead of all.

## What you see
On 2 machines with 8 GPUs each, the job has 8 ranks, 4 on each machine. With num_processes 1, one machine has no rank.

## Why it happens
`--num_processes` and num_processes in accelerate's configuration count all machines together. accelerate launch divides
the number by num_machines. `accelerate config` is often answered with the number of one machine.

## Fix
Give accelerate launch the GPUs of all machines together: `accelerate launch --num_processes 16 --num_machines 2
train.py`.

## Confirm with
`grep num_ ~/.cache/huggingface/accelerate/default_config.yaml` shows num_processes and num_machines.

## When it is harmless
The job is meant to use only some of the GPUs.

## See also
environment/uneven-ranks, environment/pod-world-size
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, gpus, launch_variables

SEVERITY = "warn"
MATTERS = "the other GPUs of each machine stay idle"
SIGNS = ("ACCELERATE_MIXED_PRECISION", launch_variables.RUN_ID)
PLUGINS = ("ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_USE_DEEPSPEED")
"""accelerate launch sets the first of SIGNS and one of these, also where a default is meant, for processes on several
GPUs, which torchrun's agent then starts (accelerate/utils/launch.py)."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = cluster.nodes
    world, per_node = cluster.plan.world_size, {len(gpus.visible_gpus(node)) for node in nodes}
    if len(nodes) < 2 or len(nodes) != cluster.plan.nnodes or not all(map(started_by_accelerate, nodes)):
        return
    if world is None or per_node != {world}:
        return
    total = world * len(nodes)
    yield Finding.about(
        nodes,
        f"accelerate has {world} processes for {len(nodes)} machines of {world} GPUs each; num_processes counts all "
        "machines together.",
        evidence=(f"{node.name}: {len(node.ranks)} of {world} ranks, {world} GPUs visible" for node in nodes),
        fixes=(
            Fix.on(
                nodes,
                f"Count all machines together: accelerate launch --num_processes {total} --num_machines {len(nodes)} "
                "(num_processes in its configuration).",
            ),
        ),
    )


def started_by_accelerate(node: Node) -> bool:
    set_ = node.variables
    return node.plan.started == "rank" and all(name in set_ for name in SIGNS) and any(name in set_ for name in PLUGINS)
