"""The rank sees no GPU.

## What you see
`ProcessGroupNCCL is only supported with GPUs, no GPUs found!`, `No CUDA GPUs are available`,
`Found no NVIDIA driver on your system`, `Torch not compiled with CUDA enabled`.

## Why it happens
torch is a CPU build, CUDA_VISIBLE_DEVICES is empty, or no driver is loaded. A container lacks --gpus or libcuda
(NVIDIA_DRIVER_CAPABILITIES=utility), or systemd removed its GPUs ("Failed to initialize NVML: Unknown Error"). MIG is
on without an instance. With AMD GPUs, the user may not open /dev/kfd and /dev/dri/renderD*.

## Fix
Start the container with `docker run --gpus all`, or load the driver on the host with `modprobe nvidia`. If torch is a
CPU build, install one for CUDA: `pip install torch --index-url https://download.pytorch.org/whl/cu126`.

## Confirm with
`nvidia-smi`, then `python -c "import torch; print(torch.version.cuda, torch.cuda.is_available())"`, in
the job's environment. The first command that fails shows the cause.

## When it is harmless
Never.

## See also
gpu/fewer-than-ranks, environment/backend-not-built
"""

import re
from dataclasses import replace

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, names_of

SEVERITY = "fail"
MATTERS = "the job runs on CPUs with gloo, although the node has GPUs"
PREVENTS = "nccl group formed"
MPS_REFUSES = "CUDA's multi-process service (MPS) refuses the rank"
FIX_MPS = (
    "Restart MPS on the host: `echo quit | nvidia-cuda-mps-control; nvidia-cuda-mps-control -d`. "
    "A container needs the folder of CUDA_MPS_PIPE_DIRECTORY and --ipc=host."
)
MPS = (
    r"MPS client failed to connect to the MPS|MPS server is not ready to accept|MPS client has been terminated by the "
    r"server|resources required to (?:create MPS client|(?:support )?device connections) have been exhausted"
    r"|procedural call between the MPS server and the MPS client failed"
)
"""CUDA's texts of its errors 805 to 810."""
FIX_NVML = (
    "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility. "
    "On a host, install libnvidia-ml.so.1 in the driver's version and run `ldconfig`."
)
FIX_ROCM = (
    "Add the user to the GPU groups: `usermod -aG render,video USER`. "
    "Start a container with --device=/dev/kfd --device=/dev/dri --group-add video."
)
FIX_LIBCUDA = (
    "Start the container in NVIDIA's runtime with NVIDIA_DRIVER_CAPABILITIES=compute,utility. "
    "On a host, install libcuda.so.1 in the driver's version and run `ldconfig`."
)
FIX_TOOLKIT = (
    "Install nvidia-container-toolkit on the host, run `nvidia-ctk runtime configure --runtime=docker`, then restart "
    "docker. For CDI devices, run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`."
)
LOG = (
    Line(  # oneCCL: ze_fd_manager.cpp opens all of /dev/dri/by-path
        ("init_device_fds", "fill_device_fds"),
        r"(?:init|fill)_device_fds.{0,80}(?:opendir failed|open failed)",
        told="The container has no GPU device files (/dev/dri)",
        fix="Start the container with `--device /dev/dri -v /dev/dri/by-path:/dev/dri/by-path`. Confirm with: "
        "`ls -l /dev/dri/by-path` in the container.",
    ),
    Line(
        (
            *("ProcessGroupNCCL is only supp", "No CUDA GPUs are available", "No HIP GPUs are available"),
            *("hipErrorNoDevice", "no ROCm-capable device is detected", "no CUDA-capable device is detected"),
            *("no accelerator device is detected", "Found no NVIDIA driver", "no NVIDIA driver on your system"),
            *("couldn't communicate with the NVIDIA driver", "Torch not compiled with CUDA enabled"),
            "ROCk module is NOT loaded",  # rocminfo's
        )
    ),
    Line(  # of programs linked with the driver's library
        "libcuda.so.1: cannot open",
        r"(?:ImportError|OSError): libcuda\.so\.1: cannot open shared object file",
        told="The driver's CUDA library (libcuda.so.1) is missing",
        fix=FIX_LIBCUDA,
    ),
    Line(
        "Unable to open /dev/kfd",  # rocminfo's
        told="This user cannot use AMD's GPUs",
        fix=FIX_ROCM,
    ),
    Line(
        "Module nvidia not found in directory",  # modprobe's
        told="NVIDIA's driver has no module for the running kernel",
        fix="Build the driver's module for this kernel (`dkms autoinstall`), or boot a kernel that has it. "
        "Confirm with: `dkms status`.",
    ),
    Line(
        "could not insert 'nvidia",
        r"could not insert 'nvidia(?:[-_]uvm)?'",
        shows="symptom",
        why="no GPU, another driver and a wrong module show the same; the kernel log tells them apart",
    ),
    Line(
        "NVRM: ",
        r"NVRM: (?:No NVIDIA (?:GPU|graphics adapter) found|GPU \S+ is already bound to )",
        shows="symptom",
        why="a missing GPU and one held by another driver (nouveau, vfio-pci) show the same",
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
        why="the text after the colon names the cause",
    ),
    Line("find any nvidia-smi", shows="hint", why="a container without the tool may still have the GPUs"),
    Line(
        ("Failed to initialize NVML: Unknown Error", "Can't initialize NVML"),  # the latter is torch's
        shows="symptom",
        why="a container that lost its GPUs to systemd and one without access show the same",
    ),
    Line(
        "CUDA unknown error - this may be due to",
        shows="symptom",
        why="a driver that must be reloaded (after a suspend) shows the same",
    ),
    Line("CUDA driver initialization failed", shows="symptom", why="a driver that does not work shows the same"),
    Line(
        "OS call failed or operation not supported on this OS",
        shows="symptom",
        why="a driver without some files or permissions shows the same",
    ),
    Line(("MPS client", "MPS server", "resources required to "), MPS, told=MPS_REFUSES, fix=FIX_MPS),
    Line(  # NCCL from 2.8 on fails with it (src/misc/nvmlwrap.cc), even if torch computes
        "Failed to open libnvidia-ml.so",
        r"NCCL WARN Failed to open libnvidia-ml\.so",
        told="NCCL cannot load the driver's management library (libnvidia-ml.so.1)",
        fix=FIX_NVML,
    ),
)
KFD = "/dev/kfd"
TOOLKIT, NONE_GIVEN = "NVIDIA_VISIBLE_DEVICES", ("void", "none", "")
"""Values with which NVIDIA's container runtime adds no GPU (its documentation, "GPU Enumeration")."""
FIX_CGROUP = (
    "Recreate the container with --device=/dev/nvidia0 --device=/dev/nvidiactl --device=/dev/nvidia-uvm, or use CDI: "
    "its control group denies the GPUs. With docker's systemd cgroup driver, `systemctl daemon-reload` removes them."
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
    by_reason: dict[tuple[str, bool], list[Node]] = {}
    for node in cluster.nodes:
        if needs_gpus(node) or (have and lacks(node)):
            by_reason.setdefault((failing_layer(node)[0], names_nccl(node)), []).append(node)
    for (why, wanted), nodes in by_reason.items():
        yield Finding.about(
            nodes,
            f"torch sees no GPU on {names_of(nodes)}: {why}.",
            severity="fail" if wanted else "warn",
            matters=f"{names_of(have[:3])} sees GPUs; a job on GPUs fails" if have and not wanted else "",
            evidence=(line for node in nodes for line in evidence(node)),
            fixes=[replace(failing_layer(nodes[0])[1], nodes=tuple(node.name for node in nodes))],
            because_of=cause(nodes),
        )


def cause(nodes: list[Node]) -> str | None:
    """Return the other check that explains it, by torch's own error."""
    if all(map(gpus.allocator_refused, nodes)):
        return "environment/invalid-variable"
    return "host/memory-limit" if all(map(gpus.cuda_short_of_addresses, nodes)) else None


def names_nccl(node: Node) -> bool:
    """Return whether the job names nccl; without a name torch uses gloo if there are no GPUs."""
    return "nccl" in node.plan.backends(gpus=False)


def lacks(node: Node) -> bool:
    """Return whether the node's ranks looked for GPUs that the job could use, and none sees any."""
    looked = gpus.looked_at_gpus(node)
    return bool(looked) and not any(facts.visible for facts in looked) and gpus.wants_gpus(node)


def needs_gpus(node: Node) -> bool:
    """Return whether missing GPUs are a problem on this node.

    A machine without GPUs, or a container without them, runs its job on CPUs.
    """
    return lacks(node) and (names_nccl(node) or bool(gpus.driver(node).files) or bool(closed_to_rocm(node)))


def closed_to_rocm(node: Node) -> list[str]:
    """Return the device files of AMD GPUs that this ROCm torch cannot open, with reasons; empty unless it lacks all."""
    amd, reasons = node.facts.amd, gpus.gpu_reasons(node)
    rocm = bool(node.identity.torch) and node.identity.cuda is None and not any("CPU build" in text for text in reasons)
    if amd is None or not rocm:
        return []
    closed = [f"{file.path} ({file.error})" for file in amd.unusable]
    return closed if any(KFD in text for text in closed) or len(closed) >= amd.devices else []


def wrong_build(node: Node) -> str:
    """Return the build of the node's torch if it does not fit its GPUs; else an empty text."""
    reasons, cuda = gpus.gpu_reasons(node), node.identity.cuda
    if node.identity.torch and cuda is None and any("CPU build" in text for text in reasons):
        return "this torch is a CPU build"
    if cuda is not None and gpus.build_for(node) == "ROCm":
        return f"this torch was built for CUDA {cuda}, but the GPUs are from AMD"
    if cuda is None and gpus.build_for(node) == "CUDA" and any("No HIP GPUs" in text for text in reasons):
        return "this torch was built for ROCm, but the GPUs are from NVIDIA"
    return ""


def failing_layer(node: Node) -> tuple[str, Fix]:
    """Return the first layer between hardware and torch that fails, and its fix."""
    driver, reasons = gpus.driver(node), gpus.gpu_reasons(node)
    if built := wrong_build(node):
        text = f"Install the same build of torch for {gpus.build_for(node) or 'CUDA'} on every node"
        return built, Fix.on(node, f"{text} (https://pytorch.org/get-started).")
    if closed := closed_to_rocm(node):
        return f"the user cannot open {closed[0]}", Fix.on(node, FIX_ROCM)
    if not driver.module and not driver.files:
        if driver.on_bus:
            return "no driver is loaded", Fix.on(
                node,
                "Install and load the NVIDIA driver: `modprobe nvidia`. Confirm with: `lsmod | grep nvidia`, `dmesg "
                "| grep NVRM`.",
            )
        return "the node has no GPU", Fix.on(
            node, "Start the job on nodes with GPUs, or use gloo.", flags={"--backend": "gloo"}
        )
    if not driver.files and (asked_for := node.variables.get(TOOLKIT)) in NONE_GIVEN:
        return f"{TOOLKIT}={asked_for or repr('')} removes them from the container", Fix.on(
            node, f"Start the container with {TOOLKIT}=all: `docker run --gpus all`."
        )
    if not driver.files:
        text = "Start the container with GPUs (`docker run --gpus all`; Kubernetes: nvidia.com/gpu in the pod's limits)"
        return "its device files are missing", Fix.on(node, f"{text}; on a host, load the driver: `modprobe nvidia`.")
    if driver.unusable:
        first = driver.unusable[0]
        text = f"Allow this user to open {first.path}: `chmod a+rw {first.path}` (container: its device rules)."
        if first.error == "EPERM":  # file modes give EACCES; a device control group gives EPERM
            text = FIX_CGROUP
        return f"the user cannot open {first.path} ({first.error})", Fix.on(node, text)
    if driver.no_libcuda and driver.source:
        return f"the driver's CUDA library, libcuda.so.1, is missing ({driver.no_libcuda})", Fix.on(node, FIX_LIBCUDA)
    if driver.devices and all(device.mig for device in driver.devices):
        return "MIG is on for its GPUs, and the job has no instance", Fix.on(
            node,
            "Create MIG instances (`nvidia-smi mig -cgi 9 -C`) and assign one to each job, or turn MIG off "
            "(`nvidia-smi -mig 0`). Confirm with:",
            commands=("nvidia-smi -L",),
        )
    if any(re.search(MPS, text) for text in reasons):
        return MPS_REFUSES, Fix.on(node, FIX_MPS)
    return reasons[0] if reasons else "torch gives no reason", Fix.on(
        node,
        "Fix the first command that fails in the job's environment:",
        commands=("nvidia-smi", "python -c 'import torch; torch.cuda.init()'"),
    )


def evidence(node: Node) -> Iterator[str]:
    driver = gpus.driver(node)
    yield f"{node.name}: torch {node.identity.torch}, CUDA {node.identity.cuda or 'not in this build'}"
    have = f"{len(driver.files)} device file(s), driver {driver.module or 'not loaded'}, {driver.on_bus} on the PCI bus"
    yield f"{node.name}: {have}{f'; NVML: {driver.error}' if driver.error else ''}"
    if node.facts.amd is not None:
        closed = ", ".join(closed_to_rocm(node)[:4])
        access = f"; this user cannot open {closed}" if closed else ""
        yield f"{node.name}: the kernel shows {node.facts.amd.devices} AMD GPU(s){access}"
    yield from (f"{node.name}: {text}" for text in gpus.gpu_reasons(node))
