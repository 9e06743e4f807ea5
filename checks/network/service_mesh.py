"""A proxy accepts the job's connections in place of another host.

## What you see
Workers lose the store at once (`failed to recv, got 0 bytes`, `Connection reset by peer`), or hang, although a
connection to its port succeeds. `nc -z` and a readiness probe report the port as open, too.

## Why it happens
The sidecar of a service mesh (Envoy with istio, linkerd-proxy), a transparent proxy or a redirect accepts every
connection on every port. Only then it connects to the other side. If no process listens there, or it does not know the
protocol, it closes the connection or stays silent.

## Fix
Remove the job's pods from the mesh: `kubectl annotate pod POD sidecar.istio.io/inject=false` (linkerd:
linkerd.io/inject=disabled), in the pod template, then recreate them.

## Confirm with
`kubectl get pod POD -o jsonpath='{.spec.containers[*].name}'` lists no istio-proxy or linkerd-proxy.

## When it is harmless
The proxy forwards everything, as two sidecars that agree do: the nodes then join, and nothing is reported.

## See also
network/foreign-service, store/silent, mesh/peer-ports-blocked
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, links_to, master_port_owner, some_of, together

SEVERITY = "fail"
PREVENTS = "store reached"
LOOKS_AT = ("meeting",)
NEXT = ("the containers of the pods (a sidecar?)", "kubectl get pod POD -o jsonpath='{.spec.containers[*].name}'")
LOG = (
    Line(
        "got 0 bytes",
        "failed to recv, got 0 bytes|recvValue failed.{0,200}got 0 bytes",
        shows="symptom",
        why="without a sidecar, the death of the store's host shows the same",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    caught = [node for node in cluster.nodes if is_caught(node)]
    here = [node for node in caught if node.network.intercepted_here]
    if here:
        yield finding(cluster, here, [node.name for node in here], "from")
    remote = [node for node in caught if node not in here]
    if remote:
        _, name = master_port_owner(cluster, remote)
        yield finding(cluster, remote, [name], "to")


def is_caught(node: Node) -> bool:
    """Return whether its connections were accepted also on ports without a listener, and it did not join the store."""
    network, meeting = node.network, node.meeting
    if meeting.joined or not meeting.ended or not network.intercepted or network.contact is None:
        return False
    silent = network.answer is not None and network.answer.kind in ("silent", "closed")
    return silent and network.contact.outcome == "open"


def finding(cluster: Cluster, caught: list[Node], blamed: list[str], where: str) -> Finding:
    _, name = master_port_owner(cluster, caught)
    return Finding.about(
        blamed,
        f"A proxy accepts every connection {where} {some_of(blamed)}, also on ports without a listener.",
        links=links_to(caught, name),
        evidence=map(evidence_line, caught),
        fixes=(
            Fix.on(
                blamed,
                'Remove the job from the service mesh: the annotation sidecar.istio.io/inject: "false" on its pods '
                "(linkerd.io/inject: disabled). Without a mesh, exempt the job's ports from the redirect (nft list "
                "ruleset shows it).",
            ),
        ),
    )


def evidence_line(node: Node) -> str:
    network = node.network
    contact, answer = network.contact, network.answer
    assert contact is not None and answer is not None
    answered = "closed at once" if answer.kind == "closed" else "silent"
    end = f"; the other end is a socket of {node.name} itself" if network.intercepted_here else ""
    ports = together(map(str, network.intercepted))
    return f"{node.name}: port {contact.port} of {contact.address} is open and {answered}; so are {ports}{end}"
