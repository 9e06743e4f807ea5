"""What a machine with an NVIDIA GPU says, kept: the first thing to run where there is one. Some eight minutes, one GPU.

    make pyz                                            before, where there is a network: distdoctor with all it needs
    python3 scripts/gpu_facts.py FOLDER [--minutes 9]   there, with a Python that has torch; nothing else is needed

Each case is run by itself, with a bound. FOLDER gets gpu-facts.tar.gz (of each case what it printed, of each check its
facts; what the driver, NVML and NCCL say) and summary.txt: what was to be found, and what was. No setting of a GPU is
changed. The exit status is 1 where a case came out otherwise than was written down.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYZ = ROOT / "dist/distdoctor.pyz"
PROGRAMS = Path(__file__).with_name("gpu_programs.py")
CHECK_SECONDS, PROGRAM_SECONDS = 75, 60
NCCL = ("--backend", "nccl")
ONE = ("--nproc-per-node", "1")


@dataclass(frozen=True)
class Case:
    """A check with these flags, and what it is to find."""

    name: str
    flags: tuple[str, ...]
    expected: tuple[str, ...] = ()
    """One of these is a root; empty: nothing of severity fail."""
    env: dict[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    """A program of gpu_programs.py that runs meanwhile, once it says that it is ready."""


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
PROGRAM_NAMES = (
    *("versions", "nvml", "device", "count", "ordinal", "duplicate", "interface", "collectives", "memory", "illegal"),
    *("assert", "fork", "torchrun", "torchrun-two"),
)
"""What plain torch, NVML and NCCL say to each, from gpu_programs.py."""


def main(words: Sequence[str]) -> int:
    """Run all, as far as there is time. Gives the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=9.0)
    given = parser.parse_args(words)
    end = time.monotonic() + given.minutes * 60
    given.folder.mkdir(parents=True, exist_ok=True)
    lines = list[str]()
    with tempfile.TemporaryDirectory() as name:
        kept = Path(name)
        try:
            for number, command in enumerate(COMMANDS):
                run(command, kept / f"command-{number}.txt", 30)
            for case in CASES:
                lines.append(checked(case, kept, end) if end - time.monotonic() > 20 else f"NO TIME  {case.name}")
                tell(lines[-1])
            for program in PROGRAM_NAMES:
                if end - time.monotonic() > 10:
                    status = run(plain(program), kept / f"program-{program}.txt", bound(PROGRAM_SECONDS, end))
                    tell(f"ran      {program}: status {status}")
        finally:
            (given.folder / "summary.txt").write_text("\n".join(lines) + "\n")
            with tarfile.open(given.folder / "gpu-facts.tar.gz", "w:gz") as archive:
                archive.add(kept, "gpu-facts")
    return int(any(line.startswith("OTHER") for line in lines))


def checked(case: Case, kept: Path, end: float) -> str:
    """Run one check and keep what it says. How it came out, on a line."""
    place = kept / case.name.replace(" ", "-").replace(",", "").replace(":", "").replace("'", "")
    beside = taken(case.beside)
    try:
        words = ["check", "--standalone", *case.flags, "--json", "--save", f"{place}.facts.json"]
        report = Path(f"{place}.json")
        began = time.monotonic()
        status = run([*distdoctor(), *words], report, bound(CHECK_SECONDS, end), {**case.env, "NCCL_DEBUG": "INFO"})
    finally:
        if beside is not None:
            beside.kill()
            beside.wait()
    seconds = time.monotonic() - began
    try:
        findings = json.loads(report.read_text().partition(ERRORS)[0])["findings"]
    except (ValueError, LookupError):
        return f"OTHER    {case.name}: no report, status {status}, {seconds:.1f} s"
    roots = [finding["check"] for finding in findings if finding["because_of"] is None]
    fails = [finding for finding in findings if finding["severity"] == "fail"]
    well = set(roots) & set(case.expected) if case.expected else not fails
    said = ", ".join(roots) or "nothing"
    wanted = "" if well else f" (was to be {' or '.join(case.expected) or 'nothing'})"
    return f"{'as said ' if well else 'OTHER   '} {case.name}: {said}{wanted}, status {status}, {seconds:.1f} s"


def taken(words: Sequence[str]) -> subprocess.Popen[str] | None:
    """The program that is to run beside a check, once it is ready."""
    if not words:
        return None
    process = subprocess.Popen(plain(*words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


ERRORS = "\n--- stderr\n"


def run(words: Sequence[str], into: Path, seconds: float, env: dict[str, str] | None = None) -> int | None:
    """Run it, keep what it prints; its status, None where it did not end or is not here."""
    given = {**os.environ, **(env or {})}
    if not PYZ.exists():
        given["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    out, err, status = "", "", None
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, env=given, check=False
        )
        out, err, status = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as late:
        out, err = (part.decode(errors="replace") if part else "" for part in (late.stdout, late.stderr))
        err += f"\nended after {seconds:.0f} s"
    except OSError as error:
        err = str(error)
    into.write_text(f"{out}{ERRORS}{err}\nstatus {status}\n")
    return status


def bound(seconds: float, end: float) -> float:
    return max(1.0, min(seconds, end - time.monotonic()))


def plain(*words: str) -> list[str]:
    return [sys.executable, str(PROGRAMS), *words]


def distdoctor() -> list[str]:
    return [sys.executable, str(PYZ)] if PYZ.exists() else [sys.executable, "-m", "distdoctor"]


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
