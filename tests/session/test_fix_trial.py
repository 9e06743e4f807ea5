"""Tests of which fixes the doctor tries by itself."""

from __future__ import annotations

from distdoctor.judge.engine import Judgement
from distdoctor.model.findings import Finding, Fix, Severity
from distdoctor.session.leader.stages import Choice, choose


def finding(
    check: str,
    *fixes: Fix,
    severity: Severity = "fail",
    nodes: tuple[str, ...] = ("host0", "host1"),
    because: str | None = None,
) -> Finding:
    return Finding("summary", nodes=nodes, fixes=fixes, severity=severity, check=check, id=check, because_of=because)


def chosen(*findings: Finding) -> Choice | None:
    return choose(Judgement("fail", findings))


LOOPBACK = "gloo/loopback-address"
BY_ENV = Fix("pick it", option=1, env={"GLOO_SOCKET_IFNAME": "eth0"}, nodes=("host0",))
ALSO = Fix("pick it", option=1, env={"GLOO_SOCKET_IFNAME": "ens5"}, nodes=("host1",))
HOSTS = Fix("edit /etc/hosts", option=2, commands=("sed -i s/127.0.1.1/10.0.0.1/ /etc/hosts",))


def test_each_node_gets_the_variables_of_its_own_part_of_the_option() -> None:
    assert chosen(finding(LOOPBACK, BY_ENV, ALSO, HOSTS)) == Choice(
        {LOOPBACK: 1}, {"host0": {"GLOO_SOCKET_IFNAME": "eth0"}, "host1": {"GLOO_SOCKET_IFNAME": "ens5"}}
    )


def test_a_fix_without_nodes_is_for_all_that_the_finding_blames() -> None:
    fix = Fix("unset it", env={"GLOO_SOCKET_IFNAME": None})
    found = chosen(finding("gloo/interface-not-found", fix, nodes=("host2", "host3")))
    assert found is not None
    assert found.env == {"host2": {"GLOO_SOCKET_IFNAME": None}, "host3": {"GLOO_SOCKET_IFNAME": None}}


def test_the_best_option_that_can_be_tried_is_taken() -> None:
    second = Fix("pick it", option=2, env={"GLOO_SOCKET_IFNAME": "eth1"})
    first = Fix("edit /etc/hosts", option=1, commands=("true",))
    found = chosen(finding(LOOPBACK, second, first))
    assert found is not None and found.options == {LOOPBACK: 2}


def test_what_is_more_than_variables_is_not_tried() -> None:
    assert chosen(finding(LOOPBACK, HOSTS)) is None
    assert chosen(finding(LOOPBACK, Fix("both", env={"GLOO_SOCKET_IFNAME": "eth0"}, commands=("ip link",)))) is None
    assert chosen(finding(LOOPBACK, Fix("flag", env={"GLOO_X": "1"}, flags={"--master-port": "1"}))) is None
    assert chosen(finding(LOOPBACK, BY_ENV, Fix("and this", option=1, commands=("true",)))) is None


def test_a_variable_of_the_launch_line_is_not_tried() -> None:
    assert chosen(finding("environment/master-mismatch", Fix("set it", env={"MASTER_ADDR": "host0"}))) is None
    mixed = Fix("set both", env={"GLOO_SOCKET_IFNAME": "eth0", "MASTER_ADDR": "host0"})
    assert chosen(finding(LOOPBACK, mixed)) is None


def test_nothing_is_tried_where_another_root_would_fail_the_trial_anyway() -> None:
    assert chosen(finding(LOOPBACK, BY_ENV), finding("mesh/peer-ports-blocked", Fix("open", commands=("nft",)))) is None


def test_a_root_that_only_warns_does_not_keep_it_from_trying() -> None:
    found = chosen(finding(LOOPBACK, BY_ENV), finding("host/hostname-loopback", HOSTS, severity="warn"))
    assert found is not None and found.options == {LOOPBACK: 1}


def test_what_only_follows_from_a_root_is_not_tried() -> None:
    assert chosen(finding("gloo/init-failed", BY_ENV, because=LOOPBACK)) is None


def test_two_roots_are_tried_together() -> None:
    other = finding("gloo/interface-not-found", Fix("unset", env={"GLOO_SOCKET_IFNAME": None}), nodes=("host2",))
    found = chosen(finding(LOOPBACK, BY_ENV, ALSO), other)
    assert found is not None and found.options == {LOOPBACK: 1, "gloo/interface-not-found": 1}
    assert sorted(found.env) == ["host0", "host1", "host2"]


def test_without_findings_there_is_nothing_to_try() -> None:
    assert chosen() is None
