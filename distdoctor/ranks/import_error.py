"""What an exception of the import of torch says beyond its text: whose code failed, and from which files. Runs in the
zygote."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

MAX_CAUSE = 500
SETTINGS = ("PYTHONWARNINGS", "TORCH_LOGS")
"""Variables that an import of torch may fail on, but for those that its own text names."""
_UNMAPPED = re.compile(r"(\S+\.so[.\d]*): failed to map segment")
_UNOPENED = re.compile(r"(\S+\.so[.\d]*): cannot open shared object")
_NOT_IN = re.compile(r"cannot import name .{1,200} from '([\w.]+)' \((.{1,500})\)$")


def further(
    error: BaseException, text: str, env: Mapping[str, str], torch: str | None, path: Sequence[str] = ()
) -> dict[str, Any]:
    """More fields of :class:`distdoctor.model.facts.TorchFailure`. ``text``: the error's; ``torch``: its folder;
    ``path``: the job's sys.path."""
    package, file = _package(error, text)
    cause = error.__cause__
    return {
        "package": package,
        "package_file": file,
        "cause": " ".join(f"{type(cause).__name__}: {cause}".split())[:MAX_CAUSE] if cause is not None else "",
        "noexec": list(dict.fromkeys(_unmapped(text, env, torch))),
        "closed": list(_closed(text, path, torch)),
        "settings": [name for name in SETTINGS if env.get(name)],
    }


def _package(error: BaseException, text: str) -> tuple[str, str]:
    """The package other than torch in whose code, or for want of whose content, the import failed, and its file; empty
    where there is none."""
    if match := _NOT_IN.search(text):
        name, file = match[1].partition(".")[0], match[2]
    else:
        name, file = next(_raised_in(error.__traceback__), ("", ""))
    own = name in ("torch", "functorch", "torchgen", "__main__", "distdoctor")
    return ("", "") if own or name in sys.stdlib_module_names else (name, file)


def _raised_in(trace: TracebackType | None) -> Iterator[tuple[str, str]]:
    """The packages of the frames and their files, the innermost first, but for Python's own."""
    frames = []
    while trace is not None:
        frames.append((str(trace.tb_frame.f_globals.get("__name__", "")), trace.tb_frame.f_code.co_filename))
        trace = trace.tb_next
    for module, file in reversed(frames):
        name = module.partition(".")[0]
        if name not in sys.stdlib_module_names:
            yield name, file


def _unmapped(text: str, env: Mapping[str, str], torch: str | None) -> Iterator[str]:
    """The files of the library that could not be mapped, where they lie on a file system from which nothing can be
    loaded (noexec): the loader says neither which file it took nor why (ld.so(8) has its order)."""
    match = _UNMAPPED.search(text)
    folders = [folder for folder in re.split("[:;]", env.get("LD_LIBRARY_PATH", "")) if folder]
    for folder in (
        ["", *folders, *([os.path.join(torch, "lib"), f"{torch}.libs", torch] if torch else [])] if match else []
    ):
        file = os.path.join(folder, match[1]) if match else ""
        try:
            if os.path.isabs(file) and os.stat(file) and os.statvfs(file).f_flag & os.ST_NOEXEC:
                yield file
        except OSError:
            continue


def _closed(text: str, path: Sequence[str], torch: str | None) -> Iterator[str]:
    """What of torch is there, and this user may not read: the loader says "No such file" of it, and Python that there
    is no such module."""
    match = _UNOPENED.search(text)
    files = [os.path.join(torch, "lib", os.path.basename(match[1]))] if torch and match else []
    folders = [os.path.join(entry, "torch") for entry in path if entry] if torch is None else []
    yield from (file for file in files if os.path.exists(file) and not os.access(file, os.R_OK))
    yield from (folder for folder in folders if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK))
