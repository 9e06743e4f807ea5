"""Which NCCL is loaded, and which the loader may take in place of torch's own. Runs in the zygote."""

from __future__ import annotations

import ctypes
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PRELOAD, PATH = "LD_PRELOAD", "LD_LIBRARY_PATH"
LIBRARY = "libnccl.so*"
MOST = 10
LOADED = "libnccl.so.2"


def loaded_version() -> tuple[int, ...]:
    """The version of the NCCL that this process has loaded, by its own word; empty where there is none, as with a torch
    that has NCCL built in. torch.cuda.nccl.version() tells which one torch was built with, whatever is installed since.
    """
    number = ctypes.c_int()
    try:
        library = ctypes.CDLL(LOADED, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        if library.ncclGetVersion(ctypes.byref(number)) != 0:
            return ()
    except (OSError, AttributeError):
        return ()
    major, rest = divmod(number.value, 10000 if number.value >= 10000 else 1000)  # nccl.h: NCCL_VERSION_CODE
    return (major, *divmod(rest, 100)) if major else ()


def nccl_libraries(env: Mapping[str, str], path: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The fields of :class:`distdoctor.model.facts.NcclLibrary`, in the order in which the loader looks: what
    LD_PRELOAD names, what lies in the folders of LD_LIBRARY_PATH; then NVIDIA's packages on ``path``."""
    preloaded = [word for word in re.split(r"[ :]+", env.get(PRELOAD, "")) if word]  # ld.so(8): spaces or colons
    for file in preloaded:
        if os.path.basename(file).startswith("libnccl.so"):
            yield _told(file, PRELOAD, ":".join(one for one in preloaded if one != file))
    folders = [folder for folder in re.split("[:;]", env.get(PATH, "")) if folder]
    for folder in folders:
        if files := sorted(glob.glob(os.path.join(glob.escape(folder), LIBRARY)))[:1]:
            yield _told(files[0], PATH, ":".join(one for one in folders if one != folder))
    packages = (one for entry in path for one in sorted(glob.glob(f"{glob.escape(entry)}/nvidia_nccl_*.dist-info")))
    for one in [*dict.fromkeys(packages)][:MOST]:
        name, _, version = os.path.basename(one).removesuffix(".dist-info").partition("-")
        yield {"name": f"{name.replace('_', '-')} {version}"}


def _told(file: str, by: str, rest: str) -> dict[str, Any]:
    return {"name": file, "by": by, "without": rest or None}
