"""accelerate's number of processes is that of one machine.

What you see
------------
On 2 machines with 8 GPUs each, the job has 8 ranks, 4 on each machine; with num_processes 1 a machine has none.

Why it happens
--------------
`--num_processes` and num_processes of accelerate's configuration count all machines together: accelerate launch divides
the number by num_machines. `accelerate config` writes that of one machine where it is asked for one.

Fix
---
`accelerate launch --num_processes` with the GPUs of all machines together.

When it is harmless
-------------------
Where the job is to use a part of the GPUs.

See also
--------
environment/uneven-ranks, environment/pod-world-size
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, gpus, launch_variables

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
        f"accelerate was given {world} processes for {len(nodes)} machines of {world} GPUs each: the number counts all "
        "machines together.",
        evidence=(f"{node.name}: {len(node.ranks)} of {world} ranks, {world} GPUs visible" for node in nodes),
        fixes=(
            Fix.on(
                nodes,
                "Give accelerate launch the number of all machines together (num_processes in its configuration): "
                f"--num_processes {total} --num_machines {len(nodes)}.",
            ),
        ),
    )


def started_by_accelerate(node: Node) -> bool:
    set_ = node.variables
    return node.plan.started == "rank" and all(name in set_ for name in SIGNS) and any(name in set_ for name in PLUGINS)
