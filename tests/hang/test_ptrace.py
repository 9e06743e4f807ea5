"""Tests of which permission is missing to read the stacks of others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor.hang import stacks
from tests.helpers.programs import python

PTRACE = {"x86_64": 101, "aarch64": 117}.get(os.uname().machine)
FILTERED = f"""
import ctypes, struct
# Load the number of the call; is it ptrace? EPERM, else allowed (linux/filter.h, linux/seccomp.h).
code = [(0x20, 0, 0, 0), (0x15, 0, 1, {PTRACE}), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
data = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(data)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
import os
from distdoctor.hang import stacks
print(stacks.missing(os.getpid()))
"""


def ran(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(PTRACE is None, reason="the number of ptrace(2) is not known here")
def test_a_seccomp_filter_is_named() -> None:
    if not stacks.may_trace():
        pytest.skip("it may not trace here in any case")
    assert "a seccomp filter forbids ptrace(2): start the container with --security-opt seccomp" in ran(FILTERED)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_process_of_another_user_is_named() -> None:
    with python("print(1, flush=True); input()") as other:
        become = "import os; from distdoctor.hang import stacks; os.setresuid(65534, 65534, 65534); "
        said = ran(f"{become}print(stacks.missing({other.pid}))")
    assert said == f"process {other.pid} belongs to user id 0, this runs as 65534: run it as that user, or as root"


@pytest.mark.parametrize(
    ("scope", "able", "contained", "said"),
    [
        (
            1,
            False,
            False,
            "ptrace_scope is 1: run this as root, or allow it: sudo sysctl -w kernel.yama.ptrace_scope=0",
        ),
        (2, False, True, "CAP_SYS_PTRACE is missing: start the container with --cap-add SYS_PTRACE"),
        (3, True, False, "nobody may trace a process until this node is started again"),
        (0, False, True, "CAP_SYS_PTRACE is missing: start the container with --cap-add SYS_PTRACE"),
        (0, True, False, "a security module as SELinux"),
    ],
)
def test_the_line_that_grants_it(
    monkeypatch: pytest.MonkeyPatch, scope: int, able: bool, contained: bool, said: str
) -> None:
    monkeypatch.setattr(stacks, "may_trace", lambda: False)
    monkeypatch.setattr(stacks, "_yama_scope", lambda: scope)
    monkeypatch.setattr(stacks, "_has_capability", lambda: able)
    monkeypatch.setattr(stacks, "in_container", lambda: contained)
    monkeypatch.setattr(stacks, "_status", lambda name: "0")
    assert said in stacks.missing(os.getpid())


def test_the_program_is_found_where_path_does_not_lead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = stacks.program()
    assert path is not None and Path(path).name == "py-spy"
