"""Collected texts (public reports, wordings, recorded runs) name no person, organisation or reachable machine."""

from __future__ import annotations

import gzip
import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FOLDERS = ("logs/reports", "logs/wordings", "logs/held_out", "logs/held_out_[23]", "recorded")

NEUTRAL = {
    *("u", "me", "name", "user", "username", "usr", "XXX", "path_anonymized"),  # placeholders
    *("root", "admin", "ubuntu", "Ubuntu", "linux_ubuntu", "ec2-user", "clouduser", "dell", "amd", "cc", "sdp"),
    *("runner", "jenkins", "ray", "jovyan", "kasm-user", "ma-user", "paperspace", "tiger", "zeus"),  # of images
    *("work", "test", "lab", "lib", "shared", "storage", "stud", "kubernetes", "mpi_share", "xla_script.py"),  # folders
}
HOME = re.compile(r"(?<![\w.-])(?:home\d?|Users|users|nethome|userhome|workhome)[/\\]+(?!home/)([A-Za-z0-9][\w.@+-]*)")
MAIL = re.compile(r"(?<![\w.+@-])[\w.+-]+@((?:[a-z0-9-]+\.)+[a-z]{2,})(?![\w-])", re.IGNORECASE)
NO_MAIL = re.compile(r"(?:^|\.)(?:example\.(?:com|net|org)|local|internal|service)$")
"""Domains that belong to nobody, and units of systemd (``sshd@4.service``)."""
ORGANISATION = re.compile(r"(?<![\w.-])(?:[\w-]+\.)+(?:edu|gov|mil|(?:ac|edu|gov)\.[a-z]{2})(?![\w-])")
IPV4 = re.compile(r"(?<![\d.])(?<!\d-)(\d{1,3}(?:[.-]\d{1,3}){3})(?![\d]|[.-]\d)")
IPV6 = re.compile(r"(?<![\w:.])((?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4})(?![\w:.])")
IN_USE = re.compile(r"2(?:00[123]|[468a][0-3][0-9a-f]|c0[0-9a-f]):[0-9a-f]", re.IGNORECASE)
"""Start of the IPv6 addresses that IANA has given out; NCCL prints memory as an address, which starts with anything."""
SOURCE = re.compile(r'"source": "(?:[^"\\]|\\.)*"')
"""Field of the index with the public page that a report was taken from."""
TOKEN = re.compile(
    r"hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
    r"|\bsk-[A-Za-z0-9_-]{20,}|\bA(?:KIA|SIA)[A-Z0-9]{16}|\bAIza[\w-]{30,}|\beyJ[\w-]{20,}\.[\w-]{20,}"
    r"|BEGIN [A-Z ]*PRIVATE KEY|(?i:\bwandb_[a-z_]*key\s*[=:]\s*\w{20,})"
)


def is_public(address: str) -> bool:
    """Return whether this address belongs to somebody: none of RFC 1918, 3849, 5737, 6598, loopback or link-local."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and not IN_USE.match(address):
        return False
    return found.is_global and not found.is_multicast


def private(text: str) -> Iterator[str]:
    """Return what in ``text`` names a person, an organisation or a machine of theirs."""
    yield from (found[0] for found in HOME.finditer(text) if not is_neutral(found[1]))
    yield from (found[0] for found in MAIL.finditer(text) if not NO_MAIL.search(found[1]))
    yield from (found[0] for found in ORGANISATION.finditer(text))
    for found in IPV4.finditer(text):
        dashed = "-" in found[1]
        if is_public(found[1].replace("-", ".")) and (not dashed or text[: found.start()].endswith("ip-")):
            yield found[0]
    yield from (found[0] for found in IPV6.finditer(text) if is_public(found[1]))
    yield from (found[0] for found in TOKEN.finditer(text))


def is_neutral(name: str) -> bool:
    return name in NEUTRAL or re.fullmatch(r"user\d{1,2}", name) is not None


def collected(folder: str) -> Iterator[tuple[Path, str]]:
    """Each collected file of a folder, with its text."""
    for path in sorted(TESTS.glob(f"{folder}/**/*")):
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("test_"):
            raw = path.read_bytes()
            text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode(errors="replace")
            yield path, SOURCE.sub("", text) if path.name == "index.json" else text


@pytest.mark.parametrize("folder", FOLDERS)
def test_collected_texts_name_nobody(folder: str) -> None:
    """The fix: replace each of them by a neutral name (user, host1, example.org, 192.0.2.1) in its whole file."""
    files = list(collected(folder))
    assert len(files) > 10
    named = {str(path.relative_to(TESTS)): found for path, text in files if (found := sorted(set(private(text))))}
    assert not named


@pytest.mark.parametrize(
    "text",
    [
        'File "/home/jdoe/train.py", line 3',
        "/mnt/home/jdoe/train.py",
        "C:\\Users\\jdoe\\train.py",
        "C:\\\\Users\\\\jdoe",
        "mail jane.doe@lab.invalid-name.de today",
        "node1.cs.some-school.edu: rank 1 died",
        "node1.some-school.ac.uk",
        "NET/Socket : Using eth0:9.9.9.9<0>",
        "[::ffff:9.9.9.9]:29500",
        "ip-9-9-9-9.ec2.internal",
        "remote=[2600:1f18:0:1::5]:29500",
        "token hf_" + "a1" * 17,
        "ghp_" + "a1" * 18,
        "OPENAI_API_KEY=sk-" + "a1" * 20,
        "AKIA" + "A1" * 8,
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ],
)
def test_what_names_somebody_is_found(text: str) -> None:
    assert list(private(text))


@pytest.mark.parametrize(
    "text",
    [
        'File "/home/user/train.py", line 3',
        "/home/user2/train.py",
        "/home/.local/lib",
        "user@example.org, root@host-fe1.local, torch@2.service, sshd@4.service",
        "eth0:10.0.0.1<0> 192.168.1.7 172.31.0.4 100.64.0.9 169.254.1.1 127.0.0.1 0.0.0.0 192.0.2.7 224.0.0.1",
        "[::1]:29500 fe80::1 fd00:1148:9000:5000:4:200:3:ff21 2001:db8::2",
        "0000:3b:00.0, 12:17:15, 2026-03-04, ip-10-0-87-143, cudnn 8.9.2.26.1",
        "task-1-2-3-4",
    ],
)
def test_what_names_nobody_is_not(text: str) -> None:
    assert not list(private(text))
