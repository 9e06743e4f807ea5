"""Folders and files of jobs: writing, locking, sharing between nodes, temporary files, build locks, descriptors."""

from __future__ import annotations

import asyncio
import errno
import glob
import os
import pwd
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from distdoctor.knowledge.settings import ALLOCATOR
from distdoctor.model.facts import Account, BuildLock, Folder, InitFile, SharedFolder, TemporaryFolder
from distdoctor.model.launch_settings import INIT_METHOD
from distdoctor.model.text import encodable, fit
from distdoctor.probes.host.identity import NAMES
from distdoctor.probes.host.processes import in_time
from distdoctor.probes.resolver import ASKER
from distdoctor.probes.resolver_worker import MARK, MARK_BYTES

USES = (
    "TMPDIR",
    "HOME",
    "XDG_CACHE_HOME",
    "TORCH_HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_DATASETS_CACHE",
    "VLLM_CACHE_ROOT",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
)
"""Variables that name a folder in which torch, Triton, vLLM, Hugging Face's libraries or Python write."""
BELOW_HOME = {".cache": "XDG_CACHE_HOME", ".triton": "TRITON_CACHE_DIR"}
"""Folders in HOME that are used if no such variable names another."""
LOCKED = ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR")
"""Folders in which Hugging Face's libraries and torch.compile lock files (by the package filelock, with flock(2))."""
DOWNLOADS = ".cache/huggingface"
"""Folder that Hugging Face's libraries use in HOME if no variable names another: it exists if they were used."""
TEMPORARY = "/tmp"
"""Default of TMPDIR; also its name as a use."""
FOLDER_SECONDS = 1.0
"""Limit for one folder; all are probed at once."""


async def probe_folders(env: Mapping[str, str]) -> tuple[Folder, ...]:
    """Return each existing folder once: of several uses of one, the first."""
    uses = await in_time(lambda: list(named_folders(env)), FOLDER_SECONDS) or list(_by_variables(env))
    real = await in_time(lambda: [os.path.realpath(path) for _, path in uses], FOLDER_SECONDS) or [
        path for _, path in uses
    ]
    unique = dict(zip(reversed(real), reversed(uses), strict=True))
    locked = await in_time(lambda: {path for use, path in uses if _uses_locks(use, path, env)}, FOLDER_SECONDS) or set()
    return tuple(
        await asyncio.gather(
            *(_look_at_folder(use, path, place, path in locked) for place, (use, path) in reversed(unique.items()))
        )
    )


def named_folders(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield use and path of each folder to probe, whether or not it exists."""
    yield from _by_variables(env)
    home = env.get("HOME", "")
    for name, instead in BELOW_HOME.items():
        path = os.path.join(home, name)
        # An ordinary one is as HOME is.
        if os.path.isabs(home) and not env.get(instead) and (os.path.islink(path) or _closed(path)):
            yield f"HOME/{name}", path
    name, temporary = f"torchinductor_{_user(env)}", env.get("TMPDIR") or TEMPORARY
    compiled = os.path.join(temporary, name)
    # Another is taken if the folder above it is not writable (tempfile.gettempdir()).
    if not env.get("TORCHINDUCTOR_CACHE_DIR") and _closed(compiled) and not _closed(temporary):
        yield f"TMPDIR/{name}", compiled
    if not env.get("TMPDIR"):
        yield TEMPORARY, TEMPORARY
    try:
        yield ".", os.getcwd()
    except OSError:  # it was deleted
        return


def _by_variables(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for use in USES:
        path = env.get(use, "")
        if os.path.isabs(path):
            yield use, path


def _user(env: Mapping[str, str]) -> str:
    """Return torch.compile's name of this user, which is in the name of its cache among the temporary files
    (torch/_inductor/runtime/cache_dir_utils.py, ``default_cache_dir``)."""
    named = next((env[name] for name in NAMES if env.get(name)), "")
    try:
        user = named or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = f"uid_{os.getuid()}"
    return re.sub(r'[\\/:*?"<>|]', "_", user)


def _uses_locks(use: str, path: str, env: Mapping[str, str]) -> bool:
    """Return whether a library locks files there."""
    if use == "HOME":
        named = env.get("HF_HOME") or env.get("XDG_CACHE_HOME")
        return not named and os.path.isdir(os.path.join(path, DOWNLOADS))
    return use in LOCKED


def _closed(path: str) -> bool:
    return os.path.lexists(path) and not os.access(path, os.W_OK | os.X_OK)


async def _look_at_folder(use: str, path: str, real: str, locked: bool) -> Folder:
    reply = await ASKER.ask("folder", path, FOLDER_SECONDS)
    kind, source = mount(real)
    if len(reply.found) != 6:
        return Folder(use, path, "timeout" if reply.timed_out else "", filesystem=kind, source=source)
    said, free, files, noexec, near, leads = reply.found
    left = None if int(files) < 0 else int(files)
    error = ""
    if locked and not said:
        tried = await ASKER.ask("lock", near or path, FOLDER_SECONDS)
        error = "timeout" if tried.timed_out else next(iter(tried.found), "")
    return Folder(use, path, said, int(free), left, kind, source, bool(noexec), near, leads, error)


# Folders that all nodes are to share: each node leaves a file there, and looks for node 0's.


SHARED_SECONDS = 2.0
"""Limit for one folder; all are probed at once."""
MARK_NAME = re.compile(rf"{re.escape(MARK)}[0-9a-f]{{{2 * MARK_BYTES}}}")
"""Pattern of such a file's name."""


async def leave_marks(given: Iterable[str], init_method: str | None) -> tuple[SharedFolder, ...] | None:
    """Leave a file in each of the folders, and in that of a ``file://`` init method, until the run is over. None
    without any."""
    named = dict.fromkeys(given, "--shared")
    if init_method and init_method.startswith("file://"):
        named.setdefault(os.path.dirname(urlsplit(init_method).path) or "/", INIT_METHOD.flag)
    return tuple(await asyncio.gather(*(_leave(path, by) for path, by in named.items()))) or None


async def look_for_marks(folders: Iterable[SharedFolder], marks: Mapping[str, str]) -> tuple[SharedFolder, ...]:
    """Return the same folders with the result of looking for node 0's files. ``marks``: folder's path -> file name."""
    return tuple(await asyncio.gather(*(_look_for_mark(folder, marks.get(folder.path)) for folder in folders)))


async def _leave(path: str, by: str) -> SharedFolder:
    reply = await ASKER.leave_file(path, SHARED_SECONDS)
    kind, source = await in_time(lambda: mount(os.path.realpath(path)), SHARED_SECONDS) or (None, "")
    error, *name = reply.found or ("timeout" if reply.timed_out else "",)
    return SharedFolder(path, by, error, "".join(name), kind, source)


async def _look_for_mark(folder: SharedFolder, name: str | None) -> SharedFolder:
    if name is None or folder.error in ("timeout", "ENOENT", "ENOTDIR"):
        return folder
    reply = await ASKER.ask("seen", os.path.join(folder.path, name), SHARED_SECONDS)
    if reply.error is not None:
        return folder
    return replace(folder, node0="timeout" if reply.timed_out else "".join(reply.found))


# Folder for temporary files.


def probe_temporary() -> TemporaryFolder:
    """Return Python's temporary folder by $TMPDIR, $TEMP, $TMP, /tmp, /var/tmp, /usr/tmp and the working directory.

    Python tries a file in each until one can be written, here also a folder, and removes them again.
    """
    try:
        folder = tempfile.gettempdir()
    except OSError as err:
        places = (os.environ.get("HOME"), "/dev/shm")
        usable = (place for place in places if place and os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK))
        return TemporaryFolder(None, err.strerror or str(err), next(usable, None))
    error = _unusable(folder)
    return TemporaryFolder(None, error, umask=_umask()) if error else TemporaryFolder(folder)


def _unusable(folder: str) -> str:
    """Return the reason that nothing can be created in a new folder there, as torchrun does; empty: it can."""
    with suppress(OSError):  # such as a full disk, which other probes report
        own = tempfile.mkdtemp(dir=folder)
        inside = os.path.join(own, "inside")
        try:
            os.mkdir(inside, 0o700)
            os.rmdir(inside)
        except PermissionError as err:
            return f"{err.strerror} in a folder just made in {folder}"
        finally:
            os.rmdir(own)
    return ""


def _umask() -> str:
    """Return the umask of this process, by proc(5): to ask the kernel for it is to change it."""
    try:
        with open("/proc/self/status") as status:
            return next((line.split()[1] for line in status if line.startswith("Umask:")), "")
    except OSError:
        return ""


# File of ``--init-method file://``.


SECONDS = 1.0
"""Limit for locking a file."""


def probe_init_file(init_method: str | None) -> InitFile | None:
    """Return the file named by a ``file://`` init method, as it is before the run; None for any other method."""
    if not init_method or not init_method.startswith("file://"):
        return None
    path = urlsplit(init_method).path  # torch decodes no %20 either
    folder = os.path.dirname(path) or "/"
    folder_exists = os.path.isdir(folder)
    writable = os.access(path if os.path.exists(path) else folder, os.W_OK)
    try:
        stat = os.stat(path)
    except OSError:
        device = os.stat(folder).st_dev if folder_exists else None
        return InitFile(path, False, 0, 0.0, folder_exists, writable, device, None, filesystem(folder))
    age = round(max(0.0, time.time() - stat.st_mtime), 1)
    return InitFile(path, True, stat.st_size, age, folder_exists, writable, stat.st_dev, stat.st_ino, filesystem(path))


async def try_init_file(init_method: str | None) -> InitFile | None:
    """Return the result of :func:`probe_init_file`, and whether files there can be locked; None also if it takes too
    long."""
    file, error = await asyncio.gather(in_time(lambda: probe_init_file(init_method), SECONDS), lock_error(init_method))
    return replace(file, lock_error=error) if file else None


async def lock_error(init_method: str | None) -> str:
    """Return the errno's name if files beside that of a ``file://`` init method cannot be locked, as FileStore locks
    its own.

    Empty if they can, without such a file, or if unknown.
    """
    if not init_method or not init_method.startswith("file://"):
        return ""
    folder = os.path.dirname(urlsplit(init_method).path) or "/"
    return next(iter((await ASKER.ask("lock", folder, SECONDS)).found), "")


def filesystem(path: str, table: str = "/proc/self/mounts") -> str | None:
    """Return the type of the file system of ``path`` (nfs4, ext4, ...), from a process's mounts."""
    return mount(path, table)[0]


def mount(path: str, table: str = "/proc/self/mounts") -> tuple[str | None, str]:
    """Return the type, and the mounted source: a device, a server and its folder."""
    best, kind, source = "", None, ""
    try:
        with open(table, "rb") as mounts:
            for line in mounts:
                fields = line.split()
                point = os.fsdecode(fields[1].decode("unicode_escape").encode("latin-1"))  # "\\040" is a space
                if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                    best, kind, source = point, os.fsdecode(fields[2]), os.fsdecode(fields[0])
    except OSError:
        return None, ""
    return kind, source


# Locks of extension builds, for which torch.utils.cpp_extension waits without limit.


MOST = 20
LOCK_NAME = "lock"
"""File in the build's folder that its FileBaton waits for (torch/utils/cpp_extension.py)."""
Identity = tuple[int, int]
"""Device and inode of a file: its path may differ between processes."""


async def probe_build_locks(builders: Mapping[str, Mapping[str, str]]) -> tuple[BuildLock, ...] | None:
    """Return the result of :func:`find_build_locks`; None if a file system is stuck."""
    return await in_time(lambda: find_build_locks(builders), SECONDS)


def find_build_locks(builders: Mapping[str, Mapping[str, str]]) -> tuple[BuildLock, ...]:
    """Return the locks in the build folders of these processes: their numbers in /proc (or ``self``), and the variables
    of each."""
    held: dict[Identity, tuple[str, str]] = {}
    for process, env in builders.items():
        for path in _lock_paths(f"/proc/{process}", env):
            try:
                stat = os.stat(path)
            except OSError:  # the build has ended
                continue
            held.setdefault((stat.st_dev, stat.st_ino), (process, path))
    held = dict(list(held.items())[:MOST])
    holders = _holders(held) if held else {}
    locks = (_lock(path, process, holders.get(file)) for file, (process, path) in held.items())
    return tuple(lock for lock in locks if lock is not None)


def _lock_paths(proc: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the locks' paths below the root of the process (torch/utils/cpp_extension.py, ``_get_build_directory``)."""
    try:
        root, here, user = f"{proc}/root", os.readlink(f"{proc}/cwd"), os.stat(proc).st_uid
    except OSError:  # it has ended, or belongs to another user
        return
    if given := env.get("TORCH_EXTENSIONS_DIR"):
        folder, below = given, f"*/{LOCK_NAME}"
    else:
        cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME") or _home(user), ".cache")
        folder, below = os.path.join(cache, "torch_extensions"), f"*/*/{LOCK_NAME}"
    yield from glob.iglob(os.path.join(glob.escape(root + os.path.join(here, folder)), below))


def _home(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_dir
    except KeyError:
        return "/"


def _lock(path: str, process: str, holder: int | None) -> BuildLock | None:
    inside = path.removeprefix(f"/proc/{process}/root")
    try:
        age = round(max(0.0, time.time() - os.stat(path).st_mtime), 1)
        here = os.path.exists(inside) and os.path.samefile(inside, path)
    except OSError:  # the build has ended
        return None
    kind = filesystem(inside, f"/proc/{process}/mounts")
    return encodable(BuildLock(inside if here else path, age, holder is not None, kind, holder))


def _holders(files: Iterable[Identity]) -> dict[Identity, int]:
    """Return the process, visible to this user, that has each file open: FileBaton keeps it open (file_baton.py)."""
    wanted, holders = set(files), dict[Identity, int]()
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link).endswith(f"/{LOCK_NAME}"):
                stat = os.stat(link)
                if (stat.st_dev, stat.st_ino) in wanted:
                    holders.setdefault((stat.st_dev, stat.st_ino), int(link.split("/")[2]))
        except OSError:
            continue
    return holders


# pidfd_getfd(2): torch takes descriptors of other processes to share expandable segments of CUDA memory
# (c10/cuda/CUDACachingAllocator.cpp).


SETTING = "expandable_segments:true"
TAKES = """
import ctypes, os
library = ctypes.CDLL(None, use_errno=True)
taken = library.syscall(438, os.pidfd_open(os.getppid()), 0, 0)
print(0 if taken >= 0 else ctypes.get_errno())
"""
"""Program that takes a descriptor of its parent, as of any process that is not its child. The number of the call is the
same on all architectures."""
REFUSED = (errno.EPERM, errno.ENOSYS)


async def probe_descriptors(env: Mapping[str, str], account: Account | None) -> Account | None:
    """Return the account with the result. Nothing is tried if no variable asks for expandable segments."""
    name = next((name for name in ALLOCATOR if SETTING in env.get(name, "").lower().replace(" ", "")), None)
    if name is None or account is None:
        return account
    refused = await in_time(_refused, 2 * SECONDS)
    return replace(account, allocator=(name, fit(env[name])), descriptors=refused or "")


def _refused() -> str:
    """Return the errno's name; empty if it is allowed, or unknown."""
    command = [sys.executable, "-S", "-E", "-c", TAKES]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    number = int(said) if said.strip().isdigit() else 0
    return errno.errorcode[number] if number in REFUSED else ""
