"""MASTER_ADDR or MASTER_PORT is exported with different values on the nodes.

## What you see
Under torchrun the job runs. Without it (srun, a loop of ssh, `python train.py`) node 0 waits in silence. After one to
thirty minutes another node prints

    The client socket has timed out after 60000ms while trying to connect to (gpu01, 29511)

## Why it happens
A profile, a module or an image of one node exports the variable, or each node exports itself (MASTER_ADDR=$(hostname)).
init_process_group() reads both from its own environment, and no node sees the values of the others. torchrun sets them
for its ranks from its flags.

## Fix
Export the same values on all nodes: `export MASTER_ADDR=host0 MASTER_PORT=29500`; or export neither, and set both in
the line that starts the job.

## Confirm with
`for h in host0 host1; do ssh $h 'echo $MASTER_ADDR $MASTER_PORT'; done` prints the same line for every node.

## When it is harmless
torchrun starts the job. MASTER_ADDR is compared only when it names this node or another node of the run. Other
spellings of one host are equal, and so is localhost on node 0. Only a remote run (--hosts, --hostfile, --slurm-job,
--pods) compares them: it has no launch line of the job.

## See also
environment/master-mismatch, environment/setting-mismatch, environment/missing-variable
"""

from collections.abc import Iterator, Mapping

from distdoctor.check_api import (
    Cluster,
    Disagreement,
    Finding,
    Fix,
    Node,
    disagreement,
    is_loopback,
    own_host_names,
    parse_address,
)

SEVERITY = "warn"
MATTERS = "torchrun takes its flags instead, but ranks that are started without it read the variable"
LOOKS_AT = ("everyone",)
ADDR, PORT = "MASTER_ADDR", "MASTER_PORT"
FROM_ONE_PLACE = ("--hosts", "--hostfile", "--slurm-job", "--pods")


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if node.plan.sources.get("nnodes") in FROM_ONE_PLACE]
    ports = disagreement({node.name: node.variables.get(PORT) for node in nodes})
    if ports is not None:
        yield finding(cluster, PORT, ports, dict.fromkeys(ports.blamed, ports.usual if ports.majority else None))
    hosts = {node.name: place for node in nodes if (place := host_of_master(cluster, node)) is not None}
    leads = disagreement(hosts)
    if leads is not None:
        right = leads.usual if leads.majority else nodes[0].host_key
        wrong = [name for name, place in hosts.items() if place != right]
        address = next(
            (node.variables.get(ADDR) for node in nodes if hosts.get(node.name) == right != node.host_key), None
        )
        values = {node.name: node.variables.get(ADDR) for node in nodes}
        difference = Disagreement(values, values[nodes[0].name], leads.majority)
        yield finding(cluster, ADDR, difference, dict.fromkeys(wrong, address or nodes[0].plan.master_addr))


def finding(
    cluster: Cluster, name: str, difference: Disagreement[str | None], wanted: Mapping[str, str | None]
) -> Finding:
    """``wanted``: the nodes that are to have another value, and which; None: none."""
    wrong = [node for node in cluster.nodes if node.name in wanted]
    value = next(iter(wanted.values()))
    text = f"Unset {name}" if value is None else f"Export {name}={value} on every node that exports it"
    set_on = wrong if value is not None else [node for node in wrong if name in node.variables]
    return Finding.about(
        wrong,
        f"{name} differs: {difference.said()}.",
        unsure=not difference.majority and name == PORT,
        evidence=(f"{n}: {name}{' is not set' if v is None else f'={v}'}" for n, v in difference.values.items()),
        fixes=(Fix.on(set_on, f"{text}.", env={name: value}),),
    )


def host_of_master(cluster: Cluster, node: Node) -> object | None:
    """The host of the run that MASTER_ADDR is on this node; None where it is not set, or perhaps none of them."""
    value = node.variables.get(ADDR)
    if not value:
        return None
    if is_loopback(value) or value == "localhost":
        return node.host_key
    number = parse_address(value)
    for other in (node, *cluster.peers(node)):
        if value in own_host_names(other) or (number and number in map(parse_address, other.addresses)):
            return other.host_key
    return None
