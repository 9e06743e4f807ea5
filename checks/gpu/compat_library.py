"""A compatibility libcuda that this GPU or driver cannot use.

What you see
------------
`Error 804: forward compatibility was attempted on non supported HW`, `Error 803: system has unsupported display driver
/ cuda driver combination`.

Why it happens
--------------
The image's /usr/local/cuda/compat/libcuda.so.1 is loaded on a GeForce, or beside a driver it does not go with.

Fix
---
Take /usr/local/cuda/compat out of LD_LIBRARY_PATH, and update the host's driver.

When it is harmless
-------------------
Never.

See also
--------
nccl/driver-too-old
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line("forward compatibility was attempted on non supported HW"),
    Line("unsupported display driver / cuda driver combination"),
)
REFUSED = ("forward compatibility was attempted", "unsupported display driver / cuda driver combination")
"""CUDA's words for its errors 804 and 803."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        library = next((facts.library for facts in gpus.looked_at_gpus(node) if facts.library), "")
        words = next((text for text in gpus.gpu_reasons(node) if any(said in text for said in REFUSED)), "")
        if not (gpus.wants_gpus(node) and words and "/compat" in library):
            continue
        yield Finding.about(
            [node],
            f"{node.name} loads a libcuda of the image, {library}, that does not go with its GPU or driver.",
            evidence=[f"{node.name}: {words}", f"{node.name}: the kernel's module is {gpus.driver(node).module}"],
            fixes=[fix(node, library)],
        )


def fix(node: Node, library: str) -> Fix:
    folder = library.rpartition("/")[0]
    path = node.variables.get("LD_LIBRARY_PATH")
    if path is None:
        return Fix.on(node, f"Take {folder} out of where libraries are looked for, so that the driver's own is loaded.")
    rest = ":".join(part for part in path.split(":") if part.rstrip("/") != folder)
    return Fix.on(
        node,
        f"Take {folder} out of LD_LIBRARY_PATH, so that the driver's own is loaded.",
        env={"LD_LIBRARY_PATH": rest or None},
    )
