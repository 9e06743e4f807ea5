"""network/engine-server-unreachable: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Contact, NodeFacts, PortHolder, Resolution, ServerContact
from distdoctor.model.facts.network import ConnectOutcome
from distdoctor.model.plan import EngineServer
from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.engines import engine
from tests.facts_builder import with_network, with_plan

CHECK = "network/engine-server-unreachable"
BOTH, AT = ("host0", "host1"), "10.77.0.10"
LISTENER = PortHolder("0.0.0.0", 4242, "mooncake_master", "root")


def asking(*outcomes: ConnectOutcome | None, host: str = AT, address: str = AT, listener: int | None = None,
           setting: str = "MOONCAKE_MASTER") -> tuple[NodeFacts, ...]:  # fmt: skip
    """Nodes that ask one master, and how that ends on each of them; None: its name has no address."""
    server = EngineServer(host, 50051, "Mooncake master", setting)
    facts = []
    for number, (one, outcome) in enumerate(zip(engine(nodes=len(outcomes)), outcomes, strict=True)):
        contact = None if outcome is None else Contact(address, 50051, outcome, seconds=3.3)
        look = Resolution(host, () if outcome is None else (address,), None if outcome else "no such name")
        holders = (LISTENER,) if number == listener else ()
        attempt = ServerContact(host, 50051, None if host == address else look, contact, holders)
        facts.append(with_network(with_plan(one, servers=(server,)), engine_servers=(attempt,)))
    return tuple(facts)


def of_etcd(*outcomes: ConnectOutcome, needed: bool = True) -> tuple[NodeFacts, ...]:
    """Nodes that ask three addresses of one setting, of which one is enough."""
    facts = []
    for one in engine(nodes=2):
        hosts = [f"10.9.9.{number}" for number, _ in enumerate(outcomes)]
        servers = [EngineServer(host, 2379, "etcd of Mooncake", "MOONCAKE_MASTER", True, needed) for host in hosts]
        attempts = [
            ServerContact(host, 2379, contact=Contact(host, 2379, outcome))
            for host, outcome in zip(hosts, outcomes, strict=True)
        ]
        facts.append(with_network(with_plan(one, servers=tuple(servers)), engine_servers=tuple(attempts)))
    return tuple(facts)


ROWS = [
    Row("none of several", lambda: of_etcd("refused", "no-answer", "refused"), BOTH, together=True),
    Row("a cache that is not needed", lambda: of_etcd("refused", needed=False), BOTH, "warn", together=True),
    Row("not started, on a node of the job", lambda: asking("refused", "refused"), ("host0",), together=True),
    Row("not started, elsewhere", lambda: asking("refused", "refused", address="10.9.9.9"), BOTH, together=True),
    Row("on the other node", lambda: asking("refused", "refused", listener=1), BOTH, together=True),
    Row("blocked from one node", lambda: asking("open", "no-answer"), ("host0",), together=True),
    Row("a host without an answer", lambda: asking("no-answer", "no-answer", address="10.9.9.9"), BOTH, together=True),
    Row("a name without an address", lambda: asking("open", None, host="mc"), ("host1",), together=True),
    Row("localhost, and it runs on node 0 alone", lambda: asking("open", "refused", host="localhost",
        address="127.0.0.1"), ("host1",), together=True),
]  # fmt: skip
LOOK_ALIKES = [
    LookAlike("one of several", lambda: of_etcd("refused", "open", "no-answer")),
    LookAlike("reached", lambda: asking("open", "open")),
    LookAlike("no server in the line", lambda: engine(nodes=2, MOONCAKE_MASTER="10.9.9.9:50051")),
]
CURES = [
    Cure(
        "the address of the node that has it",
        lambda: asking("refused", "refused", listener=1),
        {name: {"env": {"MOONCAKE_MASTER": "10.77.0.11:50051"}} for name in BOTH},
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
