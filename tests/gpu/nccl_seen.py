"""What NCCL itself picks and reads, kept: it says so while it makes a unique id, for which it needs no GPU.

    python3 tests/gpu/nccl_seen.py FILE LIBRARY...   as root; each a libnccl.so.2, as of the wheels of nvidia-nccl-cu12

In network and mount namespaces of its own it lays out hosts with interfaces of many kinds, and files of settings; for
each, with some settings, each library is asked. FILE gets a JSON object: of each host its interfaces as distdoctor sees
them, and of each library what it said. tests/knowledge/test_nccl_seen.py holds the rules of distdoctor against it.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INSIDE = "NCCL_SEEN_INSIDE"
ASKED = 30
"""Seconds for one answer."""
MARK = "read: "
ID_BYTES = 128

Link = tuple[str, str, tuple[str, ...]]
"""Name, kind (``up``, ``down``, ``no carrier``, ``bridge``), addresses."""
LO: Link = ("lo", "up", ())
ETH0: Link = ("eth0", "up", ("10.0.0.5/24",))
DOCKER: Link = ("docker0", "bridge", ("172.17.0.1/16",))
VIRBR: Link = ("virbr0", "bridge", ("192.168.122.1/24",))
HOSTS: dict[str, tuple[Link, ...]] = {
    "one card": (LO, ETH0),
    "docker": (LO, DOCKER, ETH0),
    "docker alone": (LO, DOCKER),
    "libvirt": (LO, VIRBR, ETH0),
    "libvirt alone": (LO, VIRBR),
    "loopback alone": (LO,),
    "both families": (LO, ("eth0", "up", ("10.0.0.5/24", "fd00:5::5/64"))),
    "IPv6 alone": (LO, ("eth0", "up", ("fd00:5::5/64",))),
    "link-local alone": (LO, ("eth0", "up", ())),
    "down and then up": (LO, ("eno1", "down", ("10.9.0.5/24",)), ETH0),
    "no carrier and then up": (LO, ("eno1", "no carrier", ("10.9.0.5/24",)), ETH0),
    "no carrier alone": (LO, ("eno1", "no carrier", ("10.9.0.5/24",))),
    "InfiniBand": (LO, ETH0, ("ib0", "up", ("10.2.0.5/24",)), ("ib1", "up", ("10.3.0.5/24",))),
    "InfiniBand without a cable": (LO, ETH0, ("ib0", "no carrier", ("10.2.0.5/24",))),
    "InfiniBand that is down": (LO, ETH0, ("ib0", "down", ("10.2.0.5/24",))),
    "InfiniBand by another name": (LO, ETH0, ("ibp65s0", "up", ("10.2.0.5/24",))),
    "no address": (LO, ("eth9", "up", ()), ETH0),
    "two addresses": (LO, ("eth0", "up", ("10.0.0.5/24", "10.7.0.5/24"))),
    "VPN": (LO, ("tun0", "up", ("10.8.0.5/24",)), ETH0),
    "veth": (LO, DOCKER, ("veth1a2b", "up", ()), ETH0),
    "many": (
        *(LO, DOCKER, VIRBR, ("eno1", "down", ("10.9.0.5/24",)), ETH0, ("eth1", "up", ("10.1.0.5/24",))),
        *(("eth10", "up", ("10.10.0.5/24",)), ("enp3s0f0", "up", ("10.4.0.5/24",))),
    ),
}
NAMED = (
    *("eth0", "eth1", "eth", "=eth0", "=eth", "=eth1,eth10", "^eth", "^=eth0", "^docker,lo", "^docker0,lo,virbr0,eth0"),
    *("eno1", "=eno1", "^eno1,lo", "en", "enp3s0f0", "eth1,eth0", "nope", "nope,eth1", "nope, eth1", " eth1", "eth1 "),
    *("eth1:1", "=eth1:1", "lo", "docker0", "docker", "^=lo", "e", "^", "=", "", ",eth1", "^^eth0", "==eth0", "ETH1"),
)
FAMILIES = ("AF_INET", "AF_INET6", "af_inet6", "inet6", "AF_INET6 ", "", "6")
SETTINGS: dict[str, tuple[dict[str, str], ...]] = {
    "many": ({}, *({"NCCL_SOCKET_IFNAME": name} for name in NAMED)),
    "both families": (
        *({"NCCL_SOCKET_FAMILY": family} for family in FAMILIES),
        {"NCCL_SOCKET_FAMILY": "AF_INET6", "NCCL_SOCKET_IFNAME": "eth0"},
        {"NCCL_SOCKET_FAMILY": "AF_INET6", "NCCL_SOCKET_IFNAME": "lo"},
    ),
    "one card": ({}, {"NCCL_SOCKET_FAMILY": "AF_INET6"}),
    "InfiniBand without a cable": ({}, {"NCCL_SOCKET_IFNAME": "ib0"}, {"NCCL_SOCKET_IFNAME": "ib"}),
    "InfiniBand that is down": ({}, {"NCCL_SOCKET_IFNAME": "ib0"}),
    "no carrier alone": ({}, {"NCCL_SOCKET_IFNAME": "eno1"}),
    "IPv6 alone": ({}, {"NCCL_SOCKET_FAMILY": "AF_INET"}, {"NCCL_SOCKET_FAMILY": "AF_INET6"}),
}
"""Of the other hosts: none."""
ALGO, PROTO, NET = "NCCL_ALGO", "NCCL_PROTO", "NCCL_NET"
READ = (ALGO, PROTO, NET)
FILES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "named": ({"/named.conf": "NCCL_ALGO=Ring\n"}, {"NCCL_CONF_FILE": "/named.conf"}),
    "named and set": ({"/named.conf": "NCCL_ALGO=Ring\n"}, {"NCCL_CONF_FILE": "/named.conf", ALGO: "Tree"}),
    "set to nothing": ({"/named.conf": "NCCL_ALGO=Ring\n"}, {"NCCL_CONF_FILE": "/named.conf", ALGO: ""}),
    "named before the system's": (
        {"/named.conf": "NCCL_ALGO=Ring\n", "/etc/nccl.conf": "NCCL_ALGO=Tree\nNCCL_PROTO=LL\n"},
        {"NCCL_CONF_FILE": "/named.conf"},
    ),
    "the user's before the system's": (
        {"/root/.nccl.conf": "NCCL_ALGO=Ring\n", "/etc/nccl.conf": "NCCL_ALGO=Tree\nNCCL_PROTO=LL\n"},
        {},
    ),
    "named, and the user's": (
        {"/named.conf": "NCCL_ALGO=Ring\n", "/root/.nccl.conf": "NCCL_ALGO=Tree\nNCCL_PROTO=LL\n"},
        {"NCCL_CONF_FILE": "/named.conf"},
    ),
    "named, and not there": ({"/root/.nccl.conf": "NCCL_ALGO=Tree\n"}, {"NCCL_CONF_FILE": "/absent.conf"}),
    "named as nothing": ({"/root/.nccl.conf": "NCCL_ALGO=Tree\n"}, {"NCCL_CONF_FILE": ""}),
    "another home": ({"/elsewhere/.nccl.conf": "NCCL_ALGO=Tree\n"}, {"HOME": "/elsewhere"}),
    "comments": ({"/etc/nccl.conf": "#NCCL_ALGO=Ring\n # NCCL_PROTO=LL\nNCCL_NET=Socket # why\n"}, {}),
    "blanks": ({"/etc/nccl.conf": " NCCL_ALGO=Ring\nNCCL_PROTO = LL\nNCCL_NET= Socket\n"}, {}),
    "blanks after": ({"/etc/nccl.conf": "NCCL_ALGO=Ring \n"}, {}),
    "quotes": ({"/etc/nccl.conf": 'NCCL_ALGO="Ring"\n'}, {}),
    "export": ({"/etc/nccl.conf": "export NCCL_ALGO=Ring\nNCCL_PROTO=LL\n"}, {}),
    "no line's end": ({"/etc/nccl.conf": "NCCL_ALGO=Ring\nNCCL_PROTO=LL"}, {}),
    "Windows": ({"/etc/nccl.conf": "NCCL_ALGO=Ring\r\nNCCL_PROTO=LL\r\n"}, {}),
    "twice": ({"/etc/nccl.conf": "NCCL_ALGO=Ring\nNCCL_ALGO=Tree\n"}, {}),
    "an equals sign within": ({"/etc/nccl.conf": "NCCL_ALGO=a=b\nNCCL_PROTO=\n"}, {}),
    "empty lines": ({"/etc/nccl.conf": "\n\nNCCL_ALGO=Ring\n\nnothing\nNCCL_PROTO=LL\n"}, {}),
}


def main(file: str, libraries: list[str]) -> None:
    if INSIDE not in os.environ:
        command = ["unshare", "--net", "--mount", sys.executable, __file__, os.path.abspath(file)]
        environment = {**os.environ, INSIDE: "1", "PYTHONPATH": str(ROOT)}
        command += map(os.path.abspath, libraries)
        raise SystemExit(subprocess.run(command, env=environment, check=False).returncode)
    from distdoctor.probes.network.interfaces import interfaces  # not for those who are asked: it loads much

    askers = [Asker(path) for path in libraries]
    found: dict[str, Any] = {"hosts": {}, "files": []}
    ip("link", "set", "lo", "up")
    for name, links in HOSTS.items():
        lay_out(links)
        found["hosts"][name] = {
            "interfaces": [[one.name, one.up, one.addresses] for one in interfaces()],
            "rows": [
                {"env": env, "said": together((asker.version, said(asker.ask(env))) for asker in askers)}
                for env in SETTINGS.get(name, ({},))
            ],
        }
        for link, _, _ in links[1:]:
            ip("link", "delete", link)
    for name, files, env in written():
        answers = together((asker.version, read(asker.ask(env))) for asker in askers)
        found["files"].append({"name": name, "files": files, "env": env, "read": answers})
    text = json.dumps(found, indent=1)
    Path(file).write_text(re.sub(r"\n {4,}|\n {3,}(?=[\]}])", " ", text) + "\n")


def together(answers: Iterable[tuple[str, Any]]) -> list[tuple[list[str], Any]]:
    """Each answer once, behind the versions that gave it."""
    found: list[tuple[list[str], Any]] = []
    for version, answer in answers:
        same = next((versions for versions, known in found if known == answer), None)
        if same is None:
            found.append(([version], answer))
        else:
            same.append(version)
    return found


def lay_out(links: tuple[Link, ...]) -> None:
    """A host's interfaces; what is up has the other end of a cable that is up, which has no address."""
    for name, kind, addresses in links[1:]:
        if kind == "bridge":
            ip("link", "add", name, "type", "bridge")
        else:
            ip("link", "add", name, "type", "veth", "peer", "name", f"z{name}")
            Path(f"/proc/sys/net/ipv6/conf/z{name}/disable_ipv6").write_text("1")
        if not addresses and name.startswith("veth"):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
        Path(f"/proc/sys/net/ipv6/conf/{name}/accept_dad").write_text("0")
        for address in addresses:
            ip("address", "add", address, "dev", name)
        if kind == "up":
            ip("link", "set", f"z{name}", "up")
        if kind != "down":
            ip("link", "set", name, "up")


def written() -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """Each set of files, while they are there."""
    needed = {path: path.read_bytes() for path in map(Path, ("/etc/passwd", "/etc/nsswitch.conf"))}
    for folder in ("/root", "/etc"):  # those of this machine are not changed
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    for path, content in needed.items():
        path.write_bytes(content)
    for name, (files, env) in FILES.items():
        with_roots = {place(path): text for path, text in files.items()}
        for file, text in with_roots.items():
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_bytes(text.encode())
        yield name, with_roots, {key: place(value) if value.startswith("/") else value for key, value in env.items()}
        for file in with_roots:
            Path(file).unlink()


def place(path: str) -> str:
    return path if path.startswith(("/etc/", "/root/")) else f"/root{path}"


class Asker:
    """A process that has loaded a library and asks it, each time in a fork: NCCL reads its settings once."""

    def __init__(self, library: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--ask", library],
            env={name: value for name, value in os.environ.items() if not name.startswith("NCCL_")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.version: str = self._line()

    def ask(self, env: dict[str, str]) -> str:
        """Return what the library says with these variables."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(env) + "\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        found: str = json.loads(self._process.stdout.readline())
        return found


def answer(library: str) -> None:
    """What an Asker has begun: a line with the version, then one for each that it reads."""
    nccl, libc = ctypes.CDLL(library), ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    number = ctypes.c_int()
    nccl.ncclGetVersion(ctypes.byref(number))
    tell(f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}")
    for line in sys.stdin:
        output, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(into, 1)
            os.environ.update({"NCCL_DEBUG": "INFO", **json.loads(line)})
            signal.alarm(ASKED)
            nccl.ncclGetUniqueId(ctypes.create_string_buffer(ID_BYTES))
            known = {name: value.decode() for name in READ if (value := libc.getenv(name.encode())) is not None}
            libc.fflush(None)
            os.write(1, f"{MARK}{json.dumps(known)}\n".encode())
            os._exit(0)
        os.close(into)
        with os.fdopen(output) as text:
            tell(text.read())
        os.waitpid(child, 0)


def tell(text: str) -> None:
    sys.stdout.write(json.dumps(text) + "\n")
    sys.stdout.flush()


def said(text: str) -> list[str]:
    """The lines about the interface, without the time, the host, the process and the thread."""
    lines = [line for line in text.splitlines() if "ootstrap" in line or " -> " in line]
    return [re.sub(r"^(?:\[[^\]]*\] )?\S+:\d+:\d+ \[\d+\] ", "", line) for line in lines]


def read(text: str) -> dict[str, str]:
    (line,) = (line for line in text.splitlines() if line.startswith(MARK))
    found: dict[str, str] = json.loads(line.removeprefix(MARK))
    return found


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "--ask":
        answer(sys.argv[2])
    else:
        main(sys.argv[1], sys.argv[2:])
