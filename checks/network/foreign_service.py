"""A service that is not a store answers on MASTER_ADDR:MASTER_PORT.

## What you see
Node 0 fails with `EADDRINUSE`. The others get silence, `recvValueWithTimeout failed` or `Connection reset by peer`,
because they talk to a web server, an ssh daemon or a scheduler.

## Why it happens
MASTER_PORT is the port of another service, or that service happened to get the port on node 0.

## Fix
Use another port, the same on every node: `export MASTER_PORT=29501`.

## Confirm with
`ss -ltnp 'sport = :29501'` on node 0 shows no listener before the start.

## When it is harmless
Never, if the service continues to run.

## See also
network/port-in-use, store/foreign-store
"""

import re

from distdoctor.check_api import Answer, Cluster, Finding, Iterator, Node, taken_port_finding

SEVERITY = "fail"
PREVENTS = "store hosted"
FOLLOWS = ("network/engine-port-in-use",)
LOOKS_AT = ("meeting",)
SETTINGS = re.compile(r"00 00 [0-9a-f]{2} 04\b")
"""The length, below 256, and the type of the first frame that a server sends (RFC 9113, 3.4 and 4.1)."""
FOLLOWS_ANYWHERE = ("environment/duplicate-rank", "environment/duplicate-node-rank", "environment/master-mismatch")


def judge(cluster: Cluster) -> Iterator[Finding]:
    answers = [(node, answer) for node in cluster.nodes if (answer := foreign(node)) is not None]
    if answers:
        yield finding(cluster, answers)


def foreign(node: Node) -> Answer | None:
    network, meeting = node.network, node.meeting
    if meeting.joined:
        return None
    held = network.bind.answer if network.bind and not network.bind.ok else None
    if held is not None and held.kind in ("foreign", "closed"):
        return held
    # Connections that are only closed tell nothing from afar: a store without a descriptor left closes them, too.
    return network.answer if network.answer is not None and network.answer.kind == "foreign" else None


def finding(cluster: Cluster, answers: list[tuple[Node, Answer]]) -> Finding:
    answer = answers[0][1]
    quoted = f": {sample(answer)}" if answer.sample else ""
    return taken_port_finding(
        cluster,
        [node for node, _ in answers],
        "A service that closes connections at once listens"
        if answer.kind == "closed"
        else f"A service that is not a store answers{quoted}",
        (f"{n.name}: {n.plan.master_addr}:{n.plan.master_port} {answer_text(a)}" for n, a in answers),
    )


def answer_text(answer: Answer) -> str:
    return "closes the connection" if answer.kind == "closed" else f"answers {sample(answer)}"


def sample(answer: Answer) -> str:
    """Return the first line of the service's answer; the sample has spaces in place of line ends."""
    if SETTINGS.match(answer.sample):
        return "a SETTINGS frame of HTTP/2, as a server of gRPC sends (JAX's coordinator, etcd)"
    return repr(answer.sample.partition("  ")[0])
