"""Ranks of an earlier run are still running.

What you see
------------
`EADDRINUSE` on node 0 if one of them holds the port; `CUDA out of memory` on a GPU that should be free; a job at half
its speed. Or new ranks join the store of the old run by mistake.

Why it happens
--------------
The launcher was killed (SIGKILL, out of memory) but its ranks were not. They wait for each other, or continue to train.

Fix
---
End them, if no user waits for their results: `kill 4711 4712`.

Confirm with
------------
`pgrep -af train.py` lists no process of the earlier run.

When it is harmless
-------------------
They are a job that still runs and was meant to outlive its launcher (started with nohup, without torchrun).

See also
--------
network/port-in-use, store/foreign-store
"""

from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Leftover,
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


def judge(cluster: Cluster) -> Iterator[Finding]:
    found = {node: left for node in cluster.nodes if (left := node.host.leftovers)}
    if not found:
        return
    count = len({(node.host_key, one.pid) for node, left in found.items() for one in left})
    left_over = Finding.about(
        found,
        f"{count} rank{'s' if count > 1 else ''} of an earlier run still {'run' if count > 1 else 'runs'} on "
        f"{names_of(found)}.",
        evidence=(line for node, left in found.items() for line in lines(node, left)),
        fixes=fixes(cluster, found),
    )
    yield replace(left_over, of_its_own=True)  # what has the port of another host is none of these


def lines(node: Node, left: tuple[Leftover, ...]) -> Iterator[str]:
    for one in left[:SHOWN]:
        rank = f", rank {one.rank}" if one.rank else ""
        ports = f", listens on {together(map(str, one.ports[:4]))}" if one.ports else ""
        who = f"pid {one.pid} of {one.user or '?'}{rank}"
        yield f"{node.name}: {who}, {duration_text(one.age)} old{ports}: {one.name or '?'}"
    if len(left) > SHOWN:
        yield f"{node.name}: and {len(left) - SHOWN} more"


def fixes(cluster: Cluster, found: dict[Node, tuple[Leftover, ...]]) -> Iterator[Fix]:
    port = cluster.plan.master_port
    option = 1
    if any(port in one.ports for left in found.values() for one in left):
        bind = next((node.network.bind for node in found if node.network.bind), None)
        yield from other_master_port_fixes(cluster, bind.free_port if bind else None)
        option = 2
    for node, left in found.items():
        mine = [one for one in left if one.user == node.identity.user]
        if mine:
            command = f"kill {' '.join(str(one.pid) for one in mine)}"
            text = "End them, if no user waits for their results."
            yield Fix.on(node, text, option, commands=(command,))
        others = list(dict.fromkeys(one.user or "?" for one in left if one not in mine))
        if others:
            numbers = together(str(one.pid) for one in left if one not in mine)
            users = f"user{'s' if len(others) > 1 else ''} {together(others)}"
            yield Fix.on(node, f"Ask {users} to stop pid {numbers}.", option)
