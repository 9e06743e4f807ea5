"""What a relay does (``distdoctor.launch.tree``): it starts ssh to its share of the hosts, and passes on what both say.

It ends with its line: what it has started is ended, and each host hears that its own line has.
"""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
import threading
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import IO, Any, Protocol

from distdoctor import interrupts
from distdoctor.launch.ways import SSH
from distdoctor.launch.wire import MOST_LINE

RELAY_CONNECT = "-oConnectTimeout=3"
"""How long the ssh to a relay, and that of a relay, try to connect: of hosts that are near each other, and whom this
does not reach is called otherwise. ssh takes the first that it is given."""
LOOK_SECONDS = 0.1
NO_COMMAND = 127
"""The status of a host to which no ssh could be started, as a shell's."""


class Up(Protocol):
    """The line to the place that the command was started from."""

    beside: SimpleQueue[dict[str, Any]]

    def tell(self, **message: Any) -> None:
        """Send one message."""


def pass_on(line: Up, order: Mapping[str, Any]) -> int:
    """Until all of its hosts have ended their part, or the line has ended."""
    leaves = {
        int(number): _Leaf(line, int(number), ssh_to(host, str(order["there"][number])))
        for number, host in order["hosts"].items()
    }
    try:
        while interrupts.pending() is None and any(leaf.at_work for leaf in leaves.values()):
            try:
                message = line.beside.get(timeout=LOOK_SECONDS)
            except Empty:
                continue
            leaf = leaves.get(message.get("to", -1))
            if leaf is not None and "end" in message:
                leaf.end()
            elif leaf is not None:
                leaf.tell(str(message.get("text", "")).encode())
    finally:
        for leaf in leaves.values():
            leaf.end()
    return 0


def ssh_to(host: Mapping[str, Any], there: str) -> list[str]:
    """The command line. Raises ValueError where its address is none."""
    where = {
        "HostName": str(ipaddress.ip_address(str(host["address"]))),
        "HostKeyAlias": str(host["alias"]),
        "User": str(host["user"]),
        "Port": str(int(host["port"])),
    }
    return [
        "ssh",
        RELAY_CONNECT,
        *(f"-o{key}={value}" for key, value in where.items()),
        *SSH[1:],
        "--",
        str(host["name"]),
        there,
    ]


class _Leaf:
    """The ssh to one host."""

    def __init__(self, line: Up, number: int, command: Sequence[str]) -> None:
        self._line, self._number = line, number
        self._process: subprocess.Popen[bytes] | None = None
        self._passing = threading.Thread(target=self._run, args=(command,), name=f"host {number}", daemon=True)
        self._begun = threading.Event()
        self._passing.start()
        self._begun.wait()

    @property
    def at_work(self) -> bool:
        """Whether there is more to be passed on."""
        return self._passing.is_alive()

    def tell(self, data: bytes) -> None:
        """To its stdin; where nobody reads that any more, its end is told soon."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(data)
                self._process.stdin.flush()

    def end(self) -> None:
        """End it: the host hears that its line has ended."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.terminate()

    def _run(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as err:
            self._line.tell(of=self._number, err=f"{command[0]}: {err.strerror}")
            self._line.tell(of=self._number, ended=NO_COMMAND)
            return
        finally:
            self._begun.set()
        assert self._process.stdout is not None and self._process.stderr is not None
        said = threading.Thread(target=self._pass_on, args=("err", self._process.stderr), daemon=True)
        said.start()
        self._pass_on("out", self._process.stdout)
        said.join()
        self._line.tell(of=self._number, ended=self._process.wait())

    def _pass_on(self, kind: str, stream: IO[bytes]) -> None:
        """Line by line; one without an end goes in parts, none of which is taken for a message."""
        for text in iter(lambda: stream.readline(MOST_LINE), b""):
            self._line.tell(of=self._number, **{kind: text.rstrip(b"\r\n").decode(errors="replace")})
