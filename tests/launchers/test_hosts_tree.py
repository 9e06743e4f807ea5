"""``check --hosts --tree``: most hosts are reached over others, over real ssh, and all is told as if they were not.

Of seven hosts host0 is called by itself, host2 and host3 over host1, host5 and host6 over host4.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.report_schema import report_in
from tests.lab.harness.host import PRIVATE, Process
from tests.launchers.harness import sshd
from tests.launchers.harness.site import Site, unfit
from tests.launchers.test_hosts import DISTDOCTOR, GONE_SECONDS, SYN_SENT, at_work, findings, hold, within

HOSTS = 7
FINDS_SSH = f"SetEnv PATH={sshd.PROGRAM_FOLDER}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
"""A relay is to read the configuration of the lab, too."""
CAME_FROM = f"{PRIVATE}/lab/came-from"
TELLS_ITS_WAY = f"echo ${{SSH_CONNECTION%% *}} >>{CAME_FROM}; exec {sys.executable} -m distdoctor remote"


@pytest.fixture(scope="module")
def seven() -> Iterator[Site]:
    """Seven nodes with sshd, from each of which ssh leads to the others."""
    if reason := unfit(*sshd.PROGRAMS):
        pytest.skip(reason)
    with Site(HOSTS) as site:
        for host in site.nodes:
            site.sshd.restart(host, FINDS_SSH)
        yield site


@pytest.fixture
def site(seven: Site) -> Iterator[Site]:
    """The same; afterwards each sshd is as it was, and nothing is left at work."""
    yield seven
    for host in seven.nodes:
        host.anchor.path(CAME_FROM).unlink(missing_ok=True)
        seven.sshd.mend(host)
        seven.sshd.restart(host, FINDS_SSH)
    assert within(5, lambda: not at_work(seven)), at_work(seven)


def checked(site: Site, *flags: str) -> tuple[int, Any]:
    """The status of a check up to the network, and its report."""
    done = site.run([*DISTDOCTOR, "check", "--json", "--until", "network", "--hosts", f"host[0-{HOSTS - 1}]", *flags])
    return done.returncode, report_in(done.stdout or done.stderr)


def ways(site: Site) -> dict[str, set[str]]:
    """Each host, and by whom it was called."""
    names = {host.address: host.name for host in site.cluster}
    came = {host.name: host.anchor.path(CAME_FROM).read_text().split() for host in site.nodes}
    return {name: {names[address] for address in addresses} for name, addresses in came.items()}


def told(report: Any) -> list[tuple[str, list[str], list[str], list[str]]]:
    """What was found, as it is told, without how long it took."""
    return [
        (
            one["check"],
            one["nodes"],
            [re.sub(r"after [\d.]+ s", "", line) for line in one["evidence"]],
            [fix["text"] for fix in one["fixes"]],
        )
        for one in report["findings"]
    ]


def test_most_hosts_are_reached_over_others_and_it_is_one_verdict(site: Site) -> None:
    status, report = checked(site, "--tree", "--setup", TELLS_ITS_WAY)
    assert (status, report["verdict"], report["findings"]) == (0, "pass", [])
    assert [(node["name"], node["arrived"]) for node in report["nodes"]] == [(name, True) for name in site.names]
    assert ways(site) == {
        "host0": {"login"},
        "host1": {"login"},
        "host2": {"host1"},
        "host3": {"host1"},
        "host4": {"login"},
        "host5": {"host4"},
        "host6": {"host4"},
    }


def test_what_is_wrong_is_told_in_the_same_words(site: Site) -> None:
    """A host that is down, one whose key has changed, one that has another address for node 0, and a relay that has no
    key to any of its own."""
    site.sshd.restart(site.nodes[4], "")  # it reads no configuration of the lab, where the key stands
    site.sshd.stop(site.nodes[6])
    site.sshd.new_key(site.nodes[3])
    site.sshd.restart(site.nodes[3], FINDS_SSH)
    other = site.nodes[2]
    known = other.hosts_file
    other.hosts_file = known.replace(site.nodes[0].address, site.nodes[1].address)
    try:
        flat, over = (checked(site, how, "--wait", "5") for how in ("--no-tree", "--tree"))
    finally:
        other.hosts_file = known
    assert sorted((check, nodes) for check, nodes, _, _ in told(flat[1])) == [
        ("launch/host-unreachable", ["host3"]),
        ("launch/host-unreachable", ["host6"]),
        ("network/master-resolves-differently", ["host2"]),
    ]
    assert (over[0], over[1]["verdict"], told(over[1])) == (flat[0], flat[1]["verdict"], told(flat[1]))
    assert [node["arrived"] for node in over[1]["nodes"]] == [node["arrived"] for node in flat[1]["nodes"]]


@pytest.fixture
def held(site: Site) -> Iterator[Site]:
    """The site, whose nodes do not come to an end by themselves."""
    hold(site.nodes[0])
    yield site
    site.nodes[0].inside("nft delete table inet lab")


def started(site: Site, *flags: str) -> Process:
    """A check of all hosts, of which those over relays have begun their part."""
    process = site.popen([*DISTDOCTOR, "check", "--json", "--tree", "--hosts", f"host[0-{HOSTS - 1}]", *flags])
    tried: set[str] = set()

    def everywhere() -> bool:
        tried.update(host.name for host in site.nodes if SYN_SENT in host.bound_ports().values())
        return tried >= {"host2", "host3", "host5", "host6"}

    if not within(30, everywhere):
        process.kill()
        pytest.fail(f"only {tried}: {process.communicate(timeout=5)}")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_ends_here_ends_on_all_within_the_same_time(held: Site, number: signal.Signals) -> None:
    """On the relays and behind them, whether there is time to say so or not."""
    process = started(held, "--until", "network")
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert within(GONE_SECONDS, lambda: not at_work(held)), at_work(held)
    if number == signal.SIGINT:
        report = json.loads(out)
        assert report["notes"][0].startswith("interrupted by SIGINT"), err
        assert "launch/connection-lost" not in findings(report), err
        assert [node["arrived"] for node in report["nodes"]] == [True] * HOSTS, err


@pytest.mark.scoreboard
def test_a_relay_that_is_lost_in_the_middle_is_no_other_hosts_fault(held: Site) -> None:
    """Its sshd goes, and all that is open through it: the run begins anew, in which it alone is not reached."""
    process = started(held, "--until", "network", "--wait", "6")
    held.sshd.stop(held.nodes[1], connections=True)
    out, err = process.communicate(timeout=90)
    report = json.loads(out)
    blamed = {name for one in report["findings"] if one["check"].startswith("launch/") for name in one["nodes"]}
    assert blamed == {"host1"} and "launch/host-unreachable" in findings(report), err
    assert [node["name"] for node in report["nodes"] if not node["arrived"]] == ["host1"], err
