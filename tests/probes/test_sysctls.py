"""Settings of the kernel, as a process in a network namespace of its own has set them."""

from __future__ import annotations

from pathlib import Path

from distdoctor.probes.host import limits
from tests.helpers.namespaces import lines_of

_CODE = """
from distdoctor.probes.host import limits
open("/proc/sys/net/ipv4/tcp_keepalive_time", "w").write("61")
open("/proc/sys/net/ipv4/tcp_rmem", "w").write("4096 65536 131072")
found = limits.probe_sysctls()
print(found["net.ipv4.tcp_keepalive_time"])
print(found["net.ipv4.tcp_rmem"])
"""


def test_what_was_set_is_read() -> None:
    assert lines_of(_CODE, "--net") == ["61", "4096 65536 131072"]


def test_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "vm").mkdir()
    (tmp_path / "vm" / "overcommit_memory").write_text("2\n")
    (tmp_path / "vm" / "max_map_count").mkdir()
    assert limits.probe_sysctls(str(tmp_path)) == {"vm.overcommit_memory": "2"}
