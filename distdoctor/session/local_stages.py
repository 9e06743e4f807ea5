"""The stages that a process climbs by itself, but for the network: what its launch, its host and its devices are."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from distdoctor.knowledge.nccl_rdma import gid_index
from distdoctor.knowledge.torchrun import may_announce
from distdoctor.model.facts import Gpu, GpuFacts, Limits, PeerCopies, StageStatus
from distdoctor.model.facts.ranks import PRODUCT_BEGUN
from distdoctor.model.stages import GPU
from distdoctor.probes import (
    account,
    amd,
    amd_smi,
    build_locks,
    descriptors,
    folders,
    gpu_driver,
    host,
    init_file,
    rdma,
    shared_folders,
    temporary,
    topology_file,
)
from distdoctor.probes.threads import in_time
from distdoctor.ranks import devices
from distdoctor.ranks.peer_copies import TRYING
from distdoctor.ranks.supervisor import Child, Died, Zygote
from distdoctor.session import kernel_lines
from distdoctor.session.recorder import Recorder
from distdoctor.session.torch_import import wait_for_torch

Ended = tuple[StageStatus, str]
"""How a stage's work ended, and why."""
COPY_SECONDS = 8.0
"""For what the devices of a node copy to each other, which stops by itself long before."""
ANOTHER_PROCESS = "another process of this node does it"


async def environment(recorder: Recorder) -> Ended:
    """The launch variables: the plan has looked at them."""
    problems = recorder.options.plan.broken
    if not problems:
        return "ok", ""
    return "failed", "; ".join(f"{p.variable}: {p.why}" for p in problems)


async def look_at_host(recorder: Recorder) -> Ended:
    """Names, interfaces, and the address gloo will pick."""
    plan = recorder.options.plan
    kernel = asyncio.ensure_future(kernel_lines.known(recorder.options.checks))
    shared = asyncio.ensure_future(shared_folders.leave(recorder.options.shared, plan.init_method))
    facts, written, locks, init, temporary_folder, user = await asyncio.gather(
        host.probe(recorder.facts.identity.hostname, recorder.facts.variables, may_announce(plan), plan.local_addr),
        folders.probe(os.environ),
        build_locks.probe({"self": os.environ}),
        init_file.look(plan.init_method),
        in_time(temporary.probe, folders.SECONDS),
        in_time(lambda: account.probe(os.environ), folders.SECONDS),
    )
    facts = replace(
        facts,
        limits=replace(facts.limits or Limits(), memory_used=recorder.memory_used),
        init_file=init,
        temporary=temporary_folder,
        folders=written,
        build_locks=locks,
        account=await descriptors.probe(os.environ, user),
        shared=await shared,
        kernel_log=await kernel,
    )
    recorder.update(host=facts)
    if facts.gloo and facts.gloo.address is None:
        return "failed", f"GLOO_SOCKET_IFNAME={facts.gloo.variable}: no such interface"
    return "ok", ""


async def look_for_files(recorder: Recorder, marks: Mapping[str, str]) -> None:
    """Whether node 0's files are in the folders that this node has in common with it (their names, by the folder)."""
    host = recorder.facts.host
    if host is not None and host.shared and marks:
        shared = await shared_folders.look(host.shared, marks)
        recorder.update(host=replace(recorder.facts.host or host, shared=shared))


async def _copied(child: Child) -> PeerCopies | None:
    """What the devices copy to each other; the process is ended where that does not end."""
    try:
        answer = await asyncio.wait_for(child.call("peers"), COPY_SECONDS)
    except asyncio.TimeoutError:
        child.kill()
        trying = re.findall(rf"^{TRYING} (\d+) (\d+)$", child.output(), re.MULTILINE)
        return PeerCopies(tried=len(trying) - 1, endless=(int(trying[-1][0]), int(trying[-1][1]))) if trying else None
    except Died:
        return None
    if not answer["ok"]:
        return None
    wrong, refused = (tuple((pair[0], pair[1]) for pair in answer[of]) for of in ("wrong", "refused"))
    return PeerCopies(answer["devices"], answer["able"], refused, answer["tried"], wrong, None, answer["error"])


def _of_one_that_failed(output: str, error: str) -> dict[str, Any] | None:
    """What the process had found out when one device kept it from going on, or ended it; None where it was at none."""
    trying = re.findall(rf"^{devices.TRYING} (\d+) (\{{.*\}})$", output, re.MULTILINE)
    if not trying:
        return None
    answer: dict[str, Any] = json.loads(trying[-1][1])
    for device in answer["visible"]:
        if device["index"] == int(trying[-1][0]):
            device["error"] = f"{PRODUCT_BEGUN}: {error}"
    return answer


async def look_at_gpus(recorder: Recorder, zygote: Zygote | None) -> Ended:
    """The driver and what else NCCL finds, once per node; the devices this process's ranks see, asked in processes of
    their own."""
    if zygote is None:
        return "skipped", "devices are seen through torch, which is not loaded up to the network stage"
    asked = asyncio.ensure_future(gpu_driver.probe()) if recorder.leads_node else None
    if recorder.leads_node:
        variables = recorder.facts.variables
        ports, topology, graph, of_amd = await asyncio.gather(
            in_time(lambda: rdma.probe(gid_index(variables)), rdma.SECONDS),
            in_time(lambda: topology_file.probe(variables), folders.SECONDS),
            in_time(lambda: topology_file.probe_graph(variables), folders.SECONDS),
            in_time(amd.probe, folders.SECONDS),
        )
        more = await amd_smi.told(of_amd) if of_amd is not None else None
        recorder.update(rdma=ports, topology=topology, graph=graph, amd=more)
    torch = await wait_for_torch(recorder, zygote, GPU.name)
    if asked is not None:
        recorder.update(driver=await asked)  # before anything of ours is on the devices
    if torch.version is None:
        return "skipped", "torch cannot be imported"
    plan = recorder.options.plan
    child = zygote.spawn("distdoctor:gpu")
    try:
        # One process for all ranks of the node looks at all devices; one of each rank, at its own.
        mine = None if plan.started == "node" else plan.local_rank or 0
        compute = "nccl" in plan.backends(gpus=True)
        answer = await asyncio.wait_for(child.call("gpu", mine=mine, compute=compute), GPU.seconds)
        if compute and mine is None and len(answer.get("visible", ())) > 1:
            recorder.update(peers=await _copied(child))
    except (asyncio.TimeoutError, Died) as err:
        child.kill()
        error = (
            f"no answer from the driver within {GPU.seconds:.0f} s"
            if isinstance(err, asyncio.TimeoutError)
            else str(err)
        )
        answer = _of_one_that_failed(child.output(), error) or {"ok": False, "error": error}
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
    recorder.update(ranks=tuple(replace(rank, gpu=seen) for rank in recorder.facts.ranks))
    if seen.error:
        return "error", seen.error
    return ("ok", f"{len(seen.visible)} visible") if seen.visible else ("skipped", f"no GPU: {seen.reason}")
