"""What a machine with an NVIDIA GPU says, kept: the first thing to run where there is one. Four minutes on an H200.

    make gpu-kit                                        before, where there is a network: into dist/ all but torch
    python3 tests/gpu/facts.py FOLDER [--minutes 9]   there, with a Python that has torch; nothing else is needed

What the driver, NVML, CUDA and NCCL say comes first, then the checks, then what may be missed; each is run by itself,
with a bound. FOLDER gets gpu-facts.tar.gz (what each printed, of each check its facts) and summary.txt: what was to be
found, what was, and how long the stages gpu and nccl took. Both are written anew after each part: what ends this one
takes no more than the part it is at, and a part that breaks is told and passed over. No setting of a GPU is changed,
and nothing is installed: NVML's module and py-spy come out of their wheels in dist/, into a venv of its own. The exit
status is 1 where a case came out otherwise than was written down, or a part broke.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYZ, WHEELS = ROOT / "dist/distdoctor.pyz", ROOT / "dist"
PROGRAMS = Path(__file__).with_name("programs.py")
CHECK_SECONDS, PROGRAM_SECONDS, READY_SECONDS, ENDED_SECONDS = 75, 60, 40, 5
TIMED = ("gpu", "nccl")
NCCL = ("--backend", "nccl")
ONE = ("--nproc-per-node", "1")
LIBRARIES = "LD_LIBRARY_PATH"


@dataclass(frozen=True)
class Case:
    """A check with these flags, and what it is to find."""

    name: str
    flags: tuple[str, ...]
    expected: tuple[str, ...] = ()
    """One of these is a root; empty: nothing of severity fail."""
    env: dict[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    """A program of programs.py that runs meanwhile, once it says that it is ready."""
    below: tuple[str, ...] = ()
    """The launcher's words before distdoctor's own."""
    command: str = "check"


CASES = (
    Case("one rank, nccl", (*ONE, *NCCL)),
    Case("one rank, no backend named", ONE),
    Case("no count named", ()),
    Case("two ranks on one GPU, nccl", ("--nproc-per-node", "2", *NCCL), ("gpu/fewer-than-ranks",)),
    Case("two ranks, gloo", ("--nproc-per-node", "2", "--backend", "gloo")),
    Case("mask: empty", (*ONE, *NCCL), ("gpu/mask-mismatch",), {"CUDA_VISIBLE_DEVICES": ""}),
    Case("mask: beyond the last", (*ONE, *NCCL), ("gpu/mask-mismatch",), {"CUDA_VISIBLE_DEVICES": "9"}),
    Case("mask: twice", (*ONE, *NCCL), ("gpu/mask-mismatch",), {"CUDA_VISIBLE_DEVICES": "0,0"}),
    Case("mask: another node's", (*ONE, *NCCL), ("gpu/mask-mismatch",), {"CUDA_VISIBLE_DEVICES": "GPU-00000000-dead"}),
    Case("mask: SLURM's none", (*ONE, *NCCL), ("gpu/mask-mismatch",), {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}),
    Case("mask: its own name", (*ONE, *NCCL), (), {"CUDA_VISIBLE_DEVICES": "{uuid}"}),
    Case("below torchrun", NCCL, (), {}, (), ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1")),
    Case(
        "a libcuda that is none", (*ONE, *NCCL), ("gpu/none-visible", "nccl/driver-too-old"), {LIBRARIES: "{libcuda}"}
    ),
    Case("an NVML of nothing", (*ONE, *NCCL), ("gpu/none-visible",), {LIBRARIES: "{nvml}"}),
    Case("hang, in a kernel that does not end", (), (), {}, ("stuck",), (), "hang"),
    Case("mask: none, gloo", (*ONE, "--backend", "gloo"), (), {"CUDA_VISIBLE_DEVICES": ""}),
    Case(
        "NCCL_SOCKET_IFNAME of nothing",
        (*ONE, *NCCL),
        ("nccl/interface-not-found",),
        {"NCCL_SOCKET_IFNAME": "nothing0"},
    ),
    Case("most of the memory taken", (*ONE, *NCCL), ("gpu/out-of-memory",), {}, ("take", "0.6")),
    Case("all of the memory taken", (*ONE, *NCCL), ("gpu/out-of-memory",), {}, ("take", "0.998")),
)
COMMANDS = (
    ("nvidia-smi", "-q"),
    ("nvidia-smi", "-q", "-x"),
    ("nvidia-smi", "topo", "-m"),
    ("nvidia-smi", "nvlink", "-s"),
    (
        "sh",
        "-c",
        "cat /proc/driver/nvidia/version; ls -l /dev/nvidia* /dev/infiniband; dmesg | grep -iE 'nvrm|xid' | tail",
    ),
    (
        "sh",
        "-c",
        "uname -a; lspci -nn | grep -i nvidia; ldconfig -p | grep -E 'libcuda|nvidia-ml|nccl'; df -h /dev/shm",
    ),
    (
        "sh",
        "-c",
        "for d in /sys/bus/pci/devices/*; do [ $(cat $d/vendor) = 0x10de ] && grep -H . $d/*_link_* $d/numa_node; done",
    ),
)
FIRST = (*("versions", "nvml", "attributes", "device", "collectives", "duplicate", "shared", "several"),)
"""What plain torch, CUDA, NVML and NCCL say, from programs.py: what all else stands on."""
THEN = (
    *(
        "count",
        "ordinal",
        "interface",
        "no-nvml",
        "memory",
        "illegal",
        "assert",
        "fork",
        "torchrun",
        "torchrun-two",
        "timeout",
    ),
    *("events",),
)
AFTER = (("sh", "-c", "dmesg -T 2>&1 | grep -iE 'nvrm|xid|nvidia' | tail -40"), ("nvidia-smi", "-q", "-x"))
"""Once more, for what the provocations left."""


def main(words: Sequence[str]) -> int:
    """Run all, as far as there is time. Gives the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=9.0)
    given = parser.parse_args(words)
    end = time.monotonic() + given.minutes * 60
    given.folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    lines = list[str]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        kept, place = Path(name) / "gpu-facts", Path(name) / "place"
        kept.mkdir()

        def part(what: str, do: Callable[..., str], *words: Any) -> None:
            """One part, and all that is known after it written down."""
            try:
                lines.append(do(*words))
            except Exception as error:
                lines.append(f"OTHER    {what}: {type(error).__name__}: {error}")
            finally:
                with contextlib.suppress(OSError):  # a disk that is full now may have room after the next part
                    keep(given.folder, kept, lines)
            tell(lines[-1])

        python, values = sys.executable, {"uuid": "0", "libcuda": str(place), "nvml": str(place)}
        for number, command in enumerate(COMMANDS):
            part(f"command {number}", printed, command, kept / f"command-{number}.txt", 30)
        with contextlib.suppress(Exception):
            python = with_wheels(place)
        with contextlib.suppress(Exception):
            values = {"uuid": own_name(), **broken_libraries(place)}
        for one in FIRST:
            part(one, program, one, python, kept, end)
        for case in CASES:
            part(case.name, checked, case, python, values, kept, end)
        for one in THEN:
            part(one, program, one, python, kept, end)
        for number, command in enumerate(AFTER):
            part(f"after {number}", printed, command, kept / f"after-{number}.txt", 20)
    return int(any(line.startswith("OTHER") for line in lines))


def keep(folder: Path, kept: Path, lines: Sequence[str]) -> None:
    """All that is known so far, in the place of what was before."""
    (folder / "summary.txt").write_text("\n".join(lines) + "\n")
    half = folder / "gpu-facts.tar.gz.half"
    with tarfile.open(half, "w:gz", compresslevel=3) as archive:
        archive.add(kept, "gpu-facts")
    half.replace(folder / "gpu-facts.tar.gz")


def printed(command: Sequence[str], into: Path, seconds: float) -> str:
    return f"ran      {' '.join(command)[:60]}: status {run(command, into, seconds)}"


def program(name: str, python: str, kept: Path, end: float) -> str:
    began = time.monotonic()
    if end - began <= 10:
        return f"NO TIME  {name}"
    status = run([python, str(PROGRAMS), name], kept / f"program-{name}.txt", bound(PROGRAM_SECONDS, end))
    return f"ran      {name}: status {status}, {time.monotonic() - began:.1f} s"


def with_wheels(place: Path) -> str:
    """A Python that has what this one has, and the wheels of dist/; this one where there are none, or no venv."""
    wheels = sorted(WHEELS.glob("*.whl"))
    made = run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", str(place / "venv")], None, 60)
    site = next(place.glob("venv/lib/python3*/site-packages"), None)
    if not wheels or made != 0 or site is None:
        return sys.executable
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    own = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "own.pth").write_text("\n".join(own) + "\n")  # of a venv, which the new one would leave out
    for script in site.glob("*.data/scripts/*"):
        script.chmod(0o755)
        script.rename(place / "venv/bin" / script.name)
    os.environ["PATH"] = os.pathsep.join([str(place / "venv/bin"), os.environ.get("PATH", "")])
    return str(place / "venv/bin/python")


def own_name() -> str:
    """The first GPU's UUID."""
    words = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        return done.stdout.partition("\n")[0].strip() or "0"
    except (OSError, subprocess.TimeoutExpired):
        return "0"


def broken_libraries(place: Path) -> dict[str, str]:
    """Folders with a file in the place of a library of the driver's, with nothing in it."""
    folders = {"libcuda": "libcuda.so.1", "nvml": "libnvidia-ml.so.1"}
    for name, library in folders.items():
        (place / name).mkdir(parents=True, exist_ok=True)
        (place / name / library).touch()
    return {name: str(place / name) for name in folders}


def checked(case: Case, python: str, values: dict[str, str], kept: Path, end: float) -> str:
    """Run one check and keep what it says. How it came out, on a line."""
    if end - time.monotonic() <= 20:
        return f"NO TIME  {case.name}"
    place = kept / "".join(char if char.isalnum() else "-" for char in case.name)
    env = {name: value.format(**values) for name, value in case.env.items()}
    beside = taken(case.beside, python)
    try:
        alone = ["--standalone"] if case.command == "check" and not case.below else []
        words = [case.command, *alone, *case.flags, "--json", "--save", f"{place}.facts.json"]
        report = Path(f"{place}.json")
        began = time.monotonic()
        own = distdoctor(python, case.below)
        status = run([*own, *words], report, bound(CHECK_SECONDS, end), {**env, "NCCL_DEBUG": "INFO"})
    finally:
        if beside is not None:
            end_all(beside)
    seconds = time.monotonic() - began
    try:
        said = json.loads(report.read_text().partition(ERRORS)[0])
        findings, stages = said["findings"], said.get("stages", [])
        roots = [finding["check"] for finding in findings if finding["because_of"] is None]
        fails = [finding for finding in findings if finding["severity"] == "fail"]
    except (OSError, ValueError, LookupError, TypeError):
        return f"OTHER    {case.name}: no report, status {status}, {seconds:.1f} s"
    well = set(roots) & set(case.expected) if case.expected else not fails or case.command == "hang"
    told = ", ".join(roots) or "nothing"
    wanted = "" if well else f" (was to be {' or '.join(case.expected) or 'nothing'})"
    took = [f"{one['stage']} {one['seconds']:.2f} s" for one in stages if one["stage"] in TIMED and one.get("seconds")]
    timed = "".join(f", {one}" for one in took)
    return f"{'as said ' if well else 'OTHER   '} {case.name}: {told}{wanted}, status {status}, {seconds:.1f} s{timed}"


def taken(words: Sequence[str], python: str) -> subprocess.Popen[str] | None:
    """The program that is to run beside a check, once it is ready, or will not be."""
    if not words:
        return None
    command = [python, str(PROGRAMS), *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stdout is not None
    select.select([process.stdout], [], [], READY_SECONDS)
    return process


def end_all(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End it and what it started. One that a driver holds in the kernel is left alone."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ENDED_SECONDS)


ERRORS = "\n--- stderr\n"


def run(words: Sequence[str], into: Path | None, seconds: float, env: dict[str, str] | None = None) -> int | None:
    """Run it, keep what it prints; its status, None where it did not end or is not here."""
    given = {**os.environ, **(env or {})}
    if not PYZ.exists():
        given["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    status, trouble = None, ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=given, start_new_session=True
            )
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                trouble = f"\nended after {seconds:.0f} s"
            finally:
                end_all(process)
        except OSError as error:
            trouble = str(error)
        said = [os.pread(one.fileno(), 1 << 24, 0).decode(errors="replace") for one in (out, err)]
    if into is not None:
        into.write_text(f"{said[0]}{ERRORS}{said[1]}{trouble}\nstatus {status}\n")
    return status


def bound(seconds: float, end: float) -> float:
    return max(1.0, min(seconds, end - time.monotonic()))


def distdoctor(python: str, below: Sequence[str]) -> list[str]:
    own = [str(PYZ)] if PYZ.exists() else ["-m", "distdoctor"]
    return [python, *below, *own]


def tell(line: str) -> None:
    with contextlib.suppress(OSError):  # whoever listened is gone; summary.txt has it
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
