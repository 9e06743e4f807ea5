"""NCCL's RAS (2.24 and later): a view of all communicators from any one process that has one.

A text protocol (src/ras/client.cc, client_support.cc): a line for each setting, each answered with one; then
``STATUS``, answered with text until the end of the connection. It changes nothing but how long this one client waits. A
process without a communicator yet says nothing of use.
"""

from __future__ import annotations

import asyncio
import re
import time

from distdoctor.inspection.exchange import NoAnswer, exchange
from distdoctor.inspection.ras_text import counts_in, gone_in
from distdoctor.model.facts import RasView
from distdoctor.model.sanitize import fit

PORT = 28028
"""Where it listens, on localhost, unless NCCL_RAS_ADDR says otherwise."""
_MOST = 4 * 1024 * 1024
_PARAGRAPHS = 64
_SECTION = re.compile(r"^(Job summary|Communicators\.\.\.[^\n]*|Errors|Warnings)\n=+\n", re.MULTILINE)


def ask(address: str = "127.0.0.1", port: int = PORT, *, timeout: float, world: int | None = None) -> RasView:
    """What it says within ``timeout`` seconds, of a job of ``world`` ranks. Never raises for what answers there."""
    return asyncio.run(_ask(address, port, timeout, world))


async def _ask(address: str, port: int, timeout: float, world: int | None) -> RasView:
    gather = max(1, int(timeout / 2))  # seconds that RAS waits for its peers; its default of 5 may be more than we have
    lines = ("CLIENT PROTOCOL 2", f"TIMEOUT {gather}", "STATUS")
    message = "".join(f"{line}\n" for line in lines).encode()
    view = RasView(address, port)
    try:
        data, whole = await exchange(address, port, message, time.monotonic() + timeout, _MOST)
    except NoAnswer as err:
        return RasView(address, port, problem=fit(str(err)))
    text = data.decode("utf-8", "replace")
    if not text.startswith("SERVER PROTOCOL "):
        said = f"it says {fit(text, 60)!r}" if text else "it says nothing"
        return RasView(address, port, problem=f"no RAS: {said}")
    version = re.search(r"^NCCL version (\S{1,40})", text, re.MULTILINE)
    sections = _sections(text)
    table = next((told for name, told in sections.items() if name.startswith("Communicators")), "")
    missing, bereft = gone_in(sections.get("Errors", ""), table, world)
    return RasView(
        view.address,
        view.port,
        answers=True,
        version=fit(version[1]) if version else "",
        errors=_paragraphs(sections.get("Errors", "")),
        warnings=_paragraphs(sections.get("Warnings", "")),
        counts=counts_in(sections.get("Warnings", "")),
        missing=missing,
        bereft=bereft,
        whole=whole and "Warnings" in sections,
        problem="" if whole else f"not all was told within {timeout:g} s",
    )


def _sections(text: str) -> dict[str, str]:
    found = list(_SECTION.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {match[1]: text[match.end() : end] for match, end in zip(found, ends, strict=True)}


def _paragraphs(text: str) -> tuple[str, ...]:
    parts = (" ".join(part.split()) for part in text[:100_000].split("\n\n"))
    return tuple(fit(part, 500) for part in parts if part)[:_PARAGRAPHS]
