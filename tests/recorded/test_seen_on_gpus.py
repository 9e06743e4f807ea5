"""Tests of what an NVIDIA H200 and an H100 showed (driver 580.159, torch 2.11, CUDA 13, NCCL 2.28.9), judged again.

The facts of checks and of looks at jobs that hung, and the logs of these jobs: tests/gpu/facts.py and jobs.py
were run there, and tests/gpu/record.py keeps what they brought back. Two ranks on one GPU are two hosts to NCCL where
NCCL_HOSTID or the host's name says so, and meet over sockets.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distdoctor.cli.diagnose import of_facts
from distdoctor.logs.ras import missing_from
from distdoctor.model.facts.files import read
from tests.facts_builder import CHECKS
from tests.lab.harness.recording import RECORDED
from tests.logs.judging import judged_files

GPU = RECORDED / "gpu"
ALONE, OTHER, BOTH = ("vm",), ("gpu-b",), ("gpu-a", "gpu-b")
Root = tuple[str, str, tuple[str, ...]]
WAITS: Root = ("process/waiting-in-user-code", "all", ALONE)
MISMATCH: Root = ("collective/mismatch", "one-of", ALONE)
MASKED: Root = ("gpu/mask-mismatch", "all", ALONE)
UNLIKE: Root = ("environment/setting-mismatch", "one-of", BOTH)
FULL: tuple[Root, ...] = (("gpu/out-of-memory", "all", ("gpu-a",)), ("gpu/out-of-memory#2", "all", OTHER))
"""Ten clusters had one GPU then."""
CHECKED: dict[str, tuple[str, tuple[Root, ...]]] = {
    "check-one-rank-nccl": ("pass", ()),
    "check-one-rank-no-backend-named": ("pass", ()),
    "check-no-count-named": ("pass", ()),
    "check-below-torchrun": ("pass", ()),
    "check-two-ranks-gloo": ("pass", ()),
    "check-mask-its-own-name": ("pass", ()),
    "check-mask-none-gloo": ("pass", ()),
    "check-mask-empty": ("fail", (MASKED,)),
    "check-mask-beyond-the-last": ("fail", (MASKED,)),
    "check-mask-twice": ("fail", (MASKED,)),
    "check-mask-another-node-s": ("fail", (MASKED,)),
    "check-mask-slurm-s-none": ("fail", (MASKED,)),
    "check-a-libcuda-that-is-none": ("fail", (("gpu/none-visible", "all", ALONE),)),
    "check-an-nvml-of-nothing": ("fail", (("gpu/none-visible", "all", ALONE),)),
    "check-nccl-socket-ifname-of-nothing": ("fail", (("nccl/interface-not-found", "all", ALONE),)),
    "check-most-of-the-memory-taken": ("warn", (("gpu/out-of-memory", "all", ALONE),)),
    "check-all-of-the-memory-taken": ("fail", (("gpu/out-of-memory", "all", ALONE),)),
    "check-two-ranks-on-one-gpu-nccl": (
        "fail",
        (("gpu/fewer-than-ranks", "all", ALONE), ("nccl/duplicate-gpu", "all", ALONE)),
    ),
    "nodes-healthy": ("pass", ()),
    "nodes-healthy-two-networks": ("pass", ()),
    "nodes-sockets-without-a-number": ("pass", ()),
    "nodes-a-card-of-its-own-on-each": ("fail", (("nccl/interface-unreachable", "all", BOTH),)),
    "nodes-a-card-of-its-own-on-a": ("fail", (("nccl/interface-unreachable", "all", ("gpu-a",)),)),
    "nodes-a-card-of-its-own-on-b": ("fail", (("nccl/interface-unreachable", "all", OTHER),)),
    "nodes-a-card-with-one-address-on-both": ("fail", (("nccl/interface-unreachable", "all", BOTH),)),
    "nodes-a-card-named-that-is-not-shared": ("fail", (("nccl/interface-unreachable", "all", BOTH),)),
    "nodes-a-second-network-whose-packets-are-dropped": ("fail", (("nccl/init-failed", "one-of", BOTH),)),
    "nodes-another-buffer-size": ("fail", (("environment/setting-mismatch", "one-of", BOTH),)),
    "nodes-another-protocol": ("fail", (("environment/setting-mismatch", "one-of", BOTH),)),
    "nodes-infiniband-where-there-is-none": ("fail", (("nccl/rdma-device-missing", "all", BOTH),)),
    "nodes-ipv6-on-one-alone": ("warn", (UNLIKE,)),
    "nodes-ipv6-for-both": ("pass", ()),
    "nodes-no-eager-memory-for-one": ("warn", (UNLIKE,)),
    "nodes-other-numbers-of-sockets": ("warn", (UNLIKE,)),
    "nodes-other-numbers-of-channels": ("fail", (UNLIKE,)),
    "nodes-another-algorithm": ("fail", (UNLIKE,)),
    "nodes-threads-for-one-alone": ("fail", (UNLIKE,)),
    "nodes-the-interface-by-its-whole-name": ("pass", ()),
    "nodes-the-only-interface-shut-out": ("fail", (("network/wrong-interface", "all", BOTH),)),
    "nodes-loopback-for-both": ("fail", (("network/wrong-interface", "all", BOTH),)),
    "nodes-loopback-for-b": ("fail", (("network/wrong-interface", "all", OTHER),)),
    "nodes-an-id-at-a-s-address": ("pass", ()),
    "nodes-an-id-at-nobody-s-address": ("fail", (("nccl/init-failed", "all", ("gpu-a",)),)),
    "nodes-an-id-for-b-alone": ("warn", (("gpu/out-of-memory", "all", OTHER),)),
    "nodes-a-topology-that-is-not-there": ("warn", FULL),
    "nodes-a-plugin-that-is-not-there": ("warn", FULL),
    "nodes-a-network-that-is-not-there": ("fail", (("nccl/init-failed", "all", BOTH),)),
    "nodes-one-that-waits-in-its-own-thread": ("warn", FULL),
    "nodes-launches-one-by-one": ("warn", FULL[:1]),
    "nodes-a-log-where-none-can-be": ("pass", ()),
    "nodes-a-gpu-by-a-name-of-another-s": ("fail", (("gpu/mask-mismatch", "all", OTHER),)),
    "nodes-b-loses-a-small-packet-in-ten": ("warn", (("mesh/packet-loss", "all", OTHER),)),
    "nodes-b-takes-no-full-packet": ("fail", (("mesh/mtu-blackhole", "all", OTHER),)),
    "nodes-one-without-blocking": ("warn", (("nccl/nonblocking", "all", ("gpu-a",)),)),
    "nodes-no-gpu-for-b": ("fail", (("gpu/mask-mismatch", "all", OTHER),)),
    "nodes-no-such-interface-on-b": ("fail", (("nccl/interface-not-found", "all", OTHER),)),
    "nodes-ports-of-b-are-dropped": ("fail", (("mesh/peer-ports-blocked", "all", OTHER),)),
    "nodes-70-open-files-for-b": ("fail", (("host/open-files-limit", "all", OTHER),)),
    "nodes-90-open-files": ("warn", (("host/open-files-limit", "all", BOTH),)),
    "nodes-a-dump-that-is-no-switch": ("fail", (("environment/invalid-variable", "all", OTHER),)),
    "nodes-a-file-of-settings-for-b": ("fail", (("nccl/interface-not-found", "all", OTHER),)),
    "nodes-a-graph-that-is-not-there": ("fail", (("nccl/topo-file-bad", "all", BOTH),)),
    "nodes-a-graph-written-to-nowhere": ("pass", ()),
    "nodes-a-handling-that-is-no-number": ("fail", (("environment/invalid-variable", "all", OTHER),)),
    "nodes-a-heartbeat-that-is-no-number": ("fail", (("environment/invalid-variable", "all", OTHER),)),
    "nodes-a-larger-mtu-on-a": ("pass", ()),
    "nodes-a-log-to-a-full-device": ("pass", ()),
    "nodes-a-protocol-that-is-none": ("fail", (("environment/invalid-variable", "all", OTHER),)),
    "nodes-a-share-the-allocator-does-not-take": ("fail", (("environment/invalid-variable", "all", OTHER),)),
    "nodes-a-size-the-allocator-cannot-read": ("fail", (("environment/invalid-variable", "all", OTHER),)),
    "nodes-a-space-before-the-interface": ("fail", (("nccl/interface-not-found", "all", OTHER),)),
    "nodes-a-switch-of-nccl-in-words": ("warn", (("environment/invalid-variable", "all", BOTH),)),
    "nodes-a-switch-that-is-none": ("fail", (("environment/invalid-variable", "all", OTHER),)),
    "nodes-a-tuner-that-is-not-there": ("pass", ()),
    "nodes-a-word-the-allocator-does-not-know": ("fail", (("environment/invalid-variable", "all", OTHER),)),
    "nodes-an-adapter-where-there-is-none": ("pass", ()),
    "nodes-an-algorithm-that-is-none": ("fail", (("environment/invalid-variable", "all", BOTH),)),
    "nodes-an-interface-that-is-down": ("fail", (("nccl/interface-not-found", "all", BOTH),)),
    "nodes-an-interface-without-an-address": (
        "fail",
        (("nccl/interface-not-found", "all", OTHER), ("nccl/interface-unreachable", "all", ("gpu-a",))),
    ),
    "nodes-an-option-of-another-allocator": ("fail", (("environment/invalid-variable", "all", OTHER),)),
    "nodes-both-interfaces-named": ("pass", ()),
    "nodes-buffers-with-a-letter": ("fail", (("environment/invalid-variable", "all", BOTH),)),
    "nodes-chunks-with-a-letter": ("warn", (("environment/invalid-variable", "all", BOTH),)),
    "nodes-details-for-one": ("fail", (UNLIKE,)),
    "nodes-docker-s-shared-memory": ("warn", (("host/shared-memory-small", "all", BOTH),)),
    "nodes-everything-traced": ("pass", ()),
    "nodes-few-addresses-for-b": ("fail", (("host/memory-limit", "all", OTHER),)),
    "nodes-few-channels": ("pass", ()),
    "nodes-few-open-files-for-b": ("fail", (("host/open-files-limit", "all", OTHER),)),
    "nodes-full-shared-memory-for-b": ("fail", (("host/shared-memory-small", "all", OTHER),)),
    "nodes-ipv4-where-there-is-only-ipv6": (
        "fail",
        (("nccl/interface-unreachable", "all", BOTH), ("gloo/loopback-address", "all", BOTH)),
    ),
    "nodes-ipv6-where-b-has-none": ("fail", (("nccl/interface-not-found", "all", OTHER),)),
    "nodes-little-shared-memory-for-b": ("fail", (("host/shared-memory-small", "all", OTHER),)),
    "nodes-many-addresses-for-b": ("pass", ()),
    "nodes-more-channels-at-least-than-at-most": ("pass", ()),
    "nodes-more-in-the-mask-than-there-is": ("warn", (("gpu/mask-mismatch", "all", OTHER),)),
    "nodes-no-direct-copies-for-one": ("warn", (UNLIKE,)),
    "nodes-no-infiniband-for-one": ("warn", (UNLIKE,)),
    "nodes-no-locked-memory": ("pass", ()),
    "nodes-no-shared-memory-for-both": ("pass", ()),
    "nodes-nothing-watches": ("pass", ()),
    "nodes-one-host-s-id-for-both": ("fail", (("nccl/duplicate-gpu", "all", BOTH),)),
    "nodes-one-root-said-on-one-alone": ("pass", ()),
    "nodes-only-ipv6": ("warn", (("gloo/loopback-address", "all", BOTH),)),
    "nodes-out-of-band-over-the-network-s-plugin": ("pass", ()),
    "nodes-out-of-band-over-the-plugin-on-one": ("fail", (UNLIKE,)),
    "nodes-ports-of-b-are-refused": ("fail", (("mesh/peer-ports-blocked", "all", OTHER),)),
    "nodes-segments-that-grow": ("pass", ()),
    "nodes-several-roots-for-one": ("fail", (UNLIKE,)),
    "nodes-several-roots": ("pass", ()),
    "nodes-shared-memory-to-read-only-for-b": ("fail", (("host/shared-memory-permission", "all", OTHER),)),
    "nodes-sockets-named-on-a-alone": ("warn", (UNLIKE,)),
    "nodes-the-interface-by-its-beginning": ("pass", ()),
    "nodes-the-interface-in-capitals": ("fail", (("nccl/interface-not-found", "all", BOTH),)),
    "nodes-too-many-sockets": ("pass", ()),
    "nodes-without-blocking-on-both": ("warn", (("nccl/nonblocking", "all", BOTH),)),
}
"""Of each check: its verdict and root causes, with the nodes that are blamed. The job was right in all that pass, and
failed or hung where it is said to fail: with ``a card of its own`` on one host alone, only all_to_all and send."""
LOOKED_AT: dict[str, tuple[str, tuple[Root, ...]]] = {
    "hang-healthy": ("pass", ()),
    "hang-loop": ("warn", (WAITS,)),  # who is waited for is certain; whether the loop ends is not known
    "hang-late-by-hand": ("warn", (WAITS,)),
    "hang-late": ("warn", (WAITS,)),
    "hang-leaves": ("incomplete", ()),
    "hang-kernel": ("incomplete", ()),
    "hang-raises-by-hand": ("incomplete", ()),
    "hang-killed-by-hand": ("incomplete", ()),
    "hang-another-operation": ("incomplete", ()),
    "hang-rank-0-alone-saves": ("incomplete", ()),
    "hang-barrier": ("fail", (WAITS,)),
    "hang-fsdp": ("fail", (WAITS,)),
    "hang-loader": ("fail", (WAITS,)),
    "hang-never-begins": ("fail", (WAITS,)),
    "hang-never-begins-device-id": ("fail", (WAITS,)),
    "hang-never-reduces": ("fail", (WAITS,)),
    "hang-stopped": ("fail", (("process/stopped", "all", ALONE),)),
    "hang-receives": ("fail", (MISMATCH,)),
    "hang-two-groups": ("fail", (MISMATCH,)),
    "hang-uneven": ("fail", (MISMATCH,)),
    "hang-lock": ("fail", (WAITS,)),
    "hang-monitored-barrier": ("incomplete", ()),
    "hang-objects": ("fail", (MISMATCH,)),
    "hang-server": ("warn", (WAITS,)),
    "hang-two-backends": ("fail", (MISMATCH,)),
}
"""Of each look at a job the same. But for the first all hung; none of these passes."""
DEAD: dict[str, str] = {
    "logs-healthy": "pass",
    "logs-nodes-healthy": "pass",
    "logs-nodes-healthy-two-networks": "pass",
    "logs-nodes-sockets-without-a-number": "pass",
    "logs-nodes-ipv6-on-one-alone": "pass",
    "logs-nodes-ipv6-for-both": "pass",
    "logs-nodes-no-eager-memory-for-one": "pass",
    "logs-nodes-other-numbers-of-sockets": "pass",
    "logs-nodes-threads-for-one-alone": "pass",
    "logs-nodes-the-interface-by-its-whole-name": "pass",
    "logs-nodes-an-id-at-a-s-address": "pass",
    "logs-nodes-an-id-for-b-alone": "pass",
    "logs-nodes-a-topology-that-is-not-there": "pass",
    "logs-nodes-a-plugin-that-is-not-there": "pass",
    "logs-nodes-one-that-waits-in-its-own-thread": "pass",
    "logs-nodes-one-without-blocking": "pass",
    "logs-nodes-launches-one-by-one": "pass",
    "logs-nodes-a-log-where-none-can-be": "pass",
    "logs-nodes-b-loses-a-small-packet-in-ten": "pass",
    "logs-nodes-b-takes-no-full-packet": "warn",
    "logs-nodes-another-algorithm": "warn",
    "logs-nodes-a-gpu-by-a-name-of-another-s": "gpu/none-visible",
    "logs-nodes-other-numbers-of-channels": "? environment/setting-mismatch",
    "logs-nodes-a-network-that-is-not-there": "? nccl/rdma-device-missing",
    "logs-nodes-an-id-at-nobody-s-address": "? nccl/init-failed",
    "logs-nodes-loopback-for-b": "? network/wrong-interface",
    "logs-nodes-loopback-for-both": "? process/peer-died",
    "logs-nodes-the-only-interface-shut-out": "? process/peer-died",
    "logs-nodes-a-card-of-its-own-on-a": "pass",
    "logs-nodes-a-card-of-its-own-on-b": "pass",
    "logs-nodes-ports-of-b-are-dropped": "warn",  # ended from outside before anything was said
    "logs-nodes-a-second-network-whose-packets-are-dropped": "warn",
    "logs-another-size-detail": "collective/mismatch 0 1",
    "logs-device-assert": "process/exception 1",
    "logs-device-assert-by-hand": "process/exception 1",
    "logs-raises": "process/exception 1",
    "logs-raises-by-hand": "process/exception 1",
    "logs-killed": "process/killed-by-oom 1",
    "logs-out-of-memory": "gpu/out-of-memory 1",
    "logs-late-dumps": "collective/rank-missing 1",
    "logs-late-to-its-end": "collective/rank-missing 1",
    "logs-nodes-a-card-named-that-is-not-shared": "nccl/interface-unreachable 1",
    "logs-nodes-a-card-of-its-own-on-each": "nccl/interface-unreachable 0 1",
    "logs-nodes-no-such-interface-on-b": "nccl/interface-not-found 1",
    "logs-nodes-no-gpu-for-b": "gpu/none-visible",
    "logs-another-operation": "? collective/mismatch",
    "logs-another-operation-dumps": "? collective/mismatch",
    "logs-rank-0-alone-saves": "? collective/mismatch",
    "logs-uneven": "? collective/mismatch",
    "logs-nodes-another-buffer-size": "? environment/setting-mismatch",
    "logs-nodes-another-protocol": "? environment/setting-mismatch",
    "logs-kernel": "? collective/rank-missing",
    "logs-killed-by-hand": "? process/peer-died",
    "logs-leaves": "? process/peer-died",
    "logs-nodes-a-card-with-one-address-on-both": "? mesh/peer-ports-blocked",
    "logs-nodes-infiniband-where-there-is-none": "? nccl/rdma-device-missing",
    "logs-lock": "process/terminated",
    "logs-monitored-barrier": "process/terminated",
    "logs-nodes-70-open-files-for-b": "host/open-files-limit",
    "logs-nodes-90-open-files": "pass",
    "logs-nodes-a-dump-that-is-no-switch": "environment/invalid-variable",
    "logs-nodes-a-file-of-settings-for-b": "nccl/interface-not-found 1",
    "logs-nodes-a-graph-that-is-not-there": "nccl/topo-file-bad 0 1",
    "logs-nodes-a-graph-written-to-nowhere": "pass",
    "logs-nodes-a-handling-that-is-no-number": "environment/invalid-variable",
    "logs-nodes-a-heartbeat-that-is-no-number": "environment/invalid-variable",
    "logs-nodes-a-larger-mtu-on-a": "pass",
    "logs-nodes-a-log-to-a-full-device": "pass",
    "logs-nodes-a-protocol-that-is-none": "environment/invalid-variable 1",
    "logs-nodes-a-share-the-allocator-does-not-take": "environment/invalid-variable",
    "logs-nodes-a-size-the-allocator-cannot-read": "environment/invalid-variable",
    "logs-nodes-a-space-before-the-interface": "nccl/interface-not-found 1",
    "logs-nodes-a-switch-of-nccl-in-words": "pass",
    "logs-nodes-a-switch-that-is-none": "environment/invalid-variable",
    "logs-nodes-a-tuner-that-is-not-there": "pass",
    "logs-nodes-a-word-the-allocator-does-not-know": "environment/invalid-variable",
    "logs-nodes-an-adapter-where-there-is-none": "pass",
    "logs-nodes-an-algorithm-that-is-none": "environment/invalid-variable 0 1",
    "logs-nodes-an-interface-that-is-down": "nccl/interface-not-found 0",
    "logs-nodes-an-interface-without-an-address": "nccl/interface-not-found 1",
    "logs-nodes-an-option-of-another-allocator": "environment/invalid-variable",
    "logs-nodes-both-interfaces-named": "pass",
    "logs-nodes-buffers-with-a-letter": "process/exception 0 1",
    "logs-nodes-chunks-with-a-letter": "pass",
    "logs-nodes-details-for-one": "? process/peer-died",
    "logs-nodes-docker-s-shared-memory": "pass",
    "logs-nodes-everything-traced": "pass",
    "logs-nodes-few-addresses-for-b": "process/exception",
    "logs-nodes-few-channels": "pass",
    "logs-nodes-few-open-files-for-b": "host/open-files-limit",
    "logs-nodes-full-shared-memory-for-b": "host/shared-memory-small 1",
    "logs-nodes-ipv4-where-there-is-only-ipv6": "? process/peer-died",
    "logs-nodes-ipv6-where-b-has-none": "nccl/interface-not-found 1",
    "logs-nodes-little-shared-memory-for-b": "host/shared-memory-small 1",
    "logs-nodes-many-addresses-for-b": "pass",
    "logs-nodes-more-channels-at-least-than-at-most": "pass",
    "logs-nodes-more-in-the-mask-than-there-is": "pass",
    "logs-nodes-no-direct-copies-for-one": "pass",
    "logs-nodes-no-infiniband-for-one": "pass",
    "logs-nodes-no-locked-memory": "pass",
    "logs-nodes-no-shared-memory-for-both": "pass",
    "logs-nodes-nothing-watches": "pass",
    "logs-nodes-one-host-s-id-for-both": "nccl/duplicate-gpu 0 1",
    "logs-nodes-one-root-said-on-one-alone": "pass",
    "logs-nodes-only-ipv6": "pass",
    "logs-nodes-out-of-band-over-the-network-s-plugin": "pass",
    "logs-nodes-out-of-band-over-the-plugin-on-one": "warn",
    "logs-nodes-ports-of-b-are-refused": "? mesh/peer-ports-blocked",
    "logs-nodes-segments-that-grow": "pass",
    "logs-nodes-several-roots-for-one": "? process/rank0-died",
    "logs-nodes-several-roots": "pass",
    "logs-nodes-shared-memory-to-read-only-for-b": "host/shared-memory-permission 1",
    "logs-nodes-sockets-named-on-a-alone": "pass",
    "logs-nodes-the-interface-by-its-beginning": "pass",
    "logs-nodes-the-interface-in-capitals": "nccl/interface-not-found 0",
    "logs-nodes-too-many-sockets": "pass",
    "logs-nodes-without-blocking-on-both": "pass",
    "logs-objects": "collective/mismatch 1",
    "logs-sends": "? collective/mismatch",
    "logs-server": "process/terminated",
    "logs-two-backends": "collective/rank-missing 0",
}
"""Of the logs of each job: the root cause and its ranks, behind a question mark the first candidate; or the verdict.
What a flight recorder wrote is not among them."""


def path(name: str) -> Path:
    return GPU / f"{name}.json.gz"


def logs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(path(name).read_bytes()))
    return found


@pytest.mark.parametrize("name", [*CHECKED, *LOOKED_AT])
def test_facts(name: str) -> None:
    report = of_facts(read([path(name)]), CHECKS, ())
    roots = tuple((one.id, one.blame, one.nodes) for one in report.findings if one.because_of is None)
    assert (report.verdict, roots) == {**CHECKED, **LOOKED_AT}[name]


@pytest.mark.parametrize("name", DEAD)
def test_logs(name: str, tmp_path: Path) -> None:
    for file, text in logs(name)["files"].items():
        (tmp_path / file).write_text(text)
    found = judged_files(tmp_path)
    roots = [" ".join([one.id, *map(str, one.ranks)]) for one in found.findings if one.because_of is None]
    first = f"? {found.candidates[0].check}" if found.candidates else found.verdict
    assert (roots or [first]) == [DEAD[name]]


TABLE = "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n" + (
    "    0         1         1         2         2         2   RUNNING  INCOMPLETE,ERROR\n"
)


@pytest.mark.parametrize("name", ["hang-leaves", "hang-killed-by-hand", "hang-raises-by-hand"])
def test_a_rank_that_is_gone_is_told_by_ras(name: str) -> None:
    """What RAS said was kept as lines without their breaks, and without its table, when these were looked at."""
    (one,) = read([path(name)])
    (job,) = one.jobs
    assert job.ras is not None
    text = re.sub(r" (?=INCOMPLETE|ERROR|Rank|Process)", "\n", "\n".join(job.ras.errors))
    missing, bereft = missing_from(re.sub(r"\)\n", ") ", text), TABLE, 2)
    job = replace(job, ras=replace(job.ras, missing=missing, bereft=bereft))
    report = of_facts([replace(one, jobs=(job,))], CHECKS, ())
    assert (report.verdict, report.findings) == ("incomplete", ())  # it may compute alone, for all that is seen
    assert "rank 1 is gone: if this is a collective, it never ends" in report.notes
    assert not [note for note in report.notes if note.startswith("sources disagree")]


def test_of_all_that_is_kept_something_is_said() -> None:
    kept = {one.name.removesuffix(".json.gz") for one in GPU.iterdir()}
    assert kept - {"check-hang-in-a-kernel-that-does-not-end"} == {*CHECKED, *LOOKED_AT, *DEAD}


def test_nothing_in_them_is_of_that_machine() -> None:
    for one in GPU.iterdir():
        text = gzip.decompress(one.read_bytes()).decode()
        assert "/tmp/tmp" not in text and '"serial": "1' not in text, one.name
