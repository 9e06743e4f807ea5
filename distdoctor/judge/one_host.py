"""Notes on hosts that run several nodes: over 127.0.0.1 that works, so it is no failure. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.report import ONE_HOST


def on_one_host(cluster: Cluster) -> Iterator[str]:
    """A note where one host runs all nodes, or one host runs more of them than the others do.

    Containers with a network of their own are hosts of their own.
    """
    of_host: dict[tuple[str, str, str], list[Node]] = {}
    for node in cluster.nodes:
        if not node.facts.jobs:
            of_host.setdefault(node.host, []).append(node)
    for nodes in of_host.values():
        name, here, everywhere = nodes[0].identity.hostname, len(nodes), len(cluster.nodes)
        if here == 1:
            continue
        if here == everywhere:
            runs = "both" if here == 2 else f"all {here}"
            yield f"{here}{ONE_HOST}{name} runs {runs}. No link between hosts was checked."
        elif _unnumbered(nodes) and len({len(_unnumbered(others)) for others in of_host.values()}) > 1:
            pids = ", ".join(str(node.identity.pid) for node in nodes)
            yield (
                f"{name} is {here} of the {everywhere} nodes (pids {pids}): where that is not meant, one of these was "
                "started twice or is left over from an earlier run"
            )


def _unnumbered(nodes: list[Node]) -> list[Node]:
    """Those to which nobody gave a node rank: one of them may be left over from another run."""
    return [node for node in nodes if node.plan.started == "node" and node.plan.node_rank is None]
