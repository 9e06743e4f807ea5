"""Tests of what the kernel lets this process use, read back from a process whose limits were set."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor.probes.host import limits, process_room
from tests.helpers.namespaces import ROOT, lines_of

_SHOW = """
import json
from dataclasses import asdict
from distdoctor.probes.host import limits, process_room
print(json.dumps(asdict(limits.probe_limits())))
"""


def test_this_process() -> None:
    found = limits.probe_limits()
    assert (found.open_files, found.open_files_hard) == resource.getrlimit(resource.RLIMIT_NOFILE)
    assert found.locked_memory == resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    low, high = found.port_range or (0, 0)
    assert 0 < low < high < 65536
    assert found.unprivileged_port_start is not None and 0 <= found.unprivileged_port_start < 65536


def test_lowered_limits_are_seen() -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (222, 333))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, 4 << 20))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    done = subprocess.run(
        [sys.executable, "-c", _SHOW],
        preexec_fn=lower,
        capture_output=True,
        check=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    found = json.loads(done.stdout)
    assert (found["open_files"], found["open_files_hard"], found["locked_memory"]) == (222, 333, 65536)
    assert (found["stack"], found["address_space"], found["data_segment"]) == (4 << 20, 8 << 30, -1)


def test_files_that_were_left_open_for_this_process_are_counted() -> None:
    """Its own open files do not count: a program that it starts has none of them."""
    code = f"import os; one = open({str(ROOT / 'README.md')!r}); {_SHOW}"
    for count in (0, 7):
        files = [os.dup(0) for _ in range(count)]
        try:
            done = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                check=True,
                timeout=30,
                pass_fds=files,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        finally:
            for file in files:
                os.close(file)
        assert json.loads(done.stdout)["open_files_inherited"] == count


def test_a_file_whose_number_is_beyond_the_limit_takes_no_room_below_it() -> None:
    """A shell has numbers such as 255 for itself: with a limit of 26 the job could open all of the others."""
    code = """
import os, resource
from distdoctor.probes.host import limits
for number in (19, 251):
    os.dup2(0, number)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(limits.probe_limits().open_files_inherited)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "1"


def test_numbers_of_processes() -> None:
    found = limits.probe_limits()
    assert found.pid_max is not None and found.pid_max > 300
    assert (found.pids_seen is None) is (found.pid_max >= process_room.USUAL_PIDS)
    seen = process_room.visible_processes(1000)
    assert seen is not None and found.threads is not None and seen > 0


def test_whether_the_limit_of_locked_memory_counts_is_what_the_kernel_says() -> None:
    """mlock(2) of a page where none may be locked."""
    tried = """
import ctypes, mmap, resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
page = ctypes.c_char.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))
print(ctypes.CDLL(None).mlock(ctypes.byref(page), ctypes.c_size_t(mmap.PAGESIZE)) == 0)
"""
    done = subprocess.run([sys.executable, "-c", tried], capture_output=True, text=True, check=True)
    assert limits.probe_limits().may_lock_memory is (done.stdout.strip() == "True")


def test_another_port_range_and_a_small_shared_memory() -> None:
    prepare = """
import subprocess
subprocess.run("echo 40000 40099 > /proc/sys/net/ipv4/ip_local_port_range", shell=True, check=True)
subprocess.run("echo 80 > /proc/sys/net/ipv4/ip_unprivileged_port_start", shell=True, check=True)
subprocess.run("mount -t tmpfs -o size=1m tmpfs /dev/shm", shell=True, check=True)
"""
    found = json.loads(lines_of(prepare + _SHOW, "--net", "--mount", tools=("mount",))[0])
    assert found["port_range"] == [40000, 40099] and not found["shared_memory"]["read_only"]
    assert found["unprivileged_port_start"] == 80
    assert found["may_bind_privileged"] is True
    assert found["shared_memory"]["size"] == found["shared_memory"]["free"] == 1 << 20


def test_without_capabilities_privileged_ports_are_not_for_us() -> None:
    """A user without any: what ``capsh`` or a plain login gives."""
    drop = """
import os
if os.getuid() == 0:
    import ctypes
    for number in range(64):
        ctypes.CDLL(None).prctl(24, number, 0, 0, 0)  # PR_CAPBSET_DROP
    os.setgid(os.getgid())
    import sys
    if len(sys.argv) < 2:
        os.execv(sys.executable, [sys.executable, "-c", open("/proc/self/cmdline").read().split(chr(0))[2], "again"])
"""
    found = json.loads(lines_of(drop + _SHOW)[0])
    assert not found["may_bind_privileged"] and not found["may_lock_memory"]


def test_a_shared_memory_that_is_read_only() -> None:
    prepare = """
import subprocess
subprocess.run("mount -t tmpfs -o ro tmpfs /dev/shm", shell=True, check=True)
"""
    memory = json.loads(lines_of(prepare + _SHOW, "--mount", tools=("mount",))[0])["shared_memory"]
    assert memory["read_only"] and not memory["writable"]


@pytest.mark.parametrize(("exists", "error"), [(True, None), (False, "No such file or directory")])
def test_shared_memory(tmp_path: Path, exists: bool, error: str | None) -> None:
    found = limits.shared_memory(str(tmp_path if exists else tmp_path / "none"))
    assert (found.writable, found.error) == (exists, error)
    assert (found.size is not None and found.size > 0) is exists


def test_the_limits_on_processor_time_and_on_files_are_those_of_the_process() -> None:
    load = "import json; from distdoctor.probes.host.limits import probe_limits; p = probe_limits(); "
    program = f"{load}print(p.cpu_seconds, p.file_size)"
    run = ["sh", "-c", f"ulimit -t 77; ulimit -f 100; exec {sys.executable} -c '{program}'"]
    said = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    assert said[0] == "77" and said[1] in ("51200", "102400")  # sh counts in blocks of 512 bytes, bash of 1024


def test_how_long_a_limit_on_processors_kept_it_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As both versions of control groups tell it; the one that waits longest counts, its own or one above."""
    texts = ("nr_throttled 9\nthrottled_usec 1500000\n", "nr_throttled 9\nthrottled_time 2500000000\n", "")
    folders = [tmp_path / str(number) for number in range(3)]
    for folder, text in zip(folders, texts, strict=True):
        folder.mkdir()
        (folder / "cpu.stat").write_text(text)
    for seen, seconds in ((folders, 2.5), (folders[:1], 1.5), (folders[2:], 0.0), ([tmp_path], 0.0)):
        monkeypatch.setattr(limits, "cgroups", lambda _kind, its=seen: [str(one) for one in its])
        assert limits.throttled_seconds() == seconds
