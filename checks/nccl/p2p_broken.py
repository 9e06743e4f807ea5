"""The driver advertises P2P between GPUs that does not work.

## What you see
A tensor that is moved from one GPU to another arrives as zeros or old numbers, without an error. The loss is NaN on
some ranks. The log ends after `via P2P/...` with all GPUs at 100 %;
`peer access is not supported between these two devices`.

## Why it happens
IOMMU or ACS redirects the writes between GPUs, or a driver advertises P2P for cards without it. If one process of the
check sees several GPUs, each GPU copies numbers to every peer that the driver calls reachable.

## Fix
Run `export NCCL_P2P_DISABLE=1` on that node until the host is fixed. On the host, boot with `iommu=pt` (kernel command
line), turn ACS off on the PCIe switches (BIOS), or install another driver.

## Confirm with
`NCCL_P2P_DISABLE=1 torchrun ...` (must work), `lspci -vvv | grep ACSCtl` and `cat /proc/cmdline`.

## When it is harmless
When NCCL does not use P2P (its group works) and the program moves nothing between GPUs; the finding is then a warning.

## See also
nccl/gpudirect
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, some_of

SEVERITY = "fail"
MATTERS = "NCCL does not use P2P here, but the program's own copies between GPUs are wrong"
PREVENTS = "nccl group formed"
NEXT = ("a run without P2P", "NCCL_P2P_DISABLE=1")
LOG = (
    Line("peer access is not supported between these two devices", unless="transport/shm"),
    Line("mapping of buffer object failed", shows="end"),
    Line(
        ("IpcGetMemHandle failed", "IpcOpenMemHandle failed", "failed to peer with device"),
        r"NCCL WARN",
        shows="symptom",
        why="GPU memory that cannot be shared with another process for any reason shows the same",
    ),
    Line(
        "is all-gathering",  # FSDP compares numbers of all ranks; these values are impossible
        r"is all-gathering (?:0|-\d{1,12}|\d{7,12}) parameters",
        shows="symptom",
        why="ranks at different places of the model may show 0 as well",
    ),
    Line(
        "P2P is disabled between NVLINK connected GPUs",
        shows="symptom",
        why="usually a faulty NVLink, or a virtual machine without NVLink",
    ),
)
DISABLE = "NCCL_P2P_DISABLE"
TRANSLATES = ("DMA", "DMA-FQ")
SHOWN = 6
FIX_NCCL = "Make NCCL copy through host memory (slower, correct); the program's own copies between GPUs stay wrong."
FIX_HOST = (
    "On the host, boot with iommu=pt (kernel command line), and turn ACS off on the PCIe switches (BIOS). "
    "Confirm with: `cat /proc/cmdline`, `lspci -vvv | grep ACSCtl`."
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if gpus.wants_gpus(node):
            yield from denied_pairs(node)
        peers = node.facts.peers
        if peers is None or not (peers.wrong or peers.endless) or not gpus.wants_gpus(node):
            continue
        pairs = [*peers.wrong, *([peers.endless] if peers.endless else [])]
        named = some_of([f"device {source} to {target}" for source, target in pairs], SHOWN)
        problem = "never end" if peers.endless else "arrive wrong"
        disabled = switched_off(node)
        yield Finding.about(
            [node],
            f"Direct copies between GPUs of {node.name} {problem}: {named}.",
            evidence=evidence(node),
            fixes=[
                *([] if disabled else [Fix.on(node, FIX_NCCL, env={DISABLE: "1"})]),
                Fix.on(node, FIX_HOST, option=1 if disabled else 2),
            ],
            severity="warn" if disabled or nccl_works(node) else "fail",
        )


def denied_pairs(node: Node) -> Iterator[Finding]:
    """Yield the finding about pairs that the driver separates although the NVSwitch fabric connects both.

    NCCL then warns "P2P is disabled between NVLINK connected GPUs"."""
    peers, of_torch = node.facts.peers, gpus.visible_gpus(node)
    if peers is None or not peers.refused or len(of_torch) != peers.devices or switched_off(node):
        return
    devices = [gpus.device_of(node, gpu) for gpu in of_torch]
    if any(gpu is None or gpu.fabric != "completed" or gpu.fabric_error or gpu.mig for gpu in devices):
        return
    named = some_of([f"device {source} to {target}" for source, target in peers.refused], SHOWN)
    yield Finding.about(
        [node],
        f"The driver denies P2P between GPUs of {node.name} that NVLink connects: {named}.",
        matters="NCCL copies through host memory there, much slower",
        evidence=[
            f"{node.name}: {len(peers.refused)} of {peers.able + len(peers.refused)} pairs have no P2P by the "
            "driver; all "
            "these GPUs are registered with the NVSwitch fabric"
        ],
        fixes=[
            Fix.on(
                node, "Reset all GPUs of the node: `nvidia-smi --gpu-reset`. Confirm with: `nvidia-smi topo -p2p n`."
            )
        ],
        severity="warn",
    )


def nccl_works(node: Node) -> bool:
    """Return whether NCCL works on this node with several ranks anyway."""
    ended = [stage.status for rank in node.facts.ranks for stage in rank.stages if stage.stage == "nccl"]
    return len(ended) > 1 and all(status == "ok" for status in ended)


def switched_off(node: Node) -> bool:
    """Return whether the node's settings disable P2P in NCCL."""
    return node.variables.get(DISABLE, "0") != "0"


def evidence(node: Node) -> Iterator[str]:
    peers = node.facts.peers
    if peers is None:
        return
    if peers.wrong:
        count = f"{len(peers.wrong)} of {peers.tried} copies arrived wrong, without an error"
        yield f"{node.name}: {count}; the driver advertises P2P ({peers.able} pairs)"
    if peers.endless:
        source, target = peers.endless
        yield f"{node.name}: the copy from device {source} to {target} did not end; {peers.tried} copies before it did"
    if translating := [kind for kind in gpus.driver(node).iommu if kind in TRANSLATES]:
        yield f"{node.name}: the IOMMU translates the writes of the GPUs (iommu_group/type: {', '.join(translating)})"
    if bridges := gpus.driver(node).acs:
        where = f"{bridges} PCIe bridge{'s' * (bridges > 1)} above them"
        yield f"{node.name}: ACS redirects the writes on {where} (lspci -vvv: ReqRedir+)"
