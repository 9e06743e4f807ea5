"""Changes since an earlier run: reported if there are any, never a reason for a verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distdoctor import __version__
from distdoctor.cli.app import run
from distdoctor.judge.saved import diagnose
from distdoctor.model.cluster import build
from distdoctor.model.facts import (
    Device,
    DriverFacts,
    FactsFile,
    Folder,
    HostsLine,
    Interface,
    Limits,
    LinkRate,
    MeshFacts,
    NodeFacts,
    PolicyRule,
    RdmaFacts,
    RdmaPort,
    Resolution,
    TableRoute,
    encode,
)
from distdoctor.session.baseline import changes, with_changes, with_own_changes
from tests.facts_builder import (
    CHECKS,
    blocking,
    healthy,
    met,
    node,
    with_host,
    with_identity,
    with_meeting,
    with_mesh,
    with_network,
    with_plan,
    with_variables,
)


def since(before: NodeFacts, now: NodeFacts) -> list[str]:
    """Return what is told of the second node, without its name."""
    first = healthy(2)[0]
    told = changes(build((first, now)).nodes, (first, before))
    assert all(line.startswith("host1, since the baseline: ") for line in told)
    return [line.partition(": ")[2] for line in told]


def interface(**changes: Any) -> tuple[Interface, ...]:
    return (Interface("eth0", **{"addresses": ("10.77.0.11",), "prefix_lengths": (24,), "mtu": 9000, **changes}),)


ROUTE = TableRoute("0.0.0.0/0", "10.77.0.1", "eth0")


def test_an_equal_run_has_nothing_to_tell() -> None:
    facts = healthy(2)
    assert changes(build(facts).nodes, facts) == changes(build(facts).nodes, ()) == ()


def test_what_differs_from_run_to_run_does_not_count() -> None:
    before = healthy(2)[1]
    now = replace(with_identity(before, pid=9, boot_id="another", netns="net:[9]", torch_seconds=9.0), started_at=9e9)
    now = with_meeting(with_plan(now, master_port=40000, run_id="job8"), waited=40.0)
    now = with_variables(now, MASTER_PORT="40000", RANK="1", NCCL_COMM_ID="10.0.0.1:9", TORCHELASTIC_RUN_ID="8")
    now = with_host(now, limits=Limits(pids_used=99, threads=5000, memory_used=1 << 30))
    assert since(with_host(before, limits=Limits()), now) == []


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (lambda f: f, lambda f: with_identity(f, torch="2.14.0"), "torch: 2.13.0, now 2.14.0"),
        (lambda f: with_variables(f, NCCL_SOCKET_IFNAME="eth0"), lambda f: f, "NCCL_SOCKET_IFNAME: eth0, now not set"),
        (
            lambda f: f,
            lambda f: with_variables(f, LD_LIBRARY_PATH="/opt/hpcx/lib"),
            "LD_LIBRARY_PATH: not set, now /opt/hpcx/lib",
        ),
        (
            lambda f: with_host(f, interfaces=interface()),
            lambda f: with_host(f, interfaces=interface(mtu=1500)),
            "MTU of eth0: 9000, now 1500",
        ),
        (
            lambda f: with_host(f, interfaces=interface()),
            lambda f: with_host(f, interfaces=()),
            "interface eth0 is gone",
        ),
        (
            lambda f: with_host(f, limits=Limits(open_files=1 << 20)),
            lambda f: with_host(f, limits=Limits(open_files=1024)),
            "open files: 1048576, now 1024",
        ),
        (
            lambda f: f,
            lambda f: with_network(f, firewall=blocking("tcp dport 29500 drop")),
            "what the packet filter blocks: input input policy accept tcp dport 29500 drop is new",
        ),
        (
            lambda f: with_mesh(f, rate_median=1.2e9),
            lambda f: with_mesh(f, rate_median=1.1e8),
            "the usual link: 1,200 MB/s, now 110 MB/s",
        ),
        (
            lambda f: with_identity(f, kernel="6.1.0-31", libc="glibc 2.36"),
            lambda f: with_identity(f, kernel="6.1.0-37", libc="glibc 2.36"),
            "kernel: 6.1.0-31, now 6.1.0-37",
        ),
        (
            lambda f: with_host(f, sysctls={"net.core.somaxconn": "4096", "net.ipv4.tcp_sack": "1"}),
            lambda f: with_host(f, sysctls={"net.core.somaxconn": "128"}),
            "net.core.somaxconn: 4096, now 128",
        ),
        (
            lambda f: with_host(f, interfaces=interface(speed=25000)),
            lambda f: with_host(f, interfaces=interface(speed=1000)),
            "speed of eth0 (Mbit/s): 25000, now 1000",
        ),
        (
            lambda f: with_host(f, interfaces=interface(speed=100)),
            lambda f: with_host(f, interfaces=interface(speed=100, half_duplex=True)),
            "eth0 is half duplex: False, now True",
        ),
        (
            lambda f: with_host(f, limits=Limits()),
            lambda f: with_host(f, limits=Limits(memory=1 << 30)),
            "memory of the container (bytes): none, now 1073741824",
        ),
        (
            lambda f: replace(f, driver=DriverFacts("nvml", module="570.86")),
            lambda f: replace(f, driver=DriverFacts("nvml", module="580.65")),
            "GPU driver: module: 570.86, now 580.65",
        ),
        (
            lambda f: replace(f, rdma=RdmaFacts((RdmaPort("mlx5_0", 1, "ACTIVE", rate=400.0),))),
            lambda f: replace(f, rdma=RdmaFacts((RdmaPort("mlx5_0", 1, "DOWN", rate=400.0),))),
            "RDMA ports: mlx5_0:1 ACTIVE 400 Gb/s is gone, mlx5_0:1 DOWN 400 Gb/s is new",
        ),
        (
            lambda f: with_network(f, routes=(ROUTE,)),
            lambda f: with_network(f, routes=(replace(ROUTE, gateway="10.77.0.2"),)),
            "routes: 0.0.0.0/0 via 10.77.0.1 eth0 is gone, 0.0.0.0/0 via 10.77.0.2 eth0 is new",
        ),
        (
            lambda f: with_host(f, interfaces=interface()),
            lambda f: with_host(f, interfaces=interface(addresses=("10.78.0.11",))),
            "addresses of eth0: 10.77.0.11, now 10.78.0.11",
        ),
    ],
)
def test_what_changed_is_told(before: Any, now: Any, said: str) -> None:
    facts = healthy(2)[1]
    assert since(before(facts), now(facts)) == [said]


CARDS = tuple(Device(number, "H200", power_limit=700) for number in range(8))


def devices(facts: NodeFacts, *cards: Device) -> NodeFacts:
    return replace(facts, driver=DriverFacts("nvml", devices=cards))


def test_a_gpu_that_is_gone_is_one_line() -> None:
    before = healthy(2)[1]
    assert since(devices(before, *CARDS), devices(before, *CARDS[:7])) == ["number of GPUs: 8, now 7"]
    unknown = [replace(card, power_limit=None) for card in CARDS]
    assert since(devices(before, *unknown), devices(before, *CARDS)) == []
    lower = (replace(CARDS[1], power_limit=300), CARDS[0])
    assert since(devices(before, *CARDS[:2]), devices(before, *lower)) == ["GPUs: power limit: 700 700, now 300 700"]


def test_of_two_nodes_on_one_host_each_is_compared_with_itself() -> None:
    first, second = node("host0", 0), with_variables(node("host0", 1, pid=1001), GLOO_SOCKET_IFNAME="eth1")
    second = with_host(with_plan(second, nproc_per_node=4), interfaces=interface())
    before = met(first, second)
    assert changes(build(before).nodes, before) == ()
    now = (before[0], with_variables(before[1], GLOO_SOCKET_IFNAME="eth0"))
    assert changes(build(now).nodes, before) == ("host0#1, since the baseline: GLOO_SOCKET_IFNAME: eth1, now eth0",)


def test_cards_of_containers_that_come_and_go_are_no_change() -> None:
    def with_cards(*names: str) -> NodeFacts:
        facts = with_network(healthy(2)[1], strict=("eth0", *names))
        return with_host(facts, interfaces=(*interface(), *(Interface(name, ("10.9.0.1",), (24,)) for name in names)))

    assert since(with_cards("veth12ab", "cilium_host"), with_cards("veth34cd", "nodelocaldns")) == []
    assert since(with_cards(), with_network(with_cards(), strict=())) == [
        "interfaces whose rp_filter is strict: eth0 is gone"
    ]


def test_rules_of_routing_are_compared_where_the_table_is_too_long_to_be_kept() -> None:
    before = with_network(healthy(2)[1], routes=None)
    now = with_network(before, policy=(PolicyRule(4, "fwmark 0x1 lookup 100"),))
    assert since(before, now) == ["rules of routing: fwmark 0x1 lookup 100 is new"]


def leased(name: str, address: str, limits: Limits | None = None) -> NodeFacts:
    """A host that calls itself so, with that address, by name and by a line of /etc/hosts."""
    facts = with_identity(healthy(2)[1], hostname=name)
    return with_host(
        facts,
        own_name=Resolution(name, (address,)),
        interfaces=interface(addresses=(address,)),
        hosts_lines=(HostsLine(3, f"{address} {name}"),),
        limits=limits or Limits(),
    )


def test_another_lease_container_and_start_are_no_changes() -> None:
    first, before = healthy(2)[0], leased("c0ffee", "10.77.0.11", Limits(threads_max=96365, processes=48182))
    now = leased("decade", "10.77.0.12", Limits(threads_max=96299, processes=48150))
    assert changes(build((first, now)).nodes, (first, before)) == ()  # the same machine
    anew = with_identity(now, boot_id="another")
    told = changes(build((first, anew)).nodes, (first, before))
    assert told == ("decade: the baseline has no facts of this host",)
    assert changes(build((with_identity(first, hostname="bead"), anew)).nodes, (first, before)) == ()


def test_an_address_that_the_master_is_looked_for_at_is_told_where_it_is_gone() -> None:
    before = with_plan(leased("host1", "10.77.0.11"), master_addr="10.77.0.11")
    now = with_plan(leased("host1", "10.77.0.12"), master_addr="10.77.0.11")
    assert since(before, now) == ["addresses of eth0: 10.77.0.11, now 10.77.0.12"]


def test_another_master_is_told_where_it_was_not_reached() -> None:
    before = healthy(2)[1]
    now = with_plan(before, master_addr="10.77.0.99")
    assert since(before, now) == []
    alone = with_meeting(now, joined=False)
    assert since(before, alone) == ["--master-addr: 10.77.0.10, now 10.77.0.99"]


def test_a_busy_host_measures_no_link() -> None:
    before = with_mesh(healthy(2)[1], rate_median=1.2e9)
    now = with_mesh(before, rate_median=1.1e8)
    for busy in (with_mesh(now, busy=1.0), with_mesh(now, rates=(LinkRate("host0", 1.1e8, 1.1e9),))):
        assert since(before, busy) == []
    assert since(with_mesh(before, busy=1.0), now) == []


def test_each_node_may_have_its_own_baseline() -> None:
    """Each host keeps its facts in a file of its own; node 0's report is told on each."""
    before = healthy(2)
    now = tuple(with_identity(one, torch="2.14.0") for one in before)
    report = with_changes(diagnose(now, CHECKS), now, before[:1])
    assert not [note for note in report.notes if "host1" in note]
    told = with_own_changes(report, now[1], before[1:])
    assert told.notes[-1] == "host1, since the baseline: torch: 2.13.0, now 2.14.0"
    assert with_own_changes(told, now[1], before[1:]) == told == with_own_changes(told, now[1], ())


def test_what_was_not_looked_at_is_no_change() -> None:
    facts = healthy(2)[1]
    blind = replace(
        facts, host=None, network=None, mesh=MeshFacts(), ranks=(), identity=replace(facts.identity, cuda="12.8")
    )
    assert since(blind, facts) == since(facts, blind) == []


def test_a_host_that_the_baseline_lacks_is_named() -> None:
    first, second, third = healthy(3)
    told = ("host2: the baseline has no facts of this host",)
    assert changes(build((first, second, third)).nodes, (first, second)) == told


def test_a_change_alone_is_no_reason_for_a_verdict() -> None:
    before = healthy(2)
    now = tuple(with_identity(one, torch="2.14.0") for one in before)
    report = with_changes(diagnose(now, CHECKS), now, before)
    assert report.verdict == diagnose(now, CHECKS).verdict
    assert [note for note in report.notes if "torch: 2.13.0, now 2.14.0" in note] == list(report.notes)[-2:]


def test_the_command_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = healthy(2)
    for name, ones in (("then", facts), ("now", tuple(with_identity(one, python="3.12.0") for one in facts))):
        (tmp_path / f"{name}.json").write_bytes(encode(FactsFile(ones, __version__)))
    run(["diagnose", "--json", "--baseline", str(tmp_path / "then.json"), str(tmp_path / "now.json")])
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert [note for note in notes if "since the baseline" in note] == [
        f"host{n}, since the baseline: python: 3.11.2, now 3.12.0" for n in range(2)
    ]
    assert run(["diagnose", "--baseline", str(tmp_path / "none.json"), str(tmp_path / "now.json")]) == 2


def test_a_home_that_moved_is_told_and_a_folder_of_the_job_is_not() -> None:
    def folders(home: str, temporary: str) -> NodeFacts:
        found = (Folder("HOME", home, filesystem="nfs4"), Folder("TMPDIR", temporary, filesystem="tmpfs"))
        return with_host(healthy(2)[1], folders=found)

    assert since(folders("/home/ann", "/tmp/7"), folders("/root", "/tmp/8")) == ["HOME: /home/ann, now /root"]


def test_a_cache_that_was_given_a_folder_is_told() -> None:
    home = Folder("HOME", "/home/ann")
    before, now = (with_host(healthy(2)[1], folders=(home, *more)) for more in ((), (Folder("HF_HOME", "/data/hf"),)))
    assert since(before, now) == ["HF_HOME: no folder of its own, now /data/hf"]
    assert since(now, before) == ["HF_HOME: /data/hf, now no folder of its own"]
    assert since(with_host(before, folders=None), now) == since(with_identity(before, distdoctor="0"), now)[1:] == []


def test_a_limit_on_the_size_of_files_is_told() -> None:
    before, now = (with_host(healthy(2)[1], limits=Limits(file_size=size)) for size in (-1, 1024))
    assert since(before, now) == ["file size (bytes): unlimited, now 1024"]


def test_one_container_is_compared_whatever_it_is_called() -> None:
    before = healthy(1)[0]
    now = with_variables(with_identity(before, hostname="pod-x8f2"), NCCL_DEBUG="INFO")
    assert changes(build((now,)).nodes, (before,)) == (
        "pod-x8f2, since the baseline of host0: NCCL_DEBUG: not set, now INFO",
    )
