"""distdoctor in a process of its own, whose failures leave this process as it is."""

from __future__ import annotations

import importlib.util
import json
import os
import site
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distdoctor.own_path import package_parent

INSIDE = "inside"
"""Command that takes its order from stdin; nothing that people type."""
PREFLIGHTS = ("quick", "full", "off")
"""Checks before a job that ``run`` starts."""
ENDING_SECONDS = 5.0
"""Seconds for it to end once it is asked to."""
_START = """
import sys
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]
sys.path += [entry for entry in added if entry not in sys.path]
sys.path.insert(0, sys.argv.pop(1).rpartition("/")[0])
from distdoctor.__main__ import main
main()
"""
"""Program that starts the same distdoctor, wherever the caller imported it from. Its folder identifies it in a list of
processes; its dependencies are found as the caller would find them, too, after all else."""


@dataclass(frozen=True)
class WorkerAnswer:
    """Answer to an order."""

    told: dict[str, Any] | None
    """Result of the order; None if the other process failed."""
    error: str = ""
    """Its stderr then."""


def command(*words: str) -> list[str]:
    """Return the command line of a distdoctor with these words, under this Python and with its flags."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-c", f"added = {_added()!r}{_START}", f"{package_parent()}/distdoctor", *words]


def ask(order: Mapping[str, Any], env: Mapping[str, str], seconds: float, *, aloud: bool = False) -> WorkerAnswer:
    """Give an order, and return its answer within ``seconds``. ``aloud``: its progress goes to stderr.

    It never raises for a failure there; if this process is interrupted, the other one ends first.
    """
    try:
        process = subprocess.Popen(
            command(INSIDE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if aloud else subprocess.PIPE,
            env=_with_torch(env),
        )
    except (OSError, ValueError) as err:
        return WorkerAnswer(None, f"it could not be started: {err}")
    try:
        out, stderr = process.communicate(json.dumps(order).encode(), seconds)
    except subprocess.TimeoutExpired:
        end(process)
        return WorkerAnswer(None, f"it did not end within {seconds:.0f} s")
    except OSError as err:
        end(process)
        return WorkerAnswer(None, str(err))
    except BaseException:
        end(process)
        raise
    try:
        result = json.loads(out)
    except ValueError:
        result = None
    error = (stderr or b"").decode(errors="replace").strip() or f"it ended with exit status {process.returncode}"
    return WorkerAnswer(result, "") if isinstance(result, dict) else WorkerAnswer(None, error)


def _added() -> list[str]:
    """Return the caller's sys.path, without the folder of its script, which may hide anything."""
    first = sys.path[:1] if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)) else []
    paths = [entry for entry in sys.path if isinstance(entry, str)]  # Python skips anything else there
    return [entry for entry in paths if os.path.isabs(entry) and entry not in first]


def _with_torch(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the folder of the caller's torch in PYTHONPATH, if the caller has added it to sys.path
    itself: a new Python would find another torch, or none."""
    try:
        spec = getattr(sys.modules.get("torch"), "__spec__", None) or importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return dict(env)
    if spec is None or not spec.origin:
        return dict(env)
    folder, before = os.path.dirname(os.path.dirname(spec.origin)), env.get("PYTHONPATH", "")
    home = sysconfig.get_paths()
    usual = {home["purelib"], home["platlib"], site.getusersitepackages(), *site.getsitepackages()}
    if folder in {*(usual if not sys.flags.no_site else ()), *before.split(os.pathsep)} or folder not in sys.path[1:]:
        return dict(env)
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, (folder, before)))}


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and make sure that it does."""
    process.terminate()
    try:
        process.wait(ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # the unwritten rest
                pass
