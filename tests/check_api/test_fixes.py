"""The commands of fixes work in a shell, and nothing of what a file or a node says is run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from distdoctor.check_api.fixes import (
    READ_HOSTS_FILE,
    append_hosts_line,
    correct_own_hosts_line,
    open_firewall_fix,
    set_launch_fix,
)
from distdoctor.model.cluster import build
from distdoctor.model.facts import Firewall, HostsLine, TableRoute
from distdoctor.probes.network.names import sources
from tests.facts_builder import loopback_name, node, with_host_lines, with_network, with_plan


@pytest.mark.parametrize(
    ("name", "source", "env", "flags"),
    [
        ("nnodes", "--nnodes", {}, {"--nnodes": "4"}),
        ("nnodes", "default", {}, {"--nnodes": "4"}),
        ("nnodes", "PET_NNODES", {"PET_NNODES": "4"}, {}),
        ("nproc_per_node", "PET_NPROC_PER_NODE", {"PET_NPROC_PER_NODE": "4"}, {}),
        ("nproc_per_node", "LOCAL_WORLD_SIZE", {}, {"--nproc-per-node": "4"}),  # torchrun does not read that
        ("world_size", "WORLD_SIZE", {"WORLD_SIZE": "4"}, {}),
    ],
)
def test_a_launch_setting_is_set_where_it_came_from(
    name: str, source: str, env: dict[str, str], flags: dict[str, str]
) -> None:
    one = build([with_plan(node("host0"), sources={name: source})]).nodes[0]
    fix = set_launch_fix(one, "four", name, 4, option=2)
    assert (fix.nodes, fix.option, fix.env, fix.flags) == (("host0",), 2, env, flags)


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


def test_the_files_come_first_in_nsswitch(tmp_path: Path) -> None:
    file = tmp_path / "nsswitch.conf"
    for line in ("hosts: dns", "hosts:\t\tdns [!UNAVAIL=return]", "  hosts:dns"):
        file.write_text(f"passwd: files\n{line}\nnetworks: files # hosts: x\n")
        before = sources(str(file))
        subprocess.run(["sh", "-ec", READ_HOSTS_FILE.replace("/etc/nsswitch.conf", str(file))], check=True)
        assert before == ("dns",) and sources(str(file)) == ("files", "dns")
        assert file.read_text().splitlines()[0::2] == ["passwd: files", "networks: files # hosts: x"]


def test_what_no_host_blocks_may_be_the_routers_between_them() -> None:
    """A reader at night looks on the machine that is named."""
    entries = (TableRoute("10.77.0.0/24", None, "eth0"), TableRoute("10.78.0.0/24", "10.77.0.12", "eth0"))
    one = build([with_network(node("host0"), routes=entries, firewall=Firewall(True))]).nodes[0]
    far = open_firewall_fix(one, "host0", "input", ["10.78.0.11"], 29500)
    near = open_firewall_fix(one, "host0", "input", ["10.77.0.11"], 29500)
    assert "(router 10.77.0.12, security group, switch)" in far.text
    assert "(security group, switch)" in near.text
