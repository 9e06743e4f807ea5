"""``distdoctor mcp``, asked by the SDK's own client: answers within bounds, errors for what makes no sense."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from distdoctor.cli.bounded import NoAnswer, document
from distdoctor.job.subprocess import ENDING_SECONDS
from distdoctor.knowledge.live.job import PAUSE
from tests.helpers.commands import environment
from tests.helpers.namespaces import ROOT

mcp = pytest.importorskip("mcp", reason="pip install '.[mcp]'")
anyio = pytest.importorskip("anyio")

FACTS = ROOT / "tests/recorded/cases/127-0-1-1-on-both.json.gz"
REFUSED = "RuntimeError: [/gloo/transport/tcp/pair.cc:144] connect [127.0.1.1]:41904: Connection refused"
CLIENTS_PATIENCE = 60.0
"""Seconds after which clients of the TypeScript SDK give up (DEFAULT_REQUEST_TIMEOUT_MSEC)."""
BOUND = 2 * CLIENTS_PATIENCE
"""Seconds for one call here: the server's own limit passes first, on any machine."""


def session(talk: Callable[[Any], Awaitable[None]], **variables: str) -> None:
    """Start the server as a client does, and talk with it."""
    words = ["-m", "distdoctor", "mcp"]
    server = mcp.StdioServerParameters(command=sys.executable, args=words, env=environment(**variables))

    async def run() -> None:
        async with mcp.Client(mcp.stdio_client(server)) as client:
            await talk(client)

    anyio.run(run)


RANK = "print(flush=True), input()"
"""Program that waits, started with the variables of a rank: a job that hangs."""


def calls(pid: int) -> tuple[tuple[str, dict[str, Any], str, str], ...]:
    """Return tool, arguments, and a field of the document with a text in it, whatever else this machine runs.

    ``pid`` is a job's process.
    """
    return (
        ("check", {"until": "network"}, "plan", "'alone': True"),
        ("check", {"until": "environment", "nproc_per_node": 2, "timeout": 30}, "plan", "'nproc_per_node': 2"),
        ("hang", {"pid": pid}, "findings", "process/waiting-in-user-code"),
        ("hang", {"pid": pid, "native_stacks": True}, "findings", "process/waiting-in-user-code"),
        ("diagnose", {"paths": [str(FACTS)]}, "findings", "gloo/loopback-address"),
        ("diagnose", {"text": f"[rank0]: Traceback (most recent call last):\n[rank0]: {REFUSED}\n"}, "verdict", "fail"),
        ("explain", {"subject": "gloo/loopback-address"}, "id", "gloo/loopback-address"),
        ("explain", {"subject": "Connection refused"}, "candidates", "network/port-refused"),
        ("list", {}, "checks", "gloo/loopback-address"),
        ("list", {"prefix": "mesh"}, "checks", "mesh/node-isolated"),
    )


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_calls_are_answered_within_their_bound() -> None:
    launch = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}

    async def talk(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"check", "hang", "diagnose", "explain", "list"}
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools.values())
        for name, arguments, field, needed in calls(rank.pid):
            if name == "hang":
                # A rank that has read for less may just be slow, and fast machines have answered the checks by then.
                await anyio.sleep(max(0.0, began + PAUSE + 1 - time.monotonic()))
            with anyio.fail_after(BOUND):
                answer = await client.call_tool(name, arguments)
            assert not answer.is_error, (name, answer.content)
            assert needed in str(answer.structured_content[field]), (name, arguments, answer.structured_content)
            assert 0 < len(answer.content[0].text) < 60_000

    with subprocess.Popen(
        [sys.executable, "-c", RANK], env=environment(RANK="0", **launch), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as rank:
        assert rank.stdout is not None and rank.stdout.readline()
        began = time.monotonic()
        # A launch around the server is none of its own.
        session(talk, RANK="1", WORLD_SIZE="2", MASTER_ADDR="no-such-host")


def test_a_call_ends_with_a_reason_before_clients_give_up() -> None:
    """Such as by the TypeScript SDK's default. A longer check has to be asked for."""
    server = pytest.importorskip("distdoctor.cli.mcp")
    most = server.CHECK_SECONDS + server.MARGIN_SECONDS
    ends = [limit + ENDING_SECONDS for limit in (server.SHORT_SECONDS, server.HANG_SECONDS, server.LOG_SECONDS)]
    assert max(*ends, most + ENDING_SECONDS) <= CLIENTS_PATIENCE
    with pytest.raises(NoAnswer, match=r"distdoctor list did not end within 0.001 s.*; run it in a shell"):
        document("list", "--json", seconds=0.001)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_hostile_input_is_an_error_and_nothing_else(tmp_path: Path) -> None:
    asked: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("check", {"until": "network --hosts=x"}, "is not known"),
        ("check", {"until": "network", "timeout": 10**9}, "timeout must be"),
        ("check", {"backend": f"gloo --save={tmp_path}/saved"}, "backend"),
        ("check", {"nproc_per_node": "8; touch x"}, "nproc_per_node"),
        ("hang", {"pid": [1]}, "pid"),
        ("hang", {"pid": 2**31 - 1}, "there is no such process"),
        ("diagnose", {}, "give paths"),
        ("diagnose", {"paths": [f"--output=json={tmp_path}/written"]}, "there is no such file"),
        ("diagnose", {"paths": ["x\0y"]}, "NUL"),
        ("diagnose", {"paths": ["x"] * 2000}, "at most"),
        ("diagnose", {"text": "x", "rank": f"0 -o json={tmp_path}/written"}, "--rank"),
        ("explain", {"subject": "-" * 100_000}, "at most"),
        ("explain", {"subject": "no/such-check"}, "no check"),
        ("list", {"prefix": "--checks=/etc"}, "no check begins"),
        ("run", {"command": "touch x"}, "run"),
    )

    async def talk(client: Any) -> None:
        for name, arguments, needed in asked:
            with anyio.fail_after(BOUND):
                try:
                    answer = await client.call_tool(name, arguments)
                except mcp.MCPError as err:  # the protocol's own error
                    assert needed in str(err), (name, arguments)
                    continue
            assert answer.is_error and needed in answer.content[0].text, (name, arguments, answer)
        assert not (await client.call_tool("list", {"prefix": "mesh"})).is_error, "it goes on"

    session(talk, TMPDIR=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_without_the_library_it_names_the_extra() -> None:
    code = "import sys; sys.modules['mcp'] = None; from distdoctor.cli.app import run; sys.exit(run(['mcp']))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2 and "pip install 'distdoctor[mcp]'" in done.stderr
