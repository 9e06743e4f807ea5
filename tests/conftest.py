"""Real stores and a real zygote, one of each for all tests; and which tests are only run when they are asked for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.helpers import report_schema
from tests.helpers.running import Running
from tests.helpers.servers import RealStore


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked ``scoreboard`` or ``perf``, unless it is asked for by -m or -k."""
    left_out = [mark for mark in ("scoreboard", "perf") if mark not in str(config.option.markexpr)]
    if not config.option.keyword:
        items[:] = [item for item in items if not any(item.get_closest_marker(mark) for mark in left_out)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--cpu-times FILE``: what each test costs."""
    parser.addoption("--cpu-times", metavar="FILE", help="write each test's seconds of processor time and of waiting")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A line of the test in that file: its own seconds of processor time with those of all that it started and waited
    for, and how long it took, its set-up and end with it."""
    file, began, before = item.config.getoption("--cpu-times"), time.monotonic(), sum(os.times()[:4])
    try:
        return (yield)
    finally:
        if file:
            with open(file, "a") as lines:
                lines.write(f"{sum(os.times()[:4]) - before:.2f}\t{time.monotonic() - began:.2f}\t{item.nodeid}\n")


def pytest_configure() -> None:
    """Reports are held against their schema. What nohup, or a shell that starts the tests in the background, has
    ignored is not handed on to what they start: many of them are about signals."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    report_schema.watch()


@pytest.fixture(scope="session", params=["libuv", "legacy"])
def store(request: pytest.FixtureRequest) -> Iterator[RealStore]:
    """A TCPStore of torch, with each of its two servers."""
    real = RealStore(request.param)
    yield real
    real.close()


@pytest.fixture(scope="session")
def shared() -> Iterator[Running]:
    """One zygote for the tests that leave it whole. Its environment names an interface that is not there."""
    os.environ["GLOO_SOCKET_IFNAME"] = "nosuch0"
    try:
        running = Running()
    finally:
        del os.environ["GLOO_SOCKET_IFNAME"]
    yield running
    running.close()
