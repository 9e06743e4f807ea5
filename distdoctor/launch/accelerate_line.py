"""accelerate launch: what it is told of machines and processes, and what its configuration file says of them.

Names have ``_`` or ``-`` alike. The file is the one of --config_file, else default_config.yaml below
$HF_HOME/accelerate or the cache folder's huggingface/accelerate (https://huggingface.co/docs/accelerate/package_reference/cli).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from distdoctor.launch.plain_file import text_of
from distdoctor.model.addresses import endpoint
from distdoctor.model.launch_settings import (
    MASTER_ADDR,
    MASTER_PORT,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RDZV_BACKEND,
    RDZV_ENDPOINT,
)
from distdoctor.model.plan import DEFAULT_PORT

_NAMES = ("num_machines", "num_processes", "machine_rank", "main_process_ip", "main_process_port", "rdzv_backend")
_CONFIG = "config_file"
_MOST_BYTES = 1 << 16


def flags(words: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The flags of a check with the same plan. Raises ValueError for processes that the machines cannot share, and for
    a rendezvous that is not known."""
    given = _own_words(words)
    told = {**_file(given.get(_CONFIG) or _default_file(env)), **given}
    machines = _number(told.get("num_machines")) or 1
    processes = _number(told.get("num_processes"))
    found = [f"{NNODES.flag}={machines}"]
    if processes:
        if processes % machines:
            raise ValueError(f"{processes} processes cannot be shared by {machines} machines")
        found.append(f"{NPROC_PER_NODE.flag}={processes // machines}")
    port, backend = _number(told.get("main_process_port")), told.get("rdzv_backend") or "static"
    if machines > 1 and backend not in ("static", "c10d"):
        raise ValueError(f"the rendezvous {backend} is not one that can be checked (static, c10d)")
    if machines > 1 and backend == "c10d":  # it is an endpoint then, with the port of static (utils/launch.py)
        at = endpoint(told.get("main_process_ip", ""), DEFAULT_PORT if port is None else port)
        return (*found, f"{RDZV_BACKEND.flag}={backend}", f"{RDZV_ENDPOINT.flag}={at}")
    if machines > 1:
        found.append(f"{NODE_RANK.flag}={_number(told.get('machine_rank')) or 0}")
        if told.get("main_process_ip"):
            found.append(f"{MASTER_ADDR.flag}={told['main_process_ip']}")
    if port or (port == 0 and machines > 1):  # 0: each machine takes a free one of its own
        found.append(f"{MASTER_PORT.flag}={port}")
    return tuple(found)


def _own_words(words: Sequence[str]) -> dict[str, str]:
    """Its options up to the script or module, which it hands its own words."""
    given: dict[str, str] = {}
    left = [*words]
    while left:
        word = left.pop(0)
        if word.endswith((".py", ".sh")) or word in ("-m", "--module", "--"):
            break
        name, equals, value = word.partition("=")
        name = name.removeprefix("--").replace("-", "_")
        if word.startswith("--") and name in (*_NAMES, _CONFIG):
            given[name] = value if equals else left.pop(0) if left else ""
    return given


def _default_file(env: Mapping[str, str]) -> str:
    cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
    home = env.get("HF_HOME") or os.path.join(cache, "huggingface")
    return os.path.join(home, "accelerate", "default_config.yaml")


def _file(path: str) -> dict[str, str]:
    """Its plain lines: these settings are words and numbers at the top level."""
    text = text_of(path, _MOST_BYTES)
    pairs = re.findall(r"(?m)^[\"']?(\w+)[\"']?:[ \t]*[\"']?([^\s\"'#,]+)", text)
    return {name: value for name, value in pairs if name in _NAMES and value not in ("null", "~")}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
