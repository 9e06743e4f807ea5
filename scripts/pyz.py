"""distdoctor.pyz: distdoctor and all that it needs but torch in one file, to copy to nodes and run with their Python.

    python scripts/pyz.py [FILE]         for each Python of PYTHONS, with wheels from where pip is set up to look
    python scripts/pyz.py --here [FILE]  for this Python alone, with what is installed for it; asks nobody

The file runs on Linux of this machine's kind, with glibc. FILE is dist/distdoctor.pyz unless it is given.
"""

from __future__ import annotations

import hashlib
import io
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
SHEBANG = b"#!/usr/bin/env python3\n"
WHEN = (2020, 1, 1, 0, 0, 0)
"""The time of all that is in it: the same contents are the same file."""
SCRIPT = "py-spy"
"""The only program that is taken along; of the other packages their modules are."""
Files = dict[str, bytes]


def build(target: Path, here: bool = False) -> None:
    """Make the file. Raises CalledProcessError where a wheel is not to be had, ValueError where wheels differ."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = own_wheel(Path(folder))
        contents = unzipped(wheel)
        versions: tuple[str, ...] = PYTHONS
        if here:
            versions = (".".join(platform.python_version_tuple()[:2]),)
            merge(contents, installed())
        else:
            for found in downloaded(wheel, Path(folder)):
                merge(contents, unzipped(found))
    write(target, {name: data for name, data in contents.items() if wanted(name)}, versions)


def write(target: Path, contents: Files, versions: Iterable[str]) -> None:
    """The file: a line for the shell, then an archive."""
    start = (ROOT / "scripts/pyz_main.py").read_bytes()
    digest = hashlib.sha256(start + b"".join(name.encode() + b"\0" + data for name, data in sorted(contents.items())))
    head = f"{digest.hexdigest()[:16]}\n{' '.join(versions)}\n".encode()
    below = {f"site/{name}": data for name, data in contents.items()}  # which the archive's own place must not offer
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted({"__main__.py": start, "CONTENTS": head, **below}.items()):
            entry = zipfile.ZipInfo(name, WHEN)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(SHEBANG + packed.getvalue())
    target.chmod(0o755)


def own_wheel(folder: Path) -> Path:
    """distdoctor's own, of this checkout."""
    out = folder / "own"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out))
    return next(out.glob("*.whl"))


def downloaded(wheel: Path, folder: Path) -> Iterator[Path]:
    """The wheels of all that it needs, for each Python; of packages without parts in C, the same for all."""
    machine, pins = platform.machine(), folder / "pins.txt"
    pins.touch()
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in (28, 17, 12, 5)] + [f"manylinux2014_{machine}"]
    for version in PYTHONS:
        out = folder / version
        chosen = [word for one in platforms for word in ("--platform", one)]
        run(
            sys.executable, "-m", "pip", "download", "-q", "-d", str(out), "-c", str(pins), "--only-binary", ":all:",
            "--implementation", "cp", "--python-version", version, *chosen, str(wheel),
        )  # fmt: skip
        wheels = [one for one in sorted(out.glob("*.whl")) if one.name != wheel.name]
        if version == PYTHONS[0]:  # what the oldest can use is good for all
            pins.write_text("".join("{}=={}\n".format(*one.name.split("-")[:2]) for one in wheels))
        yield from wheels


def installed() -> Files:
    """Return the installed distributions that distdoctor requires, with their own requirements."""
    block = (ROOT / "pyproject.toml").read_text().partition("\ndependencies = [\n")[2].partition("\n]")[0]
    found: Files = {}
    for one in closure(re.findall(r'"(.+)"', block)):
        for file in one.files or ():
            path = Path(str(file.locate()))
            if path.is_file() and (path.name == SCRIPT or not str(file).startswith("..")):
                found[f"bin/{SCRIPT}" if path.name == SCRIPT else str(file)] = path.read_bytes()
    return found


def closure(needs: Iterable[str]) -> list[Distribution]:
    """The packages that are needed, and what they need, however far. Raises PackageNotFoundError."""
    waiting, found = [*needs], {}
    while waiting:
        need = Requirement(waiting.pop())
        if need.name not in found and (need.marker is None or need.marker.evaluate({"extra": ""})):
            found[need.name] = distribution(need.name)
            waiting += found[need.name].requires or ()
    return [*found.values()]


def unzipped(wheel: Path) -> Files:
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    return {f"bin/{SCRIPT}" if name.endswith(f".data/scripts/{SCRIPT}") else name: files[name] for name in files}


def merge(contents: Files, more: Files) -> None:
    """Put them together. Raises ValueError where two wheels have different files of one name."""
    for name, data in more.items():
        if wanted(name) and contents.setdefault(name, data) != data and ".dist-info/" not in name:
            raise ValueError(f"{name} is not the same for every Python")


def wanted(name: str) -> bool:
    return not name.endswith(".pyc") and "__pycache__" not in name and ".data/" not in name


def run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--here"]
    file = Path(words[0]) if words else ROOT / "dist/distdoctor.pyz"
    build(file, here="--here" in sys.argv)
    sys.stdout.write(f"{file}: {file.stat().st_size / 1e6:.1f} MB\n")
