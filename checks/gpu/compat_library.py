"""A CUDA compatibility library does not fit this GPU or driver.

## What you see
`Error 804: forward compatibility was attempted on non supported HW`,
`Error 803: system has unsupported display driver / cuda driver combination`.

## Why it happens
The process loads the image's /usr/local/cuda/compat/libcuda.so.1 on a GeForce, or with a driver that it does not
support.

## Fix
Remove /usr/local/cuda/compat from LD_LIBRARY_PATH: `export LD_LIBRARY_PATH=/usr/local/cuda/lib64`. Then update the
host's driver if the image needs a newer CUDA.

## Confirm with
`ldconfig -p | grep libcuda.so.1` and `echo $LD_LIBRARY_PATH` in the container.

## When it is harmless
Never.

## See also
nccl/driver-too-old
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line("forward compatibility was attempted on non supported HW"),
    Line("unsupported display driver / cuda driver combination"),
)
REFUSED = ("forward compatibility was attempted", "unsupported display driver / cuda driver combination")
"""CUDA's texts of its errors 804 and 803."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        library = next((facts.library for facts in gpus.looked_at_gpus(node) if facts.library), "")
        words = next((text for text in gpus.gpu_reasons(node) if any(error in text for error in REFUSED)), "")
        if not (gpus.wants_gpus(node) and words and "/compat" in library):
            continue
        yield Finding.about(
            [node],
            f"{node.name} loads {library} of its image, which does not fit its GPU or driver.",
            evidence=[f"{node.name}: {words}", f"{node.name}: kernel module {gpus.driver(node).module}"],
            fixes=[fix(node, library)],
        )


def fix(node: Node, library: str) -> Fix:
    folder = library.rpartition("/")[0]
    path = node.variables.get("LD_LIBRARY_PATH")
    if path is None:
        return Fix.on(
            node,
            f"Remove {folder} from /etc/ld.so.conf.d, then run `ldconfig`. Confirm with: `ldconfig -p | grep libcuda`.",
        )
    rest = ":".join(part for part in path.split(":") if part.rstrip("/") != folder)
    return Fix.on(
        node,
        f"Remove {folder} from LD_LIBRARY_PATH, so that the driver's own library is loaded.",
        env={"LD_LIBRARY_PATH": rest or None},
    )
