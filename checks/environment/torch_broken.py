"""torch is installed, and cannot be imported.

What you see
------------
The job ends at its first line, or just vanishes:

    ImportError: libcudart.so.12: cannot open shared object file: No such file or directory
    ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found
    ModuleNotFoundError: No module named 'torch._C'
    Killed

Why it happens
--------------
torch's own libraries take some hundred MB of memory, and more of address space; they were built for one version of
Python and need libraries of about the age they were built with. Where one of these is not so, where an installation
was not finished, or where the working folder has been deleted, the import fails. From a slow network file system it may
take minutes.

Fix
---
Try `env -u LD_LIBRARY_PATH python -c "import torch"` with the same Python in the same place, which shows the whole
error: where that works, LD_LIBRARY_PATH leads to another CUDA or torch; else install torch anew, with what it needs.

When it is harmless
-------------------
With --until network, which needs no torch. A missing numpy does torch itself no harm, and is not reported.

See also
--------
environment/torch-missing, environment/torch-shadowed, host/open-files-limit
"""

import re
import shlex
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Line,
    Node,
    TorchFailure,
    TorchImportCause,
    fixes_by_command,
    install_torch_command,
    names_of,
    nodes_by_torch_cause,
    pip_command,
    still_importing_torch,
    together,
    torch,
    torch_error_evidence,
)

SIGSEGV = 11
"""What a process dies of that reads where it has no memory (signal(7))."""
SEVERITY = "fail"
LOG = (
    Line(
        ("torch/lib/", "torch/_C"),
        r"(?:ImportError|OSError): .{0,300}(?:torch/(?:lib/|_C).{0,300}(?:cannot (?:open shared object|enable exec)"
        r"|undefined symbol|failed to map|not defined in file)|not found \(required by .{0,300}torch/lib/)",
        unless="undefined symbol: nccl|torch/lib/libtorch_shm",
    ),
    Line(
        ("libtorch", "libc10", "libcudart", "libcublas", "libcudnn", "libcupti", "libcusparse", "libnvJitLink"),
        r"(?:ImportError|OSError): .{0,200}lib(?:torch|c10|cu"
        r"|nv)[\w.+-]{1,80}: (?:cannot open shared object file|undefined symbol|failed to map|cannot enable exec)",
        unless="undefined symbol: nccl|torch/(?:lib/|_C)",
        stack=r"/torch/__init__\.py",  # an extension that does not fit shows the same
    ),
    Line(
        "cannot open shared object file",
        r"(?:ImportError|OSError): lib(?!torch|c10|cu|nv)[\w.+-]{1,80}: cannot open shared object file",
        # torch itself was loading it: the last frame is there, and not that of an extension for another device
        stack=r"/torch/__init__\.py\", line \d{1,6}, in (?!_import_device)(?![\s\S]*File \")",
    ),
    Line(
        ("libcublas", "libcudnn", "libcupti", "libcusparse", "libnvJitLink"),
        r"(?:ImportError|OSError): lib(?:cu|nv)[\w.+-]{1,80}: (?:cannot open shared object file|failed to map)",
        stack=r"\A(?![\s\S]*File \")",  # where nothing says who asked for it: torch is what is linked with them
    ),
    Line(
        ("Could not load library libcudnn", "Unable to load any of {libcudnn"),  # cuDNN's, which then ends it
        told="cuDNN cannot load one of its own libraries",
        fix="Unset LD_LIBRARY_PATH, or install torch anew with the nvidia-cudnn package that it asks for.",
    ),
    Line(
        "OMP: Error #15",  # two OpenMP in one process, of which the second ends it
        fix="Keep one OpenMP in the process: take torch, numpy and the like all from pip, or all from conda.",
    ),
    Line(
        "or one of its dependencies",  # torch/__init__.py on Windows
        r"\[WinError (?!1455\])\d{1,5}\] .{0,300}Error loading .{1,300}\.dll. or one of its dependencies",
        fix="Install Microsoft's Visual C++ Redistributable, and where it is there, torch anew.",
    ),
)
MATTERS = "the job starts so much later"
PREVENTS = "plan agreed"
LOOKS_AT = ("identity.torch",)
LONG_SECONDS = 30.0
"""It takes some two seconds from a local disk."""
WHAT: dict[TorchImportCause, str] = {
    "folder": "the working folder has been deleted",
    "memory": "there is not enough memory for it",
    "killed": "the process was killed (signal 9), as the kernel does where memory runs out",
    "signal": "the process crashes",
    "library": "a library that it needs is not found",
    "symbol": "a library that it needs is another version, or damaged",
    "other-python": "it was built for another Python",
    "incomplete": "its installation is not complete",
    "dependency": "a package that it needs is missing",
    "setting": "a variable has a value that it does not take",
    "warning": "a warning is made an error",
    "plugin": "an extension for another kind of device fails",
    "tls": "a library that it needs finds no room beside those that are loaded",
    "noexec": "a library that it needs lies where nothing can be loaded from (noexec)",
    "closed": "this user may not read it",
    "bytecode": "a file that Python compiled was cut short",
    "package": "another package that it imports fails",
    "openmp": "another OpenMP is loaded beside the one that it brings",
    "stack": "a library that it needs asks for an executable stack, and this system does not give one",
    "not-distributed": "it was built without torch.distributed",
    "other": "it fails",
}
SIGNALS = {
    4: "an instruction that this processor does not have: install a build of torch for this processor",
    6: "it gave up by itself: its last words are above",
    7: "a library's file is shorter than it should be, on a disk that is full or a network file system that went away",
    11: "a library that does not fit the others: look at LD_PRELOAD and LD_LIBRARY_PATH first",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    for kind, bad in nodes_by_torch_cause(cluster, WHAT).items():
        yield Finding.about(
            bad,
            f"torch cannot be imported on {names_of(bad)}: {WHAT[kind]}.",
            evidence=(text for node in bad for text in (torch_error_evidence(node), *around(kind, node))),
            fixes=fixes(cluster, kind, bad),
        )
    slow = still_importing_torch(cluster, LONG_SECONDS)
    if slow:
        yield unfinished(slow)


def unfinished(slow: list[Node]) -> Finding:
    """It may come to an end yet: a warning."""
    text = (
        "Look at the disk or network file system that torch lies on; where many nodes import it at once from the same "
        "one, copy the environment to a local disk before the job."
    )
    return Finding.about(
        slow,
        f"torch was still being imported on {names_of(slow)} when the check ended.",
        title="torch takes very long to be imported",
        severity="warn",
        evidence=(
            f"{node.name}: not done after {node.identity.torch_seconds:.0f} s ({node.identity.executable})"
            for node in slow
        ),
        fixes=(Fix.on(slow, text),),
    )


def failure(node: Node) -> TorchFailure:
    return node.identity.torch_failure or TorchFailure(text=node.identity.torch_error or "")


def around(kind: TorchImportCause, node: Node) -> Iterator[str]:
    """Return what else was seen on the node that has to do with it."""
    its = failure(node)
    if kind in ("memory", "killed"):
        if its.oom_kills:
            yield f"{node.name}: the kernel killed {its.oom_kills} of this container's processes for want of memory"
        if its.address_space is not None:
            yield f"{node.name}: the limit on address space (ulimit -v) is {its.address_space >> 10} kB"
        if its.data_segment is not None:
            yield f"{node.name}: the limit on data (ulimit -d) is {its.data_segment >> 10} kB"
        if its.memory_limit is not None:
            yield f"{node.name}: the container may use {its.memory_limit >> 20} MiB (cgroup memory limit)"
    yield from (
        f"{node.name}: {file} is there, and closed to {node.identity.user or 'this user'}" for file in its.closed
    )
    yield from (f"{node.name}: {file} is on a file system mounted with noexec" for file in its.noexec)
    if its.cause:
        yield f"{node.name}: because of {its.cause}"
    if kind == "package":
        yield f"{node.name}: it failed for {its.package}, which is {its.package_file}"
    if kind in ("setting", "warning") and its.settings:
        yield f"{node.name}: {together(its.settings)} {'are' if len(its.settings) > 1 else 'is'} set"
    if kind in ("library", "symbol", "signal", "tls", "openmp") and its.loader:
        yield f"{node.name}: {together(its.loader)} {'are' if len(its.loader) > 1 else 'is'} set"
    if kind == "other-python":
        yield f"{node.name}: {its.found} was built for {together(its.built_for)}"
    elif its.found:
        yield f"{node.name}: it was found in {its.found}"


def fixes(cluster: Cluster, kind: TorchImportCause, bad: list[Node]) -> Iterator[Fix]:
    if kind == "folder":
        yield Fix.on(bad, "Start the job from a folder that is there: cd out of it, and into the new one of that name.")
    elif kind in ("memory", "killed"):
        yield from memory(bad)
    elif kind == "signal":
        number = failure(bad[0]).signal or 0
        why = SIGNALS.get(number, "look at the kernel log (dmesg) for who sent it")
        if number == SIGSEGV and not any(failure(node).loader for node in bad):
            why = "a library that is damaged, or does not fit the others: install torch again"
        yield Fix.on(bad, f"Signal {number}: {why}.")
        yield look(bad, 2)
    elif kind == "library":
        yield from torch.missing_libraries(bad)
    elif kind == "symbol":
        mixed = [node for node in bad if failure(node).loader]
        if mixed:
            set_ = dict.fromkeys(name for node in mixed for name in failure(node).loader)
            text = "Start the job without them: with them, the loader takes libraries that torch was not built with."
            yield Fix.on(mixed, text, env=dict.fromkeys(set_))
        text = "Install torch again, in a build for this system."
        commands = {node.name: install_torch_command(cluster, node, "--force-reinstall") for node in bad}
        yield from fixes_by_command(bad, text, commands, 2 if mixed else 1)
    elif kind == "other-python":
        tag = together(dict.fromkeys(version(tag) for node in bad for tag in failure(node).built_for))
        yield Fix.on(bad, f"Run the job, and this, with the Python that this torch was built for: {tag}.")
    elif kind == "incomplete":
        commands = {node.name: install_torch_command(cluster, node, "--force-reinstall", "--no-deps") for node in bad}
        yield from fixes_by_command(bad, "Install it again: parts of torch itself are not there.", commands)
    elif kind == "dependency":
        commands = {
            node.name: pip_command(node, "install", (failure(node).module or "").partition(".")[0]) for node in bad
        }
        yield from fixes_by_command(
            bad, "Install the package that torch needs (pip check lists all that miss).", commands
        )
    elif kind == "not-distributed":
        yield Fix.on(bad, "Install a build of torch that has torch.distributed (pytorch.org's for Linux have it).")
    elif kind == "other":
        yield look(bad, 1)
    else:
        yield from torch.remedies_beside_torch(kind, bad)


def memory(bad: list[Node]) -> Iterator[Fix]:
    limits = {node: ulimits(node) for node in bad if ulimits(node)}
    for found in dict.fromkeys(limits.values()):
        text = (
            f"Take the limit on {together(what for what, _ in found)} off, in the shell that starts the job; where "
            "that is refused, it is the scheduler's to give more (SGE: h_vmem; PBS: pvmem)."
        )
        nodes = tuple(node.name for node in limits if limits[node] == found)
        yield Fix(text, nodes, commands=tuple(f"ulimit -{letter} unlimited" for _, letter in found))
    limited = [node.name for node in limits]
    rest = tuple(node.name for node in bad if node.name not in limited)
    if rest:
        text = (
            "Look in the kernel log whether memory ran out. If so, give the job more (the scheduler's --mem, the "
            "container's memory limit), or end what else uses it."
        )
        yield Fix(text, rest, commands=("dmesg | grep -i -e 'out of memory' -e oom-kill",))


def ulimits(node: Node) -> tuple[tuple[str, str], ...]:
    """The limits of this process that may be why, and ulimit's letters for them."""
    its = failure(node)
    limits = (("address space", "v", its.address_space), ("data", "d", its.data_segment))
    return tuple((what, letter) for what, letter, limit in limits if limit is not None)


def look(bad: list[Node], option: int) -> Fix:
    python = bad[0].identity.executable or "python3"
    text = "See the whole error, with the same Python in the same folder."
    return Fix.on(bad, text, option, commands=(shlex.join([python, "-c", "import torch"]),))


def version(tag: str) -> str:
    """``cpython-312-x86_64-linux-gnu`` is Python 3.12."""
    match = re.match(r"cpython-(\d)(\d+)", tag)
    return f"Python {match[1]}.{match[2]}" if match else tag
