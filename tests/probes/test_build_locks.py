"""The locks of builds of extensions, where this process builds and where others do."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from pathlib import Path

from distdoctor.model.facts import BuildLock, decode
from distdoctor.probes.host import files
from tests.helpers.namespaces import lines_of

TORCH = importlib.util.find_spec("torch")
assert TORCH is not None and TORCH.origin is not None
BATON = Path(TORCH.origin).parent / "utils" / "file_baton.py"

_BUILDER = f"""
import importlib.util, os
spec = importlib.util.spec_from_file_location("file_baton", {str(BATON)!r})
baton = importlib.util.module_from_spec(spec)
spec.loader.exec_module(baton)
os.makedirs("/mnt/here/torch_extensions/py_cpu/one")
assert baton.FileBaton("/mnt/here/torch_extensions/py_cpu/one/lock").try_acquire()
print("ready", flush=True)
input()
"""
_INSIDE = """
import ctypes, subprocess
assert ctypes.CDLL(None).unshare(0x20000) == 0  # CLONE_NEWNS
subprocess.run("mount -t tmpfs inside /mnt/below && mkdir /mnt/below/two && touch /mnt/below/two/lock",
               shell=True, check=True)
print("ready", flush=True)
input()
"""
_OTHERS = f"""
import json, os, subprocess, sys
from dataclasses import asdict
from distdoctor.probes.host import files
subprocess.run(["mount", "-t", "tmpfs", "lab", "/mnt"], check=True)
os.makedirs("/mnt/below/not/so/deep")
def start(code):
    one = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert one.stdout.readline() == b"ready\\n", code
    return one
builder, inside = start({_BUILDER!r}), start({_INSIDE!r})
shared, apart, gone = {{"XDG_CACHE_HOME": "/mnt/here"}}, {{"TORCH_EXTENSIONS_DIR": "/mnt/below"}}, "4194304"
found = files.find_build_locks({{"self": shared, str(builder.pid): shared, str(inside.pid): apart, gone: shared}})
print(json.dumps([asdict(one) for one in found]))
print(builder.pid, inside.pid)
for one in (builder, inside):
    one.communicate(b"\\n")
"""


def test_a_lock_is_held_as_long_as_its_build_lives(tmp_path: Path) -> None:
    for build in ("alive", "killed"):
        (tmp_path / build).mkdir()
    (tmp_path / "killed" / "lock").touch()
    os.utime(tmp_path / "killed" / "lock", (time.time() - 5000,) * 2)
    # As torch/utils/file_baton.py does it.
    descriptor = os.open(tmp_path / "alive" / "lock", os.O_CREAT | os.O_EXCL)
    try:
        locks = files.find_build_locks({"self": {"TORCH_EXTENSIONS_DIR": str(tmp_path)}})
    finally:
        os.close(descriptor)
    found = {Path(one.path).parent.name: one for one in locks}
    assert found["alive"].building and found["alive"].holder == os.getpid() and not found["killed"].building
    assert 4999 < found["killed"].age < 5100 and found["alive"].age < 100


def test_a_lock_in_the_home(tmp_path: Path) -> None:
    build = tmp_path / "torch_extensions" / "py311_cpu" / "fused"
    build.mkdir(parents=True)
    (build / "lock").touch()
    (one,) = files.find_build_locks({"self": {"XDG_CACHE_HOME": str(tmp_path)}})
    assert one.path == str(build / "lock")


def test_locks_of_other_processes_as_each_of_them_sees_files() -> None:
    """One that torch's own baton holds is told once; one in a mount of a process is told as it is reached from here."""
    told, pids = lines_of(_OTHERS, "--mount", tools=("mount",))
    builder, inside = map(int, pids.split())
    locks = decode(told.encode(), list[BuildLock])
    assert [(one.path, one.holder) for one in locks] == [
        ("/mnt/here/torch_extensions/py_cpu/one/lock", builder),
        (f"/proc/{inside}/root/mnt/below/two/lock", None),
    ]
    assert locks[1].filesystem == "tmpfs"


def test_locks_in_older_facts_of_a_job() -> None:
    assert decode(json.dumps({"path": "/x/lock", "age": 9.0, "holder": 7}).encode(), BuildLock).building
    assert not decode(json.dumps({"path": "/x/lock", "age": 9.0, "holder": None}).encode(), BuildLock).building
