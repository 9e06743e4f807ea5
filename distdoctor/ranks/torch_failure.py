"""Failure of ``import torch``, described by the process in which it failed. Runs in the zygote."""

from __future__ import annotations

import ctypes
import glob
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from types import TracebackType
from typing import Any

MAX_TEXT = 1000
CHAIN = 10
"""Limit of the exceptions of a chain."""


def describe(error: BaseException, path: Sequence[str]) -> dict[str, Any]:
    """Return the fields of :class:`distdoctor.model.facts.TorchFailure` that this process knows. ``path``: the job's
    sys.path."""
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


# The torch that is found


def _torch_folder(path: Sequence[str]) -> str | None:
    """Return the folder of the torch that the job's Python finds; a folder without ``__init__.py`` is none."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec("torch", path if finder is PathFinder else None)
        except Exception:
            continue
        if spec is not None and spec.origin is not None:
            return _shown(spec.origin)
    return None


def _shown(origin: str) -> str:
    """Return the folder of a package, else the file."""
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
    """Return the Pythons of the extension: ``torch/_C.cpython-312-x86_64-linux-gnu.so`` ->
    cpython-312-x86_64-linux-gnu."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(match[1] for name in names if (match := re.fullmatch(r"_C\.([\w-]+)\.so", name)))[:5]


# Modules hidden by other files


HOOKS = ("sitecustomize", "usercustomize")
"""Modules made to replace Python's own (site.py); Debian's Python has the first in its standard library."""


def _shadows(error: BaseException, path: Sequence[str]) -> list[dict[str, Any]]:
    """Return the files before the standard library on ``path`` that the failed import took for torch's modules."""
    standard = sysconfig.get_path("stdlib")
    early = list(path).index(standard) if standard in path else 0
    names = dict.fromkeys(name.partition(".")[0] for name in _concerned(error))
    found = (_shadow(name, path, early) for name in names if name not in HOOKS)
    return [shadow for shadow in found if shadow is not None]


def _shadow(name: str, path: Sequence[str], early: int) -> dict[str, Any] | None:
    """Return the file before ``path[early]`` that is taken for this module in place of another; None without one."""
    found = ((place, spec) for place in range(early) if (spec := _find(name, [path[place]])) is not None)
    place, spec = next(found, (0, None))
    if spec is None:
        return None
    entry = path[place]
    hides = _find(name, [e for e in path[place + 1 :] if e != (entry or _working_folder())])
    by = "PYTHONPATH" if _named_by_pythonpath(entry) and (place > 0 or not _has_folder()) else "folder"
    # A file next to the script is the user's own, except torch itself if there is no other.
    if hides is None and name not in sys.stdlib_module_names and (by != "folder" or name == "torch"):
        return None
    return {
        "module": name,
        "file": _shown(spec),
        "hides": _shown(hides) if hides else None,
        "entry": entry or _working_folder(),
        "by": by,
        "pythonpath": _without(entry) if by == "PYTHONPATH" else None,
    }


def _concerned(error: BaseException) -> Iterator[str]:
    """Yield the modules that an import failed in or about, the innermost first."""
    exception: BaseException | None = error
    for _ in range(CHAIN):
        if exception is None:
            return
        for value in (getattr(exception, "name", None), getattr(getattr(exception, "obj", None), "__name__", None)):
            if isinstance(value, str) and isinstance(exception, (ImportError, AttributeError)):
                yield value
        yield from re.findall(r"module '([\w.]+)'", _text(exception))
        frames, trace = [], exception.__traceback__
        while trace is not None:
            frames.append(str(trace.tb_frame.f_globals.get("__name__", "")))
            trace = trace.tb_next
        yield from reversed(frames)
        exception = exception.__cause__ or exception.__context__


def _find(name: str, entries: Sequence[str]) -> str | None:
    """Return the file of the module in these folders; a folder without ``__init__.py`` counts as none."""
    try:
        spec = PathFinder.find_spec(name, list(entries))
    except Exception:
        return None
    return spec.origin if spec is not None else None


def _has_folder() -> bool:
    """Return whether sys.path begins with the working folder."""
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


# Details of an exception beyond its text: whose code failed, and from which files. Runs in the zygote.


MAX_CAUSE = 500
SETTINGS = ("PYTHONWARNINGS", "TORCH_LOGS")
"""Variables that an import of torch may fail on, but for those that its own text names."""
_UNMAPPED = re.compile(r"(\S+\.so[.\d]*): failed to map segment")
_UNOPENED = re.compile(r"(\S+\.so[.\d]*): cannot open shared object")
_NOT_IN = re.compile(r"cannot import name .{1,200} from '([\w.]+)' \((.{1,500})\)$")


def further(
    error: BaseException, text: str, env: Mapping[str, str], torch: str | None, path: Sequence[str] = ()
) -> dict[str, Any]:
    """Return more fields of :class:`distdoctor.model.facts.TorchFailure`. ``text``: the error's; ``torch``: its folder;
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
    """Return the package other than torch in whose code, or for lack of whose content, the import failed, and its file;
    empty without one."""
    if match := _NOT_IN.search(text):
        name, file = match[1].partition(".")[0], match[2]
    else:
        name, file = next(_raised_in(error.__traceback__), ("", ""))
    own = name in ("torch", "functorch", "torchgen", "__main__", "distdoctor")
    return ("", "") if own or name in sys.stdlib_module_names else (name, file)


def _raised_in(trace: TracebackType | None) -> Iterator[tuple[str, str]]:
    """Yield the packages of the frames and their files, the innermost first, without Python's own."""
    frames = []
    while trace is not None:
        frames.append((str(trace.tb_frame.f_globals.get("__name__", "")), trace.tb_frame.f_code.co_filename))
        trace = trace.tb_next
    for module, file in reversed(frames):
        name = module.partition(".")[0]
        if name not in sys.stdlib_module_names:
            yield name, file


def _unmapped(text: str, env: Mapping[str, str], torch: str | None) -> Iterator[str]:
    """Yield the files of the library that could not be mapped, if they are on a file system mounted with noexec: the
    loader says neither which file it took nor why (ld.so(8) has its order)."""
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
    """Yield existing files of torch that this user may not read: the loader says "No such file" of them, and Python
    that there is no such module."""
    match = _UNOPENED.search(text)
    files = [os.path.join(torch, "lib", os.path.basename(match[1]))] if torch and match else []
    folders = [os.path.join(entry, "torch") for entry in path if entry] if torch is None else []
    yield from (file for file in files if os.path.exists(file) and not os.access(file, os.R_OK))
    yield from (folder for folder in folders if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK))


# The loaded NCCL, and those that the loader may take in place of torch's own. Runs in the zygote.


PRELOAD, PATH = "LD_PRELOAD", "LD_LIBRARY_PATH"
LIBRARY = "libnccl.so*"
MOST = 10
LOADED = "libnccl.so.2"


def loaded_version() -> tuple[int, ...]:
    """Return the version of the NCCL that this process has loaded, by its own function; empty without one, as with a
    torch that has NCCL built in. torch.cuda.nccl.version() is the one torch was built with, whatever is installed
    since."""
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
    """Yield the fields of :class:`distdoctor.model.facts.NcclLibrary`, in the loader's order: LD_PRELOAD, the folders
    of LD_LIBRARY_PATH; then NVIDIA's packages on ``path``."""
    preloaded = [word for word in re.split(r"[ :]+", env.get(PRELOAD, "")) if word]  # ld.so(8): spaces or colons
    for file in preloaded:
        if os.path.basename(file).startswith("libnccl.so"):
            yield _library_fields(file, PRELOAD, ":".join(other for other in preloaded if other != file))
    folders = [folder for folder in re.split("[:;]", env.get(PATH, "")) if folder]
    for folder in folders:
        if files := sorted(glob.glob(os.path.join(glob.escape(folder), LIBRARY)))[:1]:
            yield _library_fields(files[0], PATH, ":".join(other for other in folders if other != folder))
    packages = (info for entry in path for info in sorted(glob.glob(f"{glob.escape(entry)}/nvidia_nccl_*.dist-info")))
    for package in [*dict.fromkeys(packages)][:MOST]:
        name, _, version = os.path.basename(package).removesuffix(".dist-info").partition("-")
        yield {"name": f"{name.replace('_', '-')} {version}"}


def _library_fields(file: str, by: str, rest: str) -> dict[str, Any]:
    return {"name": file, "by": by, "without": rest or None}
