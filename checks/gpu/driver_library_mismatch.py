"""The versions of the driver's library and kernel module differ.

## What you see
`Failed to initialize NVML: Driver/library version mismatch`.

## Why it happens
The driver package was upgraded while the old kernel module was loaded.

## Fix
Reboot the node: `systemctl reboot`. Then hold the package: `apt-mark hold nvidia-driver-580-server`.

## Confirm with
`cat /proc/driver/nvidia/version` and `modinfo -F version nvidia` (must be equal).

## When it is harmless
Never.

## See also
nccl/driver-too-old, gpu/none-visible
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus

SEVERITY = "fail"
MATTERS = "CUDA works, but NVML and nvidia-smi do not, and NCCL uses NVML"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
LOG = (
    Line(("Driver/library version mismatch", "nvml error: driver/library version mismatch")),
    Line("API mismatch: the client has the version", shows="cause"),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if (words := mismatch(node)) and gpus.wants_gpus(node):
            works = bool(gpus.visible_gpus(node))
            yield Finding.about(
                [node],
                f"The driver's kernel module and library on {node.name} have different versions: {words}.",
                severity="warn" if works else "fail",
                evidence=[evidence(node)],
                fixes=[
                    Fix.on(
                        node,
                        "Reboot the node, or reload the nvidia modules; then hold the driver's package (`apt-mark "
                        "hold`). "
                        "Confirm with: `cat /proc/driver/nvidia/version`, `modinfo -F version nvidia`.",
                    )
                ],
            )


def mismatch(node: Node) -> str:
    """Return the two versions; empty unless they are known to differ."""
    driver = gpus.driver(node)
    if "Driver/library version mismatch" in driver.error:  # nvidia-smi adds other words
        return f"{driver.module or 'the module'} and {driver.library or 'another'}"
    # A library that answers fits, whatever the file names are.
    differ = driver.module and driver.library and driver.module != driver.library
    return f"{driver.module} and {driver.library}" if differ and not driver.source else ""


def evidence(node: Node) -> str:
    driver = gpus.driver(node)
    nvml = f"; NVML: {driver.error}" if driver.error else ""
    module = f"/proc/driver/nvidia/version has {driver.module or 'no version'}"
    return f"{node.name}: {module}, libnvidia-ml.so.1 is {driver.library or 'of unknown version'}{nvml}"
