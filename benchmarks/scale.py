"""Cost of a rendezvous as nodes are added: hosts of the lab, and a simulated meeting over one real TCPStore.

    python benchmarks/scale.py hosts [N ...]      (4 16 64) a real check of N hosts up to the mesh; root
    python benchmarks/scale.py meeting [N ...]    (64 1024) N processes' messages, judged and told, in one process

For each N: the time, and for each node the processor time, and what went between it and the store. Of hosts the bytes
are what the kernel counted on MASTER_PORT; of a simulated meeting operations, too, and beside node 0's own.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from distdoctor.model.facts import LinkRow, MeshFacts, NodeFacts, StageFacts
from distdoctor.model.observer import Silent
from distdoctor.model.report import Report
from distdoctor.model.stages import MESH
from distdoctor.session.context import RunContext
from distdoctor.session.finish import ReportMaker
from distdoctor.session.follower.outbox import Outbox, OwnPost, StorePost
from distdoctor.session.leader.inbox import Inbox
from distdoctor.session.leader.leader import Leader
from distdoctor.session.options import Options
from distdoctor.session.protocol.messages import Event
from distdoctor.session.protocol.trust import Seal
from distdoctor.store.client import StoreClient
from tests.facts_builder import CHECKS, node
from tests.helpers.namespaces import entry
from tests.helpers.servers import RealStore
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.launch import DISTDOCTOR, PORT
from tests.lab.harness.namespaces import why_not

RUN = "0123456789abcdef"
WAIT, LIMIT = 300.0, 500.0
INSIDE = "SCALE_INSIDE"
"""Set where the name of loopback is known."""
HOSTS, MEETINGS = (4, 16, 64), (64, 1024)


class Counting(StoreClient):
    """A client that counts what it does."""

    requests = sent = received = 0

    @classmethod
    async def to(cls, port: int) -> Counting:
        """Connected to the store on this port of loopback."""
        made = await cls.connect("127.0.0.1", port, 60.0)
        assert isinstance(made, Counting)
        return made

    async def _send(self, message: bytes) -> None:
        self.requests += 1
        self.sent += len(message)
        await super()._send(message)

    async def _read(self, length: int, last: bool = False) -> bytes:
        self.received += length
        return await super()._read(length, last)


# -- a simulated meeting ----------------------------------------------------------------------------------------------


@dataclass
class Met:
    """Result of one rendezvous."""

    verdict: str
    nodes: int
    seconds: float
    cpu: float
    clients: list[Counting]
    """Of all nodes but node 0, and then node 0's."""


def facts_of(number: int, count: int) -> NodeFacts:
    """A healthy node of so many, after the mesh."""
    place = f"10.80.{number // 250}.{number % 250 + 1}"
    one = node(f"gpu{number:04}", number, of=count, ip=place, master="10.80.0.1", nproc=1)
    frame = LinkRow(number, count)
    figures = (1e-4,) * frame.entries
    mesh = MeshFacts(count - 1, row=replace(frame, rtt=figures, rates=figures, lost=figures))
    return replace(one, meeting=None, mesh=mesh, stages=tuple(s for s in one.stages if s.stage not in ("gloo", "nccl")))


async def follow(post: Outbox, facts: NodeFacts) -> Report:
    """One process: it says hello, finds that all is well, and reads the report."""
    await post.enrol()
    await post.send(Event("hello", replace(facts, mesh=None), mesh_port=40000))
    async for command in post.commands():
        if command.op == "stage":
            entry = StageFacts(command.stage, "ok")
            facts = replace(facts, stages=(*(s for s in facts.stages if s.stage != command.stage), entry))
            told = facts if command.stage == MESH.name else replace(facts, mesh=None)
            await post.send(Event("result", told, stage=command.stage, attempt=command.attempt))
        elif command.op == "report":
            return await post.report(command)
    raise RuntimeError("the commands ended before the report")


async def meeting(count: int, port: int) -> Met:
    """All of them in this process; node 0 leads. Raises TimeoutError where it does not come to its end."""
    everyone = [facts_of(number, count) for number in range(count)]
    options = Options(everyone[0].plan, CHECKS, wait=WAIT, timeout=WAIT, until=MESH.name, try_fixes=False)
    began, busy = time.monotonic(), time.process_time()
    own = await Counting.to(port)
    inbox = Inbox(own, RUN, Seal(None), count)
    context = RunContext(options, Silent())
    leader = Leader(context, inbox, ReportMaker(MESH.name, context.clock).make)
    clients = [await Counting.to(port) for _ in everyone[1:]]
    posts: list[Outbox] = [OwnPost(inbox), *(StorePost(client, RUN, Seal(None)) for client in clients)]
    following = [follow(post, facts) for post, facts in zip(posts, everyone, strict=True)]
    reports, _ = await asyncio.wait_for(asyncio.gather(asyncio.gather(*following), leader.run()), LIMIT)
    told = {(one.verdict, len([n for n in one.nodes if n.arrived])) for one in reports}
    if len(told) != 1:
        raise RuntimeError(f"not all have one report: {told}")
    for client in (*clients, own):
        client.close()
    ((verdict, nodes),) = told
    return Met(verdict, nodes, time.monotonic() - began, time.process_time() - busy, [*clients, own])


KNOWN = """
hosts=$(mktemp) && { cat /etc/hosts && echo "::ffff:127.0.0.1 localhost"; } >"$hosts" &&
    mount --bind "$hosts" /etc/hosts && rm "$hosts" && exec "$@"
"""
"""The thread of torch's store looks the name of each client up before it goes on to the next (seen with 2.13: it
waits in the resolver, with either server): without an entry that is a question to a name server for each, and some of
these do not answer a thousand at once."""


def simulate(count: int) -> None:
    """Run it over a TCPStore of torch's in a process of its own, and print."""
    store = RealStore("libuv")
    try:
        met = asyncio.run(meeting(count, store.port))
    finally:
        store.close()
    *others, own = met.clients
    asked = statistics.median(client.requests for client in others)
    sent, received = (sum(getattr(client, name) for client in others) / len(others) for name in ("sent", "received"))
    say(
        f"{count:5} nodes: {met.verdict}, {met.nodes} met, {met.seconds:.1f} s, {met.cpu / count * 1000:.1f} ms of "
        f"processor a node; each: {asked:.0f} requests, {sent / 1e3:.1f} kB written, {received / 1e3:.1f} kB read; "
        f"node 0: {own.requests / count:.1f} requests, {own.received / count / 1e3:.1f} kB read for each"
    )


# -- hosts of the lab -------------------------------------------------------------------------------------------------


def check_hosts(count: int) -> None:
    """A real check on each, up to the mesh, all at once."""
    with Cluster(count) as cluster:
        rules = (
            "nft add table inet scale && nft add chain inet scale in '{ type filter hook input priority 0; }' && "
            f"nft add rule inet scale in tcp dport {PORT} counter && nft add chain inet scale out "
            f"'{{ type filter hook output priority 0; }}' && nft add rule inet scale out tcp sport {PORT} counter"
        )
        cluster[0].inside(rules)
        shape = ["--nnodes", str(count), "--nproc-per-node", "1", "--master-addr", cluster[0].name]
        command = [*DISTDOCTOR, "check", *shape, "--master-port", str(PORT), "--until", MESH.name, "--json"]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        running = [host.popen([*command, "--wait", "300", "--timeout", "200"]) for host in cluster]
        told = [one.communicate(timeout=LIMIT)[0] for one in running]
        seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        counted = json.loads(cluster[0].inside("nft -j list table inet scale"))["nftables"]
    report = json.loads(told[0])
    moved = [e["counter"] for one in counted for e in one.get("rule", {}).get("expr", ()) if "counter" in e]
    kilobytes = sum(one["bytes"] for one in moved) / 1e3 / count
    stages = {s["stage"]: s["seconds"] for s in report["stages"] if s["node"] == cluster.names[0]}
    roots = [finding["id"] for finding in report["findings"] if finding["because_of"] is None]
    met = sum(one["arrived"] for one in report["nodes"])
    say(
        f"{count:5} hosts: {report['verdict']}, {met} met, {seconds:.1f} s (mesh {stages.get(MESH.name, 0.0):.1f} s), "
        f"{cpu / count:.2f} s of processor a node; {kilobytes:.1f} kB a node with the store"
        f"{f'; {roots}' if roots else ''}"
    )


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    """Run what is asked for."""
    what, *counts = words or [""]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    if what not in ("hosts", "meeting"):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    if what == "hosts" and (reason := why_not()):
        sys.stderr.write(f"no lab here: {reason}\n")
        return 2
    if what == "meeting" and INSIDE not in os.environ:
        again = [*entry("--mount", tools=("mount",)), "sh", "-c", KNOWN, "sh", sys.executable, __file__, *words]
        return subprocess.run(again, env={**os.environ, INSIDE: "1"}, check=False).returncode
    for count in [int(one) for one in counts] or (HOSTS if what == "hosts" else MEETINGS):
        check_hosts(count) if what == "hosts" else simulate(count)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
