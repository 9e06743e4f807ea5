"""This build of torch lacks libuv, which the store needs.

## What you see
    torch.distributed.DistStoreError: use_libuv was requested but PyTorch was build without libuv support

in init_process_group() or torchrun's rendezvous, on the nodes with that build.

## Why it happens
Since torch 2.4 the TCPStore uses libuv by default. Some builds (Windows, aarch64, builds from source) lack it.

## Fix
Run `export USE_LIBUV=0` on every node before the launch, or install a build with libuv.

## Confirm with
`python -c "import torch.distributed as d; d.TCPStore('localhost', 29599, 1, True)"` (fails without it).

## When it is harmless
Never: the store cannot start.

## See also
store/failed, network/port-not-bindable
"""

import re

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, names_of, shorten_error

SEVERITY = "fail"
LOG = (Line("use_libuv was requested"),)
PREVENTS = "store hosted"
LOOKS_AT = ("identity.torch", "ranks.store")
NO_LIBUV = re.compile(r"(?i)libuv.{0,60}(?:buil[dt] without|not (?:available|supported))|buil[dt] without libuv")


def judge(cluster: Cluster) -> Iterator[Finding]:
    errors = {node: text for node in cluster.nodes if (text := error(node)) is not None}
    if not errors:
        return
    yield Finding.about(
        errors,
        f"torch on {names_of(errors)} is built without libuv, which its TCPStore uses by default.",
        evidence=(f"{node.name}: torch {node.identity.torch}: {shorten_error(text)}" for node, text in errors.items()),
        fixes=(Fix.on(cluster.nodes, "Set USE_LIBUV=0 on every node.", env={"USE_LIBUV": "0"}),),
    )


def error(node: Node) -> str | None:
    """Return torch's error about libuv from this node's store or those of its ranks; None without one."""
    texts = [node.network.bind.error] if node.network.bind else []
    texts += [entry.error for rank in node.facts.ranks for entry in rank.stages if entry.stage in ("store", "nccl")]
    return next((text for text in texts if text and NO_LIBUV.search(text)), None)
