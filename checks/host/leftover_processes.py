"""Ranks of an earlier run are still running.

## What you see
`EADDRINUSE` on node 0 if one of them holds the port; `CUDA out of memory` on a GPU that should be free; a job at half
its speed. Or new ranks join the store of the old run by mistake. On Ascend: `EJ0001: Failed to initialize the HCCP
process`.

## Why it happens
The launcher was killed (SIGKILL, out of memory) but its ranks were not. They wait for each other, or continue to train.

## Fix
End them, if no user waits for their results: `kill 4711 4712`.

## Confirm with
`pgrep -af train.py` lists no process of the earlier run.

## When it is harmless
They are a job that still runs and was meant to outlive its launcher (started with nohup, without torchrun).

## See also
network/port-in-use, store/foreign-store
"""

from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Leftover,
    Line,
    Node,
    duration_text,
    names_of,
    other_master_port_fixes,
    together,
)

SEVERITY = "warn"
MATTERS = "they use memory, CPUs and devices that the job needs, and may hold its port"
FOLLOWS = ("network/port-in-use", "store/foreign-store", "network/foreign-service", "store/silent")
SHOWN = 4
NEXT = ("processes of an earlier run", "npu-smi info; pgrep -af train.py")
LOG = (
    Line(  # CANN, EJ0001: each device has one such process
        "Failed to initialize the HCCP process",
        shows="symptom",
        why="a faulty device shows the same; on a node that is free again, the next start works",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    by_node = {node: leftovers_of for node in cluster.nodes if (leftovers_of := node.host.leftovers)}
    if not by_node:
        return
    count = len({(node.host_key, process.pid) for node, leftovers_of in by_node.items() for process in leftovers_of})
    left_over = Finding.about(
        by_node,
        f"{count} rank{'s' if count > 1 else ''} of an earlier run still {'run' if count > 1 else 'runs'} on "
        f"{names_of(by_node)}.",
        evidence=(line for node, leftovers_of in by_node.items() for line in lines(node, leftovers_of)),
        fixes=fixes(cluster, by_node),
    )
    yield replace(left_over, of_its_own=True)  # what has the port of another host is none of these


def lines(node: Node, leftovers_of: tuple[Leftover, ...]) -> Iterator[str]:
    for process in leftovers_of[:SHOWN]:
        rank = f", rank {process.rank}" if process.rank else ""
        ports = f", listens on {together(map(str, process.ports[:4]))}" if process.ports else ""
        who = f"pid {process.pid} of {process.user or '?'}{rank}"
        yield f"{node.name}: {who}, {duration_text(process.age)} old{ports}: {process.name or '?'}"
    if len(leftovers_of) > SHOWN:
        yield f"{node.name}: and {len(leftovers_of) - SHOWN} more"


def fixes(cluster: Cluster, by_node: dict[Node, tuple[Leftover, ...]]) -> Iterator[Fix]:
    port = cluster.plan.master_port
    option = 1
    if any(port in process.ports for leftovers_of in by_node.values() for process in leftovers_of):
        bind = next((node.network.bind for node in by_node if node.network.bind), None)
        yield from other_master_port_fixes(cluster, bind.free_port if bind else None)
        option = 2
    for node, leftovers_of in by_node.items():
        mine = [process for process in leftovers_of if process.user == node.identity.user]
        if mine:
            command = f"kill {' '.join(str(process.pid) for process in mine)}"
            text = "End them, if no user waits for their results."
            yield Fix.on(node, text, option, commands=(command,))
        others = list(dict.fromkeys(process.user or "?" for process in leftovers_of if process not in mine))
        if others:
            numbers = together(str(process.pid) for process in leftovers_of if process not in mine)
            users = f"user{'s' if len(others) > 1 else ''} {together(others)}"
            yield Fix.on(node, f"Ask {users} to stop pid {numbers}.", option)
