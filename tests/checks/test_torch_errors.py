"""Why torch cannot be imported: each reason has its own words and its own cure, and torch is installed only where it
is not there."""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import TorchFailure
from distdoctor.model.findings import Finding
from tests.checks.rows_launch import HIDDEN, NO_CUDA, SHADOW, no_torch, torch_fails
from tests.facts_builder import judged

FOUND = TorchFailure("ImportError", found="/site/torch", looked=True, version="2.9.0+cpu")


def error(text: str, kind: str = "ImportError", **more: object) -> TorchFailure:
    return replace(FOUND, type=kind, text=text, **more)  # type: ignore[arg-type]


TABLE = [
    (NO_CUDA, "a library that it needs is not found", "libcudart.so.12 is of CUDA", ""),
    (error("libgomp.so.1: cannot open shared object file: No such file or directory"), "not found", "libgomp.so.1", "apt-get install libgomp1"),
    (error("libfoo.so.3: cannot open shared object file: No such file or directory"), "not found", "LD_LIBRARY_PATH", ""),
    (error("/x/libc10.so: undefined symbol: _ZN3c10", loader=("LD_LIBRARY_PATH",)), "another version, or damaged", "without them", ""),
    (error("/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found"), "another version", "Install torch again", "/opt/py/bin/python3 -m pip install --force-reinstall torch==2.9.0"),
    (error("No module named 'torch._C'", "ModuleNotFoundError", module="torch._C", built_for=("cpython-312-x86_64-linux-gnu",)), "built for another Python", "Python 3.12", ""),
    (error("No module named 'torch._C'", "ModuleNotFoundError", module="torch._C"), "not complete", "Install it again", "/opt/py/bin/python3 -m pip install --force-reinstall --no-deps torch==2.9.0"),
    (error("No module named 'torch.version'", "ModuleNotFoundError", module="torch.version"), "not complete", "Install it again", ""),
    (error("No module named 'sympy'", "ModuleNotFoundError", module="sympy"), "a package that it needs", "pip check", "/opt/py/bin/python3 -m pip install sympy"),
    (error("", "MemoryError", address_space=1 << 29), "not enough memory", "limit on address space", "ulimit -v unlimited"),
    (error("[Errno 12] Cannot allocate memory", "OSError", errno=12), "not enough memory", "kernel log", "dmesg"),
    (TorchFailure(signal=9, memory_limit=1 << 29), "killed (signal 9)", "kernel log", "dmesg"),
    (TorchFailure(signal=9, oom_kills=1, memory_limit=1 << 29), "not enough memory", "kernel log", "dmesg"),
    (TorchFailure(signal=4), "crashes", "processor", "-c 'import torch'"),
    (TorchFailure(signal=11, loader=("LD_PRELOAD",)), "crashes", "LD_PRELOAD", "-c 'import torch'"),
    (TorchFailure(status=2, said="Cannot load libtorch_cpu.so", folder_gone=True), "working folder has been deleted", "cd ", ""),
    (error("[Errno 2] No such file or directory", "FileNotFoundError", errno=2, folder_gone=True), "working folder has been deleted", "cd ", ""),
    (error("torch 2.9.0 was built without torch.distributed"), "without torch.distributed", "Install a build", ""),
    (error("invalid syntax", "SyntaxError"), "it fails", "whole error", "-c 'import torch'"),
    (HIDDEN, "/job/random.py hides", "Rename /job/random.py", "mv /job/random.py /job/my_random.py"),
]  # fmt: skip


def root(failure: TorchFailure, which: int) -> Finding:
    found = judged(*torch_fails(failure, "the process ended" if not failure.type else "", which=which))
    (one,) = (f for f in found.roots if f.check.startswith("environment/torch"))
    assert not any(f.check == "environment/torch-missing" for f in found.findings)
    return one


@pytest.mark.parametrize(("failure", "what", "cure", "command"), TABLE)
@pytest.mark.parametrize("which", [0, 1])
def test_each_reason_has_its_own_cure(failure: TorchFailure, what: str, cure: str, command: str, which: int) -> None:
    found = root(failure, which)
    assert what in found.summary and found.nodes == (f"host{which}",)
    assert any(cure in fix.text for fix in found.fixes), found.fixes
    commands = [line for fix in found.fixes for line in fix.commands]
    assert any(command in line for line in commands) if command else True, commands
    assert not any("pip install torch" in line for line in commands)


def test_a_folder_of_pythonpath_can_be_taken_out_of_it() -> None:
    shadow = replace(SHADOW, file="/other/torch", module="torch", entry="/other", by="PYTHONPATH", pythonpath="/rest")
    found = root(replace(HIDDEN, shadows=(shadow,)), 1)
    assert [(fix.option, fix.env, fix.commands) for fix in found.fixes] == [
        (1, {"PYTHONPATH": "/rest"}, ()),
        (2, {}, ("mv /other/torch /other/my_torch",)),
    ]


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "environment/torch-missing"),
        ("ImportError: libcudart.so.12: cannot open shared object file: No such file", "environment/torch-broken"),
        ("the process that imports torch ended (status -9)", "environment/torch-broken"),
    ],
)
def test_facts_of_an_older_version(text: str, check: str) -> None:
    a, b = no_torch(1)
    (found,) = judged(a, replace(b, identity=replace(b.identity, torch_error=text))).roots
    assert found.check == check


def test_one_that_is_not_installed_is_installed_as_on_the_others() -> None:
    failure = TorchFailure("ModuleNotFoundError", "No module named 'torch'", "torch", looked=True)
    (found,) = judged(*torch_fails(failure)).roots
    assert found.check == "environment/torch-missing" and "/opt/py/bin/python3" in found.summary
    assert found.fixes[1].commands == ("/opt/py/bin/python3 -m pip install torch==2.13.0",)


def test_what_nobody_knows_yet_is_not_missing() -> None:
    """Interrupted while torch was being imported."""
    a, b = no_torch(1)
    b = replace(b, identity=replace(b.identity, torch_error=None, torch_importing=True, torch_seconds=2.0))
    assert not any("torch" in f.check for f in judged(a, b).findings)


@pytest.mark.parametrize(("seconds", "told"), [(5.0, False), (62.0, True)])
def test_an_import_that_takes_a_minute_is_told(seconds: float, told: bool) -> None:
    a, b = no_torch(1)
    b = replace(b, identity=replace(b.identity, torch_error=None, torch_importing=True, torch_seconds=seconds))
    found = [f for f in judged(a, b).findings if f.check == "environment/torch-broken"]
    assert [(f.severity, f.nodes) for f in found] == ([("warn", ("host1",))] if told else [])
    assert not told or "62 s" in found[0].evidence[0]
