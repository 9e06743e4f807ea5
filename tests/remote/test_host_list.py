from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.model.errors import UsageError
from distdoctor.remote.transports import NamedHost, hosts_in_file, hosts_named

NAMED = [
    ("gpu[01-03],extra7", ["gpu01", "gpu02", "gpu03", "extra7"]),
    ("b,a", ["b", "a"]),
    ("rack[1-2]n[1-2]", ["rack1n1", "rack1n2", "rack2n1", "rack2n2"]),
    ("gpu[1,3]", ["gpu1", "gpu3"]),
    ("ubuntu@gpu[1-2]", ["ubuntu@gpu1", "ubuntu@gpu2"]),
    ("10.0.0.7, fd77::b", ["10.0.0.7", "fd77::b"]),
]


@pytest.mark.parametrize(("text", "names"), NAMED, ids=[text for text, _ in NAMED])
def test_named(text: str, names: list[str]) -> None:
    """In the order in which they are named: the first is node 0."""
    assert [host.name for host in hosts_named(text)] == names


BAD = [
    ("", "--hosts names no host"),
    ("gpu1,gpu1", "--hosts names gpu1 twice"),
    ("gpu[1-3],gpu2", "--hosts names gpu2 twice"),
    ("-oProxyCommand=reboot", "is no name of a host"),
    ("gpu1;reboot", "is no name of a host"),
    ("gpu[1-", "gpu[1-"),
    ("gpu1,gpu2:2222", "gpu2:2222 has a port in it; ssh's port of a host goes into ~/.ssh/config: `Host gpu2`"),
    ("me@gpu[1-2]:22", "has a port in it"),
    ("gpu[1-20000]", "20000 hosts are more than 10000"),
]


@pytest.mark.parametrize(("text", "why"), BAD, ids=[text for text, _ in BAD])
def test_bad_names(text: str, why: str) -> None:
    """What begins with a dash would be an option of ssh."""
    with pytest.raises(UsageError) as raised:
        hosts_named(text)
    assert why in str(raised.value)


def test_hostfiles_of_open_mpi_deepspeed_and_mpich(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# the rack\ngpu1 slots=8 max_slots=16\ngpu2   slots=4 # half\n\ngpu3:2\ngpu4\n")
    assert hosts_in_file(file) == (NamedHost("gpu1", 8), NamedHost("gpu2", 4), NamedHost("gpu3", 2), NamedHost("gpu4"))
    file.write_text("gpu1 slots=many\n")
    with pytest.raises(UsageError, match="line 1: 'many' is no number of slots"):
        hosts_in_file(file)
    with pytest.raises(UsageError, match="No such file"):
        hosts_in_file(tmp_path / "none")
