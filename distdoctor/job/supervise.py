"""Supervision of a job: its output, signals and exit status are passed on unchanged."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import pty
import select
import signal
import stat
import struct
import subprocess
import termios
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PAUSE, SHORT_PAUSE = 0.016, 0.004
"""Seconds between two looks at a job's output: it is read in few pieces, without a visible delay."""
MUCH = 256 << 10
"""Bytes in one look after which the next one follows sooner: a job must not wait because its pipe is full."""
MAX_QUEUED = 64
"""Reads of one output before the next one has its turn."""
LEAVING_SECONDS = 0.2
"""Seconds for which processes that a job has left behind may still close its output."""
ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals by which somebody ends the job."""
_libc = ctypes.CDLL(None)


class Job:
    """One job. Raises OSError if it cannot be started."""

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self.outputs = outputs()
        except OSError:  # no terminal, or no pipe: it then has this process's own
            self.outputs = []
        given = {number: one.given for one in self.outputs for number in one.numbers}
        self._signals = Signals()
        try:
            self.process = subprocess.Popen(
                [*command],
                stdout=given.get(1),
                stderr=given.get(2),
                close_fds=False,  # a launcher may have passed it some
                preexec_fn=self._prepare,  # noqa: PLW1509 - two system calls, and this process has one thread
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._signals.before)
            raise
        for one in self.outputs:
            os.close(one.given)

    def follow(self, tap: Tap, watcher: int | None) -> int:
        """Pass its output on until it has ended, with a copy to ``tap``. Return its return code, -n of signal n."""
        signal_reader, signal_writer = os.pipe()
        os.set_blocking(signal_writer, False)
        self._signals.start(self.process, lambda number: _noted(signal_writer, number), watcher)
        poll = select.poll()
        poll.register(signal_reader, select.POLLIN)
        for one in self.outputs:
            poll.register(one.reads, select.POLLIN)
        while self.process.poll() is None:
            ready = {number for number, _ in poll.poll(20 if not tap.flush() else 1000)}
            if signal_reader in ready:
                self._signalled(os.read(signal_reader, 256), tap)
            moved = [self._hand_on(one, tap) for one in self.outputs if one.reads in ready and not one.ended]
            for one in self.outputs:
                if one.ended and one.reads in ready:
                    poll.unregister(one.reads)
                    one.close()
            if any(moved):
                time.sleep(PAUSE if sum(moved) < MUCH else SHORT_PAUSE)
        self._rest(tap)
        return self.process.returncode

    def copy(self) -> int:
        """Pass its output on without a tap, after following it has failed. Return its return code."""
        self._copy(self.outputs)
        return self.process.wait()

    def _prepare(self) -> None:
        """Restore the signals in the new process, and end it with this one, as with ``kill -9`` of itself."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._signals.before)
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def _hand_on(self, one: Output, tap: Tap | None) -> int:
        """Pass on the available output, up to a limit. Return its bytes."""
        moved = 0
        for _ in range(MAX_QUEUED):
            data = one.read()
            if not data:
                break
            moved += len(data)
            if not one.write(data):
                one.ended = True
                break
            if tap is not None:
                tap.put(self.outputs.index(one), data)
        return moved

    def _signalled(self, numbers: bytes, tap: Tap) -> None:
        resized = [one.resized() for one in self.outputs] if signal.SIGWINCH in numbers else []
        if any(resized):
            os.killpg(os.getpgrp(), signal.SIGWINCH)  # the job may have looked before; this process does once more
        for number in numbers:
            if number in ASKED:
                tap.tell(asked=number)

    def _rest(self, tap: Tap) -> None:
        """Pass on the rest of its outputs. If processes that it left behind hold them open, a process stays for their
        output, as it would stay open without this."""
        end = time.monotonic() + LEAVING_SECONDS
        left = [one for one in self.outputs if not one.ended]
        while left:
            moved = [self._hand_on(one, tap) for one in left]
            left = [one for one in left if not one.ended]
            if left and not any(moved):
                if time.monotonic() > end:
                    break
                time.sleep(0.01)
        if left:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about threads that the new process does not have
                if os.fork() == 0:
                    self._stay(left, tap)

    def _stay(self, left: list[Output], tap: Tap) -> None:
        try:
            tap.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, self._signals.before)
            self._copy(left)
        finally:
            os._exit(0)

    def _copy(self, left: list[Output]) -> None:
        for one in left:
            os.set_blocking(one.reads, True)
        while left := [one for one in left if not one.ended]:
            poll = select.poll()
            for one in left:
                poll.register(one.reads, select.POLLIN)
            ready = {number for number, _ in poll.poll()}
            for one in left:
                if one.reads in ready and (data := one.read()) and not one.write(data):
                    one.close()


def _noted(pipe: int, number: int) -> None:
    try:
        os.write(pipe, bytes([number]))
    except BlockingIOError:  # full: this process looks anyway
        pass


# Stdout and stderr of the job: through a terminal of their own if they go to one, else through a pipe.


CHUNK_BYTES = 1 << 16
PIPE_BYTES = 1 << 20
"""Size that keeps a slow reader from blocking the job."""


@dataclass
class Output:
    """One output of the job."""

    name: str
    reads: int
    """Descriptor at which the job's output is read."""
    given: int
    """Descriptor for the job; closed once it has it."""
    writes: int
    """Descriptor to which it is passed on: 1 or 2."""
    numbers: tuple[int, ...]
    """Descriptors of the job that it is."""
    terminal: bool
    ended: bool = False

    def read(self) -> bytes:
        """Return the available output, empty without any; the end is noted."""
        try:
            data = os.read(self.reads, CHUNK_BYTES)
        except BlockingIOError:
            return b""
        except OSError:  # a terminal that nobody has open any more
            data = b""
        self.ended = not data
        return data

    def write(self, data: bytes) -> bool:
        """Pass it on, all of it; False if nobody reads it any more."""
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
        """Stop reading: the job's next write fails, as it would without this."""
        self.ended = True
        with contextlib.suppress(OSError):
            os.close(self.reads)

    def resized(self) -> bool:
        """Give its terminal the size of the one it stands for. Return whether the size changed."""
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
    """Return the outputs for the job's stdout and stderr: one for both if they are the same.

    A closed one stays closed. Raises OSError without a terminal or pipe left.
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
    settings[1] &= ~termios.OPOST  # the terminal itself converts line ends
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


# Copy of the job's output for the watcher, never at the cost of the job.


HELD = 64 << 20
"""Bytes that wait for a watcher that is slower than the job; beyond them the oldest are dropped."""
_HEAD = struct.Struct("!BI")
MESSAGE = 255
"""Kind of a message about the job, which is no output."""


class Tap:
    """End that the job's side writes to."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._waiting: deque[bytes] = deque()
        self._held = 0
        self._rest = memoryview(b"")
        self.lost = 0
        """Bytes that were dropped."""
        self.open = True
        os.set_blocking(pipe, False)
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def tell(self, **message: Any) -> None:
        """Queue a message about the job."""
        self.put(MESSAGE, json.dumps(message).encode())

    def put(self, kind: int, data: bytes) -> None:
        """Queue output number ``kind`` of the job."""
        if not self.open:
            return
        self._waiting.append(_HEAD.pack(kind, len(data)) + data)
        self._held += len(data)
        while self._held > HELD and len(self._waiting) > 1:
            oldest = 1 if self._waiting[0][0] == MESSAGE else 0
            block = self._waiting[oldest]
            del self._waiting[oldest]
            self.lost += len(block) - _HEAD.size
            self._held -= len(block) - _HEAD.size
        self.flush()

    def flush(self) -> bool:
        """Write what the pipe takes now. Return whether nothing waits any more."""
        try:
            while self._rest or self._waiting:
                if not self._rest:
                    block = self._waiting.popleft()
                    self._held -= len(block) - _HEAD.size
                    self._rest = memoryview(block)
                self._rest = self._rest[os.write(self._pipe, self._rest) :]
        except BlockingIOError:
            return False
        except OSError:  # the watcher is gone
            self.close()
        return True

    def drain(self, seconds: float) -> None:
        """Write all that waits, within ``seconds``, and close."""
        end = time.monotonic() + seconds
        while not self.flush() and time.monotonic() < end:
            time.sleep(0.01)
        self.close()

    def close(self) -> None:
        """Close: nothing more follows."""
        if self.open:
            self.open = False
            self._waiting.clear()
            self._rest = memoryview(b"")
            with contextlib.suppress(OSError):
                os.close(self._pipe)


class Frames:
    """Watcher's side: splits the stream into frames, in memory that is reused."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(PIPE_BYTES))
        self._filled = 0

    def read(self, pipe: int) -> int:
        """Read the available bytes. Return their number, 0 at the end. Raises OSError."""
        read = os.readv(pipe, [self._buffer[self._filled :]])
        self._filled += read
        return read

    def take(self) -> Iterator[tuple[int, bytes]]:
        """Yield the complete frames: kind, and bytes."""
        at, filled = 0, self._filled
        while filled - at >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._buffer, at)
            end = at + _HEAD.size + size
            if end > filled:
                break
            yield kind, bytes(self._buffer[at + _HEAD.size : end])
            at = end
        self._filled = filled - at
        self._buffer[: self._filled] = self._buffer[at:filled]


# Signals of the process in front of the job: each is passed to the job, once.


SI_KERNEL = 0x80
"""si_code of the kernel: for SIGINT, SIGQUIT and SIGHUP it is the terminal, which sends them to the whole process
group, the job with it (sigaction(2), asm-generic/siginfo.h)."""
SAME_SECONDS = 0.02
_NOT_OURS = (
    "SIGKILL", "SIGSTOP", "SIGCHLD", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT", "SIGPIPE", "SIGSEGV", "SIGBUS",
    "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGSTKFLT", "SIGXFSZ", "SIGURG",
)  # fmt: skip
"""Signals that cannot be caught, that stop and continue the job (they are for the group), or that are this process's
own."""


def handed_on() -> set[signal.Signals | int]:
    """Return the signals that are passed to the job."""
    own = {getattr(signal, name) for name in _NOT_OURS if hasattr(signal, name)}
    return {number for number in signal.valid_signals() if number not in own}


class Signals:
    """Signals that wait from construction on; from :meth:`start` on a thread passes them on."""

    def __init__(self) -> None:
        self._numbers = handed_on()
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers | {signal.SIGCHLD})
        """Signal mask before: the job's own."""

    def start(self, job: subprocess.Popen[bytes], tell: Callable[[int], None], witness: int | None) -> None:
        """Pass them to the job. ``tell`` gets each, also that of an ended child.

        A signal to the whole process group has reached the job already. ``witness``: another process of the group, in
        which these signals are blocked: one that waits there, too, was not for this process alone.
        """

        def hand_on() -> None:
            while True:
                info = signal.sigwaitinfo(self._numbers | {signal.SIGCHLD})
                number = info.si_signo
                mine = number not in (signal.SIGCHLD, signal.SIGWINCH) and info.si_code != SI_KERNEL
                if mine and not (witness is not None and _waits(number, witness)):
                    job.send_signal(number)
                tell(number)

        threading.Thread(target=hand_on, name="signals", daemon=True).start()


def forget() -> None:
    """Drop the pending signals of the witness, now and then: they are of the past."""
    while signal.sigtimedwait(handed_on(), 0) is not None:
        pass


def end_by(number: int) -> None:
    """End this process by a signal, as the job ended; it returns if the signal does not end it."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def _waits(number: int, pid: int) -> bool:
    """Return whether a signal waits in a process, to which it may be sent only a moment later than to this one."""
    time.sleep(SAME_SECONDS)
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    waiting = next((line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:")), "0")
    return bool(int(waiting, 16) >> (number - 1) & 1)
