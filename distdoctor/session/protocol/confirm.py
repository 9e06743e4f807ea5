"""Confirmation by node 0 itself that the commands read in the store are its own.

Where the run has no token, whoever can write into the store can write commands and a report there. This process asks
node 0's listener at the address at which it found the store, so the answer comes from node 0's host, whatever the store
contains.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from distdoctor.judge.catalog import Check
from distdoctor.judge.causes import linked
from distdoctor.judge.engine import in_order
from distdoctor.mesh.listener import ASK, HELLO, MAGIC
from distdoctor.model.findings import SEVERITIES, Finding
from distdoctor.model.launch_settings import VARIABLE
from distdoctor.model.report import Report
from distdoctor.model.stages import ALL_STAGES, GPU, stage_index
from distdoctor.probes.network.tcp import open_socket
from distdoctor.session.context import RunContext
from distdoctor.session.leader.inbox import OWN
from distdoctor.session.leader.roll_call import planned

ANSWER_SECONDS = 1.0
TRIES = 2
DIGEST_BYTES = 32

Confirmation = Literal["confirmed", "denied", "no-answer"]


UNCONFIRMED = (
    "node 0's report is not confirmed: its listener cannot be reached from this node, and others can write into the "
    f"store. Only the names of its findings are listed. Read them on node 0, or set the same {VARIABLE} on every node."
)
OWN_PROOF = (
    "node 0's report is not confirmed: its listener cannot be reached from this node. The verdict is this node's own: "
    "every stage passed on it, with all nodes. To print node 0's report on this node too, set the same "
    f"{VARIABLE} on every node."
)


class Unconfirmed(Exception):
    """Report that node 0 may not have written."""

    def __init__(self, report: Report, proven: bool) -> None:
        super().__init__(UNCONFIRMED)
        self.report, self.proven = report, proven


def with_unconfirmed(own: Report, unconfirmed: Report, checks: Sequence[Check], proven: bool) -> Report:
    """Return this process's own report with the findings that an unconfirmed report names, in this process's own words.

    If a firewall is the cause, node 0 cannot be asked, and its findings are needed on every node; if somebody else
    wrote them, none of their text is shown and none of their advice is given. A pass rests on this process's own
    evidence alone: ``proven`` if every stage passed here with all nodes in it.
    """
    good = ("pass", "warn")
    if proven and own.verdict in good and unconfirmed.verdict in good:
        verdict = "warn" if "warn" in (own.verdict, unconfirmed.verdict) else "pass"
        return _merged(own, unconfirmed, checks, verdict, OWN_PROOF)
    verdict = "fail" if "fail" in (own.verdict, unconfirmed.verdict) else "incomplete"
    return _merged(own, unconfirmed, checks, verdict, UNCONFIRMED)


def _merged(own: Report, unconfirmed: Report, checks: Sequence[Check], verdict: str, note: str) -> Report:
    known, mine = {check.id: check for check in checks}, {finding.check for finding in own.findings}
    named = [_named(f, known[f.check]) for f in unconfirmed.findings if f.check in known and f.check not in mine]
    # A finding of this process may be a consequence of one that node 0 knows: both stay.
    causes = {finding.id: finding.because_of for finding in linked([*own.findings, *named], known)}
    seen = (replace(finding, because_of=finding.because_of or causes[finding.id]) for finding in own.findings)
    return replace(
        own,
        verdict=verdict,  # type: ignore[arg-type]
        findings=tuple(in_order([*seen, *named])),
        notes=(*own.notes, note),
    )


def _named(finding: Finding, check: Check) -> Finding:
    return Finding(
        summary=f"Node 0 reports, unconfirmed: {check.title}",
        title=check.title,
        nodes=finding.nodes,
        links=finding.links,
        blame=finding.blame,
        severity=finding.severity if finding.severity in SEVERITIES else check.severity,
        check=check.id,
        id=finding.id,
        because_of=finding.because_of,
        incomplete=check.incomplete,
    )


def proven(context: RunContext, together: Mapping[str, int]) -> bool:
    """Return whether this process's own stages show that the job works.

    Every stage up to --until passed here or is not this process's, and ``together`` (stage -> number of processes in
    it) shows that all planned processes took part in each stage that node 0 opens. What others wrote into the store has
    no part in that, unless they played those processes themselves.
    """
    options, facts = context.options, context.facts
    gpus = bool(facts.ranks) and all(rank.gpu is not None and rank.gpu.visible for rank in facts.ranks)
    ended = {stage.stage: stage.status for stage in facts.stages}
    for stage in ALL_STAGES[: stage_index(options.until) + 1]:
        needless = (
            (stage.runs_in == "node" and not context.leads_node)
            or ("other nodes" in stage.skips_without and context.plan.one_node)
            or ("GPU" in stage.skips_without and stage.backend not in context.plan.backends(gpus=gpus))
            or (stage == GPU and not gpus)
        )
        if needless and ended.get(stage.name) == "skipped":
            continue
        if ended.get(stage.name) != "ok" or (stage.opened and together.get(stage.name, 0) < planned(context.plan)):
            return False
    return True


async def confirm(address: str, port: int, token: str, transcript: bytes) -> Confirmation:
    """Return node 0's answer to the question whether its commands hash to ``transcript``."""
    for _ in range(TRIES):
        _, opened = await open_socket(address, port, ANSWER_SECONDS)
        if opened is None:
            continue
        try:
            digest = await asyncio.wait_for(_ask(opened, token), ANSWER_SECONDS)
        except (asyncio.TimeoutError, OSError):
            continue
        finally:
            opened.close()
        if digest is not None:
            return "confirmed" if digest == transcript else "denied"
    return "no-answer"


async def _ask(opened: socket.socket, token: str) -> bytes | None:
    """Return the digest that node 0's listener gives; None if something else answers."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(opened, MAGIC + bytes.fromhex(token) + ASK.pack(b"R", 0))
    received = b""
    while len(received) < HELLO.size + DIGEST_BYTES:
        part = await loop.sock_recv(opened, 256)
        if not part:
            return None
        received += part
    if HELLO.unpack(received[: HELLO.size])[0] != OWN:
        return None
    return received[HELLO.size :]
