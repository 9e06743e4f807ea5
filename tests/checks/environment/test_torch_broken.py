"""environment/torch-broken: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.model.facts import TorchFailure
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.torch_import import HIDDEN, NO_CUDA, no_torch, torch_fails, torch_root
from tests.facts_builder import judged

CHECK = "environment/torch-broken"

FOUND = TorchFailure("ImportError", found="/site/torch", looked=True, version="2.9.0+cpu")


def failure_of(text: str, kind: str = "ImportError", **more: Any) -> TorchFailure:
    return replace(FOUND, type=kind, text=text, **more)


TABLE = [
    (NO_CUDA, "a required library is missing", "libcudart.so.12 is of CUDA", ""),
    (
        failure_of("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.", "ValueError"),
        "a value that torch rejects",
        "one of OFF, INFO, or DETAIL",
        "",
    ),
    (
        TorchFailure(signal=6, said="OMP: Error #15: Initializing libiomp5.so, but found libomp.so"),
        "another OpenMP",
        "only one OpenMP",
        "find /opt/py -name 'lib*omp*.so*'",
    ),
    (
        TorchFailure(signal=6, said="set KMP_DUPLICATE_LIB_OK=TRUE to allow", loader=("LD_PRELOAD",)),
        "another OpenMP",
        "without these variables",
        "",
    ),
    (TorchFailure(signal=11), "crashes", "reinstall torch", ""),
    (TorchFailure(signal=11, loader=("LD_PRELOAD",)), "crashes", "unset LD_PRELOAD", ""),
    (
        failure_of("libgomp.so.1: cannot open shared object file: No such file or directory"),
        "library is missing",
        "libgomp.so.1",
        "apt-get install libgomp1",
    ),
    (
        failure_of("libcuda.so.1: cannot open shared object file: No such file or directory"),
        "library is missing",
        "comes with the driver",
        "",
    ),
    (
        failure_of("/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found", version="2.7.0a0+ecf3bae40a.nv25.2"),
        "another version",
        "use the image",
        "",
    ),
    (
        failure_of("libfoo.so.3: cannot open shared object file: No such file or directory"),
        "library is missing",
        "LD_LIBRARY_PATH",
        "",
    ),
    (
        failure_of("/x/libc10.so: undefined symbol: _ZN3c10", loader=("LD_LIBRARY_PATH",)),
        "another version, or is damaged",
        "without these variables",
        "",
    ),
    (
        failure_of("/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found"),
        "another version",
        "Reinstall torch",
        "/opt/py/bin/python3 -m pip install --force-reinstall torch==2.9.0",
    ),
    (
        failure_of(
            "No module named 'torch._C'",
            "ModuleNotFoundError",
            module="torch._C",
            built_for=("cpython-312-x86_64-linux-gnu",),
        ),
        "built for another Python",
        "Python 3.12",
        "",
    ),
    (
        failure_of("No module named 'torch._C'", "ModuleNotFoundError", module="torch._C"),
        "incomplete",
        "Reinstall torch",
        "/opt/py/bin/python3 -m pip install --force-reinstall --no-deps torch==2.9.0",
    ),
    (
        failure_of("No module named 'torch.version'", "ModuleNotFoundError", module="torch.version"),
        "incomplete",
        "Reinstall torch",
        "",
    ),
    (
        failure_of("No module named 'sympy'", "ModuleNotFoundError", module="sympy"),
        "a required package",
        "pip check",
        "/opt/py/bin/python3 -m pip install sympy",
    ),
    (
        failure_of("", "MemoryError", address_space=1 << 29),
        "not enough memory",
        "limit on address space",
        "ulimit -v unlimited",
    ),
    (
        failure_of("", "MemoryError", data_segment=100 << 20),
        "not enough memory",
        "limit on data",
        "ulimit -d unlimited",
    ),
    (TorchFailure(status=1, said="in find_spec", data_segment=50 << 20), "not enough", "limit on data", "ulimit -d"),
    (failure_of("[Errno 12] Cannot allocate memory", "OSError", errno=12), "not enough memory", "more memory", "dmesg"),
    (TorchFailure(signal=9, memory_limit=1 << 29), "killed (signal 9)", "more memory", "dmesg"),
    (
        TorchFailure(status=1, said="in find_spec", address_space=500_000 << 10),
        "not enough memory",
        "limit on address space",
        "ulimit -v unlimited",
    ),
    (TorchFailure(signal=9, oom_kills=1, memory_limit=1 << 29), "not enough memory", "more memory", "dmesg"),
    (TorchFailure(signal=4), "crashes", "CPU", "-c 'import torch'"),
    (TorchFailure(signal=11, loader=("LD_PRELOAD",)), "crashes", "LD_PRELOAD", "-c 'import torch'"),
    (
        TorchFailure(status=2, said="Cannot load libtorch_cpu.so", folder_gone=True),
        "working folder has been deleted",
        "cd ",
        "",
    ),
    (
        failure_of("[Errno 2] No such file or directory", "FileNotFoundError", errno=2, folder_gone=True),
        "working folder has been deleted",
        "cd ",
        "",
    ),
    (failure_of("torch 2.9.0 was built without torch.distributed"), "without torch.distributed", "Install a build", ""),
    (
        failure_of("libtorch_cpu.so: cannot enable executable stack as shared object requires: Invalid argument"),
        "needs an executable stack",
        "Clear the library's request",
        "patchelf --clear-execstack /site/torch/lib/libtorch_cpu.so",
    ),
    (
        failure_of("/lib/libgomp.so.1: cannot allocate memory in static TLS block", "OSError"),
        "finds no room",
        "before all others",
        "",
    ),
    (
        failure_of(
            "/old/libgomp.so.1: cannot allocate memory in static TLS block", "OSError", loader=("LD_LIBRARY_PATH",)
        ),
        "finds no room",
        "comes from there",
        "",
    ),
    (
        failure_of(
            "libgomp.so.1: failed to map segment from shared object", "OSError", noexec=("/tmp/t/lib/libgomp.so.1",)
        ),
        "mounted with noexec",
        "mounted with exec",
        "",
    ),
    (
        failure_of("libgomp.so.1: failed to map segment from shared object", "OSError"),
        "not enough memory",
        "more memory",
        "dmesg",
    ),
    (
        failure_of(
            "Failed to load the backend extension: torch_npu. You can disable extension auto-loading with "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0.",
            "RuntimeError",
            cause="ImportError: libhccl.so: cannot open shared object file: No such file or directory",
        ),
        "another kind of device",
        "package of torch_npu",
        "",
    ),
    (
        failure_of("Invalid log settings: dynamo,foo, must be", "ValueError", settings=("TORCH_LOGS",)),
        "a value that torch rejects",
        "TORCH_LOGS",
        "",
    ),
    (
        failure_of("Failed to initialize NumPy", "UserWarning", settings=("PYTHONWARNINGS",)),
        "a warning is treated as an error",
        "Unset PYTHONWARNINGS",
        "",
    ),
    (
        failure_of("cannot import name 'Tensor' from 'torch._tensor' (/site/torch/_tensor.py)", module="torch._tensor"),
        "incomplete",
        "Reinstall torch",
        "--force-reinstall",
    ),
    (
        failure_of(
            "numpy.core.multiarray failed to import", package="numpy", package_file="/site-packages/numpy/__init__.py"
        ),
        "another imported package",
        "Reinstall numpy",
        "--force-reinstall numpy",
    ),
    (
        failure_of(
            "cannot import name 'deprecated' from 'typing_extensions'",
            package="typing_extensions",
            package_file="/home/me/.local/lib/python3.11/site-packages/typing_extensions.py",
        ),
        "another imported package",
        "user's own folder",
        "uninstall -y typing_extensions",
    ),
    (
        failure_of("broken", package="numpy", package_file="/home/me/lib/numpy/__init__.py"),
        "another imported package",
        "Rename or move",
        "",
    ),
    (
        failure_of("libc10.so: cannot open shared object file: No such file or directory"),
        "incomplete",
        "Reinstall torch",
        "--force-reinstall",
    ),
    (
        failure_of(
            "libtorch_python.so: cannot open shared object file: No such file or directory",
            closed=("/site/torch/lib/libtorch_python.so",),
        ),
        "may not read it",
        "Let the user",
        "chmod -R a+rX /site/torch/lib/libtorch_python.so",
    ),
    (
        TorchFailure("ModuleNotFoundError", "No module named 'torch'", looked=True, closed=("/site/torch",)),
        "may not read it",
        "Let the user",
        "chmod -R a+rX /site/torch",
    ),
    (failure_of("marshal data too short", "EOFError"), "truncated", "Delete the compiled", "find /site/torch"),
    (failure_of("invalid syntax", "SyntaxError"), "the import fails", "whole error", "-c 'import torch'"),
    (HIDDEN, "/job/random.py hides", "Rename /job/random.py", "mv /job/random.py /job/my_random.py"),
]

ROWS = [
    Row("torch broken on node 1", lambda: torch_fails(NO_CUDA), ("host1",), together=True),
    Row("torch broken on node 0", lambda: torch_fails(NO_CUDA, which=0), ("host0",)),
]

LOOK_ALIKES = [LookAlike("hidden by a file", lambda: torch_fails(HIDDEN), "environment/torch-shadowed")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


@pytest.mark.parametrize(("failure", "what", "cure", "command"), TABLE)
@pytest.mark.parametrize("which", [0, 1])
def test_each_reason_has_its_own_cure(failure: TorchFailure, what: str, cure: str, command: str, which: int) -> None:
    found = torch_root(failure, which)
    assert what in found.summary and found.nodes == (f"host{which}",)
    assert any(cure in fix.text for fix in found.fixes), found.fixes
    commands = [line for fix in found.fixes for line in fix.commands]
    assert any(command in line for line in commands) if command else True, commands
    assert not any("pip install torch" in line for line in commands)


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "environment/torch-missing"),
        ("ImportError: libcudart.so.12: cannot open shared object file: No such file", CHECK),
        ("the process that imports torch ended (status -9)", CHECK),
    ],
)
def test_facts_of_an_older_version(text: str, check: str) -> None:
    a, b = no_torch(1)
    (found,) = judged(a, replace(b, identity=replace(b.identity, torch_error=text))).roots
    assert found.check == check


@pytest.mark.parametrize(("seconds", "told"), [(5.0, False), (62.0, True)])
def test_an_import_that_takes_a_minute_is_told(seconds: float, told: bool) -> None:
    a, b = no_torch(1)
    b = replace(b, identity=replace(b.identity, torch_error=None, torch_importing=True, torch_seconds=seconds))
    found = [f for f in judged(a, b).findings if f.check == CHECK]
    assert [(f.severity, f.nodes) for f in found] == ([("warn", ("host1",))] if told else [])
    assert not told or "62 s" in found[0].evidence[0]
