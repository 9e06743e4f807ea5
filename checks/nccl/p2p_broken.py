"""P2P between GPUs is advertised and does not work.

What you see
------------
A tensor that is moved from one GPU to another arrives as zeros or as old numbers, without an error; a loss that is NaN
on some ranks. Log ends after `via P2P/...` with all GPUs at 100 %; `peer access is not supported between these two
devices`.

Why it happens
--------------
IOMMU or ACS redirects what GPUs write to each other, or a driver advertises P2P for cards without it. Where one process
of the check sees several GPUs, each copies some numbers to each other one that the driver says it can reach.

Fix
---
NCCL_P2P_DISABLE=1 proves it; then iommu=pt or off, ACS off, another driver.

When it is harmless
-------------------
Where NCCL does not go this way (its group works) and the program moves nothing between GPUs: a warning then.

See also
--------
nccl/gpudirect
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, some_of

SEVERITY = "fail"
MATTERS = "NCCL does not go this way here, but what the program itself moves between its GPUs comes out wrong"
PREVENTS = "nccl group formed"
NEXT = ("whether it works without", "NCCL_P2P_DISABLE=1")
LOG = (
    Line("peer access is not supported between these two devices", unless="transport/shm"),
    Line("mapping of buffer object failed", shows="end"),
    Line(
        ("IpcGetMemHandle failed", "IpcOpenMemHandle failed", "failed to peer with device"),
        r"NCCL WARN",
        shows="symptom",
        why="a GPU's memory that cannot be handed to another process, for whatever reason, shows the same",
    ),
    Line(
        "is all-gathering",  # FSDP's comparison of numbers that each rank has sent: none of them can be so
        r"is all-gathering (?:0|-\d{1,12}|\d{7,12}) parameters",
        shows="symptom",
        why="ranks that are at different places of the model may show 0 as well",
    ),
    Line(
        "P2P is disabled between NVLINK connected GPUs",
        shows="symptom",
        why="as a rule a fault of an NVLink, or a virtual machine without it",
    ),
)
DISABLE = "NCCL_P2P_DISABLE"
TRANSLATES = ("DMA", "DMA-FQ")
SHOWN = 6
FIX_NCCL = "Let NCCL go through the host's memory: slower, and right. What the program itself moves stays wrong."
FIX_HOST = (
    "On the host, let the IOMMU pass (iommu=pt on the kernel's command line) or turn it off in the BIOS, and turn ACS "
    "off on the PCIe switches."
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if gpus.wants_gpus(node):
            yield from refused(node)
        seen = node.facts.peers
        if seen is None or not (seen.wrong or seen.endless) or not gpus.wants_gpus(node):
            continue
        pairs = [*seen.wrong, *([seen.endless] if seen.endless else [])]
        named = some_of([f"device {source} to {target}" for source, target in pairs], SHOWN)
        what = "never ends" if seen.endless else "arrives wrong"
        aside = switched_off(node)
        yield Finding.about(
            [node],
            f"What GPUs of {node.name} copy straight to each other {what}: {named}.",
            evidence=evidence(node),
            fixes=[
                *([] if aside else [Fix.on(node, FIX_NCCL, env={DISABLE: "1"})]),
                Fix.on(node, FIX_HOST, option=1 if aside else 2),
            ],
            severity="warn" if aside or spared(node) else "fail",
        )


def refused(node: Node) -> Iterator[Finding]:
    """Pairs that the driver keeps apart though the NVSwitch fabric connects both: NCCL says of it "P2P is disabled
    between NVLINK connected GPUs"."""
    seen, of_torch = node.facts.peers, gpus.visible_gpus(node)
    if seen is None or not seen.refused or len(of_torch) != seen.devices or switched_off(node):
        return
    devices = [gpus.device_of(node, gpu) for gpu in of_torch]
    if any(one is None or one.fabric != "completed" or one.fabric_error or one.mig for one in devices):
        return
    named = some_of([f"device {source} to {target}" for source, target in seen.refused], SHOWN)
    yield Finding.about(
        [node],
        f"The driver keeps GPUs of {node.name} from each other's memory that NVLink connects: {named}.",
        matters="NCCL takes the way through the host's memory there, much slower",
        evidence=[
            f"{node.name}: {len(seen.refused)} of {seen.able + len(seen.refused)} pairs cannot, says the driver; all "
            "these GPUs are registered with the NVSwitch fabric"
        ],
        fixes=[Fix.on(node, "Reset the node's GPUs together, or restart its fabric manager; nvidia-smi topo -p2p n.")],
        severity="warn",
    )


def spared(node: Node) -> bool:
    """Return whether NCCL works on this node all the same, with several ranks."""
    ended = [stage.status for rank in node.facts.ranks for stage in rank.stages if stage.stage == "nccl"]
    return len(ended) > 1 and all(status == "ok" for status in ended)


def switched_off(node: Node) -> bool:
    """Return whether its settings keep NCCL from it."""
    return node.variables.get(DISABLE, "0") != "0"


def evidence(node: Node) -> Iterator[str]:
    seen = node.facts.peers
    if seen is None:
        return
    if seen.wrong:
        count = f"{len(seen.wrong)} of {seen.tried} copies arrived wrong, without an error"
        yield f"{node.name}: {count}; the driver says that they can ({seen.able} pairs)"
    if seen.endless:
        source, target = seen.endless
        yield f"{node.name}: the copy from device {source} to {target} did not end, after {seen.tried} that did"
    if translating := [kind for kind in gpus.driver(node).iommu if kind in TRANSLATES]:
        yield f"{node.name}: the IOMMU translates what the GPUs write (iommu_group/type: {', '.join(translating)})"
    if bridges := gpus.driver(node).acs:
        where = f"{bridges} PCIe bridge{'s' * (bridges > 1)} above them"
        yield f"{node.name}: ACS redirects it on {where} (lspci -vvv: ReqRedir+)"
