"""Identity, launch variables and user account of this process."""

from __future__ import annotations

import errno
import getpass
import glob
import os
import platform
import pwd
import re
import shutil
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from distdoctor import __version__
from distdoctor.knowledge.settings import ALLOWED, LIBRARY_PATHS
from distdoctor.model.facts import Account, Identity
from distdoctor.model.facts.host import HOSTS_FILE, KERNEL_SETTINGS, NAME_SOURCES, NET_ADMIN, PROGRAMS, SYS_ADMIN
from distdoctor.model.text import fit
from distdoctor.probes.host import proc

LONGEST = 500
LONGEST_PATH = 4_000
"""Limit of the characters; a fix sets the list of folders again, without one of them."""


def variables(env: Mapping[str, str], more: Collection[str] = ()) -> dict[str, str]:
    """Return the variables that decide how a job is launched and connected, each cut to LONGEST or LONGEST_PATH.

    ``more``: further names, which the checks of a site declare.
    """
    longest = dict.fromkeys(LIBRARY_PATHS, LONGEST_PATH)
    return {name: env[name][: longest.get(name, LONGEST)] for name in sorted(env) if name in ALLOWED or name in more}


PACKAGES = frozenset(
    {
        "accelerate",
        "deep-ep",
        "deepspeed",
        "flashinfer-python",
        "lightning",
        "lmcache",
        "megatron-core",
        "mooncake-transfer-engine",
        "nixl",
        "nixl-cu12",
        "nixl-cu13",
        "nvidia-nccl-cu12",
        "nvidia-nccl-cu13",
        "nvidia-nvshmem-cu12",
        "nvidia-nvshmem-cu13",
        "oneccl-bind-pt",
        "pytorch-lightning",
        "ray",
        "sglang",
        "torch-npu",
        "torchcomms",
        "transformer-engine",
        "transformer-engine-torch",
        "transformers",
        "triton",
        "verl",
        "vllm",
        "vllm-ascend",
    }
)
"""Packages that exchange data with the same package on other nodes, or decide which communication library does."""
EFA = Path("/opt/amazon/efa_installed_packages")
"""List that Amazon's EFA installer writes; its first line has the version, which decides libfabric's."""


def packages(folders: Sequence[str], efa: Path = EFA) -> dict[str, str]:
    """Return the versions of ``PACKAGES`` in the folders of a ``sys.path``, by the names of their ``.dist-info``."""
    versions: dict[str, str] = {}
    for folder in folders:
        for entry in proc.names(Path(folder or ".")):
            name, _, version = entry.removesuffix(".dist-info").partition("-")
            name = re.sub(r"[-_.]+", "-", name).lower()
            if entry.endswith(".dist-info") and name in PACKAGES:
                versions.setdefault(name, fit(version))
    if installer := re.search(r"EFA installer version: (\S+)", proc.text(efa)):
        versions["efa-installer"] = fit(installer[1])
    return dict(sorted(versions.items()))


def identity() -> Identity:
    """Return this process on this host. The fields of torch are filled in once it is imported."""
    return Identity(
        hostname=socket.gethostname(),
        boot_id=proc.text("/proc/sys/kernel/random/boot_id"),
        netns=_link("/proc/self/ns/net"),
        pid=os.getpid(),
        distdoctor=__version__,
        python=platform.python_version(),
        user=_user(),
        executable=sys.executable or "",
        kernel=os.uname().release,
        libc=_libc(),
        packages=packages(sys.path),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not be in /etc/passwd
        return str(os.getuid())


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # another C library has no such name
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


# User account: its entry, its home, systemd-logind's clean-up at the end of the last session, and what even root may
# not do here.


NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Variables of Python's getpass.getuser(): the first of these that is not empty, else the user database."""
SETTINGS = (
    "/usr/lib/systemd/logind.conf",
    "/etc/systemd/logind.conf",
    "/usr/lib/systemd/logind.conf.d/*.conf",
    "/run/systemd/logind.conf.d/*.conf",
    "/etc/systemd/logind.conf.d/*.conf",
)
"""Files of logind.conf(5): a later one overrides."""
KEY = "RemoveIPC"
CAPABILITIES = {NET_ADMIN: 12, SYS_ADMIN: 21}
"""Bits of the capabilities (linux/capability.h)."""
PLACES = {HOSTS_FILE: "etc/hosts", NAME_SOURCES: "etc/nsswitch.conf", KERNEL_SETTINGS: "proc/sys/net"}
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
"""Folders that are not in every user's PATH, but in root's."""


def probe_account(env: Mapping[str, str], root: Path = Path("/")) -> Account:
    """Return the account of this user. ``root``: folder that contains the host's files."""
    uid, home = os.getuid(), env.get("HOME")
    try:
        entry = pwd.getpwuid(uid)
        name, of_entry = entry.pw_name, entry.pw_dir
    except KeyError:
        name = of_entry = ""
    return Account(
        uid,
        known=bool(name),
        named=next((variable for variable in NAMES if env.get(variable)), ""),
        home=home,
        home_error=_error(home) if home else "",
        home_of_entry=of_entry,
        remove_ipc=_remove_ipc(root),
        lingers=bool(name) and (root / "var/lib/systemd/linger" / name).exists(),
        in_session=f"/user-{uid}.slice/" in proc.text(root / "proc/self/cgroup"),
        systemd=(root / "run/systemd/system").is_dir(),
        withheld=_withheld(root),
        missing_programs=_missing(env.get("PATH", os.defpath)),
    )


def _withheld(root: Path) -> tuple[str, ...]:
    bounding_set = re.search(r"^CapBnd:\s*([0-9a-f]+)$", proc.text(root / "proc/self/status"), re.MULTILINE)
    bounds = int(bounding_set[1], 16) if bounding_set else -1
    lacking = (name for name, bit in CAPABILITIES.items() if not bounds >> bit & 1)
    return *lacking, *(name for name, place in PLACES.items() if _read_only(root / place))


def _read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _missing(path: str) -> tuple[str, ...]:
    return tuple(name for name in PROGRAMS if not shutil.which(name, path=f"{path}:{SYSTEM_FOLDERS}"))


def _error(folder: str) -> str:
    try:
        os.stat(folder)
    except OSError as err:
        return errno.errorcode.get(err.errno or 0, "")
    return "" if os.access(folder, os.W_OK | os.X_OK) else "EACCES"


def _remove_ipc(root: Path) -> bool | None:
    """Return the set value, else the default in a comment of the distributed file (``#RemoveIPC=no``)."""
    if not (root / "run/systemd/users").is_dir():  # logind keeps it as long as it runs
        return None
    default, configured = "", ""
    for pattern in SETTINGS:
        for path in sorted(glob.glob(str(root / pattern.lstrip("/")))):
            for line in proc.text(path).splitlines():
                key, _, value = line.strip().partition("=")
                if key.strip() == KEY:
                    configured = value.strip()
                elif key.lstrip("# ").strip() == KEY:
                    default = value.strip()
    value = configured or default
    return value.lower() in ("yes", "true", "on", "1") if value else None
