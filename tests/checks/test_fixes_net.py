"""What to do about names, interfaces, links, the store and ranks: real values, per node, and commands that work."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.model.facts import Answer, MeetingFacts, NodeFacts
from distdoctor.model.findings import Fix
from tests.checks import rows_master
from tests.checks import rows_net as rows
from tests.checks.row import Facts
from tests.facts_builder import judged, node, with_plan


def fixes(*facts: NodeFacts) -> tuple[Fix, ...]:
    return judged(*facts).roots[0].fixes


COMMANDS: dict[str, tuple[Callable[[], Facts], dict[str, tuple[str, ...]]]] = {
    "late name": (rows.late_name, {"host1": ("echo '10.77.0.10 job-0' >> /etc/hosts",)}),
    "accepts nothing": (
        lambda: rows.cut(rows.into(1, 3), 3, ruled=(1,)),
        {
            "host1": (
                "nft insert rule inet filter input ip saddr '{ 10.77.0.10, 10.77.0.12, 10.77.0.11 }' "
                "meta l4proto tcp accept",
            )
        },
    ),
    "jumbo frames": (
        lambda: rows.stalled([(0, 1), (1, 0)], 3, (9000, 9000, 1500)),
        {"host0": ("ip link set dev eth0 mtu 1500",), "host1": ("ip link set dev eth0 mtu 1500",)},
    ),
    "a tunnel somewhere": (
        lambda: rows.stalled([(0, 2), (1, 2)], 3, (1500, 1500, 1500)),
        {"host2": ("ip link set dev eth0 mtu 1280",)},
    ),
    "filter by length": (
        lambda: rows.stalled([(0, 1)], 2, rule=(1, "meta length > 1294 drop")),
        {"host1": ("nft insert rule inet filter input ip saddr '{ 10.77.0.10, 10.77.0.11 }' meta l4proto tcp accept",)},
    ),
    "filter by chance": (
        rows.lossy_by_rule,
        {"host1": ("nft insert rule inet filter input ip saddr '{ 10.77.0.10, 10.77.0.11 }' meta l4proto tcp accept",)},
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_of_each_node(name: str) -> None:
    make, commands = COMMANDS[name]
    found = [fix for fix in fixes(*make()) if fix.option == 1]
    assert {node: fix.commands for fix in found for node in fix.nodes} == commands


ENV: dict[str, tuple[Callable[[], Facts], dict[str, dict[str, str]]]] = {
    "docker0 on one": (rows.docker0_on_one, {"host1": {"GLOO_SOCKET_IFNAME": "eth0"}}),
    "docker0 for nccl": (
        rows.nccl_docker0,
        {"host0": {"NCCL_SOCKET_IFNAME": "eth0"}, "host1": {"NCCL_SOCKET_IFNAME": "eth0"}},
    ),
    "IPv6 on one": (lambda: rows.families(4, 6), {"host1": {"GLOO_SOCKET_IFNAME": "eth0"}}),
    "no libuv": (rows.libuv, {"host0": {"USE_LIBUV": "0"}, "host1": {"USE_LIBUV": "0"}}),
}


@pytest.mark.parametrize("name", ENV)
def test_the_variables_of_each_node(name: str) -> None:
    make, env = ENV[name]
    found = [fix for fix in fixes(*make()) if fix.option == 1]
    assert {node: fix.env for fix in found for node in fix.nodes} == env


def test_an_interface_whose_first_address_is_of_the_other_family_is_no_fix() -> None:
    """GLOO_SOCKET_IFNAME would lead to the same family again."""
    found = fixes(*rows.families(6, 4, 6))
    assert [(fix.nodes, fix.env) for fix in found] == [(("host1",), {})]
    assert "IPv6 address only" in found[0].text


def test_a_dead_ipv6_address_is_replaced_by_the_ipv4_one() -> None:
    (fix,) = fixes(*rows.dead_six("no-answer", 3.3))
    assert (fix.nodes, fix.flags) == (("host1",), {"--master-addr": "10.77.0.10"})


def test_two_ends_are_two_options() -> None:
    """Where it cannot be told which end it is, one end after the other."""
    for facts in (rows.stalled([(1, 0)], 2, (1500, 1500)), rows.measured(2, slow=[(1, 0)])):
        assert [(fix.option, fix.nodes) for fix in fixes(*facts)] == [(1, ("host0",)), (2, ("host1",))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("127.0.0.1 localhost\n10.77.0.200 host0\n", "127.0.0.1 localhost\n10.77.0.200 \n10.77.0.10 host0\n"),
        ("10.77.0.200 host0.lab host0 # old\n", "10.77.0.200 host0.lab  # old\n10.77.0.10 host0\n"),
        ("10.77.0.200 host0 gpu0\n10.77.0.11 host01\n", "10.77.0.200  gpu0\n10.77.0.11 host01\n10.77.0.10 host0\n"),
        ("# 10.77.0.200 host0\n", "# 10.77.0.200 host0\n10.77.0.10 host0\n"),
    ],
)
def test_the_name_is_moved_in_the_hosts_file(tmp_path: Path, before: str, after: str) -> None:
    """The command is run on a copy of the file, as pasted."""
    hosts = tmp_path / "hosts"
    hosts.write_text(before)
    (command,) = fixes(*rows.other_host())[0].commands
    subprocess.run(["sh", "-c", command.replace("/etc/hosts", str(hosts))], check=True)
    assert hosts.read_text() == after


def test_a_hostile_name_runs_nothing(tmp_path: Path) -> None:
    """A name comes from a node's launch line: data, also in a command that is pasted into a shell."""
    name = "a'$(touch x);`touch y`'\"*/e"
    a, b = (with_plan(one, master_addr=name) for one in rows.other_host())
    (command,) = fixes(a, b)[0].commands
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    subprocess.run(["sh", "-c", command.replace("/etc/hosts", str(hosts))], check=True, cwd=tmp_path)
    assert hosts.read_text() == f"127.0.0.1 localhost\n10.77.0.10 {name}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["hosts"]


def test_a_rank_that_ended_is_named_with_how() -> None:
    (root,) = judged(*rows.ended("gloo", 1, died=rows.KILLED)).roots
    assert root.ranks == (2,)
    assert "ended by signal 9" in root.summary and "pid 4242" in root.evidence[0]


def test_a_rank_that_is_stopped_is_named_with_its_process() -> None:
    (root,) = judged(*rows.ended("barrier", 1, state="T")).roots
    assert root.ranks == (2,)
    assert "pid 4242" in root.evidence[0] and "stopped by a signal" in root.evidence[0]


def test_the_mtu_of_each_end_is_shown() -> None:
    (root,) = judged(*rows.stalled([(0, 1), (1, 0)], 3, (9000, 9000, 1500))).roots
    assert "host0: the MTU of eth0 is 9000" in root.evidence
    assert "payloads of 4000 bytes never arrive" in root.summary


def test_of_what_answers_on_the_port_the_first_line_is_told() -> None:
    """In the sample, line ends are spaces."""
    answer = Answer(
        "foreign", sample="HTTP/1.0 200 OK  Server: SimpleHTTP/0.6 Python/3.11.7  Date: Sat, 21 Nov 2026 18"
    )
    (root,) = judged(*rows_master.held(answer, rows_master.SSHD)).roots
    assert root.summary == "What answers: 'HTTP/1.0 200 OK' on port 29500 of host0 is no store."


def test_a_node_that_knows_no_master_does_not_say_that_it_waited_for_none() -> None:
    facts = replace(node("host1", 1), meeting=MeetingFacts(ended=True), network=None)
    text = str(judged(with_plan(facts, master_addr=None)).findings)
    assert "None:" not in text
    assert "nothing says here where node 0 is" in text


@pytest.mark.parametrize("master", ["train-master", "10.96.0.77"])
def test_an_address_that_each_node_has_is_not_set_again(master: str) -> None:
    """Node 0 is named by one that only it has; and that host1 was refused, by itself, is no packet filter's doing."""
    found = judged(*rows.on_every_node(master))
    (root,) = found.roots
    assert [(fix.nodes, fix.flags) for fix in root.fixes] == [(("host0", "host1"), {"--master-addr": "10.77.0.10"})]
    assert "is an address of host1, too" in root.summary and "kube-ipvs0" in " ".join(root.evidence)
    (refused,) = [f for f in found.findings if f.check == "network/port-refused"]
    assert refused.because_of == root.id and refused.nodes == ("host1",)
    assert "it asked itself" in " ".join(refused.evidence)
    assert not any("let it through" in fix.text or fix.commands for fix in refused.fixes)


def test_one_node_alone_says_that_it_asked_itself() -> None:
    _, b = rows.on_every_node("train-master")
    (refused,) = [f for f in judged(b).findings if f.check == "network/port-refused"]
    assert "10.96.0.77 is its own address (kube-ipvs0)" in " ".join(refused.evidence)
    assert [fix.text for fix in refused.fixes] == ["Name node 0 by an address that host1 has not, on every node."]


@pytest.mark.parametrize(
    "facts",
    [
        rows.cut([(1, 0)], 2, failed=False, outcome="reset"),
        rows.cut(rows.into(0, 3), 3, failed=False, outcome="reset"),
        rows.cut([(2, 1)], 3, failed=False, outcome="reset"),
    ],
    ids=["of two", "into one of three", "one direction of three"],
)
def test_what_is_accepted_and_then_cut_is_no_packet_filters_doing(facts: Facts) -> None:
    """A sidecar that answers every port but the master's: no filter accepts a connection first."""
    (root,) = judged(*facts).roots
    assert "accepted on random ports and then cut" in root.summary
    (fix,) = root.fixes
    assert "sidecar" in fix.text and "accept TCP" not in fix.text and "let it through" not in fix.text


def test_what_an_own_rule_resets_is_still_that_rules_doing() -> None:
    (root,) = judged(*rows.cut([(1, 0)], 2, ruled=(0,), failed=False, outcome="reset")).roots
    assert root.nodes == ("host0",) and root.fixes[0].commands and "sidecar" not in root.fixes[0].text
