"""The driver's library and kernel module differ.

What you see
------------
`Failed to initialize NVML: Driver/library version mismatch`.

Why it happens
--------------
The driver package was upgraded under a running kernel module.

Fix
---
Reboot, or unload and load the nvidia modules; hold the package.

When it is harmless
-------------------
Never.

See also
--------
nccl/driver-too-old, gpu/none-visible
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus

SEVERITY = "fail"
MATTERS = "CUDA works, but NVML and nvidia-smi do not, and NCCL asks NVML"
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
                f"The driver's kernel module and its library are of different versions on {node.name}: {words}.",
                severity="warn" if works else "fail",
                evidence=[evidence(node)],
                fixes=[
                    Fix.on(
                        node,
                        "Reboot the node, or unload the nvidia modules and load them again; then hold the driver's "
                        "package, so that it is not upgraded under a running module.",
                    )
                ],
            )


def mismatch(node: Node) -> str:
    """The two versions; empty where nothing says that they differ."""
    driver = gpus.driver(node)
    if "Driver/library version mismatch" in driver.error:  # nvidia-smi has more words around it
        return f"{driver.module or 'the module'} and {driver.library or 'another'}"
    # A library that answers fits, whatever the names of files say.
    differ = driver.module and driver.library and driver.module != driver.library
    return f"{driver.module} and {driver.library}" if differ and not driver.source else ""


def evidence(node: Node) -> str:
    driver = gpus.driver(node)
    said = f"; NVML: {driver.error}" if driver.error else ""
    module = f"/proc/driver/nvidia/version has {driver.module or 'no version'}"
    return f"{node.name}: {module}, libnvidia-ml.so.1 is {driver.library or 'of no known version'}{said}"
