"""Build the release in dist/ and try each file of it in an empty environment of each Python that is here.

    python scripts/release.py            build, check and try wheel, sdist and pyz
    python scripts/release.py --build    build and check only
    python scripts/release.py --pristine build, then try wheel, pyz and Dockerfile in a fresh Debian 12 (root)
    python scripts/release.py --image    only the steps of the Dockerfile there, with the wheel of the last commit

The files come from the last commit, built twice in two folders, and must be identical byte by byte. pip gets packages
from where it is set up to look. A Python for which a wheel of torch is on this machine also runs a whole check.
Exit status 0 only if all of it works.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST, BUILD = ROOT / "dist", ROOT / "build"
MINORS = range(10, 15)
"""Minor versions of Python 3 that the release supports."""
TORCH = next(line for line in (ROOT / "constraints.txt").read_text().split() if line.startswith("torch=="))
LOG = (
    "[rank0]: Traceback (most recent call last):\n"
    "[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:144] connect [127.0.1.1]:41904: "
    "Connection refused\n"
)
CAUSE = "gloo/loopback-address"
"""The check that LOG shows."""
DOCKERFILE = ROOT / "docs/kubernetes/Dockerfile"
DEBIAN = ("python3", "python3-venv", "python3-pip", "ca-certificates")


class Failure(Exception):
    """A step of the release that did not come out as it must."""


def run(*command: str | Path, cwd: Path = ROOT, status: int = 0, env: dict[str, str] | None = None) -> str:
    """Return what a command prints. Raises Failure unless it ends with ``status``."""
    words = [str(word) for word in command]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=cwd, env={**clean, **(env or {})}, capture_output=True, text=True, check=False)
    if done.returncode != status:
        raise Failure(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# The files.


def checkout(folder: Path) -> Path:
    """Return a folder with the files of the last commit."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    run("git", "archive", "-o", archive, "HEAD")
    run("tar", "-xf", archive, "-C", folder)
    return folder


def build(source: Path, out: Path, pyz: bool = True) -> dict[str, Path]:
    """Return wheel, sdist and pyz of a checkout by kind, built in ``out``."""
    run(sys.executable, "-m", "hatchling", "build", "-d", out, cwd=source)
    if pyz:
        run(sys.executable, source / "scripts/pyz.py", out / "distdoctor.pyz", cwd=source)
    kinds = {".whl": "wheel", ".gz": "sdist", ".pyz": "pyz"}
    return {kinds[path.suffix]: path for path in sorted(out.iterdir()) if path.suffix in kinds}


def build_twice(folder: Path) -> dict[str, Path]:
    """Return the files, in dist/. Raises Failure if two builds differ."""
    os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct").strip()
    built = []
    for name, mask, zone in (("one", 0o022, "UTC"), ("another", 0o077, "Asia/Tokyo")):
        os.umask(mask)
        os.environ["TZ"] = zone
        built.append(build(checkout(folder / name / "source"), folder / name / "dist"))
    os.umask(0o022)
    del os.environ["TZ"]
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    sums = []
    for kind, path in built[0].items():
        digests = [hashlib.sha256(one[kind].read_bytes()).hexdigest() for one in built]
        if len(set(digests)) > 1:
            raise Failure(f"two builds of {path.name} differ")
        shutil.copy2(path, DIST / path.name)
        (DIST / path.name).chmod(0o755 if kind == "pyz" else 0o644)
        sums.append(f"{digests[0]}  {path.name}\n")
        say(f"{kind:<6} {path.stat().st_size / 1e6:5.2f} MB  identical in two builds  {digests[0][:16]}")
    (DIST / "SHA256SUMS").write_text("".join(sums))
    return {kind: DIST / path.name for kind, path in built[0].items()}


def check_metadata(files: dict[str, Path]) -> None:
    """Check what the package index would refuse: metadata, and a README that does not render. Raises Failure."""
    run(sys.executable, "-m", "twine", "check", "--strict", files["wheel"], files["sdist"])
    named = files["wheel"].name.split("-")[1]
    if files["sdist"].name != f"distdoctor-{named}.tar.gz" or named not in run(files["pyz"], "--version"):
        raise Failure("the files have different versions")
    say(f"metadata and README pass twine check --strict; version {named} in all of them")


# Environments.


def pythons() -> Iterator[Path]:
    """Yield each Python of a supported version that is on this machine, one for each full version."""
    known = set()
    folders = [*map(Path, os.environ["PATH"].split(os.pathsep)), *Path.home().glob(".pyenv/versions/*/bin")]
    for folder in (Path("/usr/bin"), *folders):
        for name in ("python3", *(f"python3.{minor}" for minor in MINORS)):
            path = folder / name
            if "shims" in path.parts or not os.access(path, os.X_OK):
                continue
            version = run(path, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3], sys.base_prefix)").strip()
            minor = int(version.split(".")[1])
            if minor in MINORS and version not in known:
                known.add(version)
                yield path


def local_torch(python: Path) -> bool:
    """Return whether a wheel of torch for this Python is in the folders that pip looks in."""
    words = ("--dry-run", "--ignore-installed", "--no-deps", "--no-index", "-q", TORCH)
    return not subprocess.run([python, "-m", "pip", "install", *words], capture_output=True, check=False).returncode


def environment(python: Path, folder: Path) -> Path:
    """Return the Python of a new, empty environment."""
    run(python, "-m", "venv", folder)
    return folder / "bin/python"


def try_command(program: Sequence[str | Path], folder: Path, *words: str) -> str:
    """Run check and diagnose. Return their times. Raises Failure."""
    log, times = folder / "train.log", []
    log.write_text(LOG)
    for arguments, status, needed in ((("check", *words), 0, "PASS"), (("diagnose", str(log)), 1, CAUSE)):
        began = time.monotonic()
        printed = run(*program, *arguments, cwd=folder, status=status, env={"HOME": str(folder)})
        if needed not in printed:
            raise Failure(f"{' '.join(arguments)} does not name {needed}:\n{printed}")
        times.append(f"{' '.join(arguments).removesuffix(f' {log}')} {time.monotonic() - began:.1f} s")
    return ", ".join(times)


def try_on(python: Path, files: dict[str, Path], folder: Path) -> None:
    """Install each file into an empty environment and run it there, without torch and with it. Raises Failure."""
    version = run(python, "-V").split()[1]
    torch = environment(python, folder / "torch")
    has_torch = local_torch(torch)
    if has_torch:
        run(torch, "-m", "pip", "install", "-q", TORCH)
    for kind, file in files.items():
        place = folder / kind
        own, began = environment(python, place), time.monotonic()
        if kind != "pyz":
            run(own, "-m", "pip", "install", "-q", file)
        installed = f"installed in {time.monotonic() - began:.0f} s; " if kind != "pyz" else ""
        program = [own, file] if kind == "pyz" else [place / "bin/distdoctor"]
        times = try_command(program, place, "--until", "network")
        if has_torch:
            site, packages = (next(one.glob("lib/python3*/site-packages")) for one in (place, torch.parents[1]))
            (site / "torch.pth").write_text(f"{packages}\n")
            times += "; with torch: " + try_command(program, place)
        say(f"Python {version:<8} {kind:<6} {installed}{times}")


# A pristine Debian 12.


class Debian:
    """A root file system that debootstrap made, in which commands run with Debian's own Python, or that of /root/v."""

    def __init__(self, root: Path) -> None:
        run("debootstrap", "--variant=minbase", f"--include={','.join(DEBIAN)}", "bookworm", root)
        certificate = os.environ.get("PIP_CERT")
        if certificate:
            shutil.copy(certificate, root / "etc/ssl/certs/ca-certificates.crt")
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        # As Debian's installer writes it.
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {socket.gethostname()}\n")
        self.root, wheels = root, os.environ.get("PIP_FIND_LINKS", "")
        mounts = f"mount -t proc proc {root}/proc; mount --rbind /dev {root}/dev; mount -t sysfs sys {root}/sys"
        mounts += f"; mount --bind {wheels} {root}/mnt" if wheels else ""
        enter = f'{mounts}; exec chroot {root} "$@"'
        kept = {name: value for name, value in os.environ.items() if name.lower().endswith(("_proxy", "cert_file"))}
        pip = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **({"PIP_FIND_LINKS": "/mnt"} if wheels else {})}
        path = "/root/v/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        words = [f"{name}={value}" for name, value in {**kept, **pip, "HOME": "/root", "PATH": path}.items()]
        spaces = ("--mount", "--pid", "--fork", "--kill-child")
        self._enter = ("unshare", *spaces, "sh", "-ec", enter, "sh", "env", "-i", *words)

    def step(self, name: str, *command: str, status: int = 0) -> None:
        """Run a command and print its time. Raises Failure."""
        began = time.monotonic()
        run(*self._enter, *command, status=status)
        say(f"Debian 12, {name}: {time.monotonic() - began:.1f} s")

    def with_torch(self) -> None:
        """Install torch into /root/v, as the image of a job has it."""
        self.step("python3 -m venv", "python3", "-m", "venv", "/root/v")
        self.step("torch", "python3", "-m", "pip", "install", "-q", TORCH)


def pristine(files: dict[str, Path], folder: Path) -> None:
    """Try pyz and wheel, and then the Dockerfile. Raises Failure."""
    debian, log = Debian(folder / "debian"), "/root/train.log"
    wheel, pyz = (f"/root/{files[kind].name}" for kind in ("wheel", "pyz"))
    for path in (files["wheel"], files["pyz"]):
        shutil.copy(path, debian.root / "root" / path.name)
    (debian.root / "root/train.log").write_text(LOG)
    debian.step("pyz: check, without pip", "python3", pyz, "check", "--until", "network")
    debian.step("pyz: diagnose", "python3", pyz, "diagnose", log, status=1)
    debian.with_torch()
    debian.step("pyz: check", "python3", pyz, "check")
    debian.step("pip install WHEEL", "python3", "-m", "pip", "install", "-q", wheel)
    debian.step("check", "distdoctor", "check")
    debian.step("diagnose", "distdoctor", "diagnose", log, status=1)
    debian.step("pip uninstall", "python3", "-m", "pip", "uninstall", "-q", "-y", "distdoctor")
    image(debian, files["wheel"])


def image(debian: Debian, wheel: Path) -> None:
    """Run the steps of the Dockerfile after its FROM, as docker build and docker run do. Raises Failure."""
    for line in DOCKERFILE.read_text().splitlines():
        name, _, words = line.partition(" ")
        if name == "COPY":
            pattern, place = words.split()
            if not (Path("dist") / wheel.name).match(pattern):
                raise Failure(f"COPY {pattern} does not copy {wheel.name}")
            shutil.copy(wheel, debian.root / place.lstrip("/"))
        elif name == "RUN":
            debian.step(line, "/bin/sh", "-c", words)
        elif name == "CMD":
            debian.step(line, *json.loads(words))


def main(words: Sequence[str]) -> int:
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="release-") as name:
        folder = Path(name)
        try:
            if "--image" in words:
                debian = Debian(folder / "debian")
                debian.with_torch()
                image(debian, build(checkout(folder / "source"), folder / "dist", pyz=False)["wheel"])
                return 0
            files = build_twice(folder)
            check_metadata(files)
            if "--pristine" in words:
                pristine(files, folder)
            elif "--build" not in words:
                for number, python in enumerate(pythons()):
                    try_on(python, files, folder / f"python{number}")
        except Failure as err:
            say(f"FAIL: {err}")
            return 1
    say(f"PASS: {', '.join(path.name for path in files.values())} in {DIST}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
