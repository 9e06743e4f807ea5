"""Why ``import torch`` failed, seen from the process in which it did. Runs in the zygote."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from typing import Any

from distdoctor.ranks.import_error import further
from distdoctor.ranks.nccl_libraries import nccl_libraries

MAX_TEXT = 1000
CHAIN = 10
"""How many exceptions of a chain are looked at."""


def describe(error: BaseException, path: Sequence[str]) -> dict[str, Any]:
    """The fields of :class:`distdoctor.model.facts.TorchFailure` that this process knows. ``path``: the
    job's sys.path."""
    folder = _torch_folder(path)
    number = getattr(error, "errno", None)
    name = getattr(error, "name", None) if isinstance(error, ImportError) else None
    return {
        "type": type(error).__name__,
        "text": _text(error)[:MAX_TEXT],
        "module": name if isinstance(name, str) else None,
        "errno": number if isinstance(number, int) else None,
        "found": folder,
        "looked": True,
        "version": _version(folder) if folder else None,
        "built_for": _built_for(folder) if folder else [],
        "shadows": _shadows(error, path),
        **further(error, _text(error), os.environ, folder, path),
        "nccl": list(nccl_libraries(os.environ, path)) if "nccl" in _text(error).lower() else [],
    }


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


# -- which torch ------------------------------------------------------------------------------------------------------


def _torch_folder(path: Sequence[str]) -> str | None:
    """Where the torch lies that the job's Python finds; a folder without ``__init__.py`` is none."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec("torch", path if finder is PathFinder else None)
        except Exception:
            continue
        if spec is not None and spec.origin is not None:
            return _shown(spec.origin)
    return None


def _shown(origin: str) -> str:
    """The folder of a package, else the file."""
    folder, file = os.path.split(origin)
    return folder if file.startswith("__init__.") else origin


def _version(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, "version.py")) as file:
            match = re.search(r"__version__ = ['\"]([\w.+-]{1,60})['\"]", file.read(10_000))
    except (OSError, UnicodeDecodeError):
        return None
    return match[1] if match else None


def _built_for(folder: str) -> list[str]:
    """``torch/_C.cpython-312-x86_64-linux-gnu.so`` was built for cpython-312-x86_64-linux-gnu."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(match[1] for name in names if (match := re.fullmatch(r"_C\.([\w-]+)\.so", name)))[:5]


# -- what hides what --------------------------------------------------------------------------------------------------


HOOKS = ("sitecustomize", "usercustomize")
"""Made to be laid over Python's own (site.py); Debian's Python has the first in its standard library."""


def _shadows(error: BaseException, path: Sequence[str]) -> list[dict[str, Any]]:
    """The files before the standard library on ``path`` that the failed import took for what torch means."""
    standard = sysconfig.get_path("stdlib")
    early = list(path).index(standard) if standard in path else 0
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(name.partition(".")[0] for name in _concerned(error)):
        if name in HOOKS:
            continue
        for place, entry in enumerate(path[:early]):
            spec = _find(name, [entry])
            if spec is None:
                continue
            hides = _find(name, [e for e in path[place + 1 :] if e != (entry or _working_folder())])
            by = "PYTHONPATH" if _named_by_pythonpath(entry) and (place > 0 or not _has_folder()) else "folder"
            # What lies beside the script is the user's own, but for torch itself where there is no other.
            if hides is not None or name in sys.stdlib_module_names or (by == "folder" and name != "torch"):
                found[name] = {
                    "module": name,
                    "file": _shown(spec),
                    "hides": _shown(hides) if hides else None,
                    "entry": entry or _working_folder(),
                    "by": by,
                    "pythonpath": _without(entry) if by == "PYTHONPATH" else None,
                }
            break
    return list(found.values())


def _concerned(error: BaseException) -> Iterator[str]:
    """The modules that an import failed in or about, the innermost first."""
    one: BaseException | None = error
    for _ in range(CHAIN):
        if one is None:
            return
        for value in (getattr(one, "name", None), getattr(getattr(one, "obj", None), "__name__", None)):
            if isinstance(value, str) and isinstance(one, (ImportError, AttributeError)):
                yield value
        yield from re.findall(r"module '([\w.]+)'", _text(one))
        frames, trace = [], one.__traceback__
        while trace is not None:
            frames.append(str(trace.tb_frame.f_globals.get("__name__", "")))
            trace = trace.tb_next
        yield from reversed(frames)
        one = one.__cause__ or one.__context__


def _find(name: str, entries: Sequence[str]) -> str | None:
    """The file of the module in these folders; a folder without ``__init__.py`` counts as none."""
    try:
        spec = PathFinder.find_spec(name, list(entries))
    except Exception:
        return None
    return spec.origin if spec is not None else None


def _has_folder() -> bool:
    """Whether sys.path begins with the working folder."""
    return not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))


def _named_by_pythonpath(entry: str) -> bool:
    return bool(entry) and any(os.path.abspath(e) == entry for e in _pythonpath())


def _without(entry: str) -> str:
    return os.pathsep.join(e for e in _pythonpath() if os.path.abspath(e) != entry)


def _pythonpath() -> list[str]:
    return [e for e in os.environ.get("PYTHONPATH", "").split(os.pathsep) if e]


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
