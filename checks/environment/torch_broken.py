"""torch is installed but cannot be imported.

## What you see
The job ends at its first line, or disappears:

    ImportError: libcudart.so.12: cannot open shared object file: No such file or directory
    ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found
    ModuleNotFoundError: No module named 'torch._C'
    Killed

## Why it happens
torch's libraries need some hundred MB of memory, and more address space. They fit one version of Python and system
libraries of about their own age. An unfinished installation or a deleted working folder also breaks the import. From a
slow network file system the import may take minutes.

## Fix
Import torch without LD_LIBRARY_PATH, `env -u LD_LIBRARY_PATH python -c "import torch"`: if that works, LD_LIBRARY_PATH
leads to another CUDA or torch; else reinstall torch with its dependencies, `pip install --force-reinstall torch`.

## Confirm with
`python -c "import torch; print(torch.__version__)"` prints the version, with the job's Python in the job's folder.

## When it is harmless
With --until network, which needs no torch. torch does not need numpy: a missing numpy is not reported.

## See also
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
"""Signal for a read of unmapped memory (signal(7))."""
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
        fix="Unset LD_LIBRARY_PATH, or reinstall torch with the nvidia-cudnn package that it requires.",
    ),
    Line(
        "OMP: Error #15",  # two OpenMP in one process, of which the second ends it
        fix="Keep one OpenMP in the process: install torch, numpy and similar packages from pip alone or conda alone.",
    ),
    Line(
        "or one of its dependencies",  # torch/__init__.py on Windows
        r"\[WinError (?!1455\])\d{1,5}\] .{0,300}Error loading .{1,300}\.dll. or one of its dependencies",
        fix="Install Microsoft's Visual C++ Redistributable; if it is installed, reinstall torch.",
    ),
)
MATTERS = "the job starts later by that time"
PREVENTS = "plan agreed"
LOOKS_AT = ("identity.torch",)
LONG_SECONDS = 30.0
"""It takes some two seconds from a local disk."""
REASONS: dict[TorchImportCause, str] = {
    "folder": "the working folder has been deleted",
    "memory": "not enough memory",
    "killed": "the process was killed (signal 9), often out of memory",
    "signal": "the process crashes",
    "library": "a required library is missing",
    "symbol": "a required library has another version, or is damaged",
    "other-python": "it was built for another Python",
    "incomplete": "its installation is incomplete",
    "dependency": "a required package is missing",
    "setting": "a variable has a value that torch rejects",
    "warning": "a warning is treated as an error",
    "plugin": "an extension for another kind of device fails",
    "tls": "a required library finds no room for its thread-local data",
    "noexec": "a required library is on a file system mounted with noexec",
    "closed": "this user may not read it",
    "bytecode": "a compiled Python file is truncated",
    "package": "another imported package fails",
    "openmp": "another OpenMP library is loaded next to torch's own",
    "stack": "a required library needs an executable stack, which this system forbids",
    "not-distributed": "it was built without torch.distributed",
    "other": "the import fails",
}
SIGNALS = {
    4: "this CPU lacks an instruction: install a build of torch for this CPU",
    6: "the process aborted itself: fix the last error above",
    7: "a library's file is truncated (full disk, or lost network file system): free space or remount, then reinstall",
    11: "a library does not fit the others: unset LD_PRELOAD and LD_LIBRARY_PATH",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    for kind, bad in nodes_by_torch_cause(cluster, REASONS).items():
        yield Finding.about(
            bad,
            f"torch cannot be imported on {names_of(bad)}: {REASONS[kind]}.",
            evidence=(text for node in bad for text in (torch_error_evidence(node), *context_evidence(kind, node))),
            fixes=fixes(cluster, kind, bad),
        )
    slow = still_importing_torch(cluster, LONG_SECONDS)
    if slow:
        yield unfinished(slow)


def unfinished(slow: list[Node]) -> Finding:
    """Return the finding about imports that had not ended; they may still end, so it is a warning."""
    text = "Copy the Python environment to a local disk of each node before the job."
    return Finding.about(
        slow,
        f"{names_of(slow)} still imported torch when the check ended.",
        title="The import of torch takes very long",
        severity="warn",
        evidence=(
            f"{node.name}: not done after {node.identity.torch_seconds:.0f} s ({node.identity.executable})"
            for node in slow
        ),
        fixes=(Fix.on(slow, text),),
    )


def failure(node: Node) -> TorchFailure:
    return node.identity.torch_failure or TorchFailure(text=node.identity.torch_error or "")


def context_evidence(kind: TorchImportCause, node: Node) -> Iterator[str]:
    """Return what else was seen on the node that has to do with it."""
    its = failure(node)
    if kind in ("memory", "killed"):
        if its.oom_kills:
            yield f"{node.name}: the kernel killed {its.oom_kills} of this container's processes: out of memory"
        if its.address_space is not None:
            yield f"{node.name}: the limit on address space (ulimit -v) is {its.address_space >> 10} kB"
        if its.data_segment is not None:
            yield f"{node.name}: the limit on data (ulimit -d) is {its.data_segment >> 10} kB"
        if its.memory_limit is not None:
            yield f"{node.name}: the container may use {its.memory_limit >> 20} MiB (cgroup memory limit)"
    yield from (f"{node.name}: {node.identity.user or 'this user'} may not read {file}" for file in its.closed)
    yield from (f"{node.name}: {file} is on a file system mounted with noexec" for file in its.noexec)
    if its.cause:
        yield f"{node.name}: cause: {its.cause}"
    if kind == "package":
        yield f"{node.name}: the import fails in {its.package}, from {its.package_file}"
    if kind in ("setting", "warning") and its.settings:
        yield f"{node.name}: {together(its.settings)} {'are' if len(its.settings) > 1 else 'is'} set"
    if kind in ("library", "symbol", "signal", "tls", "openmp") and its.loader:
        yield f"{node.name}: {together(its.loader)} {'are' if len(its.loader) > 1 else 'is'} set"
    if kind == "other-python":
        yield f"{node.name}: {its.found} was built for {together(its.built_for)}"
    elif its.found:
        yield f"{node.name}: torch is in {its.found}"


def fixes(cluster: Cluster, kind: TorchImportCause, bad: list[Node]) -> Iterator[Fix]:
    if kind == "folder":
        yield Fix.on(bad, "Start the job from a folder that exists: cd out of this one, then into its replacement.")
    elif kind in ("memory", "killed"):
        yield from memory(bad)
    elif kind == "signal":
        number = failure(bad[0]).signal or 0
        why = SIGNALS.get(number, "find its sender in the kernel log (dmesg)")
        if number == SIGSEGV and not any(failure(node).loader for node in bad):
            why = "a library is damaged, or does not fit the others: reinstall torch"
        yield Fix.on(bad, f"Signal {number}: {why}.")
        yield whole_error_fix(bad, 2)
    elif kind == "library":
        yield from torch.missing_libraries(bad)
    elif kind == "symbol":
        mixed = [node for node in bad if failure(node).loader]
        if mixed:
            set_ = dict.fromkeys(name for node in mixed for name in failure(node).loader)
            text = "Start the job without these variables: with them the loader takes other libraries than torch's."
            yield Fix.on(mixed, text, env=dict.fromkeys(set_))
        text = "Reinstall torch, in a build for this system."
        commands = {node.name: install_torch_command(cluster, node, "--force-reinstall") for node in bad}
        yield from fixes_by_command(bad, text, commands, 2 if mixed else 1)
    elif kind == "other-python":
        tag = together(dict.fromkeys(version(tag) for node in bad for tag in failure(node).built_for))
        yield Fix.on(bad, f"Run the job and distdoctor with the Python that this torch was built for: {tag}.")
    elif kind == "incomplete":
        commands = {node.name: install_torch_command(cluster, node, "--force-reinstall", "--no-deps") for node in bad}
        yield from fixes_by_command(bad, "Reinstall torch: files of it are missing.", commands)
    elif kind == "dependency":
        commands = {
            node.name: pip_command(node, "install", (failure(node).module or "").partition(".")[0]) for node in bad
        }
        yield from fixes_by_command(
            bad, "Install the package that torch needs (`pip check` lists all missing ones).", commands
        )
    elif kind == "not-distributed":
        yield Fix.on(bad, "Install a build of torch that has torch.distributed (pytorch.org's for Linux have it).")
    elif kind == "other":
        yield whole_error_fix(bad, 1)
    else:
        yield from torch.fixes_outside_torch(kind, bad)


def memory(bad: list[Node]) -> Iterator[Fix]:
    limits = {node: ulimits(node) for node in bad if ulimits(node)}
    for limit in dict.fromkeys(limits.values()):
        text = (
            f"Remove the limit on {together(what for what, _ in limit)} in the shell that starts the job; if that is "
            "refused, request more from the scheduler (SGE: h_vmem; PBS: pvmem)."
        )
        nodes = tuple(node.name for node in limits if limits[node] == limit)
        yield Fix(text, nodes, commands=tuple(f"ulimit -{letter} unlimited" for _, letter in limit))
    limited = [node.name for node in limits]
    rest = tuple(node.name for node in bad if node.name not in limited)
    if rest:
        text = (
            "Give the job more memory (the scheduler's --mem, the container's memory limit), or end other processes "
            "that use it. Confirm with:"
        )
        yield Fix(text, rest, commands=("dmesg | grep -i -e 'out of memory' -e oom-kill",))


def ulimits(node: Node) -> tuple[tuple[str, str], ...]:
    """The limits of this process that may be why, and ulimit's letters for them."""
    its = failure(node)
    limits = (("address space", "v", its.address_space), ("data", "d", its.data_segment))
    return tuple((what, letter) for what, letter, limit in limits if limit is not None)


def whole_error_fix(bad: list[Node], option: int) -> Fix:
    python = bad[0].identity.executable or "python3"
    text = "Confirm with: the whole error, from the same Python in the same folder."
    return Fix.on(bad, text, option, commands=(shlex.join([python, "-c", "import torch"]),))


def version(tag: str) -> str:
    """``cpython-312-x86_64-linux-gnu`` is Python 3.12."""
    match = re.match(r"cpython-(\d)(\d+)", tag)
    return f"Python {match[1]}.{match[2]}" if match else tag
