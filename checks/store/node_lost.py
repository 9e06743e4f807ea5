"""A node joined and then stopped responding.

## What you see
The other nodes hang until the timeout, or report `Connection reset by peer`, `Broken pipe` or `recvValue failed`.
These are consequences; the cause is on the lost node. Its kernel log may end with `Kernel panic`, or start again
(`Linux version`) while the job still ran.

## Why it happens
A signal ended its process (out of memory, a scheduler's limit, a closed terminal, Ctrl-C), the host went down, or the
network was cut. In a job that hangs, its ranks then send the same data again and again without an acknowledgement.

A check that a signal ends reports the signal to the other nodes. A check that is stopped (SIGSTOP, a debugger) keeps
its connections open and answers nothing. In both cases the result for that node is unknown.

## Fix
Fix the first error in the output of that node, then start again on all nodes. If its process is stopped (state T),
resume it: `kill -CONT 4711`. If the host is down, restart it, or remove the node from the job.

## Confirm with
`journalctl -k -b | tail -50`, `ps -eo pid,stat,args | grep '[d]istdoctor'` and `sacct -j JOBID` for it.

## When it is harmless
When a person stopped it on purpose.

## See also
store/nodes-missing, barrier/rank-missing, process/stopped
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from distdoctor.check_api import (
    Cluster,
    Ended,
    Finding,
    Fix,
    Line,
    Node,
    contact_text,
    duplicate_addresses,
    is_cut_off,
    joined_other_run,
    link_graph,
    links_to,
    live,
    lost_routes,
    names_of,
    node0_name,
    some_of,
    stopped_ranks,
    together,
)

SEVERITY = "fail"
UNLED_SECONDS = 30.0
"""Far more than node 0 needs from the end of one stage to its next order, even for a thousand nodes."""
PREVENTS = "store used"
NEXT = ("the kernel's last lines, from the host's console or its crash dump", "journalctl -k -b -1")
LOG = (
    Line("Kernel panic - not syncing"),
    Line(
        ("BUG: unable to handle", "Oops: ", "BUG: soft lockup", "hard LOCKUP"),
        r"BUG: unable to handle|\bOops: (?:general|[0-9a-f]{4})|BUG: soft lockup - CPU#\d|hard LOCKUP on cpu",
        shows="symptom",
        why="a host usually survives it, without the process concerned",
    ),
    Line(
        ("[Hardware Error]", "EDAC "),
        r"\[Hardware Error\]: .{0,80}Machine Check|EDAC .{1,40}: \d{1,6} UE\b",
        shows="symptom",
        why="the fault may concern memory that the job does not use",
    ),
    Line(
        ("reboot: Restarting system", "reboot: Power down", "Sending SIGTERM to remaining processes", "Linux version "),
        r"reboot: |Sending |^(?:kernel: )?(?:\[[\w .:]{6,40}\] )?(?P<booted>Linux version) \d{1,2}\.\d",
        shows="symptom",
        why="only the times show whether the job still ran",
    ),
    Line.of_end(
        Ended(("launcher died",)),
        shows="symptom",
        why="the launcher's process on a node also dies with the job, or when memory runs out there",
    ),
    Line(
        ("NodeNotReady", "TaintManagerEviction"),  # of Kubernetes
        shows="symptom",
        why="the node's own log and its kernel log show why it was lost",
    ),
)
FOLLOWS = ("barrier/rank-stopped", "environment/torch-*", "store hosted", "store reached", "mesh/*-loss")
FOLLOWS_ANYWHERE = ("store/forged-message", "host/*-limit", "host/ports-exhaustible")


def judge(cluster: Cluster) -> Iterator[Finding]:
    zero, silent, left = cluster.node0, nodes_gone_silent(cluster), nodes_that_left(cluster)
    # Both sides report the loss of the other: node 0 still ran, and so may the other.
    separated = [node for node in left if zero is not None and zero is not node and node.name in silent]
    if separated and zero is not None:
        finding = connection_lost(zero, separated, silent)
        # A node that is cut off from all others has a finding of its own.
        cause = "*" if {*separated} <= {*link_graph(cluster).isolated} else at_one_address(cluster, finding.nodes)
        yield replace(finding, because_of=cause or by_own_link([zero, *separated]))
    broke_off = interrupted(cluster)
    if broke_off:
        yield interrupted_finding(broke_off)
    explained = {node.name for node in (*separated, *broke_off)}
    yield from lost_findings(cluster, {name: text for name, text in silent.items() if name not in explained})
    yield from store_findings(cluster, [node for node in left if node not in separated])
    if still := stalled_nodes(cluster):
        yield stalled_finding(still)


def nodes_gone_silent(cluster: Cluster) -> dict[str, str]:
    """Return for each node that others lost the evidence of the first of them."""
    silent: dict[str, str] = {}
    for node in cluster.nodes:
        for key in node.meeting.lost:
            name = cluster.by_key[key].name if key in cluster.by_key else key.partition(" ")[0]
            silent.setdefault(name, f"{node.name}: {name} joined, then stopped responding")
    return silent


def nodes_that_left(cluster: Cluster) -> list[Node]:
    """Return the nodes that lost the store of node 0.

    A node with an inconsistent plan stops there, and may be at the store of another job.
    """
    joined = [node for node in cluster.nodes if node.meeting.joined and not node.plan.broken]
    return [
        node
        for node in joined
        if node.meeting.host_lost and not node.meeting.store_silent and not joined_other_run(node)
    ]


def lost_findings(cluster: Cluster, gone: dict[str, str]) -> Iterator[Finding]:
    """Yield a finding for each group of lost nodes with the same limits."""
    groups = by_limits(cluster, list(gone))
    for group in groups:
        finding = lost_finding(cluster, {name: gone[name] for name in group})
        # If node 0 was stopped itself, the others did not hear from it and left.
        stopped = any(rank.node is cluster.node0 for rank in stopped_ranks(cluster))
        cause = "barrier/rank-stopped" if stopped else at_one_address(cluster, group) or by_own_link([cluster.node0])
        yield replace(finding, of_its_own=len(groups) > 1, because_of=cause)


def store_findings(cluster: Cluster, left: list[Node]) -> Iterator[Finding]:
    """Yield the finding about node 0's store, which the nodes of ``left`` lost and which nothing else explains."""
    alone = [
        node
        for node in left
        if not lost_routes(node) and not node.meeting.store_there and not was_starved(node)  # network/no-route
    ]
    if cluster.node0 is None and len(alone) == 1 and alone[0].meeting.store_unanswered:
        yield replace(store_unanswered(cluster, alone[0]), because_of=by_own_link(alone))
    elif alone:
        yield store_lost(cluster, cluster.node0, alone)


def at_one_address(cluster: Cluster, names: Sequence[str]) -> str | None:
    """Return the check that explains the loss of these nodes if one of them shares an address with another."""
    shared = any(node.name in names for duplicate in duplicate_addresses(cluster) for node in duplicate.owners)
    return "network/duplicate-address" if shared else None


def by_own_link(nodes: Iterable[Node | None]) -> str | None:
    """Return the check that explains the loss if one of these nodes is cut off by its own link."""
    return "network/link-flaps" if any(node is not None and is_cut_off(node) for node in nodes) else None


def interrupted(cluster: Cluster) -> list[Node]:
    """Return the nodes that were interrupted while others went on; an interrupted node 0 ends the check for all."""
    ended = [node for node in cluster.nodes if node.meeting.left]
    others = [node for node in cluster.nodes if node not in ended and (node.meeting.joined or node.meeting.hosted)]
    return [node for node in ended if node.meeting.joined and not node.meeting.hosted] if others else []


def interrupted_finding(nodes: list[Node]) -> Finding:
    """Return the finding about nodes on which a signal ended the check, as they reported themselves."""
    names, how = names_of(nodes), together(dict.fromkeys(ended_by(node) for node in nodes))
    again = (
        f"Start the check again on all nodes, and do not end it on {names} (Ctrl-C, scheduler, kill). "
        "Confirm with: `sacct -j JOBID` or the scheduler's log."
    )
    finding = Finding.about(
        nodes,
        f"The check on {names} was ended ({how}) while the other nodes went on.",
        title="The check was ended on a node in the middle",
        evidence=(f"{node.name}: reported that it was ended in the middle ({ended_by(node)})" for node in nodes),
        fixes=(Fix.on(nodes, again),),
    )
    return replace(finding, of_its_own=True, incomplete=True)  # the job's result there is unknown


def ended_by(node: Node) -> str:
    """Return the signal's name; any other text from a file is replaced."""
    left = node.meeting.left
    return left if left.startswith("SIG") and left.isalnum() else "interrupted"


def was_starved(node: Node) -> bool:
    """Return whether the node got no processor, so that node 0 ended before it did."""
    return any(entry.detail.get("starved") for rank in node.facts.ranks for entry in rank.stages)


def by_limits(cluster: Cluster, names: list[str]) -> list[list[str]]:
    """Group the lost nodes by their limits: a limit that is too low on one node explains no other.

    Nodes without facts join the largest group."""
    groups: dict[object, list[str]] = {}
    known = {node.name: node for node in cluster.nodes}
    for node in (known[name] for name in names if name in known):
        limits, imports = node.limits, node.identity.torch is not None
        key = (limits.memory, limits.processes, limits.pids_max, limits.open_files, imports)
        groups.setdefault(key, []).append(node.name)
    ordered = sorted(groups.values(), key=len) or [[]]
    ordered[-1] += [name for name in names if name not in known]
    return [group for group in ordered if group]


def lost_finding(cluster: Cluster, lost: dict[str, str]) -> Finding:
    names = tuple(lost)
    return Finding.about(
        names,
        f"{some_of(names)} stopped responding in the middle of the check.",
        ranks=(rank for node in cluster.nodes if node.name in lost for rank in node.ranks),
        evidence=lost.values(),
        fixes=(
            Fix(
                f"Fix the last error in the output of distdoctor on {some_of(names)}, then start again on all nodes. "
                "Confirm with: `journalctl -k --since -1h`, and the scheduler's log.",
                names,
            ),
        ),
    )


def store_lost(cluster: Cluster, zero: Node | None, left: list[Node]) -> Finding:
    """Return the finding about node 0's store, which ended while other nodes needed it."""
    name = node0_name(cluster, left[0])
    finding = lost_finding(cluster, {name: ""})
    evidence = tuple(f"{node.name}: the store of {name} closed before the report" for node in left)
    # With facts of its own node 0 reached its end, and its own findings explain the rest.
    known = zero is not None and zero not in left and zero.meeting.ended
    return replace(finding, evidence=evidence, because_of="*" if known else None)


def store_unanswered(cluster: Cluster, node: Node) -> Finding:
    """Return the finding of a node that cannot reach node 0's store any more: it does not know which side is cut."""
    zero = node0_name(cluster, node)
    return Finding.about(
        (zero, node.name),
        f"{zero} does not answer {node.name} any more: it is down, or the path between them is cut.",
        links=((node.name, zero),),
        unsure=True,
        evidence=(f"{node.name}: the store of {zero} closed before the report; a new connection got no answer",),
        fixes=(
            Fix.on(
                zero,
                f"Read the output of distdoctor on {zero}, and apply its fix. If {zero} is down, restart it. Confirm "
                f"with: `ping {zero}` on {node.name}.",
            ),
            Fix.on(
                (zero, node.name),
                f"Or repair the path between {zero} and {node.name} (cable, switch port, packet filter, address). "
                "Confirm with: `ip -s link`, `nft list ruleset`, `iptables-save` on both.",
                option=2,
            ),
        ),
    )


def stalled_nodes(cluster: Cluster) -> dict[str, list[str]]:
    """Return for each node the evidence that its process was alive and made no progress."""
    stalled: dict[str, list[str]] = {}
    for node in cluster.nodes:
        zero, meeting = node0_name(cluster, node), node.meeting
        orders = f"the store of {zero} answered, and no further order arrived for {meeting.unled:.0f} s"
        for name, shown, text in (
            (node.name, node.stood_still, f"it did not finish stage {node.stood_still}"),
            (zero, meeting.unled > UNLED_SECONDS, orders),
            (zero, meeting.store_silent, f"the host of {zero}'s store accepted a request and did not answer"),
        ):
            if shown:
                stalled.setdefault(name, []).append(f"{node.name}: {text}")
    return stalled


def stalled_finding(stalled: dict[str, list[str]]) -> Finding:
    """Return the finding about nodes on which the process is alive and makes no progress."""
    names = some_of(stalled)
    finding = Finding.about(
        stalled,
        f"distdoctor on {names} makes no progress: its process is stopped, or gets no processor.",
        title="A node joined and then made no progress",
        evidence=(line for lines in stalled.values() for line in lines),
        fixes=(
            Fix.on(
                stalled,
                f"On {names}, resume each distdoctor process in state T (kill -CONT PID), then start the check again "
                "on all nodes. Confirm with:",
                commands=("ps -eo pid,stat,args | grep '[d]istdoctor'",),
            ),
        ),
    )
    return replace(finding, incomplete=True)  # the job's result is unknown


def connection_lost(zero: Node, separated: list[Node], silent: dict[str, str]) -> Finding:
    """Return the finding about nodes that still ran, and lost the connection between them."""
    both, others = (zero, *separated), names_of(separated)
    return Finding.about(
        both,
        f"{zero.name} and {others} lost their connection in the middle of the check.",
        links=links_to(separated, zero.name),
        unsure=True,
        evidence=(
            *(silent[node.name] for node in separated),
            *(f"{node.name}: the store of {zero.name} closed before the report" for node in separated),
        ),
        fixes=(
            Fix.on(
                both,
                f"Repair the path between {zero.name} and {others} (cable, switch port, idle timeout of a firewall). "
                "Confirm with: `ping`, `ip -s link`, `journalctl --since -1h | grep -i suspend` on both.",
            ),
        ),
    )


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is not None and (silent := live.silent_links(job)):
        yield cut_off(job, silent)


def cut_off(job: live.LiveJob, silent: dict[tuple[str, str], str]) -> Finding:
    """Return the finding about connections of a job that stopped carrying data."""
    nodes, others = ({pair[side] for pair in silent} for side in (0, 1))
    contact = live.store_contact(job)
    evidence = [*silent.values()]
    master = live.master_of(job)
    if contact is not None and contact.outcome in ("no-answer", "unreachable") and master not in others:
        evidence.append(f"distdoctor's own connection to the store at {master}: {contact_text(contact)}")
        others |= {master}
    both = (*sorted(nodes), *sorted(others - nodes))
    alone = nodes if len(others - nodes) > 1 and len(nodes) == 1 else others if len(nodes) > 1 == len(others) else set()
    blamed = tuple(sorted(alone)) or both
    return Finding.about(
        blamed,
        f"{together(sorted(others))} stopped receiving from {together(sorted(nodes))}"
        f"{'' if alone else '; either side may be cut off or down'}.",
        ranks=sorted(rank.number for rank in job.ranks if rank.node.name in alone and rank.number is not None),
        links=silent,
        unsure=not alone,
        evidence=evidence[:8],
        fixes=(
            Fix(
                f"Restore the cable, switch port or firewall rule of {together(blamed)}; the job then continues. "
                "Confirm with: `ip -s link`, `nft list ruleset`.",
                blamed,
            ),
        ),
    )
