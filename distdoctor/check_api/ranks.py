"""Ranks with failed stages: their errors, the nodes to blame, and the finding."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from distdoctor.check_api.nodes import own_host_names
from distdoctor.check_api.text import shorten_error, together
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import RankFacts, RankStage
from distdoctor.model.findings import Blame, Finding, Fix
from distdoctor.model.text import shortened


def errors_with_words(cluster: Cluster, words: Collection[str], unless: str = "") -> dict[str, tuple[str, ...]]:
    """Return for each node name, as evidence, the errors of its ranks and its own stages with one of ``words`` and
    without ``unless``, each once."""
    evidence: dict[str, tuple[str, ...]] = {}
    for node in cluster.nodes:
        errors = [entry.error for rank in node.facts.ranks for entry in rank.stages if entry.error]
        errors += [stage.reason for stage in node.facts.stages if stage.status == "error"]
        errors = [error for error in errors if not (unless and unless in error)]
        texts = dict.fromkeys(shorten_error(error) for error in errors if any(word in error for word in words))
        if texts:
            evidence[node.name] = tuple(f"{node.name}: {text}" for text in texts)
    return evidence


LINES = 6
NOT_CHECKED = "gloo connects from the larger address to the smaller; whether that suffices here was not checked"
STOPPED = ("T", "t")
"""States of a process stopped by a signal or by a tracer (proc(5))."""


@dataclass(frozen=True)
class FailedRank:
    """One failed stage of one rank."""

    node: Node
    rank: RankFacts
    stage: RankStage


def failed_ranks(cluster: Cluster, stage: str) -> list[FailedRank]:
    """Return the ranks for which ``stage`` failed.

    Only ranks with wrong results count if a rank got no processor, or if node 0, which had all facts, was inconclusive:
    the others only waited, and torch waits for 30 minutes.
    """
    return [*_failed_ranks(cluster, stage)]


@lru_cache(maxsize=16)
def _failed_ranks(cluster: Cluster, stage: str) -> tuple[FailedRank, ...]:
    """Return them, cached: checks ask for them for each of a thousand nodes."""
    failed = tuple(
        FailedRank(node, rank, entry)
        for node in cluster.nodes
        for rank in node.facts.ranks
        for entry in rank.stages
        if entry.stage == stage and entry.status in ("failed", "error")
    )
    inconclusive = any(node.meeting.verdict == "incomplete" for node in cluster.nodes)
    if inconclusive or any(rank.stage.detail.get("starved") for rank in failed):
        return tuple(rank for rank in failed if rank.stage.detail.get("wrong"))
    return failed


def stopped_ranks(cluster: Cluster) -> list[FailedRank]:
    """Return the ranks with a stopped process at the end of a stage, in their first such stage."""
    return _first(cluster, lambda entry: entry.detail.get("state") in STOPPED)


def starved_ranks(cluster: Cluster) -> list[FailedRank]:
    """Return the ranks that had no processor for most of a stage, in their first such stage."""
    return _first(cluster, lambda entry: bool(entry.detail.get("starved")))


def died_ranks(cluster: Cluster) -> list[FailedRank]:
    """Return the ranks that ended by themselves or by a foreign signal, in the stage where they ended."""
    ended = _first(cluster, lambda entry: bool(entry.detail.get("died") or entry.detail.get("killed")))
    return [rank for rank in ended if rank.stage.detail.get("died")]


def _first(cluster: Cluster, wanted: Callable[[RankStage], bool]) -> list[FailedRank]:
    """Return each rank with its first wanted stage."""
    ranks = []
    for node in cluster.nodes:
        for rank in node.facts.ranks:
            entry = next((entry for entry in rank.stages if entry.detail and wanted(entry)), None)
            if entry is not None:
                ranks.append(FailedRank(node, rank, entry))
    return ranks


def by_luck(cluster: Cluster) -> str:
    """Return why a problem in gloo's unused direction matters; empty if gloo passed.

    It matters if gloo was not tried: interrupted, an earlier stage failed, or other nodes are unknown.
    """
    ran = all(any(s.stage == "gloo" and s.status == "ok" for s in node.facts.stages) for node in cluster.nodes)
    return "" if ran or not cluster.gloo_planned else NOT_CHECKED


def failed_by_themselves(ended: list[FailedRank]) -> list[FailedRank]:
    """Return the ranks with an error of their own, else those that ended by themselves, else all."""
    alive = [rank for rank in ended if not rank.stage.detail.get("killed")]
    return [rank for rank in alive if not rank.stage.detail.get("died")] or alive or ended


def gloo_errors_name(cluster: Cluster, addresses: Iterable[str | None]) -> bool:
    """Return whether gloo failed on any rank with a text that names one of ``addresses``."""
    ended = failed_ranks(cluster, "gloo") or failed_ranks(cluster, "gloo-groups")
    texts = [rank.stage.error or "" for rank in ended]
    return any(f"[{address}]" in text for address in addresses for text in texts)


def ranks_of_failed(ended: list[FailedRank]) -> tuple[int, ...]:
    """Return the global ranks, each once, in order."""
    return tuple(sorted({rank.rank.rank for rank in ended if rank.rank.rank is not None}))


def nodes_of_failed(cluster: Cluster, ended: list[FailedRank]) -> tuple[str, ...]:
    """Return the nodes, each once, in the cluster's order."""
    names = {rank.node.name for rank in ended}
    return tuple(node.name for node in cluster.nodes if node.name in names)


def rank_errors_text(ended: list[FailedRank]) -> tuple[str, ...]:
    """Return each error text once, with its ranks."""
    groups: dict[str, list[FailedRank]] = {}
    for rank in ended:
        groups.setdefault(shorten_error(rank.stage.error or "no text"), []).append(rank)
    lines = []
    for text, ranks in groups.items():
        who = together(
            str(rank.rank.rank if rank.rank.rank is not None else f"local {rank.rank.local_rank}") for rank in ranks
        )
        nodes = together(dict.fromkeys(rank.node.name for rank in ranks))
        lines.append(f"rank{'s' if len(ranks) > 1 else ''} {who} on {nodes}: {text}")
    return (*lines[:LINES], *((f"and {len(lines) - LINES} other errors",) if len(lines) > LINES else ()))


def accused_by_errors(cluster: Cluster, ended: Sequence[FailedRank]) -> AccusedNodes:
    """Return the nodes to blame for the errors of these ranks (see :func:`distdoctor.check_api.ranks.accused`)."""
    return accused(cluster, [(rank.node, rank.stage.error or "") for rank in ended])


def ranks_to_blame(ended: Sequence[FailedRank], blamed: AccusedNodes) -> tuple[int, ...]:
    """Return the ranks to blame: those that failed on the blamed nodes, or all ranks of a node that others name."""
    failed: defaultdict[Node, list[FailedRank]] = defaultdict(list)
    for rank in ended:
        failed[rank.node].append(rank)
    ranks: list[int] = []
    for node in blamed.nodes:
        ranks += ranks_of_failed(failed[node]) or node.ranks
    return tuple(sorted(ranks))


def failed_stage_finding(
    cluster: Cluster, stage: str, what: str, fix: str, severity: str = "fail"
) -> Iterator[Finding]:
    """Yield the finding about a failed stage.

    ``what`` is completed by ``... on rank 1 of host0``; ``fix`` is for failures between ranks, since errors of one rank
    have their own fixes."""
    ended = [rank for rank in failed_by_themselves(failed_ranks(cluster, stage)) if not rank.stage.detail.get("wrong")]
    if not ended:
        return  # another check reports wrong results
    blamed = accused_by_errors(cluster, ended)
    names = tuple(node.name for node in blamed.nodes)
    quoted = [rank for rank in ended if rank.node in (blamed.reporters or blamed.nodes)] or ended
    where = f"on {together(names)}"
    if blamed.reporters:
        accusers, place = together(node.name for node in blamed.reporters), f" ({blamed.place})" if blamed.place else ""
        accused = [node.name for node in blamed.nodes if node not in blamed.reporters]
        where = f"with {together(accused)}{place}, according to {accusers}"
    yield Finding(
        summary=f"{what} {where}: {shortened(shorten_error(quoted[0].stage.error or 'no text'), 160)}",
        nodes=names,
        ranks=ranks_to_blame(ended, blamed),
        links=tuple((a.name, b.name) for a in blamed.reporters for b in blamed.nodes if a is not b),
        blame=blamed.blame,
        evidence=rank_errors_text(ended),
        fixes=fixes_for_errors(blamed, quoted, fix),
        severity="warn" if severity == "warn" else "fail",
        # A stopped or dead rank explains failures of ranks together.
        because_of="ranks together" if stopped_ranks(cluster) or died_ranks(cluster) else None,
    )


def fixes_for_errors(blamed: AccusedNodes, quoted: Sequence[FailedRank], fix: str) -> tuple[Fix, ...]:
    """Return the fixes that the errors' own texts name, else ``fix``."""
    names = tuple(node.name for node in blamed.nodes)
    if blamed.reporters:
        accused = [node.name for node in blamed.nodes if node not in blamed.reporters]
        place = f" ({blamed.place})" if blamed.place else ""
        return (Fix(f"Start with {together(accused)}{place}, which the errors of the other nodes name. {fix}", names),)
    errors = dict.fromkeys((rank.node, rank.stage.error or "") for rank in quoted)
    fixes = [remedy for node, text in errors for remedy in fixes_for_error(node, text)]
    unique = [remedy for number, remedy in enumerate(fixes) if remedy not in fixes[:number]]
    return tuple(unique) or (Fix(fix, names),)


# Nodes that ranks' errors name: the peer of a failed connection is the suspect, not the reporter.
#
# Texts: gloo/transport/tcp (``Connection refused, remote=[10.0.0.5]:41904``, ``Read error [10.0.0.5]:40123: Connection
# reset by peer``), c10d, which names a store's host as ``(host0, 29500)`` and in a timeout the key that a rank never
# wrote (``keys: /default_pg/0//cpu//0/1``), and NCCL's socket.cc (``Connect to 10.0.0.5<40123> failed``). Those of gloo
# and c10d were seen in runs of torch 2.13, NCCL's in public reports.


_REMOTE = re.compile(r"remote=\[([0-9a-fA-F.:]+)(?:%\w+)?\]")
_PLACE = re.compile(r"(?<!local=)\[([0-9a-fA-F.:]+)(?:%\w+)?\]|\b([0-9a-fA-F.:]+)<\d+>")
_HOST = re.compile(r"\(([^\s,()]+), \d+\)")
_KEY = re.compile(r"wait timeout after \d+ ?ms, keys: \S*?/(\d+)(?![\w/])")
_ANSWERED = re.compile(r"(?i)refused|reset by peer|closed by (?:remote )?peer|broken pipe")
"""The named host answers, or did before: the route to it is open."""
_WAITED = re.compile(r"(?i)timed? ?out|did not return|another rank failed")

RankError = tuple[Node, str]
"""Node, and the error of one of its ranks."""


@dataclass(frozen=True)
class AccusedNodes:
    """Nodes to blame for the errors of a stage."""

    nodes: tuple[Node, ...]
    blame: Blame
    reporters: tuple[Node, ...] = ()
    """The other nodes, with errors that name these; empty if the errors are these nodes' own."""
    place: str | None = None
    """Address that the reporters name."""


def accused(cluster: Cluster, errors: Sequence[RankError]) -> AccusedNodes:
    """Return the nodes to blame for these errors.

    An error that names no other node is the rank's own, and the cause. An error that names a peer accuses the peer that
    all name; surely, if several nodes name it or it answered them. A timeout without a name accuses nobody.
    """
    named = [(node, text, culprits(cluster, node, text)) for node, text in errors]
    own = {node for node, text, others in named if not others and not _WAITED.search(text)}
    if own:
        return AccusedNodes(_in_order(cluster, own), "all")
    accusing = [entry for entry in named if entry[2]]
    if not accusing:
        waiting = {node for node, _ in errors}
        return _one_of(cluster, set(cluster.nodes) if len(waiting) == 1 else waiting)
    by_node: dict[Node, set[Node]] = {}
    for node, _, others in accusing:
        by_node.setdefault(node, set()).update(others)
    culprit = _named_by_all(by_node)
    if culprit is None:
        return _one_of(cluster, set(by_node).union(*by_node.values()))
    reporters = {node for node in by_node if node is not culprit}
    texts = [text for node, text, _ in accusing if node is not culprit]
    sure = len(reporters) != 1 or all(_ANSWERED.search(text) for text in texts)
    return AccusedNodes(
        (culprit,) if sure else _in_order(cluster, {culprit, *reporters}),
        "all" if sure else "one-of",
        _in_order(cluster, reporters),
        next((place for text in texts for place in addresses(text)), None),
    )


def _named_by_all(named: Mapping[Node, set[Node]]) -> Node | None:
    """Return the only node that all others name; ``named``: node -> the nodes that its errors name."""
    suspects = set().union(*named.values())
    agreed = [one for one in suspects if all(one in others for node, others in named.items() if node is not one)]
    return agreed[0] if len(agreed) == 1 else None


def _one_of(cluster: Cluster, suspects: set[Node]) -> AccusedNodes:
    return AccusedNodes(_in_order(cluster, suspects), "one-of" if len(suspects) > 1 else "all")


def addresses(text: str) -> tuple[str, ...]:
    """Return the addresses of peers in an error: those called remote, else all except the local one."""
    texts = _REMOTE.findall(text) or [address or other for address, other in _PLACE.findall(text)]
    return tuple(dict.fromkeys(address for address in texts if parse_address(address) is not None))


def culprits(cluster: Cluster, reporter: Node, text: str) -> set[Node]:
    """Return the nodes that an error names, by their address, an address that gloo advertises, a hostname or a rank.

    A loopback address names the other nodes on which gloo advertises it.
    """
    nodes: set[Node] = set()
    for place in addresses(text):
        nodes |= _owners(cluster, reporter, place)
    for name in _HOST.findall(text):
        nodes |= {n for n in cluster.nodes if name in own_host_names(n)} or _owners(cluster, reporter, name)
        if not nodes and name == reporter.plan.master_addr and cluster.node0 is not None:
            nodes.add(cluster.node0)
    for rank in map(int, _KEY.findall(text)):
        nodes |= {node for node in cluster.nodes if rank in node.ranks}
    return nodes


def _owners(cluster: Cluster, reporter: Node, place: str) -> set[Node]:
    number = parse_address(place)
    if number is None:
        return set()
    offered = {n for n in cluster.nodes if number in map(parse_address, n.gloo_addresses)}
    if is_loopback(place):
        return offered - {reporter} if len(cluster.hosts) > 1 else offered
    return offered or {n for n in cluster.nodes if any(parse_address(address) == number for address in n.addresses)}


def _in_order(cluster: Cluster, nodes: set[Node]) -> tuple[Node, ...]:
    return tuple(node for node in cluster.nodes if node in nodes)


# Errors of one rank with a known fix, without a problem between the nodes.


NAME_LENGTH = 64
"""c10d's gloo reads the hostname into a buffer of HOST_NAME_MAX (64) bytes, which is too small for 64 letters and their
end: gethostname(2) returns ENAMETOOLONG. With GLOO_SOCKET_IFNAME gloo does not read it."""
USUAL_PROCESSES = 65536
BETWEEN = re.compile(
    r"(?i)connect|refused|unreachable|no route to host|reset by peer|closed|broken pipe|time-?d? ?out|read error"
    r"|did not return|another rank failed|ss_family"
)
"""Texts of errors about connections and waiting."""


def fixes_for_error(node: Node, text: str) -> tuple[Fix, ...]:
    """Return the fixes on ``node`` for this error of one of its ranks; empty if its text names none."""
    for words, remedy in _REMEDIES:
        if words.search(text):
            return tuple(remedy(node))
    if not BETWEEN.search(text):
        return (Fix(f"Fix the quoted error on {node.name}; it does not concern the network.", (node.name,)),)
    return ()


def _processes(node: Node) -> Iterator[Fix]:
    limits = node.limits
    names, option = (node.name,), 1
    soft, hard = limits.processes, limits.processes_hard
    if soft is not None and soft >= 0 and node.identity.user != "root":
        wanted = USUAL_PROCESSES if hard is None or hard < 0 else min(USUAL_PROCESSES, hard)
        if wanted > soft:
            text = f"On {node.name}, raise the limit of {soft} processes and threads in the job's shell."
            yield Fix(text, names, option, commands=(f"ulimit -u {wanted}",))
        else:
            text = (
                f"On {node.name}, raise the user's limit of {soft} processes and threads as root (nproc in "
                "/etc/security/limits.conf, TasksMax= of the unit), then log in again. Confirm with: `ulimit -u`."
            )
            yield Fix(text, names, option)
        option += 1
    if limits.pids_max is not None:
        text = (
            f"{'Or raise' if option > 1 else 'Raise'} the limit of {limits.pids_max} processes and threads of the "
            f"container or unit on {node.name} (docker run --pids-limit, TasksMax=, the kubelet's podPidsLimit)."
        )
        yield Fix(text, names, option)
        option += 1
    if option == 1:
        yield Fix(
            f"On {node.name}, end leftover ranks, or raise the limit of processes and threads. "
            "Confirm with: `ulimit -u`, `cat /sys/fs/cgroup/pids.max`, `sysctl kernel.threads-max`.",
            names,
        )


def _long_name(node: Node) -> Iterator[Fix]:
    name, primary = node.identity.hostname, node.network.primary
    if len(name) < NAME_LENGTH:
        text = f"On {node.name}, shorten the path in the error: `export TMPDIR=/tmp`."
        yield Fix(text, (node.name,))
        return
    option = 1
    if primary is not None and primary.interface:
        text = f"On {node.name}, set gloo's interface; gloo then does not read the hostname of {len(name)} letters."
        yield Fix(text, (node.name,), option, env={"GLOO_SOCKET_IFNAME": primary.interface})
        option = 2
    text = f"set a hostname of at most {NAME_LENGTH - 1} letters: `hostnamectl set-hostname NAME`."
    yield Fix(f"Or {text}" if option > 1 else f"{text[0].upper()}{text[1:]}", (node.name,), option)


def _transport(node: Node) -> Iterator[Fix]:
    value = node.variables.get("GLOO_DEVICE_TRANSPORT")
    if value:
        text = f"Unset GLOO_DEVICE_TRANSPORT on {node.name}; its torch has no transport {value}."
        yield Fix(text, (node.name,), env={"GLOO_DEVICE_TRANSPORT": None})
    else:
        yield Fix(
            f"Install a build of torch with a gloo transport on {node.name}: `pip install --force-reinstall torch`.",
            (node.name,),
        )


def _memory(node: Node) -> Iterator[Fix]:
    text = f"On {node.name}, end other users of memory, or raise its limit. Confirm with: `free -m`, `ulimit -v`."
    yield Fix(text, (node.name,))


def _space(node: Node) -> Iterator[Fix]:
    yield Fix(
        f"On {node.name}, free space on the full file system. Confirm with: `df -h /dev/shm /tmp`, `df -i /tmp`.",
        (node.name,),
    )


def _system_files(node: Node) -> Iterator[Fix]:
    text = f"On {node.name}, raise the kernel's limit of open files as root, or end the process with most (`lsof`)."
    yield Fix(text, (node.name,), commands=("sysctl -w fs.file-max=1000000",))


_REMEDIES: tuple[tuple[re.Pattern[str], Callable[[Node], Iterator[Fix]]], ...] = (
    (re.compile(r"Resource temporarily unavailable|can't start new thread|EAGAIN"), _processes),
    (re.compile(r"File name too long|path too long|ENAMETOOLONG"), _long_name),
    (re.compile(r"unsupported gloo device"), _transport),
    (re.compile(r"Cannot allocate memory|ENOMEM|bad_alloc"), _memory),
    (re.compile(r"Too many open files in system|ENFILE"), _system_files),
    (re.compile(r"No space left on device|ENOSPC"), _space),
)
