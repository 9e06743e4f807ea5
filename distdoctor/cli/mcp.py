"""``distdoctor mcp``: check, hang, diagnose, explain and list as tools of a Model Context Protocol server on stdio.

Each call runs one command of distdoctor in a process of its own and ends within a bound. No tool changes a setting,
writes a file or connects to other hosts, but for what ``check`` sends to this node itself.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Sequence
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from distdoctor import __version__
from distdoctor.cli.bounded import NoAnswer, document
from distdoctor.interrupts import ENDING
from distdoctor.job.preflight import report_of
from distdoctor.model.launch_settings import STANDALONE
from distdoctor.model.stages import STAGES
from distdoctor.render.exit_status import OK
from distdoctor.render.style import Style
from distdoctor.render.text import render

SHORT_SECONDS, HANG_SECONDS, LOG_SECONDS = 20.0, 50.0, 50.0
"""Limits of a call. Clients give up after 60 s (DEFAULT_REQUEST_TIMEOUT_MSEC of the TypeScript SDK)."""
CHECK_SECONDS = 40
"""Default limit of a check after all its ranks started; its process may take MARGIN_SECONDS longer."""
MOST_CHECK_SECONDS = 600
MARGIN_SECONDS = 15
MOST_TEXT = 16 << 20
MOST_MESSAGE = 1 << 16
MOST_PATHS = 1000
INSTRUCTIONS = (
    "distdoctor finds the node, link or setting that keeps a PyTorch distributed job from running. Call diagnose with "
    "the logs of a dead job, hang while a job on this node makes no progress, check before a job on this node, explain "
    "for one error message. INCONCLUSIVE and INCOMPLETE mean that the evidence proves no cause."
)


def serve() -> int:
    """Answer requests on stdin until it is closed."""
    for number in ENDING:  # no report is due, and the library's own loop ends with the process
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    logging.disable(logging.INFO)
    server().run("stdio")
    return OK


def server() -> MCPServer[Any]:
    made: MCPServer[Any] = MCPServer("distdoctor", version=__version__, instructions=INSTRUCTIONS)
    for tool in (check, hang, diagnose, explain, list_checks):
        name = tool.__name__.removesuffix("_checks")
        hints = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
        made.add_tool(tool, name=name, description=tool.__doc__, annotations=hints)
    return made


def check(
    until: str = STAGES[-1],
    nproc_per_node: int | None = None,
    backend: str = "auto",
    try_fixes: bool = False,
    timeout: int = CHECK_SECONDS,
) -> CallToolResult:
    """Check whether this node can run a distributed job: its own ranks, on a free port. Other nodes are not contacted.

    until: last stage (network needs no torch and takes a second). nproc_per_node: ranks. backend: auto, gloo or nccl.
    try_fixes: also start ranks with the variables that a fix would set. timeout: seconds, at most 600; with more than
    40, the client must wait for more than a minute.
    """
    if not 1 <= timeout <= MOST_CHECK_SECONDS:
        raise ToolError(f"timeout must be from 1 to {MOST_CHECK_SECONDS} seconds")
    words = [STANDALONE.flag, f"--until={until}", f"--backend={backend}", f"--timeout={timeout}"]
    words += [] if nproc_per_node is None else [f"--nproc-per-node={nproc_per_node}"]
    fixes = "--try-fixes" if try_fixes else "--no-try-fixes"
    return _report("check", fixes, *words, seconds=timeout + MARGIN_SECONDS)


def hang(pid: int | None = None, native_stacks: bool = False) -> CallToolResult:
    """Report why a running job on this node makes no progress: missing ranks, and the line that each rank waits at.

    pid: a process of the job, if several jobs run here. native_stacks: also C++ frames, which takes seconds more.
    """
    words = [] if pid is None else [f"--pid={pid}"]
    return _report("hang", f"--stacks={'on' if native_stacks else 'auto'}", *words, seconds=HANG_SECONDS)


def diagnose(
    paths: Sequence[str] = (), text: str = "", rank: str | None = None, since: str | None = None
) -> CallToolResult:
    """Report what killed a job, from its logs: the rank that failed first, the cause and the fix.

    Give paths (files or folders on this machine), or the text of a log, or both; all of one job together. rank: only
    these ranks' lines (3, or 0,8-15). since: only lines since this time (2026-01-31 12:00, or 30m before the last).
    """
    if not paths and not text:
        raise ToolError("give paths, or the text of a log")
    if len(paths) > MOST_PATHS or len(text) > MOST_TEXT:
        raise ToolError(f"at most {MOST_PATHS} paths and {MOST_TEXT >> 20} MiB of text; give a folder")
    words = [f"--rank={rank}"] if rank is not None else []
    words += [f"--since={since}"] if since is not None else []
    # An absolute path is no option and not "-", whatever its name is.
    files = [os.path.abspath(os.path.expanduser(path)) for path in paths]
    return _report("diagnose", *words, "--", *files, *(["-"] if text else []), seconds=LOG_SECONDS, given=text)


def explain(subject: str) -> CallToolResult:
    """Explain one failure: the page of a check (its id, such as gloo/loopback-address), or the likely causes of an
    error message, each with the command that confirms it."""
    if not subject.strip() or len(subject) > MOST_MESSAGE:
        raise ToolError(f"give the id of a check, or an error message of at most {MOST_MESSAGE >> 10} KiB")
    answer = _document("explain", "--json", "--", subject.strip(), seconds=SHORT_SECONDS)
    return _result(answer, answer["page"]) if "page" in answer else _of_report(answer)


def list_checks(prefix: str | None = None) -> CallToolResult:
    """List the checks with id, stage, severity and title. prefix: only ids that begin so (gloo, nccl/infiniband)."""
    checks = _document("list", "--json", "--", *([] if prefix is None else [prefix]), seconds=SHORT_SECONDS)
    return _result(
        {"checks": checks}, "".join(f"{check['id']} ({check['severity']}): {check['title']}\n" for check in checks)
    )


def _report(*words: str, seconds: float, given: str = "") -> CallToolResult:
    return _of_report(_document(words[0], "--json", "-q", *words[1:], seconds=seconds, given=given))


def _document(*words: str, seconds: float, given: str = "") -> Any:
    try:
        return document(*words, seconds=seconds, given=given)
    except NoAnswer as err:
        raise ToolError(str(err)) from None


def _of_report(report: dict[str, Any]) -> CallToolResult:
    """Return a report's document, with its verdict, root causes and fixes as text."""
    try:
        text = render(report_of(json.dumps(report).encode()), Style(quiet=True))
    except ValueError as err:
        raise ToolError(f"distdoctor printed no report: {err}") from None
    return _result(report, text)


def _result(document: dict[str, Any], text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=document)
