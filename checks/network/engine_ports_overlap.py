"""Two uses of the engine have the same port.

## What you see
`Address already in use` (errno 98) on a port that no other process holds: the engine itself has bound it. SGLang waits
30 seconds for it first.

## Why it happens
SGLang with attention data parallelism derives six ports from that of `--dist-init-addr`, the next ones. `--port` or the
bootstrap port is among them. Without attention data parallelism, each replica of `--dp-size` binds `--nccl-port`. Or
the API server has the port of the store. Every data-parallel rank of vLLM with the EC connector binds
VLLM_EC_SIDE_CHANNEL_PORT. VLLM_PORT is the first of the ports that vLLM tries for itself. It may take a
fixed port a little above for something else first.

## Fix
Move one of them: `--port 31000`. Leave `--nccl-port` out where `--dp-size` has several replicas. Keep 20 ports
between VLLM_PORT and any fixed port.

## Confirm with
`distdoctor check -- LINE` lists no finding.

## When it is harmless
The warning about VLLM_PORT: vLLM passes over a port that something has bound before.

## See also
network/engine-port-in-use
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, Sequence

SEVERITY = "fail"
MATTERS = "vLLM may take this port for another use before the one that names it"
PREVENTS = "results right"
LOOKS_AT = ()
SCANNED = 20
"""Ports above VLLM_PORT that an engine of 8 ranks goes through (vllm/utils/network_utils.py, _get_open_port())."""
SIDE_CHANNEL = "_SIDE_CHANNEL_PORT"
Use = tuple[str, str]


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        uses = uses_of(node)
        same = [
            (port, (earlier, other))
            for port, users in uses.items()
            for at, other in enumerate(users)
            for earlier in users[:at]
        ]
        for port, ((use, setting), (other, its_setting)) in same:
            yield Finding.about(
                [node],
                f"{node.plan.engine} needs port {port} of {node.name} twice: for {use} ({setting}) and for {other} "
                f"({its_setting}).",
                evidence=(f"{node.name}: {setting} and {its_setting} both come to port {port}",),
                fixes=(move_port_fix(node, (setting, its_setting), {*uses}),),
            )
        first = node.variables.get("VLLM_PORT", "")
        if node.plan.engine == "vLLM" and first.isdecimal():
            yield from port_scan_warning(node, int(first), uses)


def uses_of(node: Node) -> dict[int, list[Use]]:
    """Return the uses of each port that the engine binds on this node, the store's among them."""
    uses: dict[int, list[Use]] = {}
    plan = node.plan
    for port in plan.ports:
        uses.setdefault(port.port, []).append((port.use, port.setting))
    stored = plan.engine and not plan.one_node and plan.node_rank == 0 and plan.master_port
    setting = plan.sources.get("master_port", "")
    if stored and all(port.setting != setting or port.port != plan.master_port for port in plan.ports):
        uses.setdefault(plan.master_port, []).append(("the store", setting))
    return uses


def port_scan_warning(node: Node, first: int, uses: dict[int, list[Use]]) -> Iterator[Finding]:
    """Yield the warning about fixed ports that vLLM may take for something else."""
    near = sorted(port for port in uses if first <= port < first + SCANNED)
    if not near:
        return
    use, setting = uses[near[0]][0]
    yield Finding.about(
        [node],
        f"VLLM_PORT {first} is just below port {near[0]}, which vLLM needs for {use} ({setting}) on {node.name}.",
        severity="warn",
        evidence=(f"{node.name}: VLLM_PORT={first}; vLLM tries {first}, {first + 1} and so on for its own sockets",),
        fixes=(
            Fix.on(node, "Leave room above VLLM_PORT.", env={"VLLM_PORT": str(first_port_with_room(first, {*uses}))}),
        ),
    )


def first_port_with_room(first: int, ports: set[int]) -> int:
    """Return a first port with SCANNED ports free of fixed ones, below ``first`` if there is room."""
    steps: tuple[int, ...] = (*range(first, 1024, -100), *range(first, 65000, 100))
    return next(port for port in steps if not any(port <= used < port + SCANNED for used in ports))


def move_port_fix(node: Node, settings: Sequence[str], ports: set[int]) -> Fix:
    """Return the fix that moves the HTTP port if it is one of the two, else the other option; an option that two uses
    have in common is left out."""
    if settings[0] == settings[1] and settings[0].endswith(SIDE_CHANNEL):
        text = f"Start each data-parallel rank as a server of its own (-dp 1), each with another {settings[0]}."
        return Fix.on(node, text)
    if settings[0] == settings[1]:
        text = f"Leave {settings[0]} out: each replica then takes a free port of its own."
        return Fix.on(node, text, flags={settings[0]: None})
    setting = next(
        (name for name in ("--port", *settings) if name in settings and name != "--dist-init-addr"), settings[0]
    )
    taken = next(used.port for used in node.plan.ports if used.setting in settings)
    port = first_port_with_room(taken + 1000, ports)
    if setting.startswith("--"):
        return Fix.on(node, f"Give {setting} another port.", flags={setting: str(port)})
    return Fix.on(node, f"Give {setting} another port.", env={setting: str(port)})
