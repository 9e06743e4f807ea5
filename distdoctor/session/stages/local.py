"""Stages that a process runs by itself, without the network: its launch, its host and its devices."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distdoctor.judge.catalog import Check
from distdoctor.knowledge.nccl import gid_index
from distdoctor.knowledge.torchrun import may_announce
from distdoctor.model.facts import Gpu, GpuFacts, KernelLine, Limits, PeerCopies, StageStatus
from distdoctor.model.facts.ranks import PRODUCT_BEGUN
from distdoctor.model.log_line import Line
from distdoctor.model.stages import GPU
from distdoctor.probes.gpu import amd, driver, nccl
from distdoctor.probes.host import files, host, identity, processes
from distdoctor.probes.host.processes import in_time
from distdoctor.ranks import devices
from distdoctor.ranks.devices import COPYING
from distdoctor.ranks.supervisor import Child, Died, Zygote
from distdoctor.session.context import RunContext, wait_for_torch

Ended = tuple[StageStatus, str]
"""Status of a stage, and the reason."""
COPY_SECONDS = 8.0
"""Limit of the copies between the devices of a node, which stop by themselves long before."""
ANOTHER_PROCESS = "another process of this node does it"


async def environment(context: RunContext) -> Ended:
    """Record the launch variables: the plan has judged them."""
    problems = context.plan.broken
    if not problems:
        return "ok", ""
    return "failed", "; ".join(f"{p.variable}: {p.why}" for p in problems)


async def look_at_host(context: RunContext) -> Ended:
    """Collect names, interfaces, and the address gloo will pick."""
    plan = context.plan
    kernel = asyncio.ensure_future(known_kernel_lines(context.options.checks))
    shared = asyncio.ensure_future(files.leave_marks(context.options.shared, plan.init_method))
    facts, written, locks, init, temporary_folder, user = await asyncio.gather(
        host.probe(context.facts.identity.hostname, context.facts.variables, may_announce(plan), plan.local_addr),
        files.probe_folders(os.environ),
        files.probe_build_locks({"self": os.environ}),
        files.try_init_file(plan.init_method),
        in_time(files.probe_temporary, files.FOLDER_SECONDS),
        in_time(lambda: identity.probe_account(os.environ), files.FOLDER_SECONDS),
    )
    facts = replace(
        facts,
        limits=replace(facts.limits or Limits(), memory_used=context.memory_used),
        init_file=init,
        temporary=temporary_folder,
        folders=written,
        build_locks=locks,
        account=await files.probe_descriptors(os.environ, user),
        shared=await shared,
        kernel_log=await kernel,
    )
    context.update(host=facts)
    if facts.gloo and facts.gloo.address is None:
        return "failed", f"GLOO_SOCKET_IFNAME={facts.gloo.variable}: no such interface"
    return "ok", ""


async def look_for_files(context: RunContext, marks: Mapping[str, str]) -> None:
    """Note whether node 0's files are in the folders shared with it (``marks``: folder -> file name)."""
    host = context.facts.host
    if host is not None and host.shared and marks:
        shared = await files.look_for_marks(host.shared, marks)
        context.update(host=replace(context.facts.host or host, shared=shared))


async def _copied(child: Child) -> PeerCopies | None:
    """Return the copies between the devices; the process is ended if they do not end."""
    try:
        answer = await asyncio.wait_for(child.call("peers"), COPY_SECONDS)
    except asyncio.TimeoutError:
        child.kill()
        trying = re.findall(rf"^{COPYING} (\d+) (\d+)$", child.output(), re.MULTILINE)
        return PeerCopies(tried=len(trying) - 1, endless=(int(trying[-1][0]), int(trying[-1][1]))) if trying else None
    except Died:
        return None
    if not answer["ok"]:
        return None
    wrong, refused = (tuple((pair[0], pair[1]) for pair in answer[of]) for of in ("wrong", "refused"))
    return PeerCopies(answer["devices"], answer["able"], refused, answer["tried"], wrong, None, answer["error"])


def _partial_devices(output: str, error: str) -> dict[str, Any] | None:
    """Return the partial result of the process, if a device stopped or ended it; None if no device did."""
    trying = re.findall(rf"^{devices.COMPUTING} (\d+) (\{{.*\}})$", output, re.MULTILINE)
    if not trying:
        return None
    answer: dict[str, Any] = json.loads(trying[-1][1])
    for device in answer["visible"]:
        if device["index"] == int(trying[-1][0]):
            device["error"] = f"{PRODUCT_BEGUN}: {error}"
    return answer


async def look_at_gpus(context: RunContext, zygote: Zygote | None) -> Ended:
    """Collect the driver and NCCL's other inputs, once per node; and the devices that this process's ranks see, each
    asked in a process of its own."""
    if zygote is None:
        return "skipped", "devices are seen through torch, which is not loaded up to the network stage"
    asked = asyncio.ensure_future(driver.probe_driver()) if context.leads_node else None
    if context.leads_node:
        variables = context.facts.variables
        ports, topology, graph, of_amd = await asyncio.gather(
            in_time(lambda: nccl.probe_rdma(gid_index(variables)), nccl.RDMA_SECONDS),
            in_time(lambda: nccl.probe_topology(variables), files.FOLDER_SECONDS),
            in_time(lambda: nccl.probe_graph(variables), files.FOLDER_SECONDS),
            in_time(amd.probe, files.FOLDER_SECONDS),
        )
        more = await amd.amd_smi_values(of_amd) if of_amd is not None else None
        context.update(rdma=ports, topology=topology, graph=graph, amd=more)
    torch = await wait_for_torch(context, zygote, GPU.name)
    if asked is not None:
        context.update(driver=await asked)  # before anything of ours is on the devices
    if torch.version is None:
        return "skipped", "torch cannot be imported"
    plan = context.plan
    child = zygote.spawn("distdoctor:gpu")
    try:
        # One process for all ranks of the node asks all devices; a process of one rank asks its own.
        mine = None if plan.started == "node" else plan.local_rank or 0
        compute = "nccl" in plan.backends(gpus=True)
        answer = await asyncio.wait_for(child.call("gpu", mine=mine, compute=compute), GPU.seconds)
        if compute and mine is None and len(answer.get("visible", ())) > 1:
            context.update(peers=await _copied(child))
    except (asyncio.TimeoutError, Died) as err:
        child.kill()
        error = (
            f"no answer from the driver within {GPU.seconds:.0f} s"
            if isinstance(err, asyncio.TimeoutError)
            else str(err)
        )
        answer = _partial_devices(child.output(), error) or {"ok": False, "error": error}
    finally:
        child.close()
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    seen = GpuFacts(
        tuple(Gpu(**device) for device in answer.get("visible", ())),
        answer.get("reason"),
        mask,
        answer.get("error"),
        architectures=tuple(answer.get("architectures", ())),
        library=answer.get("library"),
        started=answer.get("started"),
    )
    context.update(ranks=tuple(replace(rank, gpu=seen) for rank in context.facts.ranks))
    if seen.error:
        return "error", seen.error
    return ("ok", f"{len(seen.visible)} visible") if seen.visible else ("skipped", f"no GPU: {seen.reason}")


# Known lines of the kernel's log, by the checks that read it, as in logs that are read afterwards.


PART = "host.kernel_log"
MAX_KERNEL_LINES, TEXT = 100, 300
LATELY_SECONDS = 900.0
"""Age in seconds beyond which a line says nothing of a job that starts now."""
LASTING = {"server", "device"}
"""Captures of lines on a lasting state, of a file server or a disk. The kernel logs it once, as it begins; it lasts
until a later line says otherwise."""


async def known_kernel_lines(checks: Iterable[Check]) -> tuple[KernelLine, ...] | None:
    """Return the recent known lines, and the last line of each lasting state; None if the log may not be read."""
    wordings = {check.id: tuple(check.log) for check in checks if PART in (*check.looks_at, *check.helped_by)}
    records = await in_time(processes.read_kernel_log, processes.KERNEL_LOG_SECONDS) if wordings else None
    if records is None:
        return None
    lines, since = [*_known(records, wordings)], time.time() - LATELY_SECONDS
    lasting = [line for line in lines if LASTING & line.values.keys()]
    lately = [line for line in lines if line.at >= since and line not in lasting]
    return tuple(sorted((*lasting[-MAX_KERNEL_LINES:], *lately[-MAX_KERNEL_LINES:]), key=lambda line: line.at))


async def look_at_kernel_log(context: RunContext) -> None:
    """Read the kernel's lines since a stage failed here."""
    lines, host = await known_kernel_lines(context.options.checks), context.facts.host
    if lines is not None and host is not None:
        context.update(host=replace(host, kernel_log=lines))


def _known(records: Sequence[tuple[float, str]], wordings: dict[str, tuple[Line, ...]]) -> Iterator[KernelLine]:
    from distdoctor.logs.scanner import Scanner, read  # only where there is a log to search

    scanner = Scanner(wordings)
    search, block = scanner.begin(), "\n".join(text for _, text in records).encode()
    for start, end, candidates in scanner.lines(block, search):
        at, text = records[block.count(b"\n", 0, start)][0], block[start:end].decode(errors="replace")
        for candidate in read(candidates, text)[0]:
            values = candidate.values(text)
            if values is not None:
                yield KernelLine(candidate.check, candidate.line.shows, text[:TEXT], round(at, 1), values)
