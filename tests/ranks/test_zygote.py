"""Import of torch in the process that holds it: a torch that is broken, meddles or ends; objects not collected."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from distdoctor.ranks.torch_info import TorchInfo
from tests.helpers.namespaces import ROOT
from tests.helpers.running import Running

BROKEN = {
    "raise ImportError('libcudart.so.12: cannot open')": "ImportError: libcudart.so.12: cannot open",
    "import os; os._exit(3)": "ended with status 3",
    "import os; os.kill(os.getpid(), 11)": "ended by signal 11",
    "raise SystemExit(5)": "SystemExit",
}


def imported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> TorchInfo:
    """Return what the zygote says of the torch in ``folder``."""
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
    running = Running()
    try:
        return running.do(running.zygote.torch())
    finally:
        running.close()


@pytest.mark.parametrize("code", BROKEN)
def test_a_torch_that_cannot_be_imported(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text(code)
    torch = imported(tmp_path, monkeypatch)
    assert torch.version is None
    assert torch.error is not None and BROKEN[code] in torch.error


MEDDLER = """
import os, socket
for fd in range(3, 100):
    try:
        one = socket.socket(fileno=os.dup(fd))
    except OSError:
        continue
    if one.type == socket.SOCK_SEQPACKET:
        one.send({message!r})
raise ImportError("no torch")
"""


@pytest.mark.parametrize("message", [b"[1, 2]", b"noise", b'{"ready": true, "failure": 3}', b'{"exited": []}'])
def test_what_is_no_message_ends_the_wait_for_torch(
    message: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that writes to descriptors which are not its own."""
    (tmp_path / "torch.py").write_text(MEDDLER.format(message=message))
    torch = imported(tmp_path, monkeypatch)
    assert torch.version is None and torch.error is not None


def test_what_was_imported_is_not_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes a torch a good part of a second, at the end of each run."""
    (tmp_path / "torch.py").write_text(f"import atexit; atexit.register(open, {str(tmp_path / 'apart')!r}, 'w')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    running = Running()
    running.do(running.zygote.torch())
    running.close()
    assert running.zygote.process.returncode == 0 and not (tmp_path / "apart").exists()


TELLS_OF_GARBAGE = """
import gc, os
def tell(name):
    with open({folder!r} + "/part", "w") as file:
        file.write(f"{{gc.isenabled()}} {{gc.get_freeze_count() > 999}}")
    os.rename({folder!r} + "/part", {folder!r} + "/" + name)
tell("import")
os.register_at_fork(after_in_child=lambda: tell("child"))
"""


def test_no_garbage_is_looked_for_in_what_was_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither meanwhile, nor by each process that is forked; in what these make themselves it is."""
    (tmp_path / "torch.py").write_text(TELLS_OF_GARBAGE.format(folder=str(tmp_path)))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    running = Running()
    try:
        running.do(running.zygote.torch())
        running.zygote.spawn("distdoctor:try")
        end = time.monotonic() + 10
        while not (tmp_path / "child").exists() and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        running.close()
    assert (tmp_path / "import").read_text() == "False False"
    assert (tmp_path / "child").read_text() == "True True"
