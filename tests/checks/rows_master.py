"""Rows about the way to the master: its name, its port, and what answers there."""

# ruff: noqa: E501 - a row is a line, however long

from distdoctor.model.facts import AddressChoice, Answer, Bind, HostsLine, PortHolder, Resolution
from tests.checks.row import Facts, Row
from tests.facts_builder import (
    PORT,
    UNREAD,
    blocking,
    healthy,
    met,
    outside,
    waited_in_vain,
    with_host,
    with_master,
    with_meeting,
    with_network,
)

BOTH = ("host0", "host1")


def unknown_on_one() -> Facts:
    a, b = healthy(2)
    a = with_master(a, "host0", own=True, resolved=["10.77.0.10"])
    return waited_in_vain(a), outside(with_master(b, "host0", own=None, resolved=[]), None)


def file_not_read(*sources: str, line: str = "10.77.0.10 host0") -> Facts:
    """host1's nsswitch.conf looks nothing up in /etc/hosts, where its own name and the master's are."""
    a, b = unknown_on_one()
    assert b.host is not None
    b = with_host(
        b,
        own_name=Resolution("host1", error="Temporary failure in name resolution"),
        gloo=AddressChoice("127.0.0.1", "lo", "fallback"),
        hosts_lines=(HostsLine(4, "10.77.0.11 host1"),),
        name_sources=sources,
    )
    return a, with_network(b, master_lines=(HostsLine(3, line),) if line else ())


def unknown_everywhere() -> Facts:
    a, b = (outside(with_master(one, "gpu0", own=None, resolved=[]), None) for one in healthy(2, declared=True))
    return with_network(a, bind=Bind(True, PORT)), b


def nobodys_address() -> Facts:
    a, b = (outside(with_master(one, "10.77.0.200"), "unreachable", errno=113) for one in healthy(2, declared=True))
    return with_network(a, bind=Bind(True, PORT)), b


def node_1s_address() -> Facts:
    a, b = healthy(2, declared=True)
    a = with_network(outside(with_master(a, "host1", resolved=["10.77.0.11"])), bind=Bind(True, PORT))
    return a, outside(with_master(b, "host1", own=True, resolved=["10.77.0.11"]))


def nobodys_address_undeclared() -> Facts:
    a, b = (outside(with_master(one, "10.77.0.200"), "unreachable", errno=113) for one in healthy(2))
    return a, b


def localhost(declared: bool) -> Facts:
    a, b = healthy(2, declared=declared)
    a, b = (
        with_network(with_master(one, "localhost", own=True, resolved=["127.0.0.1"]), primary=None) for one in (a, b)
    )
    if declared:
        return waited_in_vain(a), with_network(outside(b), primary=None)
    return waited_in_vain(a), with_meeting(waited_in_vain(b), hosted=True)


def localhost_on_one() -> Facts:
    a, b = healthy(2, declared=True)
    b = with_network(with_master(b, "localhost", own=True, resolved=["127.0.0.1"]), primary=None)
    return waited_in_vain(a), outside(b)


def shut(
    outcome: str, *, control: str | None = None, rules: tuple[str, ...] = (), at: int = 0, hook: str = "input"
) -> Facts:
    """host1 does not get to the store of host0; ``rules`` of host ``at`` are why."""
    a, b = healthy(2)
    a, b = waited_in_vain(a), outside(b, outcome, control=control)
    if rules and at == 0:
        a = with_network(a, firewall=blocking(*rules, hook=hook))
    elif rules:
        b = with_network(b, firewall=blocking(*rules, hook=hook))
    return a, b


def shut_unread(*which: int) -> Facts:
    facts = list(shut("no-answer", control="refused"))
    for number in which:
        facts[number] = with_network(facts[number], firewall=UNREAD)
    return tuple(facts)


def shut_third() -> Facts:
    a, b, c = healthy(3)
    a = with_network(a, firewall=blocking("ip saddr 10.77.0.12 tcp dport 29500 drop"))
    return (
        *met(a, b, outside(c, "no-answer", control="refused"), expected=3)[:2],
        outside(c, "no-answer", control="refused"),
    )


def shut_all_of_three() -> Facts:
    a, b, c = (with_network(one, firewall=UNREAD) for one in healthy(3))
    return waited_in_vain(a, 3), outside(b, "no-answer", control="refused"), outside(c, "no-answer", control="refused")


def no_way() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(b, "unreachable", errno=101)


def host_down() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(b, "unreachable", errno=113)


def held(answer: Answer | None, *holders: PortHolder, errno: int = 98) -> Facts:
    a, b = healthy(2, declared=True)
    bind = Bind(False, PORT, errno, "address already in use", holders, answer, 29501)
    a = with_network(outside(a, None), bind=bind, master_is_own=True)
    b = with_network(outside(b, "open" if errno == 98 else "refused"), answer=answer)
    if answer is not None and answer.kind == "tcpstore":
        a = with_network(with_meeting(a, ours=False), bind=None, answer=answer)
        b = with_meeting(b, ours=False)
    return a, b


SSHD = PortHolder("0.0.0.0", 77, "sshd", "root")
DROP = ("tcp dport 29500 drop",)
ROWS = [
    Row("name unknown on one", unknown_on_one, "network/master-unresolvable", ("host1",)),
    Row("/etc/hosts is not read", lambda: file_not_read("dns"), "network/master-unresolvable", ("host1",)),
    Row("name unknown everywhere", unknown_everywhere, "network/master-unresolvable", BOTH),
    Row("nobody's address", nobodys_address, "network/master-not-node0", BOTH),
    Row("nobody's address, no ranks declared", nobodys_address_undeclared, "network/master-not-node0", BOTH),
    Row("node 1's address", node_1s_address, "network/master-not-node0", BOTH),
    Row("localhost", lambda: localhost(True), "network/master-not-node0", BOTH),
    Row("localhost, no ranks declared", lambda: localhost(False), "network/master-not-node0", BOTH),
    Row("localhost on one", localhost_on_one, "network/master-not-node0", ("host1",)),
    Row("reset", lambda: shut("refused", rules=("tcp dport 29500 reject with tcp reset",)), "network/port-refused", ("host0",)),
    Row("dropped", lambda: shut("no-answer", control="refused", rules=DROP), "network/port-filtered", ("host0",)),
    Row("dropped, host silent", lambda: shut("no-answer", control="no-answer", rules=("ip saddr 10.77.0.11 drop",)),
        "network/port-filtered", ("host0",)),
    Row("dropped on the way out", lambda: shut("no-answer", control="refused", rules=DROP, at=1, hook="output"),
        "network/port-filtered", ("host1",)),
    Row("replies dropped", lambda: shut("no-answer", control="refused", rules=("tcp sport 29500 drop",), hook="output"),
        "network/port-filtered", ("host0",)),
    Row("rules unread on both", lambda: shut_unread(0, 1), "network/port-filtered", ("host1", "host0"), blame="one-of"),
    Row("rules unread on node 0", lambda: shut_unread(0), "network/port-filtered", ("host0",)),
    Row("no rules at all", shut_unread, "network/port-filtered", ("host1", "host0"), blame="one-of"),
    Row("dropped for one of two", shut_third, "network/port-filtered", ("host0",)),
    Row("dropped for all of two", shut_all_of_three, "network/port-filtered", ("host0",)),
    Row("rejected", lambda: shut("rejected", rules=("tcp dport 29500 reject",)), "network/port-rejected", ("host0",)),
    Row("no route", no_way, "network/no-route", ("host1",)),
    Row("host down", host_down, "network/master-unreachable", ("host1", "host0"), blame="one-of"),
    Row("port in use, silent", lambda: held(Answer("silent"), SSHD), "network/port-in-use", ("host0",)),
    Row("port in use, unseen", lambda: held(None, PortHolder("0.0.0.0")), "network/port-in-use", ("host0",)),
    Row("privileged port", lambda: held(None, errno=13), "network/port-not-bindable", ("host0",)),
    Row("foreign service", lambda: held(Answer("foreign", sample="SSH-2.0"), SSHD), "network/foreign-service", ("host0",)),
    Row("closed at once", lambda: held(Answer("closed")), "network/foreign-service", ("host0",)),
    Row("foreign store", lambda: held(Answer("tcpstore", "2.5+")), "store/foreign-store", ("host0",)),
]  # fmt: skip
