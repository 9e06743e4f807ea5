"""``distdoctor check --dry-run``: everything that a run would read, write for a moment, run, ask and connect to.

It is made from the probes' own tables of folders, files, programs and ports. A test traces the system calls of a real
run, and fails if one is not covered here (``tests/cli/test_dry_run.py``).
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from distdoctor import __version__, streams
from distdoctor.model.addresses import endpoint
from distdoctor.model.plan import Plan
from distdoctor.model.stages import GLOO, GPU, HOST, MESH, NCCL, NETWORK, needs_torch, stage_index
from distdoctor.probes.gpu import amd, driver, nccl
from distdoctor.probes.host import files, identity
from distdoctor.probes.network import firewall, ports
from distdoctor.session.options import Options
from distdoctor.session.rendezvous.contact import control_ports
from distdoctor.session.rendezvous.port_scanner import port_candidates

Does = Literal["reads", "writes", "runs", "starts", "asks", "listens", "connects"]
WORDS: dict[Does, str] = {
    "reads": "would read",
    "writes": "would write, and take away again",
    "runs": "would run",
    "starts": "would start, as processes of its own that end with it",
    "asks": "would ask name servers for",
    "listens": "would listen on",
    "connects": "would connect to",
}
KERNEL = ("/proc", "/sys", "/dev")
SYSTEM = (
    "/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/passwd",
    "/etc/group", "/etc/localtime", "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ssl", "/var/run/nscd/socket",
    "/run/systemd", "/var/lib/systemd/linger", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share",
    "/usr/local/lib", "/usr/bin", "/usr/sbin", "/etc/iproute2", "/etc/connlabel.conf",
)  # fmt: skip
"""Folders with the files that the C library, Python and torch read by themselves."""


@dataclass(frozen=True)
class Touch:
    """One file, program or port that a run uses."""

    does: Does
    what: str
    why: str


def touches(options: Options, env: Mapping[str, str]) -> Iterator[Touch]:
    """Yield everything that a run with these options uses on this node."""
    plan = options.plan
    yield from _reads(options, env)
    if _wants(options, HOST.name):
        for use, path in files.named_folders(env):
            yield Touch("writes", path, f"one block in a file without a name, to see whether it is full ({use})")
        for path in options.shared:
            yield Touch("writes", path, "a small file that the other nodes look for (--shared)")
        if plan.init_method and plan.init_method.startswith("file://"):
            path = plan.init_method.removeprefix("file://")
            yield Touch(
                "writes", os.path.dirname(path) or "/", "a small file beside that of --init-method, locked once"
            )
    if options.save is not None:
        yield Touch("writes", str(options.save), "the facts (--save), which stay")
    yield from _runs(options)
    if _wants(options, HOST.name):
        yield Touch("asks", socket.gethostname(), "what this host's own name means")
        yield Touch("connects", "an address of this host's own", "where its name means one that no interface has")
    if _wants(options, NETWORK.name):
        yield from _network(plan, env)
    if _sees_devices(options):
        yield Touch("connects", endpoint(driver.GPUD_HOST, driver.GPUD_PORT), "gpud, where there is an NVIDIA driver")
    if needs_torch(options.until):
        yield from _together(options)


def _sees_devices(options: Options) -> bool:
    """Return whether the GPU stage runs: torch lists the devices."""
    return _wants(options, GPU.name) and needs_torch(options.until)


def _wants(options: Options, stage: str) -> bool:
    return stage_index(options.until) >= stage_index(stage)


def _reads(options: Options, env: Mapping[str, str]) -> Iterator[Touch]:
    yield Touch("reads", "environment", "variables that launchers, torch, gloo and NCCL read, by a list of names")
    for path in KERNEL:
        yield Touch("reads", path, "limits, cgroups, interfaces, routes, sockets, devices; processes of this user")
    for path in SYSTEM:
        yield Touch("reads", path, "names, users, and what the C library reads")
    for path in dict.fromkeys((sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(__file__)))):
        yield Touch("reads", path, "Python, torch and distdoctor, as installed")
    yield Touch("reads", str(identity.EFA), "version of the EFA installer")
    for path in nccl.settings_files(env):
        yield Touch("reads", path, "settings of NCCL")
    if _sees_devices(options):
        yield Touch("reads", env.get(nccl.TOPOLOGY_VARIABLE) or nccl.USUAL_TOPOLOGY, "NCCL's topology")
        if env.get(nccl.GRAPH_VARIABLE):
            yield Touch("reads", env[nccl.GRAPH_VARIABLE], "NCCL's graph")
    if _wants(options, HOST.name):
        for path in identity.SETTINGS:
            yield Touch("reads", path, "RemoveIPC of systemd-logind")
        yield Touch("reads", "kernel log", "its last 256 KiB (syslog(2)), where this user may")
        extensions = env.get("TORCH_EXTENSIONS_DIR") or "~/.cache/torch_extensions"
        yield Touch("reads", os.path.expanduser(extensions), "locks of builds")
    for path in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if path:
            yield Touch("reads", path, "PYTHONPATH")
    yield Touch("reads", os.getcwd(), "modules that hide torch's")
    for path in dict.fromkeys(os.get_exec_path(env)):
        yield Touch("reads", path, "PATH: whether the programs named below, and torchrun, are there")


def _runs(options: Options) -> Iterator[Touch]:
    if _sees_devices(options):
        yield Touch("runs", " ".join(driver.NVIDIA_SMI), "where there is an NVIDIA driver, and no nvidia-ml-py")
        for words in (amd.STATIC, amd.METRIC):
            yield Touch("runs", " ".join(words), "where this user may use GPUs of AMD's")
        yield Touch("runs", " ".join(amd.OLDER), "the same, where there is no amd-smi")
    if _wants(options, NETWORK.name):
        saves = [f"{tool}-{kind}-save" for kind in ("legacy", "nft") for tool in firewall.IPTABLES]
        for command in (" ".join(firewall.NFT), *saves):
            yield Touch("runs", command, "the packet filter's rules, which only root may list")
    yield Touch("starts", sys.executable, "look-ups and folders, each with a deadline")
    if needs_torch(options.until):
        count = options.plan.nproc_per_node if options.plan.started == "node" else 1
        yield Touch("starts", f"{sys.executable} (import torch)", f"and from it the store's host and {count} ranks")


def _network(plan: Plan, env: Mapping[str, str]) -> Iterator[Touch]:
    address, port = plan.master_addr or "this host's address", plan.master_port
    if plan.master_addr:
        yield Touch("asks", plan.master_addr, "MASTER_ADDR; and the name of the address that it has")
    place = endpoint(address, port) if port else f"{address}, a free port"
    yield Touch("listens", place, "the store of the check, where this is node 0; else nothing is opened there")
    yield Touch("connects", place, "the same, where this is another node")
    for job_port in plan.ports:
        yield Touch(
            "listens",
            f"port {job_port.port}",
            f"bound for a moment: {plan.engine}'s {job_port.use} ({job_port.setting})",
        )
    for server in plan.servers:
        yield Touch("connects", endpoint(server.host, server.port), f"{server.use} ({server.setting}): nothing is sent")
    if plan.one_node:
        return
    for other in port_candidates(port, dict(env)):
        yield Touch("connects", endpoint(address, other), "this run's store, where MASTER_PORT refuses: tried once")
    for unserved in ports.UNSERVED:
        yield Touch("connects", endpoint(address, unserved), "nobody listens there: who answers is a proxy")
    for other in control_ports(port):
        yield Touch("connects", endpoint(address, other), "whether the host is up, where MASTER_PORT is silent")


def _together(options: Options) -> Iterator[Touch]:
    if not options.plan.one_node and _wants(options, MESH.name):
        yield Touch("listens", "a free port on all addresses", "for the other nodes, who must show the run's token")
        yield Touch("connects", "such a port of each other node", "at the addresses that gloo, NCCL and routes give")
        yield Touch("listens", "a free port of this host's own", "for a moment, to see whether it reaches itself")
        yield Touch("connects", "a free port of this host's own", "for a moment, to see whether it reaches itself")
    for stage in (GLOO, NCCL):
        if _wants(options, stage.name) and (stage == GLOO or stage.backend in options.plan.backends(gpus=True)):
            yield Touch("listens", "a free port for each rank", f"{stage.backend}, as in the job")
            yield Touch("connects", "those of the other ranks", f"{stage.backend}, as in the job")


def show(options: Options, env: Mapping[str, str], as_json: bool) -> None:
    """Print the list: nothing of it is done."""
    listed = list(dict.fromkeys(touches(options, env)))
    if as_json:
        document = {"schema_version": 1, "distdoctor": __version__, "dry_run": [asdict(touch) for touch in listed]}
        streams.write(json.dumps(document, indent=2) + "\n")
        return
    lines = [f"distdoctor {__version__} · dry run up to {options.until}: nothing of this was done"]
    for does, words in WORDS.items():
        by_why: dict[str, list[str]] = {}
        for touch in listed:
            if touch.does == does:
                by_why.setdefault(touch.why, []).append(touch.what)
        if by_why:
            lines += ["", f"{words}:", *(f"  {', '.join(what)}\n      {why}" for why, what in by_why.items())]
    streams.write("\n".join(lines) + "\n")
