"""Node 0 cannot host the store: MASTER_PORT is in use.

## What you see
On node 0 at once

    The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98,
    name: EADDRINUSE, message: address already in use

and on the other nodes silence without end, if the process on that port never answers them.

## Why it happens
A process of an earlier run still holds the port, or another job (yours or another user's) uses the default port 29500.
Or two processes on this host both act as rank 0. If the holder is another run of `distdoctor check`, another job starts
on this host at the same time, and the jobs would collide as well.

## Fix
Use another port, the same on every node: `export MASTER_PORT=29501`; in a batch script `export MASTER_PORT=$((20000 +
SLURM_JOB_ID % 10000))`.

## Confirm with
`ss -ltnp 'sport = :29501'` on node 0 shows no listener before the start.

## When it is harmless
The holder ends before the job starts.

## See also
network/engine-port-in-use, network/port-not-bindable, network/foreign-service, store/foreign-store,
environment/duplicate-rank
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    end_leftover_fix,
    joined_other_run,
    other_master_port_fixes,
    port_holder_evidence,
    together,
)

SEVERITY = "fail"
NEXT = ("the process that holds the port, on that host", "ss -ltnp")
HCCL = "A port of HCCL is in use"
HOST_SOCKET = (
    "End the process of an earlier job that holds it (`ss -ltnp` on that host names it), or give HCCL other ports: "
    "`export HCCL_IF_BASE_PORT=50000`."
)
LOG = (
    Line("EADDRINUSE", r"(?:\bport: (?P<port>\d{1,5})\b.{0,200}?|)EADDRINUSE", unless=r"ZMQ|zmq\."),
    Line(
        "ddress already in use",
        r"(?:OSError|ZMQError|BindException|attempting to bind on address).{0,200}ddress already in use",
        unless="NCCL WARN|c10d|TCPStore",
        told="A port of the program is in use",
        fix="Give the program another port, or end the process that holds this one (`ss -ltnp` on that host names it).",
    ),
    Line(
        "ddress already in use",
        r"(?:errno: 98|Errno (?:98|48)\]|code: -98|RuntimeError: |error: |failed to bind|bind\(\)"
        r"|SocketException|OSError).{0,200}ddress already in use|ddress already in use",
        unless="NCCL WARN|OSError|ZMQError|BindException|attempting to bind on address|gloo/transport/tcp",
    ),
    Line("errno: 98", r"(?:(?<=:)(?P<port>\d{1,5}) )?\(errno: 98\b"),
    Line(
        "Tried to launch distributed communication on port ",  # accelerate, before it starts anything
        r"on port `(?P<port>\d{1,5})`, but another process is utilizing it",
        fix="Give accelerate another port (`--main_process_port PORT`, the same on every node; with one node, 0 "
        "picks a free one). Or end the process that holds this one (`ss -ltnp` on that host names it).",
    ),
    Line(  # of Ascend's CANN: EJ0003, and with the values EI0019 and EI0020 (hcomm's hccl_socket.cc)
        ("have been bound already", "have already been bound"),
        r"IP address.{0,60} and port(?: (?P<port>\d{1,5}))? have (?:been bound already|already been bound)",
        unless=r"socket type\[",
        told=HCCL,
        fix=HOST_SOCKET,
    ),
    Line(
        "Please check the port status and whether the port is being used",
        r"socket type\[2\],.{0,120}? port[ \[](?P<port>\d{1,5})",
        told=HCCL,
        fix=HOST_SOCKET,
    ),
    Line(
        "Please check the port status and whether the port is being used",
        r"socket type\[[01]\],.{0,120}? port[ \[](?P<port>\d{1,5})",
        told="A port of HCCL is in use on the NPU's own network card",
        fix="End the other process on this NPU (`npu-smi info` lists them), or let HCCL pick its ports: "
        "`export HCCL_NPU_SOCKET_PORT_RANGE=auto`.",
    ),
    Line(
        "has failed to listen on any local network address",
        unless=r"errno|code: -|\bE[A-Z]{4}",
        shows="symptom",
        why="a port that needs a privilege shows the same; the rest of the line is missing",
    ),
    Line("10048", "errno: 10048|system error: 10048|WinError 10048"),
    Line("socket address (protocol/network address/port) is normally permitted"),
    Line(
        "already in use",  # torch/distributed/elastic/utils/distributed.py, when it gives up
        r"Error: on \S{1,253}, port: (?P<port>\d{1,5}) already in use",
    ),
)
PREVENTS = "store hosted"
LOOKS_AT = ("meeting",)
FOLLOWS = ("store/foreign-store", "network/foreign-service", "host/ports-exhaustible")
FOLLOWS_ANYWHERE = ("environment/duplicate-rank", "environment/duplicate-node-rank")
EADDRINUSE = 98


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if joined_other_run(node):
            yield by_another_run(cluster, node)
        elif taken(node):
            yield finding(cluster, node)


def taken(node: Node) -> bool:
    """Return whether an unknown process holds the port; foreign-service and foreign-store report the known ones."""
    network, meeting = node.network, node.meeting
    if network.bind is None or network.bind.ok or network.bind.errno != EADDRINUSE:
        return False
    if any(port.port == network.bind.port for port in node.plan.ports):
        return False  # no store of the job's: network/engine-port-in-use reports it
    answer = network.bind.answer
    if answer is not None and answer.kind in ("foreign", "closed", "tcpstore"):
        return False
    return not meeting.joined


def finding(cluster: Cluster, node: Node) -> Finding:
    assert node.network.bind
    bind = node.network.bind
    holder_lines = [port_holder_evidence(holder, bind.port) for holder in bind.holders]
    if not holder_lines:
        holder_lines = [
            "its holder is not visible: another network namespace or container, or a process that is just ending"
        ]
    if bind.answer is not None and bind.answer.kind == "silent":
        holder_lines.append("it accepts a connection and sends nothing")
    return Finding.about(
        [node],
        f"Node 0 cannot host the store: port {bind.port} is in use on {node.name}.",
        evidence=(f"{node.name}: {line}" for line in holder_lines),
        fixes=(*other_master_port_fixes(cluster, bind.free_port), end_leftover_fix(bind.holders, node)),
    )


def by_another_run(cluster: Cluster, node: Node) -> Finding:
    """The finding about a node 0 that met another run of the check on its own address and port."""
    meeting, bind = node.meeting, node.network.bind
    where = f"{node.plan.master_addr}:{node.plan.master_port}"
    holders = bind.holders if bind else ()
    mark = f"the store at {where} belongs to distdoctor, and this node 0 did not host it"
    if meeting.token in ("missing", "unexpected", "different"):
        mark += {"missing": "; its run has a token", "unexpected": "; its run has no token"}.get(
            meeting.token, "; its run has another token"
        )
    elif meeting.speaks:
        mark += f"; it runs distdoctor {meeting.speaks}"
    elif meeting.joined:
        mark += "; it ended with that run"
    who = together(f"pid {holder.pid}" for holder in holders if holder.pid is not None)
    return Finding.about(
        [node],
        f"Another run of distdoctor check holds port {node.plan.master_port} of {node.name}.",
        evidence=(
            f"{node.name}: {mark}",
            *(f"{node.name}: {port_holder_evidence(holder, node.plan.master_port)}" for holder in holders),
        ),
        fixes=(
            *other_master_port_fixes(cluster, bind.free_port if bind else None),
            Fix.on(
                node,
                "Or, if both are one job that was started twice, end one of "
                f"them{f' (the other: {who})' if who else ''}.",
                2,
            ),
        ),
    )
