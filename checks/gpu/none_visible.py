"""The rank sees no GPU.

What you see
------------
`ProcessGroupNCCL is only supported with GPUs, no GPUs found!`, `No CUDA GPUs are available`, `Found no NVIDIA driver on
your system`, `Torch not compiled with CUDA enabled`.

Why it happens
--------------
A CPU build of torch, an empty CUDA_VISIBLE_DEVICES, a container without --gpus or without libcuda
(NVIDIA_DRIVER_CAPABILITIES=utility), one that systemd took its GPUs from ("Failed to initialize NVML: Unknown Error"),
MIG without an instance, or no driver; of AMD's GPUs, a user who may not open /dev/kfd and /dev/dri/renderD*.

Fix
---
python -c 'import torch; print(torch.version.cuda, torch.cuda.is_available())' and nvidia-smi, in the job's own
environment: the first that fails is it.

When it is harmless
-------------------
Never.

See also
--------
gpu/fewer-than-ranks, environment/backend-not-built
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of

SEVERITY = "fail"
MATTERS = "the job runs on processors, with gloo, beside GPUs that it could use"
PREVENTS = "nccl group formed"
TOLD_MPS = "CUDA's multi-process service (MPS) does not let the rank in"
FIX_MPS = (
    "Start nvidia-cuda-mps-control -d on the host again, or stop it (echo quit | nvidia-cuda-mps-control) and unset "
    "CUDA_MPS_PIPE_DIRECTORY; a container needs that folder, and the host's IPC namespace (--ipc=host)."
)
MPS = (
    r"MPS client failed to connect to the MPS|MPS server is not ready to accept|MPS client has been terminated by the "
    r"server|resources required to (?:create MPS client|(?:support )?device connections) have been exhausted"
    r"|procedural call between the MPS server and the MPS client failed"
)
"""CUDA's words for its errors 805 to 810."""
FIX_NVML = (
    "Give the container the driver's tools beside what computes: NVIDIA_DRIVER_CAPABILITIES=compute,utility (or all); "
    "on a host, install libnvidia-ml.so.1 of the driver's own version and run ldconfig."
)
FIX_ROCM = (
    "Put the user into the groups of /dev/kfd and /dev/dri/renderD* (usermod -aG render,video); give a container "
    "--device=/dev/kfd --device=/dev/dri and --group-add with the host's numbers of these groups."
)
FIX_LIBCUDA = (
    "Give the container the driver's libraries that compute: NVIDIA_DRIVER_CAPABILITIES=compute,utility (or all) with "
    "NVIDIA's container runtime; on a host, install libcuda.so.1 of the driver's own version and run ldconfig."
)
FIX_TOOLKIT = (
    "Install NVIDIA's container toolkit on the host, then: nvidia-ctk runtime configure --runtime=docker, and restart "
    "docker; for devices of CDI: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml."
)
LOG = (
    Line(
        (
            *("ProcessGroupNCCL is only supp", "No CUDA GPUs are available", "No HIP GPUs are available"),
            *("hipErrorNoDevice", "no ROCm-capable device is detected", "no CUDA-capable device is detected"),
            *("no accelerator device is detected", "Found no NVIDIA driver", "no NVIDIA driver on your system"),
            *("couldn't communicate with the NVIDIA driver", "Torch not compiled with CUDA enabled"),
            "ROCk module is NOT loaded",  # rocminfo's
        )
    ),
    Line(  # of what is linked with the driver's library and does not begin without
        "libcuda.so.1: cannot open",
        r"(?:ImportError|OSError): libcuda\.so\.1: cannot open shared object file",
        told="The driver's library that computes (libcuda.so.1) is not here",
        fix=FIX_LIBCUDA,
    ),
    Line(
        "Unable to open /dev/kfd",  # rocminfo's
        told="This user cannot use AMD's GPUs",
        fix=FIX_ROCM,
    ),
    Line(
        "Module nvidia not found in directory",  # modprobe's
        told="There is no module of NVIDIA's driver for the kernel that runs",
        fix="Build the driver's module for this kernel (dkms autoinstall), or start the kernel that has it.",
    ),
    Line(
        "could not insert 'nvidia",
        r"could not insert 'nvidia(?:[-_]uvm)?'",
        shows="symptom",
        why="the kernel's log says why: no GPU, another driver that holds it, or a module that does not fit",
    ),
    Line(
        "NVRM: ",
        r"NVRM: (?:No NVIDIA (?:GPU|graphics adapter) found|GPU \S+ is already bound to )",
        shows="symptom",
        why="a GPU that is not there and one that another driver holds (nouveau, vfio-pci) show the same",
    ),
    Line(
        ("runtime name: nvidia", "runtime specified nvidia", "able CDI devices nvidia", 'exec: "nvidia-container'),
        told="NVIDIA's container toolkit is not set up on this host",
        fix=FIX_TOOLKIT,
    ),
    Line(
        "could not select device driver",  # Docker without NVIDIA's container toolkit
        r"could not select device driver .{0,40}with capabilities: \[.{0,60}\bgpu\b",
    ),
    Line(
        "nvidia-container-cli: ",
        r"nvidia-container-cli: .{0,120}(?:driver not loaded|no devices? found|libnvidia-ml\.so\S{0,4}: cannot open)",
    ),
    Line(
        "nvidia-container-cli: ",
        r"nvidia-container-cli: (?:initiali[sz]ation|initalization|detection|device|mount|container|ldcache) error: ",
        unless=r"driver not loaded|no devices? found|libnvidia-ml\.so\S{0,4}: cannot open|unsatisfied condition",
        shows="symptom",
        why="what the driver or the container's toolkit has stands behind the colon",
    ),
    Line("find any nvidia-smi", shows="hint", why="a container without the tool may have the GPUs"),
    Line(
        ("Failed to initialize NVML: Unknown Error", "Can't initialize NVML"),  # the latter is torch's
        shows="symptom",
        why="a container that systemd took its GPUs from shows it, and one that may not use them",
    ),
    Line(
        "CUDA unknown error - this may be due to",
        shows="symptom",
        why="a driver that must be loaded anew, after a suspend for example, shows the same",
    ),
    Line("CUDA driver initialization failed", shows="symptom", why="a driver that does not work shows the same"),
    Line(
        "OS call failed or operation not supported on this OS",
        shows="symptom",
        why="a driver that lacks files or rights of the system shows the same",
    ),
    Line(("MPS client", "MPS server", "resources required to "), MPS, told=TOLD_MPS, fix=FIX_MPS),
    Line(  # NCCL from 2.8 on ends with it (src/misc/nvmlwrap.cc), also where torch computes
        "Failed to open libnvidia-ml.so",
        r"NCCL WARN Failed to open libnvidia-ml\.so",
        told="NCCL cannot load the driver's management library (libnvidia-ml.so.1)",
        fix=FIX_NVML,
    ),
)
KFD = "/dev/kfd"
TOOLKIT, NONE_GIVEN = "NVIDIA_VISIBLE_DEVICES", ("void", "none", "")
"""What NVIDIA's container runtime takes for no GPU at all (its documentation, "GPU Enumeration")."""
FIX_CGROUP = (
    "The container's control group does not let it use its GPUs, or no longer does: systemctl daemon-reload takes them "
    "from containers that docker runs with the systemd cgroup driver. Start the container anew; for good, give it each "
    "file (--device=/dev/nvidia0 --device=/dev/nvidiactl --device=/dev/nvidia-uvm) or use CDI."
)
FOLLOWS = (
    "environment/backend-not-built",
    "gpu/mask-mismatch",
    "gpu/driver-library-mismatch",
    "gpu/compat-library",
    "gpu/fabric-manager-not-running",
    "gpu/hardware",
    "nccl/driver-too-old",
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    have = [node for node in cluster.nodes if gpus.visible_gpus(node)]
    alike: dict[tuple[str, bool], list[Node]] = {}
    for node in cluster.nodes:
        if blind(node) or (have and lacks(node)):
            alike.setdefault((rung(node)[0], asked(node)), []).append(node)
    for (why, wanted), nodes in alike.items():
        yield Finding.about(
            nodes,
            f"torch sees no GPU on {names_of(nodes)}: {why}.",
            severity="fail" if wanted else "warn",
            matters=f"{names_of(have[:3])} can: a job that computes on GPUs fails" if have and not wanted else "",
            evidence=(line for node in nodes for line in evidence(node)),
            fixes=[replace(rung(nodes[0])[1], nodes=tuple(node.name for node in nodes))],
            because_of=cause(nodes),
        )


def cause(nodes: list[Node]) -> str | None:
    """Return what else than the devices it is, as torch's own words show."""
    if all(map(gpus.allocator_refused, nodes)):
        return "environment/invalid-variable"
    return "host/memory-limit" if all(map(gpus.cuda_short_of_addresses, nodes)) else None


def asked(node: Node) -> bool:
    """Return whether the job names nccl; without a name torch takes gloo where there are no GPUs."""
    return "nccl" in node.plan.backends(gpus=False)


def lacks(node: Node) -> bool:
    """Return whether its ranks looked for GPUs that the job could use, and none saw any."""
    looked = gpus.looked_at_gpus(node)
    return bool(looked) and not any(facts.visible for facts in looked) and gpus.wants_gpus(node)


def blind(node: Node) -> bool:
    """Return whether that is a pity on this node.

    A machine without GPUs, or a container that was given none, runs its job on processors.
    """
    return lacks(node) and (asked(node) or bool(gpus.driver(node).files) or bool(closed_to_rocm(node)))


def closed_to_rocm(node: Node) -> list[str]:
    """Return what a torch built for ROCm cannot use of AMD's GPUs here, and why: all of them.

    Some may be others' to use."""
    amd, said = node.facts.amd, gpus.gpu_reasons(node)
    rocm = bool(node.identity.torch) and node.identity.cuda is None and not any("CPU build" in text for text in said)
    if amd is None or not rocm:
        return []
    closed = [f"{file.path} ({file.error})" for file in amd.unusable]
    return closed if any(KFD in text for text in closed) or len(closed) >= amd.devices else []


def of_another_make(node: Node) -> str:
    """Return how its torch was built, where that is not for the GPUs that are there; empty where it may be."""
    said, cuda = gpus.gpu_reasons(node), node.identity.cuda
    if node.identity.torch and cuda is None and any("CPU build" in text for text in said):
        return "this torch is a CPU build"
    if cuda is not None and gpus.build_for(node) == "ROCm":
        return f"this torch was built for CUDA {cuda}, and its GPUs are AMD's"
    if cuda is None and gpus.build_for(node) == "CUDA" and any("No HIP GPUs" in text for text in said):
        return "this torch was built for ROCm, and its GPUs are NVIDIA's"
    return ""


def rung(node: Node) -> tuple[str, Fix]:
    """The first rung on the way from the hardware to torch that fails, and what to do there."""
    driver, said = gpus.driver(node), gpus.gpu_reasons(node)
    if built := of_another_make(node):
        text = f"Install a build of torch with {gpus.build_for(node) or 'CUDA'}, the same on every node"
        return built, Fix.on(node, f"{text} (https://pytorch.org/get-started).")
    if closed := closed_to_rocm(node):
        return f"{closed[0]} cannot be used", Fix.on(node, FIX_ROCM)
    if not driver.module and not driver.files:
        if driver.on_bus:
            return "no driver is loaded", Fix.on(node, "Install and load the NVIDIA driver of the node's GPUs.")
        return "it has none that could be seen", Fix.on(
            node, "Start the job where there are GPUs, or use gloo.", flags={"--backend": "gloo"}
        )
    if not driver.files and (asked_for := node.variables.get(TOOLKIT)) in NONE_GIVEN:
        return f"{TOOLKIT}={asked_for or repr('')} keeps them out of its container", Fix.on(
            node, f"Start the container with {TOOLKIT}=all, or the GPUs that it is to have (docker run --gpus all)."
        )
    if not driver.files:
        text = "Give the container its GPUs: docker run --gpus all, podman --device nvidia.com/gpu=all, nvidia.com/gpu "
        return "its device files are not here", Fix.on(node, f"{text}in the pod's limits; on a host, load the driver.")
    if driver.unusable:
        first = driver.unusable[0]
        text = f"Let this user open {first.path} (its mode and group; in a container its device rules)."
        if first.error == "EPERM":  # modes say EACCES: a control group of devices said no
            text = FIX_CGROUP
        return f"{first.path} cannot be used ({first.error})", Fix.on(node, text)
    if driver.no_libcuda and driver.source:
        return f"libcuda.so.1, the driver's library that computes, is not here ({driver.no_libcuda})", Fix.on(
            node, FIX_LIBCUDA
        )
    if driver.devices and all(device.mig for device in driver.devices):
        return "its GPUs are cut up (MIG is on), and no part is given to the job", Fix.on(
            node,
            "Make MIG's instances (nvidia-smi mig -cgi ... -C) and give one to each job; or, for whole GPUs and where "
            "nobody uses parts, turn MIG off (nvidia-smi -mig 0). What there is:",
            commands=("nvidia-smi -L",),
        )
    if any(re.search(MPS, text) for text in said):
        return TOLD_MPS, Fix.on(node, FIX_MPS)
    return said[0] if said else "torch does not say why", Fix.on(
        node,
        "In the job's own environment, find the first of these that fails.",
        commands=("nvidia-smi", "python -c 'import torch; torch.cuda.init()'"),
    )


def evidence(node: Node) -> Iterator[str]:
    driver = gpus.driver(node)
    yield f"{node.name}: torch {node.identity.torch}, CUDA {node.identity.cuda or 'not in this build'}"
    have = f"{len(driver.files)} device file(s), driver {driver.module or 'not loaded'}, {driver.on_bus} on the PCI bus"
    yield f"{node.name}: {have}{f'; NVML: {driver.error}' if driver.error else ''}"
    if node.facts.amd is not None:
        closed = ", ".join(closed_to_rocm(node)[:4])
        told = f"; this user cannot use {closed}" if closed else ""
        yield f"{node.name}: the kernel shows {node.facts.amd.devices} GPU(s) of AMD{told}"
    yield from (f"{node.name}: {text}" for text in gpus.gpu_reasons(node))
