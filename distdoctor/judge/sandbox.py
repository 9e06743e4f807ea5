"""Sandbox for a site's own checks: they can neither end, nor hang, nor garble the run."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType

from distdoctor import interrupts, streams
from distdoctor.judge.uncollected import NotCollected, only_collected
from distdoctor.model.cluster import Cluster
from distdoctor.model.facts import BadFacts, decode, encode
from distdoctor.model.findings import Finding

SECONDS = 5.0
"""Most seconds for a site's file to load, and for its check to judge. Built-in ones take milliseconds."""
AGAIN_SECONDS = 0.1


class Failed(Exception):
    """Error of the sandboxed code; the text gives the reason."""


class _Late(BaseException):
    """Exception raised in code that exceeds its time: repeatedly, in case the code catches it."""


@contextlib.contextmanager
def time_limited(seconds: float | None = SECONDS) -> Iterator[None]:
    """Run the body for at most ``seconds`` (None: without a limit).

    Raises Failed if it takes longer, or raises anything but NotCollected. Its output goes to stderr: stdout belongs to
    the report.
    """
    try:
        with streams.reserved(), _alarm(seconds):
            yield
    except NotCollected:
        raise
    except _Late:
        raise Failed(f"it did not end within {seconds:.1g} s") from None
    except BaseException as err:
        if (signalled := interrupts.interrupted_in(err)) is not None:
            raise signalled from None
        raise Failed(f"{type(err).__name__}: {err}") from err


class Judge:
    """Wrapper of a site's ``judge``: its findings are validated, and it is not called again after it took too long."""

    def __init__(self, judge: Callable[[Cluster], Iterable[Finding]], variables: Sequence[str] = ()) -> None:
        """Wrap ``judge``; ``variables`` are those that the check declares."""
        self._judge, self._variables = judge, variables
        self._failed: Failed | None = None

    def __call__(self, cluster: Cluster) -> list[Finding]:
        """Return the findings. Raises Failed, and NotCollected."""
        if self._failed is not None:
            raise self._failed
        collected = only_collected(cluster, self._variables, iterable=bool(self._variables))
        try:
            with time_limited():
                return [_checked(finding) for finding in self._judge(collected)]
        except Failed as err:
            self._failed = err if err.__cause__ is None else None
            raise


def _checked(finding: object) -> Finding:
    if not isinstance(finding, Finding):
        raise TypeError(f"judge() yields a {type(finding).__name__}, not a Finding")
    try:
        return decode(encode(finding), Finding)
    except BadFacts as err:
        raise TypeError(f"its finding: {err}") from None


@contextlib.contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    running = True

    def late(_number: int, _frame: FrameType | None) -> None:
        if running:
            raise _Late

    before = signal.signal(signal.SIGALRM, late)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        try:
            running = False  # first: an alarm that comes now must not end the rest of this
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, *timer)
