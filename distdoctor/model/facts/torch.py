"""How the import of torch failed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shadow:
    """A file that Python imports in place of the module that torch means."""

    module: str
    file: str
    """The file, or the folder of a package."""
    hides: str | None = None
    """What would be imported without it; None where there is nothing else of that name."""
    entry: str = ""
    """The folder on sys.path that it lies in."""
    by: str = "folder"
    """``folder``: the working folder, taken for the script's own; ``PYTHONPATH``."""
    pythonpath: str | None = None
    """What PYTHONPATH would be without that folder, where it is there by PYTHONPATH."""


@dataclass(frozen=True)
class NcclLibrary:
    """An NCCL that the loader may take: one that a variable puts before torch's own, or an installed package."""

    name: str
    """The library's file, or the package with its version: ``nvidia-nccl-cu12 2.21.5``."""
    by: str = ""
    """``LD_PRELOAD`` or ``LD_LIBRARY_PATH``; empty: a package."""
    without: str | None = None
    """What that variable would be without it; None: nothing would be left."""


@dataclass(frozen=True)
class TorchFailure:
    """What was seen when the import of torch did not end well."""

    type: str = ""
    """The class of the exception; empty where the process ended instead."""
    text: str = ""
    module: str | None = None
    """The module that an ImportError names."""
    errno: int | None = None
    signal: int | None = None
    """The signal that ended the process."""
    status: int | None = None
    """The exit status of the process, where it ended by itself."""
    said: str = ""
    """The end of what it printed."""
    found: str | None = None
    """The folder of the torch that was found; None where there is none on sys.path, or where that is not known."""
    looked: bool = False
    """Whether ``found`` is known."""
    version: str | None = None
    """The version that this folder says it has."""
    built_for: tuple[str, ...] = ()
    """The Pythons that its C extension was built for, as in its file's name: ``cpython-312-x86_64-linux-gnu``."""
    shadows: tuple[Shadow, ...] = ()
    folder_gone: bool = False
    """The working folder was deleted."""
    address_space: int | None = None
    """RLIMIT_AS in bytes; None where there is no limit."""
    data_segment: int | None = None
    """RLIMIT_DATA in bytes, which counts all writable memory of a process; None as before."""
    memory_limit: int | None = None
    """Bytes that the container (cgroup) may use; None where there is no limit or none is seen."""
    oom_kills: int | None = None
    """Processes of the container that the kernel killed for want of memory since this run began."""
    loader: tuple[str, ...] = ()
    """Those of LD_LIBRARY_PATH and LD_PRELOAD that are set."""
    package: str = ""
    """The package other than torch in whose code, or for want of whose content, it failed; empty: none, or not known.
    """
    package_file: str = ""
    """Then: the file of it."""
    cause: str = ""
    """The exception that the one told was raised for, where there was one."""
    noexec: tuple[str, ...] = ()
    """Files of a library that could not be mapped, on file systems that are mounted with noexec."""
    closed: tuple[str, ...] = ()
    """Files and folders of torch that are there, and that this user may not read."""
    settings: tuple[str, ...] = ()
    """Those of PYTHONWARNINGS and TORCH_LOGS that are set."""
    nccl: tuple[NcclLibrary, ...] = ()
    """Where the text names NCCL: each that the loader may take, in its order (ld.so(8)), then the packages."""
