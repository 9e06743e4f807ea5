"""The job's stdout and stderr: through a terminal of their own where they go to one, else through a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import stat
import struct
import termios
from dataclasses import dataclass

AT_ONCE = 1 << 16
PIPE_BYTES = 1 << 20
"""A job is not held up by whoever reads it slowly."""


@dataclass
class Output:
    """One way out of the job."""

    name: str
    reads: int
    """Where what the job writes comes out."""
    given: int
    """What the job is given for it; closed once it has it."""
    writes: int
    """Where it goes: 1 or 2."""
    numbers: tuple[int, ...]
    """Which descriptors of the job's it is."""
    terminal: bool
    ended: bool = False

    def read(self) -> bytes:
        """What is there, empty where nothing is; the end is noted."""
        try:
            data = os.read(self.reads, AT_ONCE)
        except BlockingIOError:
            return b""
        except OSError:  # a terminal that nobody has open any more
            data = b""
        self.ended = not data
        return data

    def write(self, data: bytes) -> bool:
        """Hand it on, all of it; False where nobody reads it any more."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self.writes, left) :]
            except BlockingIOError:
                ready = select.poll()
                ready.register(self.writes, select.POLLOUT)
                ready.poll()
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Read no more of it: the job's next word finds nobody, as it would without this."""
        self.ended = True
        with contextlib.suppress(OSError):
            os.close(self.reads)

    def resized(self) -> bool:
        """Give its terminal the size of the one it stands for; whether that is another one now."""
        if not self.terminal:
            return False
        try:
            size = _size(self.writes)
            if size == _size(self.reads):
                return False
            fcntl.ioctl(self.reads, termios.TIOCSWINSZ, size)
        except OSError:
            return False
        return True


def outputs() -> list[Output]:
    """What the job is to be given for its stdout and stderr: one for both where they are the same.

    What is closed stays closed. Raises OSError where there is no terminal or pipe left.
    """
    found = [number for number in (1, 2) if _is_open(number)]
    if len(found) == 2 and _same(1, 2):
        return [_output("output", (1, 2))]
    names = {1: "stdout", 2: "stderr"}
    return [_output(names[number], (number,)) for number in found]


def _output(name: str, numbers: tuple[int, ...]) -> Output:
    writes = numbers[0]
    if not os.isatty(writes):
        reads, given = os.pipe()
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(reads, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(reads, False)
        return Output(name, reads, given, writes, numbers, terminal=False)
    reads, given = pty.openpty()
    settings = termios.tcgetattr(writes)
    settings[1] &= ~termios.OPOST  # the terminal itself makes lines of what comes
    termios.tcsetattr(given, termios.TCSANOW, settings)
    os.set_blocking(reads, False)
    made = Output(name, reads, given, writes, numbers, terminal=True)
    made.resized()
    return made


def _size(number: int) -> bytes:
    return fcntl.ioctl(number, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _same(one: int, other: int) -> bool:
    first, second = os.fstat(one), os.fstat(other)
    if stat.S_ISCHR(first.st_mode) and first.st_rdev == second.st_rdev:
        return True
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
