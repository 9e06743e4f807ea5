"""The job, started as it is: its output handed on byte for byte, its signals and its exit status too."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
import warnings
from collections.abc import Sequence

from distdoctor.job.outputs import Output, outputs
from distdoctor.job.signals import Signals
from distdoctor.job.tap import Tap

PR_SET_PDEATHSIG = 1
PAUSE, SHORT_PAUSE = 0.016, 0.004
"""Seconds between two looks at what a job writes: so it is taken in few pieces, and nobody sees that it comes later."""
MUCH = 256 << 10
"""Bytes in one look after which the next one comes sooner: a job is not to wait because its pipe is full."""
AT_ONCE = 64
"""Reads of one output before the next one has its turn."""
LEAVING_SECONDS = 0.2
"""How long what a job has left behind may still close its output."""
ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""With one of them somebody ends the job."""
_libc = ctypes.CDLL(None)


class Job:
    """One job. Raises OSError where it cannot be started."""

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
                close_fds=False,  # a launcher may have given it some
                preexec_fn=self._prepare,  # noqa: PLW1509 - two system calls, and this process has one thread
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._signals.before)
            raise
        for one in self.outputs:
            os.close(one.given)

    def follow(self, tap: Tap, watcher: int | None) -> int:
        """Hand on what it writes until it has ended, with a copy to ``tap``; its return code, -n of signal n."""
        told, tell = os.pipe()
        os.set_blocking(tell, False)
        self._signals.start(self.process, lambda number: _noted(tell, number), watcher)
        poll = select.poll()
        poll.register(told, select.POLLIN)
        for one in self.outputs:
            poll.register(one.reads, select.POLLIN)
        while self.process.poll() is None:
            ready = {number for number, _ in poll.poll(20 if not tap.flush() else 1000)}
            if told in ready:
                self._signalled(os.read(told, 256), tap)
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
        """The same where following it has failed: hand on what it writes, and nothing else; its return code."""
        self._copy(self.outputs)
        return self.process.wait()

    def _prepare(self) -> None:
        """In the new process: the signals as they were, and it ends with this one, as with ``kill -9`` of itself."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._signals.before)
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def _hand_on(self, one: Output, tap: Tap | None) -> int:
        """Hand on what is there, up to a limit; how many bytes that was."""
        moved = 0
        for _ in range(AT_ONCE):
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
        """What is still in its outputs. Where others that it has left behind hold them open, a process stays for what
        they will write, as their output would stay open without this."""
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
                warnings.simplefilter("ignore")  # of threads that the new process does not have
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
    except BlockingIOError:  # it is full of others: this process looks anyway
        pass
