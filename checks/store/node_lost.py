"""A node came and then went away.

What you see
------------
The others hang until the timeout, or report `Connection reset by peer`, `Broken pipe`, `recvValue failed`: these are
consequences, the cause is on the node that went. Its kernel's log may end with `Kernel panic`, or begin anew
(`Linux version`) while the job still ran.

Why it happens
--------------
Its process was ended (out of memory, a scheduler's limit, a closed terminal, Ctrl-C), the host went down, or the
network was cut. In a job that hangs, what its ranks send is then sent again and again, and not acknowledged. A check
that a signal ended tells the others by which; whether the job would fail there is then not known, nor where one is
stopped (SIGSTOP, a debugger): it is there, and answers and orders nothing.

Fix
---
Look at that node first: its own output, `dmesg`, the scheduler's log, and whether its process is stopped (state T).

When it is harmless
-------------------
When somebody stopped it on purpose.

See also
--------
store/nodes-missing, barrier/rank-missing, process/stopped
"""

from collections.abc import Iterator, Sequence
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
"""Far more than node 0 takes from the end of one stage to its next order, also for a thousand nodes."""
PREVENTS = "store used"
NEXT = ("what the kernel said before, on the host's console or in its crash dump", "journalctl -k -b -1")
LOG = (
    Line("Kernel panic - not syncing"),
    Line(
        ("BUG: unable to handle", "Oops: ", "BUG: soft lockup", "hard LOCKUP"),
        r"BUG: unable to handle|\bOops: (?:general|[0-9a-f]{4})|BUG: soft lockup - CPU#\d|hard LOCKUP on cpu",
        shows="symptom",
        why="a host goes on after it as a rule, without the process that it was in",
    ),
    Line(
        ("[Hardware Error]", "EDAC "),
        r"\[Hardware Error\]: .{0,80}Machine Check|EDAC .{1,40}: \d{1,6} UE\b",
        shows="symptom",
        why="what the processor or the memory got wrong may be nothing that the job used",
    ),
    Line(
        ("reboot: Restarting system", "reboot: Power down", "Sending SIGTERM to remaining processes", "Linux version "),
        r"reboot: |Sending |^(?:kernel: )?(?:\[[\w .:]{6,40}\] )?(?P<booted>Linux version) \d{1,2}\.\d",
        shows="symptom",
        why="whether the job still ran then, the clock says",
    ),
    Line.of_end(
        Ended(("launcher died",)),
        shows="symptom",
        why="the launcher's own process on a node is also killed for want of memory there, or with the job",
    ),
    Line(
        ("NodeNotReady", "TaintManagerEviction"),  # Kubernetes'
        shows="symptom",
        why="why the node went is in its own log, and in its kernel's",
    ),
)
FOLLOWS = ("barrier/rank-stopped", "environment/torch-*", "store hosted", "store reached", "mesh/*-loss")
FOLLOWS_ANYWHERE = ("store/forged-message", "host/*-limit", "host/ports-exhaustible")


def judge(cluster: Cluster) -> Iterator[Finding]:
    silent: dict[str, str] = {}
    left: list[Node] = []
    broke_off = interrupted(cluster)
    for node in cluster.nodes:
        meeting = node.meeting
        for key in meeting.lost:
            name = cluster.by_key[key].name if key in cluster.by_key else key.partition(" ")[0]
            silent.setdefault(name, f"{name} came, and was not heard of again ({key}), as {node.name} saw it")
        # Whose plan makes no sense gets no further, and may be at the store of another job.
        stays = meeting.joined and not node.plan.broken and not joined_other_run(node)
        if stays and meeting.host_lost and not meeting.store_silent:
            left.append(node)
    zero = cluster.node0
    # Each says of the other that it went: the one is where it was, and so may be the other.
    apart = [node for node in left if zero is not None and zero is not node and node.name in silent]
    if apart and zero is not None:
        finding = sight(zero, apart, silent)
        # Who is cut off from all the others, too, is told of so.
        why = "*" if {*apart} <= {*link_graph(cluster).isolated} else at_one_address(cluster, finding.nodes)
        yield replace(finding, because_of=why)
    explained = {node.name for node in (*apart, *broke_off)}
    gone = {name: text for name, text in silent.items() if name not in explained}
    if broke_off:
        yield removed(broke_off)
    groups = alike(cluster, list(gone))
    for group in groups:
        finding = went(cluster, {name: gone[name] for name in group})
        # Who was stopped itself was not heard by the others, who then left.
        why = "barrier/rank-stopped" if any(one.node is zero for one in stopped_ranks(cluster)) else None
        yield replace(finding, of_its_own=len(groups) > 1, because_of=why or at_one_address(cluster, group))
    own = [node for node in left if lost_routes(node)]  # network/no-route says more of these
    alone = [node for node in left if node not in (*apart, *own) and not node.meeting.store_there and not late(node)]
    if alone:
        yield host(cluster, zero, alone)
    if still := standing(cluster):
        yield stood_still(still)


def at_one_address(cluster: Cluster, names: Sequence[str]) -> str | None:
    """Return what explains that these went, where one has an address that another has, too: the neighbours take both
    cards."""
    shared = any(node.name in names for one in duplicate_addresses(cluster) for node in one.owners)
    return "network/duplicate-address" if shared else None


def interrupted(cluster: Cluster) -> list[Node]:
    """The nodes that were interrupted while others went on. Where node 0 was, the check ended for all, and says so."""
    ended = [node for node in cluster.nodes if node.meeting.left]
    others = [node for node in cluster.nodes if node not in ended and (node.meeting.joined or node.meeting.hosted)]
    return [node for node in ended if node.meeting.joined and not node.meeting.hosted] if others else []


def removed(nodes: list[Node]) -> Finding:
    """The finding about nodes whose check was ended, and said so."""
    names, how = names_of(nodes), together(dict.fromkeys(ended_by(node) for node in nodes))
    again = f"Look at who ended it on {names} (Ctrl-C, a scheduler, kill), and start it again on all nodes."
    found = Finding.about(
        nodes,
        f"The check on {names} was ended ({how}), and did not go on with the others.",
        title="A node came and then was taken away",
        evidence=(f"{node.name}: it was ended in the middle ({ended_by(node)}), and told the others" for node in nodes),
        fixes=(Fix.on(nodes, again),),
    )
    return replace(found, of_its_own=True, incomplete=True)  # whether the job would have failed there was not seen


def ended_by(node: Node) -> str:
    """The signal's name; what else a file may say is not told."""
    left = node.meeting.left
    return left if left.startswith("SIG") and left.isalnum() else "interrupted"


def late(node: Node) -> bool:
    """Return whether it got no processor: then node 0 had come to its end before it did."""
    return any(entry.detail.get("starved") for rank in node.facts.ranks for entry in rank.stages)


def alike(cluster: Cluster, names: list[str]) -> list[list[str]]:
    """The nodes that went, those together that have the same limits: what is too low on one is no reason for another.
    Those of which nothing is known are with the most."""
    groups: dict[object, list[str]] = {}
    known = {node.name: node for node in cluster.nodes}
    for node in (known[name] for name in names if name in known):
        limits, imports = node.limits, node.identity.torch is not None
        key = (limits.memory, limits.processes, limits.pids_max, limits.open_files, imports)
        groups.setdefault(key, []).append(node.name)
    found = sorted(groups.values(), key=len) or [[]]
    found[-1] += [name for name in names if name not in known]
    return [group for group in found if group]


def went(cluster: Cluster, lost: dict[str, str]) -> Finding:
    names = tuple(lost)
    return Finding.about(
        names,
        f"{some_of(names)} went away in the middle of the check.",
        ranks=(rank for node in cluster.nodes if node.name in lost for rank in node.ranks),
        evidence=lost.values(),
        fixes=(Fix(f"Look at what ended it on {some_of(names)}: its output, dmesg, the scheduler's log.", names),),
    )


def host(cluster: Cluster, zero: Node | None, left: list[Node]) -> Finding:
    """The finding about node 0's store, which others still needed."""
    name = node0_name(cluster, left[0])
    lost = {name: f"{left[0].name}: the store of {name} went away before the report"}
    finding = went(cluster, lost)
    told = tuple(f"{node.name}: the store of {name} went away before the report" for node in left)
    # Where its own facts are here it came to its end, and what it found there is why.
    here = zero is not None and zero not in left and zero.meeting.ended
    return replace(finding, evidence=told, because_of="*" if here else None)


def standing(cluster: Cluster) -> dict[str, list[str]]:
    """Node -> what shows that its process was there and did not go on."""
    found: dict[str, list[str]] = {}
    for node in cluster.nodes:
        zero, its = node0_name(cluster, node), node.meeting
        orders = f"the store of {zero} answered, and no further order came for {its.unled:.0f} s"
        for name, shown, text in (
            (node.name, node.stood_still, f"it did not come to the end of stage {node.stood_still}"),
            (zero, its.unled > UNLED_SECONDS, orders),
            (zero, its.store_silent, f"the host of {zero}'s store took what it was asked, and no answer came"),
        ):
            if shown:
                found.setdefault(name, []).append(f"{node.name}: {text}")
    return found


def stood_still(seen: dict[str, list[str]]) -> Finding:
    """The finding about nodes whose process is there, and did not go on."""
    names = some_of(seen)
    found = Finding.about(
        seen,
        f"The check on {names} stood still: its process is there, and is stopped or gets no processor.",
        title="A node came and then stood still",
        evidence=(line for lines in seen.values() for line in lines),
        fixes=(
            Fix.on(
                seen,
                f"On {names}, look at the state of distdoctor's processes: what is in state T goes on after kill -CONT "
                "PID. Then start the check again on all nodes.",
                commands=("ps -eo pid,stat,args | grep '[d]istdoctor'",),
            ),
        ),
    )
    return replace(found, incomplete=True)  # whether the job would have failed was not seen


def sight(zero: Node, apart: list[Node], silent: dict[str, str]) -> Finding:
    """The finding about nodes that still ran, and lost the connection between them."""
    both, others = (zero, *apart), names_of(apart)
    return Finding.about(
        both,
        f"{zero.name} and {others} lost sight of each other in the middle of the check.",
        links=links_to(apart, zero.name),
        unsure=True,
        evidence=(
            *(silent[node.name] for node in apart),
            *(f"{node.name}: the store of {zero.name} went away before the report" for node in apart),
        ),
        fixes=(
            Fix.on(
                both,
                f"Look at what is between {zero.name} and {others} (a cable, a switch, a firewall that forgets "
                "connections), and whether either was suspended meanwhile.",
            ),
        ),
    )


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is not None and (silent := live.silent_links(job)):
        yield cut_off(job, silent)


def cut_off(job: live.LiveJob, silent: dict[tuple[str, str], str]) -> Finding:
    """The finding about connections of a job on which nothing comes through any more."""
    nodes, others = ({pair[side] for pair in silent} for side in (0, 1))
    contact = live.store_contact(job)
    evidence = [*silent.values()]
    master = live.master_of(job)
    if contact is not None and contact.outcome in ("no-answer", "unreachable") and master not in others:
        evidence.append(f"the doctor's own connection to the store at {master}: {contact_text(contact)}")
        others |= {master}
    both = (*sorted(nodes), *sorted(others - nodes))
    alone = nodes if len(others - nodes) > 1 and len(nodes) == 1 else others if len(nodes) > 1 == len(others) else set()
    blamed = tuple(sorted(alone)) or both
    return Finding.about(
        blamed,
        f"What {together(sorted(nodes))} {'send' if len(nodes) > 1 else 'sends'} to {together(sorted(others))} gets "
        f"through no more{'' if alone else ': either side may be cut off, or down'}.",
        ranks=sorted(rank.number for rank in job.ranks if rank.node.name in alone and rank.number is not None),
        links=silent,
        unsure=not alone,
        evidence=evidence[:8],
        fixes=(
            Fix(
                f"Look at the cable, the switch port and the packet filter of {together(blamed)}, and whether the host "
                "runs. The job goes on by itself where the way comes back.",
                blamed,
            ),
        ),
    )
