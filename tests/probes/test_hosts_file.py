"""/etc/hosts as it is written, and whether this user may read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distdoctor.model.facts import HostsLine
from distdoctor.probes.network.names import closed, hosts_lines, name_in_hosts

HOSTS = """\
127.0.0.1\tlocalhost
# 10.0.0.9 gpu09
127.0.1.1  gpu07.cluster.example gpu07   # set by the installer
10.0.0.7 gpu07
10.0.0.8
10.0.0.10 gpu07x\xff
::1 localhost ip6-localhost
"""


@pytest.fixture
def hosts(tmp_path: Path) -> str:
    path = tmp_path / "hosts"
    path.write_bytes(HOSTS.encode("latin-1"))
    return str(path)


def test_lines_that_name_a_host_with_their_numbers_and_without_comments(hosts: str) -> None:
    assert hosts_lines(lambda fields: "gpu07" in fields[1:], hosts) == (
        HostsLine(3, "127.0.1.1  gpu07.cluster.example gpu07"),
        HostsLine(4, "10.0.0.7 gpu07"),
    )


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("127.0.1.1", "gpu07.cluster.example"),
        ("10.0.0.7", "gpu07"),
        ("10.0.0.8", None),
        ("10.0.0.9", None),
        ("10.0.0.1", None),
        ("::1", "localhost"),
    ],
)
def test_what_the_file_calls_an_address(hosts: str, address: str, name: str | None) -> None:
    assert name_in_hosts(address, hosts) == name


def test_at_most_20_lines_and_no_line_without_end(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("".join(f"10.0.0.{n} a {'b' * 999}\n" for n in range(50)))
    found = hosts_lines(lambda fields: "a" in fields, str(path))
    assert len(found) == 20 and max(len(line.text) for line in found) == 200


def test_without_the_file_there_are_no_lines(tmp_path: Path) -> None:
    assert hosts_lines(lambda fields: True, str(tmp_path / "none")) == ()
    assert name_in_hosts("127.0.0.1", str(tmp_path / "none")) is None


def test_a_file_that_this_user_may_not_read_is_closed_and_one_that_is_not_there_is_not(tmp_path: Path) -> None:
    assert not closed(str(tmp_path / "none"))
    (tmp_path / "hosts").write_text("")
    (tmp_path / "hosts").chmod(0)
    if os.geteuid():
        assert closed(str(tmp_path / "hosts"))
        return
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    try:
        os.seteuid(65534)  # who is not root, and not the owner
    except OSError as err:
        pytest.skip(f"nobody else to be here: {err}")  # a user namespace that has one user
    try:
        assert closed(str(tmp_path / "hosts"))
    finally:
        os.seteuid(0)
