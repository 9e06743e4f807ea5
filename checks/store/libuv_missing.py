"""This torch is built without libuv, which the store asks for.

What you see
------------
    torch.distributed.DistStoreError: use_libuv was requested but PyTorch was build without libuv support

in init_process_group() or torchrun's rendezvous, on the nodes with that build.

Why it happens
--------------
Since torch 2.4 the TCPStore uses libuv unless told otherwise; some builds (Windows, aarch64, one's own) lack it.

Fix
---
`export USE_LIBUV=0` on every node, or install a build with libuv.

When it is harmless
-------------------
Never: the store is not made.

See also
--------
store/failed, network/port-not-bindable
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, names_of, shorten_error

SEVERITY = "fail"
LOG = (Line("use_libuv was requested"),)
PREVENTS = "store hosted"
LOOKS_AT = ("identity.torch", "ranks.store")
SAID = re.compile(r"(?i)libuv.{0,60}(?:buil[dt] without|not (?:available|supported))|buil[dt] without libuv")


def judge(cluster: Cluster) -> Iterator[Finding]:
    said = {node: text for node in cluster.nodes if (text := error(node)) is not None}
    if not said:
        return
    yield Finding.about(
        said,
        f"torch on {names_of(said)} is built without libuv, which its TCPStore asks for.",
        evidence=(f"{node.name}: torch {node.identity.torch}: {shorten_error(text)}" for node, text in said.items()),
        fixes=(Fix.on(cluster.nodes, "Tell the store, on every node, to do without libuv.", env={"USE_LIBUV": "0"}),),
    )


def error(node: Node) -> str | None:
    """Return what torch said about libuv when this node's store or one of its ranks' was made; None where nothing."""
    texts = [node.network.bind.error] if node.network.bind else []
    texts += [entry.error for rank in node.facts.ranks for entry in rank.stages if entry.stage in ("store", "nccl")]
    return next((text for text in texts if text and SAID.search(text)), None)
