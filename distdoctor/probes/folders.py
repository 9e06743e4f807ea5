"""The folders that jobs write to: whether they still can."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
from collections.abc import Iterator, Mapping

from distdoctor.model.facts import Folder
from distdoctor.probes.account import NAMES
from distdoctor.probes.init_file import mount
from distdoctor.probes.look_up import ASKER
from distdoctor.probes.threads import in_time

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
"""Folders in HOME that are used where no such variable names another."""
LOCKED = ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR")
"""Folders in which Hugging Face's libraries and torch.compile lock files (by the package filelock, with flock(2))."""
DOWNLOADS = ".cache/huggingface"
"""What Hugging Face's libraries use in HOME where no variable names another: there where they have been used."""
TEMPORARY = "/tmp"
"""What TMPDIR is where it is not set; also the use told of it then."""
SECONDS = 1.0
"""For one folder; they are asked all at once."""


async def probe(env: Mapping[str, str]) -> tuple[Folder, ...]:
    """Each folder that there is, once: of several uses of one, the first."""
    uses = await in_time(lambda: list(named(env)), SECONDS) or list(_by_variables(env))
    real = await in_time(lambda: [os.path.realpath(path) for _, path in uses], SECONDS) or [path for _, path in uses]
    unique = dict(zip(reversed(real), reversed(uses), strict=True))
    locked = await in_time(lambda: {path for use, path in uses if _locks(use, path, env)}, SECONDS) or set()
    return tuple(
        await asyncio.gather(
            *(_look(use, path, place, path in locked) for place, (use, path) in reversed(unique.items()))
        )
    )


def named(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Use and path of each folder that is looked at, whether or not it is there."""
    yield from _by_variables(env)
    home = env.get("HOME", "")
    for name, instead in BELOW_HOME.items():
        path = os.path.join(home, name)
        # An ordinary one is as HOME is.
        if os.path.isabs(home) and not env.get(instead) and (os.path.islink(path) or _closed(path)):
            yield f"HOME/{name}", path
    name, temporary = f"torchinductor_{_user(env)}", env.get("TMPDIR") or TEMPORARY
    compiled = os.path.join(temporary, name)
    # Where nothing can be written to the folder above it, another is taken (tempfile.gettempdir()).
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
    """Whom torch.compile takes this user for (torch/_inductor/runtime/cache_dir_utils.py, ``default_cache_dir``), by
    whose name its cache among the temporary files is called."""
    named = next((env[name] for name in NAMES if env.get(name)), "")
    try:
        found = named or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        found = f"uid_{os.getuid()}"
    return re.sub(r'[\\/:*?"<>|]', "_", found)


def _locks(use: str, path: str, env: Mapping[str, str]) -> bool:
    """Whether something locks files there."""
    if use == "HOME":
        named = env.get("HF_HOME") or env.get("XDG_CACHE_HOME")
        return not named and os.path.isdir(os.path.join(path, DOWNLOADS))
    return use in LOCKED


def _closed(path: str) -> bool:
    return os.path.lexists(path) and not os.access(path, os.W_OK | os.X_OK)


async def _look(use: str, path: str, real: str, locked: bool) -> Folder:
    reply = await ASKER.ask("folder", path, SECONDS)
    kind, source = mount(real)
    if len(reply.found) != 6:
        return Folder(use, path, "timeout" if reply.timed_out else "", filesystem=kind, source=source)
    said, free, files, noexec, near, leads = reply.found
    left = None if int(files) < 0 else int(files)
    error = ""
    if locked and not said:
        tried = await ASKER.ask("lock", near or path, SECONDS)
        error = "timeout" if tried.timed_out else next(iter(tried.found), "")
    return Folder(use, path, said, int(free), left, kind, source, bool(noexec), near, leads, error)
