"""Which NCCL libraries the loader may take in place of the one that torch was built with. Runs in the zygote."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PRELOAD, PATH = "LD_PRELOAD", "LD_LIBRARY_PATH"
LIBRARY = "libnccl.so*"
MOST = 10


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
