"""Faults of what is installed: torch, distdoctor, and what Python finds in their place."""

from __future__ import annotations

import shutil
import sysconfig

import distdoctor
from tests.lab.faults import inside, together
from tests.lab.faults.launch import variable
from tests.lab.harness.host import PRIVATE, ROOT
from tests.lab.harness.launch import Fault, Launch

SITE = sysconfig.get_path("purelib")
"""The folder that torch is installed in."""
NO_CUDA = "raise ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')\n"


def torch_removed(*hosts: int) -> Fault:
    """On the named hosts torch is not installed, all else is: another folder lies over Python's site-packages."""

    def inject(launch: Launch) -> None:
        real, other = f"{PRIVATE}/lab/site-packages", f"{PRIVATE}/lab/site-without-torch"
        for index in hosts:
            launch.cluster[index].inside(
                f"set -e; mkdir {real} {other}; mount --bind {SITE} {real}; "
                f"for one in {real}/*; do case $one in {real}/torch|{real}/torch-*) ;; *) ln -s $one {other}/ ;; esac; "
                f"done; mount --bind {other} {SITE}"
            )

    return inject


def torch_installed(launch: Launch) -> None:
    """Install torch where it is missing."""
    for host in launch.cluster:
        host.inside(f"[ -e {SITE}/torch ] || umount {SITE}")


def torch_slow(seconds: float, *hosts: int) -> Fault:
    """On the named hosts the import of torch takes so much longer, as from a file system that others use, too."""
    init, slow = f"{SITE}/torch/__init__.py", f"{PRIVATE}/lab/slow-torch.py"
    build = f"set -e; (cat {init}; echo 'import time; time.sleep({seconds})') > {slow}; mount --bind {slow} {init}"

    def inject(launch: Launch) -> None:
        for index in hosts:
            launch.cluster[index].inside(build)

    return inject


def on_pythonpath(package: str, text: str, *hosts: int) -> Fault:
    """On the named hosts, the first folder of PYTHONPATH has a package of this name."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            folder = f"{PRIVATE}/lab/modules"
            place = launch.cluster[index].anchor.path(folder) / package
            place.mkdir(parents=True)
            (place / "__init__.py").write_text(text)
            for start in launch.on(index):
                start.env["PYTHONPATH"] = f"{folder}:{ROOT}"

    return inject


def other_version(version: str, *hosts: int) -> Fault:
    """On the named hosts, another version of distdoctor is installed."""
    text = (ROOT / "distdoctor/__init__.py").read_text()
    return other_file("distdoctor/__init__.py", text.replace(f'"{distdoctor.__version__}"', f'"{version}"'), *hosts)


def other_protocol(*hosts: int) -> Fault:
    """On the named hosts, one whose nodes speak to each other in another way."""
    name = "distdoctor/session/protocol/messages.py"
    return other_file(name, (ROOT / name).read_text().replace("\nPROTOCOL = ", "\nPROTOCOL = 100 + "), *hosts)


def other_file(name: str, text: str, *hosts: int) -> Fault:
    """On the named hosts, a distdoctor is installed of which a file is another."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            folder = f"{PRIVATE}/lab/other-version"
            root = launch.cluster[index].anchor.path(folder)
            for package in ("distdoctor", "checks"):
                shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
            (root / name).write_text(text)
            for start in launch.on(index):
                start.env["PYTHONPATH"] = folder

    return inject


def usual_installation(launch: Launch) -> None:
    """Install the same distdoctor as everywhere: PYTHONPATH is the usual one again."""
    for start in launch.starts:
        start.env.pop("PYTHONPATH", None)


def older_nccl(*hosts: int) -> Fault:
    """torch loads a library that calls NCCL, as its CUDA builds do; on the hosts LD_LIBRARY_PATH has an older NCCL."""
    folder = f"{PRIVATE}/lab/nccl"
    build = (
        f"set -e; mkdir -p {folder}/new {folder}/old; cd {folder}; "
        "echo 'int ncclCommRegister(void) {{ return 0; }}' | cc -shared -fPIC -x c - -o new/libnccl.so.2 "
        "-Wl,-soname,libnccl.so.2; "
        "echo 'int ncclGetVersion(void) {{ return 21805; }}' | cc -shared -fPIC -x c - -o old/libnccl.so.2 "
        "-Wl,-soname,libnccl.so.2; "
        "echo 'int ncclCommRegister(void); int used(void) {{ return ncclCommRegister(); }}' | cc -shared -fPIC -x c - "
        f"-o libtorch_cuda.so -Wl,--enable-new-dtags,-rpath,{folder}/new -L new -l:libnccl.so.2; "
        f"(cat {SITE}/torch/__init__.py; echo 'ctypes.CDLL(\"{folder}/libtorch_cuda.so\")') > init.py; "
        f"mount --bind init.py {SITE}/torch/__init__.py"
    )

    def inject(launch: Launch) -> None:
        for start in launch.starts:
            start.env["PYTHONDONTWRITEBYTECODE"] = "1"  # the changed file's is not to stay

    return together(
        inject, *(inside(index, build) for index in hosts), variable("LD_LIBRARY_PATH", f"{folder}/old", *hosts)
    )
