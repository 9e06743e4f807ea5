"""The remedies that findings print: real values, on the right nodes, in the place that the value came from."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.check_api.fixes import READ_HOSTS_FILE, append_hosts_line, correct_own_hosts_line
from distdoctor.launch.flags import Flags
from distdoctor.launch.resolve import resolve
from distdoctor.model.cluster import build
from distdoctor.model.facts import Bind, HostsLine, NodeFacts, PortHolder, Work
from distdoctor.model.findings import Fix
from distdoctor.probes.names import sources
from tests.checks import rows_gloo, rows_launch, rows_master, rows_ranks
from tests.checks.row import Facts
from tests.facts_builder import (
    PORT,
    blocking,
    healthy,
    judged,
    loopback_name,
    met,
    node,
    outside,
    rank_node,
    with_host,
    with_master,
    with_network,
    with_plan,
)


def fixes(*facts: NodeFacts) -> tuple[Fix, ...]:
    return judged(*facts).roots[0].fixes


def first(*facts: NodeFacts) -> tuple[Fix, ...]:
    return tuple(fix for fix in fixes(*facts) if fix.option == 1)


def test_gloo_gets_each_nodes_own_interface() -> None:
    a, b = rows_gloo.loopback_both()
    assert b.network is not None and b.network.primary is not None
    b = with_network(b, primary=replace(b.network.primary, interface="ens5"))
    found = first(a, b)
    assert [(f.nodes, f.env) for f in found] == [
        (("host0",), {"GLOO_SOCKET_IFNAME": "eth0"}),
        (("host1",), {"GLOO_SOCKET_IFNAME": "ens5"}),
    ]


def test_gloo_evidence_names_the_line_and_what_gloo_said() -> None:
    a, b = rows_gloo.loopback_both()
    a = with_host_lines(a, HostsLine(2, "127.0.1.1\thost0"))
    (root,) = judged(a, b).roots
    text = "\n".join(root.evidence)
    assert "host0: /etc/hosts line 2: 127.0.1.1 host0" in text
    assert "its own name host0 resolves to 127.0.1.1" in text
    assert "connect [127.0.1.1]:1234: Connection refused" in text


def with_host_lines(facts: NodeFacts, *lines: HostsLine) -> NodeFacts:
    assert facts.host is not None
    return replace(facts, host=replace(facts.host, hosts_lines=lines))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("127.0.0.1 localhost\n127.0.1.1 host0\n", "127.0.0.1 localhost\n10.77.0.10 host0\n"),
        ("127.0.1.1 host0.lab host0\n", "10.77.0.10 host0.lab host0\n"),
        ("127.0.0.1 localhost host0\n", "127.0.0.1 localhost\n10.77.0.10 host0\n"),
        ("::1 localhost ip6-localhost host0\n127.0.1.1 host0\n", "::1 localhost ip6-localhost\n10.77.0.10 host0\n"),
        ("127.0.1.1 host0\n127.0.1.1 host0 # again\n# last\n", "10.77.0.10 host0\n# last\n"),
        ("127.0.0.1 localhost\n", "127.0.0.1 localhost\n10.77.0.10 host0\n"),
    ],
)
def test_the_hosts_command_works_in_a_shell(tmp_path: Path, before: str, after: str) -> None:
    """The command is run on a copy of the file, as pasted."""
    hosts = tmp_path / "hosts"
    hosts.write_text(before)
    lines = tuple(
        HostsLine(number, line)
        for number, line in enumerate(before.splitlines(), start=1)
        if "host0" in line.partition("#")[0].split()[1:]
    )
    one = with_host_lines(loopback_name(node("host0")), *lines)
    command = correct_own_hosts_line(build([one]).nodes[0], "10.77.0.10").replace("/etc/hosts", str(hosts))
    subprocess.run(["sh", "-c", command], check=True)
    assert hosts.read_text() == after


def test_a_hostile_line_of_the_hosts_file_runs_nothing(tmp_path: Path) -> None:
    """The text of the file is data, also in a command that is pasted into a shell."""
    hosts = tmp_path / "hosts"
    line = "127.0.1.1 host0 $(touch${IFS}PWNED) ';touch' `id`"
    hosts.write_text(line + "\n")
    one = with_host_lines(loopback_name(node("host0")), HostsLine(1, line))
    command = correct_own_hosts_line(build([one]).nodes[0], "10.77.0.10").replace("/etc/hosts", str(hosts))
    subprocess.run(["sh", "-c", command], check=True, cwd=tmp_path)
    assert hosts.read_text() == line.replace("127.0.1.1", "10.77.0.10") + "\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hosts"]


def test_localhost_stays_with_the_loopback_address() -> None:
    """Whoever calls a host localhost loses the loopback address by a line that gives the name another one."""
    one = with_host_lines(loopback_name(node("localhost")), HostsLine(1, "127.0.0.1 localhost"))
    assert correct_own_hosts_line(build([one]).nodes[0], "10.77.0.10") == ""


def test_append_quotes_the_name(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    command = append_hosts_line("10.0.0.5", "a;touch x").replace("/etc/hosts", str(hosts))
    subprocess.run(["sh", "-c", command], check=True, cwd=tmp_path)
    assert hosts.read_text() == "10.0.0.5 a;touch x\n"
    assert not (tmp_path / "x").exists()


ENV = {
    "MASTER_ADDR": (rows_launch.no_master_addr, {"MASTER_ADDR": "10.77.0.10"}),
    "RANK missing": (rows_launch.no_rank, {"RANK": "1"}),
    "URL": (rows_launch.url_master, {"MASTER_ADDR": "host0"}),
    "port": (rows_launch.broken_port, {"MASTER_PORT": "29700"}),
    "PET_NNODES": (rows_launch.broken_nnodes, {"PET_NNODES": "2"}),
    "RANK beyond": (rows_launch.rank_beyond, {"RANK": "1"}),
    "two rank 0": (rows_launch.two_rank_0, {"RANK": "1"}),
    "WORLD_SIZE": (rows_launch.world_sizes, {"WORLD_SIZE": "2"}),
    "interface": (rows_gloo.not_found, {"GLOO_SOCKET_IFNAME": "eth0"}),
}


@pytest.mark.parametrize("name", ENV)
def test_the_variable_to_set(name: str) -> None:
    make, env = ENV[name]
    (fix,) = first(*make())
    assert (fix.nodes, fix.env) == (("host1",), env)


FLAGS: dict[str, tuple[Callable[[], Facts], dict[str, str]]] = {
    "two node 0": (rows_launch.two_node_0, {"--node-rank": "1"}),
    "two node 1": (rows_launch.two_node_1, {"--node-rank": "2"}),
    "another port": (rows_launch.other_port, {"--master-port": "29500"}),
    "another address": (rows_launch.other_address, {"--master-addr": "10.77.0.10"}),
    "each names itself": (rows_launch.own_addresses, {"--master-addr": "10.77.0.10"}),
}


@pytest.mark.parametrize("name", FLAGS)
def test_the_flag_to_change(name: str) -> None:
    make, flags = FLAGS[name]
    (fix,) = first(*make())
    assert fix.flags == flags
    assert fix.nodes == (("host2",) if name == "two node 1" else ("host1",))


def test_the_number_of_nodes_that_came_is_the_first_option() -> None:
    assert [(f.nodes, f.flags, f.option) for f in fixes(*rows_launch.nnodes(3, 2))] == [
        (("host0",), {"--nnodes": "2"}, 1),
        (("host1",), {"--nnodes": "3"}, 2),
    ]


@pytest.mark.parametrize(
    "make", [rows_master.nobodys_address, rows_master.node_1s_address, lambda: rows_master.localhost(True)]
)
def test_the_wrong_master_is_replaced_on_every_node(make: Callable[[], Facts]) -> None:
    (fix,) = fixes(*make())
    assert (fix.nodes, fix.flags) == (("host0", "host1"), {"--master-addr": "10.77.0.10"})


def test_the_master_is_set_where_it_came_from() -> None:
    a, b = rows_master.nobodys_address()
    a = with_plan(a, sources={"master_addr": "PET_MASTER_ADDR"})
    b = with_plan(b, sources={"master_addr": "--rdzv-endpoint"})
    assert [(f.env, f.flags) for f in fixes(a, b)] == [
        ({"PET_MASTER_ADDR": "10.77.0.10"}, {}),
        ({}, {"--rdzv-endpoint": "10.77.0.10:29500"}),
    ]


def test_another_port_is_the_first_remedy_and_ending_a_process_the_last() -> None:
    found = fixes(*rows_master.held(None, rows_master.SSHD))
    assert [(f.option, f.nodes, f.flags) for f in found] == [
        (1, ("host0", "host1"), {"--master-port": "29501"}),
        (2, ("host0",), {}),
    ]
    assert "left-over of your own" in found[1].text and "sshd (pid 77)" in found[1].text


def test_another_port_is_set_in_the_environment_of_each_rank() -> None:
    a, b = rows_master.held(None)
    a, b = (
        with_plan(one, started="rank", rank=n, sources={"master_port": "MASTER_PORT"}) for n, one in enumerate((a, b))
    )
    assert [(f.nodes, f.env) for f in first(a, b)] == [(("host0", "host1"), {"MASTER_PORT": "29501"})]


def test_what_another_users_process_hides_is_said() -> None:
    (root,) = judged(*rows_master.held(None, PortHolder("0.0.0.0"))).roots
    assert root.evidence == ("host0: 0.0.0.0:29500 is held by another user's process: not visible without root",)


def test_a_connection_that_has_the_port_is_told_with_its_other_end() -> None:
    holder = PortHolder("10.77.0.10", 4711, "curl", "ann", "10.77.0.11:8888")
    (root,) = judged(*rows_master.held(None, holder)).roots
    (line,) = root.evidence
    assert line == (
        "host0: 10.77.0.10:29500 is the own end of a connection to 10.77.0.11:8888, held by curl, pid 4711, user ann"
    )
    assert root.fixes[-1].text.endswith("end curl (pid 4711) yourself.")


def test_firewall_commands_name_the_peer_and_the_port() -> None:
    (fix,) = fixes(*rows_master.shut("no-answer", control="refused", rules=rows_master.DROP))
    assert fix.nodes == ("host0",)
    assert fix.commands == ("nft insert rule inet filter input ip saddr '{ 10.77.0.11 }' tcp dport 29500 accept",)


def test_a_filter_that_node_0_meets_itself_is_opened_for_node_0_too() -> None:
    """It hosts the store and does not reach it: opened for host1 alone, it would still not get there."""
    a, b = (outside(one, "no-answer", control="refused") for one in healthy(2, declared=True))
    a = with_network(a, bind=Bind(True, PORT), master_is_own=True, firewall=blocking(*rows_master.DROP))
    (root,) = judged(a, b).roots
    (fix,) = root.fixes
    assert (root.check, root.nodes, fix.nodes) == ("network/port-filtered", ("host0",), ("host0",))
    assert fix.commands == (
        "nft insert rule inet filter input ip saddr '{ 10.77.0.10, 10.77.0.11 }' tcp dport 29500 accept",
    )


def test_a_left_over_c10d_is_unset_where_all_have_it_and_told_as_a_difference_else() -> None:
    """torchrun reads no --master-addr with it: its agents then look for node 0 each on its own host."""
    flags = Flags(nnodes="2", master_addr="10.77.0.10")
    plans = [resolve(flags, {"PET_RDZV_BACKEND": kind}, int, lambda: 2) for kind in ("c10d", "static")]
    a, b = healthy(2)
    both = judged(*(replace(one, plan=plans[0]) for one in (a, b)))
    (root,) = both.roots
    assert (root.check, root.nodes) == ("environment/invalid-variable", ("host0", "host1"))
    assert [fix.env for fix in root.fixes] == [{"PET_RDZV_BACKEND": None}] * 2
    mixed = judged(replace(a, plan=plans[1]), replace(b, plan=plans[0]))
    assert [root.check for root in mixed.roots] == ["environment/rendezvous-backend-mismatch"]


def test_rules_that_block_everything_are_opened_for_everything() -> None:
    """With the one port open the random ports of gloo would be blocked next."""
    facts = rows_master.shut("no-answer", control="no-answer", rules=("ip saddr 10.77.0.11 drop",))
    (fix,) = fixes(*facts)
    assert fix.commands == ("nft insert rule inet filter input ip saddr '{ 10.77.0.11 }' meta l4proto tcp accept",)


def test_rules_that_were_not_seen_are_not_made_up() -> None:
    found = fixes(*rows_master.shut_unread(0, 1))
    assert [(f.nodes, f.option, f.commands) for f in found] == [(("host0",), 1, ()), (("host1",), 2, ())]
    assert all("were not seen" in f.text for f in found)


def test_peer_ports_are_opened_on_the_node_that_blocks_them() -> None:
    (fix,) = fixes(*rows_ranks.cut((1, 0), rules=(0,)))
    assert fix.commands == ("nft insert rule inet filter input ip saddr '{ 10.77.0.11 }' meta l4proto tcp accept",)
    assert fix.nodes == ("host0",)


def test_what_was_meant_is_not_advised_where_it_was_tried_and_is_not_node_0() -> None:
    """The doctor tries what is within the brackets: where that is no address of node 0, it would not cure anything."""
    facts = rows_launch.bracketed_master_elsewhere()
    assert [fix.env for fix in fixes(*facts)] == [{"MASTER_ADDR": "10.77.0.10"}] * 2
    assert [fix.env for fix in fixes(*rows_launch.url_master())] == [{"MASTER_ADDR": "host0"}]


LINE = "echo '10.77.0.10 host0' >> /etc/hosts"


@pytest.mark.parametrize(
    ("looked_in", "line", "commands"),
    [
        ("dns", "10.77.0.10 host0", (READ_HOSTS_FILE,)),
        ("dns mdns4_minimal myhostname", "", (LINE, READ_HOSTS_FILE)),
        ("dns", "10.77.0.99 host0", (LINE, READ_HOSTS_FILE)),
        ("files dns", "", (LINE,)),
        ("resolve dns", "", (LINE,)),
        ("sss dns", "", (LINE,)),
        ("files dns", "10.77.0.10 host0", ()),
    ],
)
def test_no_line_is_added_that_is_there_and_the_file_is_read(
    looked_in: str, line: str, commands: tuple[str, ...]
) -> None:
    found = judged(*rows_master.file_not_read(*looked_in.split(), line=line)).findings
    assert next(f for f in found if f.check == "network/master-unresolvable").fixes[0].commands == commands
    assert "echo '10.77.0.11 host1' >> /etc/hosts" not in {c for f in found for fix in f.fixes for c in fix.commands}


def test_without_node_0s_facts_a_line_that_is_there_is_read() -> None:
    assert first(rows_master.file_not_read("dns")[1])[0].commands == (READ_HOSTS_FILE,)
    assert first(rows_master.file_not_read("dns", line="")[1])[0].commands == ()


def test_the_files_come_first_in_nsswitch(tmp_path: Path) -> None:
    file = tmp_path / "nsswitch.conf"
    for line in ("hosts: dns", "hosts:\t\tdns [!UNAVAIL=return]", "  hosts:dns"):
        file.write_text(f"passwd: files\n{line}\nnetworks: files # hosts: x\n")
        before = sources(str(file))
        subprocess.run(["sh", "-ec", READ_HOSTS_FILE.replace("/etc/nsswitch.conf", str(file))], check=True)
        assert before == ("dns",) and sources(str(file)) == ("files", "dns")
        assert file.read_text().splitlines()[0::2] == ["passwd: files", "networks: files # hosts: x"]


def test_an_unresolvable_master_gets_a_line_or_a_number() -> None:
    found = fixes(*rows_master.unknown_on_one())
    assert found[0].commands == ("echo '10.77.0.10 host0' >> /etc/hosts",)
    assert (found[1].option, found[1].flags, found[1].nodes) == (2, {"--master-addr": "10.77.0.10"}, ("host1",))


@pytest.mark.parametrize("source", ["MASTER_ADDR", "--master-addr", "--rdzv-endpoint"])
def test_one_node_that_cannot_resolve_its_master_names_itself(source: str) -> None:
    """There is no other host whose address could be added to /etc/hosts, least of all under a mistyped name."""
    one = with_plan(healthy(1)[0], sources={"master_addr": source}, node_rank=0)
    (root,) = judged(outside(with_master(one, "nonsense", own=None, resolved=[]), None)).roots
    assert root.check == "network/master-unresolvable"
    (fix,) = root.fixes
    change = {source: "127.0.0.1:29500" if source == "--rdzv-endpoint" else "127.0.0.1"}
    assert (fix.env, fix.flags) == ((change, {}) if source == "MASTER_ADDR" else ({}, change))


def test_one_node_whose_own_name_is_the_masters_gets_its_line() -> None:
    """The name is right, and gloo needs its address, too."""
    one = outside(with_master(healthy(1)[0], "host0", own=None, resolved=[]), None)
    assert fixes(one)[0].commands == ("echo '10.77.0.10 host0' >> /etc/hosts",)


def test_fewer_gpus_means_fewer_ranks() -> None:
    (row,) = (row for row in rows_ranks.ROWS if row.name == "fewer GPUs")
    (fix,) = fixes(*row.facts())
    assert (fix.nodes, fix.flags) == (("host1",), {"--nproc-per-node": "7"})


def test_nccls_syntax_is_told() -> None:
    (root,) = judged(*rows_gloo.not_found("^docker0")).roots
    assert any("NCCL_SOCKET_IFNAME's syntax" in line for line in root.evidence)
    assert [(f.option, f.env) for f in root.fixes] == [
        (1, {"GLOO_SOCKET_IFNAME": "eth0"}),
        (2, {"GLOO_SOCKET_IFNAME": None}),
    ]


def test_unsetting_is_no_remedy_where_the_name_means_loopback() -> None:
    (root,) = judged(*rows_gloo.not_found_and_loopback_name()).roots
    assert {f.option for f in root.fixes} == {1}


def test_the_variable_that_leads_gloo_to_lo_can_be_unset() -> None:
    found = fixes(*rows_gloo.loopback_variable())
    assert [f.env for f in found if f.option == 2] == [{"GLOO_SOCKET_IFNAME": None}] * 2


def test_a_rank_alone_without_rank_is_told_what_it_means() -> None:
    one = with_plan(rank_node("host1", 1), rank=None, problems=rows_launch.problem("RANK", None, "not set"))
    found = fixes(one)
    assert found[0].env == {} and "from 0 to WORLD_SIZE - 1" in found[0].text
    assert "torchrun" in found[-1].text and found[-1].option == 2


def test_a_stray_variable_can_be_unset_where_nobody_else_came() -> None:
    one = with_plan(rank_node("host1", 1), rank=None, problems=rows_launch.problem("RANK", None, "not set"))
    one = replace(one, variables={"MASTER_ADDR": "host0", "NCCL_DEBUG": "INFO"})
    assert [f.env for f in fixes(one) if f.option == 3] == [{"MASTER_ADDR": None}]
    assert [f for f in fixes(rank_node("host0", 0), one) if f.option == 3] == []


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (Work(300, 0.9, 8, 8), "frequency"),
        (Work(300, 0.05, 8, 8, quota=0.1), "more than 0.1 processors for its 2 ranks"),
        (Work(300, 0.05, 1, 8), "leaves 2 ranks 1 of 8 processors"),
        (Work(300, 0.05, 8, 8, load=40.0), "what else uses the processors of rank 2 and 3"),
    ],
)
def test_a_straggler_is_helped_by_what_holds_it_back(work: Work, says: str) -> None:
    first, second = healthy(2)
    fast = replace(first, ranks=tuple(replace(r, work=Work(9000, 1.0, 8, 8)) for r in first.ranks))
    slow = replace(second, ranks=tuple(replace(r, work=work) for r in second.ranks))
    (fix,) = fixes(fast, slow)
    assert fix.nodes == ("host1",) and says in fix.text


def test_missing_nodes_are_named_by_their_own_facts_where_they_are_here() -> None:
    a, b, c = healthy(3)
    facts = met(a, b, outside(c, "refused"), expected=3)
    root = judged(*facts).roots[0]
    assert (root.id, root.nodes) == ("network/port-refused", ("host2", "host0"))
    missing = next(f for f in judged(*facts).findings if f.id == "store/nodes-missing")
    assert missing.nodes == ("host2",)


def test_a_docker_bridge_is_never_taken_for_an_address_of_node_0() -> None:
    a, b = rows_master.localhost(True)
    assert a.host is not None
    docker = replace(a.host.interfaces[1], name="docker0", addresses=("172.17.0.1",), prefix_lengths=(16,))
    a = with_host(a, interfaces=(docker, *a.host.interfaces))
    assert fixes(a, b)[0].flags == {"--master-addr": "10.77.0.10"}
