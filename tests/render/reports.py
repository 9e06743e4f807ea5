"""Reports for the renderers' tests, built by hand: what a renderer must cope with, whatever the checks say."""

from __future__ import annotations

from typing import Any

from distdoctor.model.findings import Finding, Fix
from distdoctor.model.report import Report, ReportNode, ReportStage
from distdoctor.model.stages import STAGES

WAS = "2026-01-02T03:04:05+00:00"


def plan(nnodes: int = 2, nproc: int = 2, **changes: Any) -> dict[str, Any]:
    """A plan's summary, launched with torchrun's flags."""
    return {
        "nnodes": nnodes,
        "nproc_per_node": nproc,
        "node_rank": 0,
        "world_size": nnodes * nproc,
        "master_addr": "host0",
        "master_port": 29500,
        "backend": "auto",
        "backends": ["gloo"],
        "started": "node",
        "sources": {
            "nnodes": "--nnodes",
            "nproc_per_node": "default",
            "master_addr": "--master-addr",
            "master_port": "default",
        },
        **changes,
    }


def nodes(count: int, nproc: int = 2) -> tuple[ReportNode, ...]:
    """``count`` nodes that came: host0, host1, ..."""
    return tuple(
        ReportNode(
            f"host{n}", n, True, f"host{n}", tuple(range(n * nproc, (n + 1) * nproc)), f"10.77.0.{10 + n}", "2.13.0"
        )
        for n in range(count)
    )


def stages(names: list[str], **others: tuple[str, str, str]) -> tuple[ReportStage, ...]:
    """All stages passed on all nodes, but for ``stage=(status, reason, node or "" for every node)``."""
    made = []
    for place, stage in enumerate(STAGES):
        for name in names:
            status, reason, where = others.get(stage, ("pass", "", ""))
            if where and where != name:
                status, reason = "pass", ""
            seconds = 0.0 if status == "skip" else round(0.01 * (place + 1), 2)
            made.append(ReportStage(stage, name, status, seconds, reason, None))
    return tuple(made)


def report(count: int = 2, verdict: Any = "pass", findings: tuple[Finding, ...] = (), **changes: Any) -> Report:
    """A report on ``count`` nodes."""
    fields: dict[str, Any] = {
        "verdict": verdict,
        "distdoctor": "0.1.0",
        "torch": "2.13.0",
        "started_at": WAS,
        "seconds": 3.21,
        "plan": plan(count),
        "nodes": nodes(count),
        "stages": stages([f"host{n}" for n in range(count)]),
        "findings": findings,
        **changes,
    }
    return Report(**fields)


def healthy() -> Report:
    """Two nodes without a GPU and without a finding."""
    no_gpu = ("skip", "no GPU: this torch is a CPU build", "")
    return report(
        stages=stages(["host0", "host1"], gpu=no_gpu, nccl=no_gpu),
        details={
            "nodes": {
                "host0": {
                    "interfaces": {"lo": ["127.0.0.1", "::1"], "eth0": ["10.77.0.10"], "ifb0": []},
                    "gloo_address": "10.77.0.10",
                    "gloo_interface": "eth0",
                    "reached_at": "10.77.0.10",
                    "variables": {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"},
                    "links_good": 1,
                    "links_bad": 0,
                    "rtt_median": 0.00012,
                    "rtt_max": 0.0031,
                    "python": "3.11.2",
                    "torch": "2.13.0",
                    "torch_seconds": 3.91,
                    "torch_path": "/usr/lib/python3/dist-packages/torch",
                    "collective": {"0": {"times": {"all_reduce": 0.0105882, "broadcast": 1.25}}},
                    "new_value": 3,
                },
                "host1": {"links_good": 3, "links_bad": 2},
            }
        },
    )


def taken_for_alone() -> Report:
    """A healthy machine of which nothing said whether there are others."""
    return report(1, plan=plan(1, alone=True))


def warned() -> Report:
    """A warning, with its own reason, by a site's own check."""
    root = Finding(
        summary="Name look-ups take 5.0 s or more on host1.",
        title="Name look-ups take seconds",
        nodes=("host1",),
        matters="every rank would wait for these look-ups when it starts",
        severity="warn",
        check="host/dns-slow",
        id="host/dns-slow",
    )
    return report(verdict="warn", findings=(root,))


def loopback() -> Report:
    """The case this project began with, its fix tried."""

    def fix(option: int, node: str, verified: bool | None = None, **what: Any) -> Fix:
        return Fix(nodes=(node,), option=option, verified=verified, **what)

    interface: dict[str, str | None] = {"GLOO_SOCKET_IFNAME": "eth0"}
    root = Finding(
        summary="gloo on host0 and host1 advertises 127.0.1.1, which other hosts cannot reach.",
        title="gloo advertises a loopback address to other hosts",
        nodes=("host0", "host1"),
        ranks=(0, 1, 2, 3),
        evidence=(
            "host0: its own name host0 resolves to 127.0.1.1",
            "host1: its own name host1 resolves to 127.0.1.1",
            "host1 rank 2: connect [127.0.1.1]:41904: Connection refused",
        ),
        fixes=(
            fix(1, "host0", True, text="On host0, name the interface that reaches the others.", env=interface),
            fix(1, "host1", True, text="On host1, name the interface that reaches the others.", env=interface),
            fix(2, "host0", text="Give host0 its real address.", commands=("echo '10.77.0.10 host0' >> /etc/hosts",)),
            fix(2, "host1", text="Give host1 its real address.", commands=("echo '10.77.0.11 host1' >> /etc/hosts",)),
        ),
        severity="fail",
        check="gloo/loopback-address",
        id="gloo/loopback-address",
    )  # fmt: skip
    follows = Finding(
        summary="The own host name of host0 and host1 means 127.0.1.1.",
        title="A node's own host name means a loopback address",
        nodes=("host0", "host1"),
        severity="warn",
        check="host/hostname-loopback",
        id="host/hostname-loopback",
        because_of="gloo/loopback-address",
    )
    return report(
        verdict="fail",
        findings=(root, follows),
        stages=stages(
            ["host0", "host1"],
            gloo=("fail", "connect [127.0.1.1]:41904: Connection refused", "host1"),
            barrier=("skip", "not run: needs gloo", ""),
            collective=("skip", "not run: needs gloo", ""),
        ),
        details={"trials": [{"check": root.check, "option": 1, "stages": ["gloo", "barrier"], "passed": True}]},
    )


def missing() -> Report:
    """A node that never came."""
    never = Finding(
        summary="node1 never came within 60 s.",
        title="A node never came",
        nodes=("node1",),
        severity="fail",
        check="store/nodes-missing",
        id="store/nodes-missing",
        incomplete=True,
    )
    return report(
        verdict="incomplete",
        findings=(never,),
        nodes=(*nodes(1), ReportNode("node1", 1, False)),
        stages=stages(["host0"], mesh=("skip", "not run: needs store", "")),
        notes=("not everybody came: judged are those present",),
    )


def port_in_use() -> Report:
    """A fix that changes a flag, beside an ignored finding."""
    root = Finding(
        summary="MASTER_PORT 29500 on host0 is in use by python3 (pid 4711, user ann).",
        title="Another process holds MASTER_PORT",
        nodes=("host0",),
        evidence=("host0: bind: Address already in use",),
        fixes=(
            Fix("Use another port, on every node.", ("host0", "host1"), 1, flags={"--master-port": "29501"}),
            Fix("Or drop the variable.", ("host0",), 2, env={"MASTER_PORT": None}, verified=False),
        ),
        severity="fail",
        check="network/port-in-use",
        id="network/port-in-use",
    )
    ignored = Finding(
        summary="host1 has a slow name server.", severity="warn", check="host/slow-names", id="host/slow-names"
    )
    return report(verdict="fail", findings=(root,), ignored=(ignored,))


def hostile() -> Report:
    """Data from another node that tries to act on the terminal, and on markup."""
    root = Finding(
        summary="[red]evil[/red] \x1b[2J\x1b]0;owned\x07 \u202egnp.exe [rank0]: [/tmp/x]",
        title="[bold]title[/bold]",
        nodes=("host1\r\nrm -rf /", "@all"),
        evidence=("host0: \x1b[31mred\x1b[0m\nsecond line",),
        fixes=(Fix("Do \x08it.", ("host1\r\nrm -rf /",), 1, env={"A": "x; rm -rf /\n"}, commands=("echo a\nrm b",)),),
        severity="fail",
        check="gloo/loopback-address",
        id="gloo/loopback-address",
    )
    return report(verdict="fail", findings=(root,))


def majority() -> Report:
    """Sixteen nodes, one of them odd."""
    evidence = tuple(f"host{n}: gloo uses {'docker0' if n == 7 else 'ens5'}" for n in range(16))
    root = Finding(
        summary="gloo on host7 uses docker0, which the others cannot reach.",
        title="gloo picked an address that the other nodes cannot reach",
        nodes=("host7",),
        ranks=(14, 15),
        links=(("host3", "host7"),),
        evidence=evidence,
        severity="fail",
        check="gloo/interface-unreachable",
        id="gloo/interface-unreachable",
    )
    return report(16, "fail", (root,))
