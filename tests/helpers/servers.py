"""Things that listen on loopback for the length of a test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_HOST = """
import sys
from datetime import timedelta
from torch.distributed import TCPStore
libuv = sys.argv[1] == "libuv"
store = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=20), False, use_libuv=libuv)
print(store.port, flush=True)
for line in sys.stdin:
    key, _, value = line.rstrip().partition("=")
    if line.startswith("="):
        print(store.num_keys(), flush=True)
    elif line.startswith("-"):
        print(store.delete_key(line[1:].rstrip()), flush=True)
    elif value:
        store.set(key, value)
        print("set", flush=True)
    else:
        print(store.get(key).decode() if store.check([key]) else "-", flush=True)
"""


class RealStore:
    """A TCPStore in a process of its own, and torch's view of what is in it."""

    def __init__(self, backend: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HOST, backend],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"},
        )
        self.port = int(self._line())

    def set(self, key: str, value: str) -> None:
        """Set through torch."""
        assert self._ask(f"{key}={value}") == "set"

    def get(self, key: str) -> str:
        """Return what torch reads, ``-`` where there is none."""
        return self._ask(key)

    def delete(self, key: str) -> None:
        """Delete through torch, whether it is there or not."""
        self._ask(f"-{key}")

    def keys(self) -> int:
        """Return how many keys it holds."""
        return int(self._ask("="))

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def serving(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port on loopback where each connection is given to ``handle`` and closed afterwards."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        threads: list[threading.Thread] = []

        def one(opened: socket.socket) -> None:
            with opened:
                try:
                    handle(opened)
                except OSError:
                    pass

        def accept() -> None:
            while True:
                try:
                    opened, _ = listener.accept()
                except OSError:
                    return
                opened.settimeout(10)
                threads.append(threading.Thread(target=one, args=(opened,), daemon=True))
                threads[-1].start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join(5)


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose queue is full, where the kernel drops each further SYN: silence, as behind a firewall that drops."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        held = []
        for _ in range(4):
            opened = socket.socket()
            opened.setblocking(False)
            opened.connect_ex(("127.0.0.1", port))
            held.append(opened)
        yield port
        for opened in held:
            opened.close()


def unused_port() -> int:
    """A port of loopback on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
