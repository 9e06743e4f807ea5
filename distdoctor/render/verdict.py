"""First line of a report: the verdict and its cause, alike in every format; and the line on what was checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from distdoctor.model.addresses import endpoint
from distdoctor.model.findings import Finding
from distdoctor.model.report import INTERRUPTED, ONE_HOST, Report
from distdoctor.model.stages import STAGES, needs_torch
from distdoctor.model.text import clean
from distdoctor.render import jobs
from distdoctor.render.words import count, fold

NODES_COUNTED = 8
"""Nodes whose different numbers of ranks are listed one by one."""
BY_HAND = "env"
"""The launcher of a plan that stands in the ranks' variables alone."""
INTERFACES_SHOWN = 3
ALONE = "this machine only"


@dataclass(frozen=True)
class Headline:
    """The verdict with its cause."""

    word: str
    """``FAIL``, ``RUNNING``, ``PASS up to network``; empty where the run was interrupted."""
    text: str
    finding: Finding | None = None
    """The root cause that the text states."""

    def line(self) -> str:
        """The headline as one line of plain text, with the id of the finding."""
        name = f"  [{clean(self.finding.id)}]" if self.finding else ""
        word = f"{self.word}{'  ' if self.finding else ': '}" if self.word else ""
        return f"{word}{self.text}{name}"


def headline(report: Report) -> Headline:
    """Return the verdict of ``report`` and the cause with its values."""
    word = verdict_word(report)
    if interrupted := report.details.get(INTERRUPTED):
        return Headline("", clean(interrupted))
    root = next((finding for finding in report.findings if finding.because_of is None), None)
    if root is not None and _answers(report, root):
        return Headline(word, sentence(_joined(report, root) + root.summary), root)
    if jobs.is_on_logs(report):
        return Headline(word, jobs.log_answer(report))
    if jobs.is_on_job(report):
        return Headline(word, jobs.hang_answer(report))
    if report.verdict == "incomplete":
        return Headline(word, _unknown(report))
    return Headline(word, _ready(report))


def verdict_word(report: Report) -> str:
    """Return the verdict as reports print it."""
    if jobs.is_on_logs(report):
        return jobs.log_verdict(report)
    if jobs.is_on_job(report):
        return jobs.hang_verdict(report)
    partly = report.verdict in ("pass", "warn") and not _whole(report)
    return report.verdict.upper() + (f" up to {report.until}" if partly else "")


def sentence(text: str) -> str:
    """``text`` as a heading: without the full stop at its end."""
    said = clean(text)
    return said[:-1] if said.endswith(".") and not said.endswith("..") else said


def _answers(report: Report, root: Finding) -> bool:
    """Return whether the first root cause is the reason of the verdict."""
    if jobs.is_on_job(report):
        return jobs.explained(report)
    if jobs.is_on_logs(report):
        return report.verdict == "fail" or (report.verdict == "incomplete" and not report.candidates)
    return report.verdict != "pass" and root.severity != "info"


def _whole(report: Report) -> bool:
    return report.until == STAGES[-1]


def _joined(report: Report, root: Finding) -> str:
    """Return how many nodes joined, where that some did not is the cause."""
    arrived = sum(node.arrived for node in report.nodes)
    whole = max(len(report.nodes), report.plan.get("nnodes") or 0)
    if not report.plan or not root.incomplete or arrived == whole or f"of {whole} nodes" in root.summary:
        return ""
    return f"{arrived} of {count(whole, 'node')} joined; "


def _unknown(report: Report) -> str:
    """Return why a check without a finding could not be finished."""
    missing = [node.name for node in report.nodes if not node.arrived]
    if missing:
        whole = max(len(report.nodes), report.plan.get("nnodes") or 0)
        return f"{len(report.nodes) - len(missing)} of {count(whole, 'node')} checked; missing: {fold(missing)}"
    if report.notes:  # that all nodes run on one host is no reason
        return sentence(next((note for note in report.notes if ONE_HOST not in note), report.notes[0]))
    broken = next((stage for stage in report.stages if stage.status in ("error", "fail")), None)
    if broken is not None:
        return f"{broken.stage} did not finish on {clean(broken.node)}: {clean(broken.reason) or 'reason unknown'}"
    return "the run ended before every stage had run"


def _ready(report: Report) -> str:
    """Return what passed, where nothing is wrong."""
    names = [node.name for node in report.nodes]
    if not _whole(report):
        if report.apart:
            return f"{fold(names)} passed; each node is checked by itself up to {report.until}"
        return f"{fold(names)} passed" if len(names) == 1 else f"all {count(len(names), 'node')} passed"
    if alone(report):
        return "this node is ready for the job (no other nodes were configured)"
    if len(names) == 1:
        return "this node is ready for the job"
    together = any(ONE_HOST in note for note in report.notes)
    return f"{count(len(names), 'node')} are ready for the job" + (", all on one host" if together else "")


def alone(report: Report) -> bool:
    """Return whether the plan has one node only because no flag or variable named others."""
    return bool(report.plan.get("alone"))


def plan_line(report: Report) -> str:
    """Return what was checked: shape, backend, store, versions, devices."""
    return ", ".join(_plan_parts(report))


def _plan_parts(report: Report) -> Iterator[str]:
    plan, nodes = report.plan, _details(report)
    yield shape(report)
    backends = [clean(backend) for backend in plan.get("backends") or ()]
    yield (" + ".join(backends) if backends else "backend unknown") + _interfaces(backends, nodes)
    if plan.get("master_addr"):
        source = (plan.get("sources") or {}).get("master_addr", "default")
        origin = f" ({clean(source)})" if source != "default" else ""
        port = plan.get("master_port")
        place = endpoint(clean(plan["master_addr"]), port) if port else f"{clean(plan['master_addr'])}, any free port"
        yield f"{place}{origin}"
    if report.torch or needs_torch(report.until):
        yield f"torch {clean(report.torch)}" if report.torch else _without_torch(nodes)
    yield from _devices(nodes)
    yield f"distdoctor {clean(report.distdoctor)}"


def _details(report: Report) -> list[Mapping[str, Any]]:
    nodes = (report.details.get("nodes") or {}).values()
    return [node for node in nodes if isinstance(node, Mapping)]


def _interfaces(backends: list[str], nodes: list[Mapping[str, Any]]) -> str:
    """Return the interface that the backend binds, with its address where one node has it."""
    if "gloo" not in backends:
        return ""
    bound = [node for node in nodes if node.get("gloo_interface")]
    names = list(dict.fromkeys(clean(node["gloo_interface"]) for node in bound))
    if not names or len(names) > INTERFACES_SHOWN:
        return ""
    addresses = list(dict.fromkeys(clean(node["gloo_address"]) for node in bound if node.get("gloo_address")))
    return f" on {', '.join(names)}" + (f" ({', '.join(addresses)})" if 0 < len(addresses) <= INTERFACES_SHOWN else "")


def _without_torch(nodes: list[Mapping[str, Any]]) -> str:
    if any(node.get("torch_importing") for node in nodes):
        return "torch still being imported"
    return "no torch" if any(node.get("torch_error") for node in nodes) else "torch unknown"


def _devices(nodes: list[Mapping[str, Any]]) -> Iterator[str]:
    """Return GPUs, driver, CUDA, NCCL and the network it uses, as far as they are known."""
    gpus = [node["gpus"] for node in nodes if isinstance(node.get("gpus"), Mapping)]
    if gpus:
        used = sum(len(set((node.get("devices_of_ranks") or {}).values())) for node in gpus)
        yield f"{used} x {' + '.join(_each(gpus, 'models')) or 'GPU'}"
        for name, key in (("driver", "driver"), ("CUDA", "cuda")):
            if values := list(dict.fromkeys(clean(node[key]) for node in gpus if node.get(key))):
                yield f"{name} {' and '.join(values)}"
    logs = [node["nccl"] for node in nodes if isinstance(node.get("nccl"), Mapping)]
    versions, network, devices = (_each(logs, key) for key in ("version", "network", "devices"))
    if versions or network:
        over = f" over {', '.join(network)}" if network else ""
        over += f" ({', '.join(devices)})" if network and 0 < len(devices) <= INTERFACES_SHOWN else ""
        yield f"NCCL {' and '.join(versions)}".rstrip() + over
    if network:
        yield "no RDMA" if network == ["Socket"] else "RDMA"


def _each(details: Iterable[Mapping[str, Any]], key: str) -> list[str]:
    """Return the different values in the lists of that key."""
    return list(dict.fromkeys(clean(value) for one in details for value in one.get(key) or ()))


def shape(report: Report) -> str:
    """Return how many nodes and ranks there are, and what launches them."""
    launcher = report.plan.get("launcher") or BY_HAND
    who = clean(launcher) if launcher != BY_HAND else ALONE if alone(report) else ""
    return _nodes_and_ranks(report, launcher) + (f" ({who})" if who else "")


def _nodes_and_ranks(report: Report, launcher: str) -> str:
    plan = report.plan
    nodes, ranks_each, world = plan.get("nnodes"), plan.get("nproc_per_node"), plan.get("world_size")
    each = plan.get("ranks_per_node") or [len(node.ranks) for node in report.nodes]
    if nodes and world and world != nodes * (ranks_each or 0) and sum(each) == world and len(each) == nodes:
        counts = f" ({' + '.join(map(str, each))})" if nodes <= NODES_COUNTED else ""
        return f"{count(nodes, 'node')}, {count(world, 'rank')}{counts}"
    if nodes and ranks_each:
        return f"{count(nodes, 'node')} x {count(ranks_each, 'rank')}"
    if world and launcher != BY_HAND and sum(each) == world:
        return f"{count(len(report.nodes), 'node')}, {count(world, 'rank')}"
    return count(world, "rank") if world else "unknown number of ranks"
