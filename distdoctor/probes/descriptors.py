"""Whether a process may take a descriptor of another one, as torch does that shares expandable segments of CUDA memory
(c10/cuda/CUDACachingAllocator.cpp: pidfd_getfd(2))."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace

from distdoctor.knowledge.variables import ALLOCATOR
from distdoctor.model.facts import Account
from distdoctor.model.sanitize import fit
from distdoctor.probes.threads import in_time

SETTING = "expandable_segments:true"
SECONDS = 1.0
TAKES = """
import ctypes, os
library = ctypes.CDLL(None, use_errno=True)
taken = library.syscall(438, os.pidfd_open(os.getppid()), 0, 0)
print(0 if taken >= 0 else ctypes.get_errno())
"""
"""A process takes one of its parent's, as of any that is no child of its own. The number of the call is the same on all
architectures."""
REFUSED = (errno.EPERM, errno.ENOSYS)


async def probe(env: Mapping[str, str], account: Account | None) -> Account | None:
    """The account with it. Nothing is tried where no variable asks for expandable segments."""
    name = next((name for name in ALLOCATOR if SETTING in env.get(name, "").lower().replace(" ", "")), None)
    if name is None or account is None:
        return account
    refused = await in_time(_refused, 2 * SECONDS)
    return replace(account, allocator=(name, fit(env[name])), descriptors=refused or "")


def _refused() -> str:
    """The errno's name; empty where it is allowed, or not known."""
    command = [sys.executable, "-S", "-E", "-c", TAKES]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    number = int(said) if said.strip().isdigit() else 0
    return errno.errorcode[number] if number in REFUSED else ""
