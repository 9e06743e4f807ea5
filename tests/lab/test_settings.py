"""Settings on one node only: what plain PyTorch does with them on the same hosts, and what distdoctor says of it."""

from __future__ import annotations

import pytest

from tests.lab.faults import together
from tests.lab.faults.launch import variable
from tests.lab.faults.links import second_network
from tests.lab.faults.packet_filter import nft
from tests.lab.harness import plain
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.launch import Fault, Launch
from tests.lab.harness.runner import run

pytestmark = [pytest.mark.timeout(150), pytest.mark.long]
TWO = second_network("10.99.0.10/24", "10.99.0.11/24", joined=True)
IFNAME = "GLOO_SOCKET_IFNAME"
FATAL: dict[str, Fault] = {
    "DETAIL": variable("TORCH_DISTRIBUTED_DEBUG", "detail", 1),
    "a barrier after init": variable("TORCH_DIST_INIT_BARRIER", "1", 0),
    "lazy": variable("TORCH_GLOO_LAZY_INIT", "1", 1),
    "ranks as numbers": variable("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "1", 1),
    "another transport": variable("GLOO_DEVICE_TRANSPORT", "TCP_TLS", 1),
    "two interfaces": together(TWO, variable(IFNAME, "eth0,eth1", 1)),
    "a second interface that is missing": variable(IFNAME, "eth0,eth7", 1),
    "a space between interfaces": together(TWO, variable(IFNAME, "eth0,eth1", 0), variable(IFNAME, "eth0, eth1", 1)),
}
HARMLESS: dict[str, Fault] = {
    "seven of them": together(
        variable("TORCH_DISTRIBUTED_DEBUG", "INFO", 1),
        variable("TORCH_GLOO_LAZY_INIT", "0", 1),
        variable("GLOO_DEVICE_TRANSPORT", "TCP", 1),
        variable("GLOO_DISABLE_CONNECTION_RETRIES", "1", 1),
        variable("GLOO_ENABLE_STORE_V2_API", "1", 1),
        variable("USE_LIBUV", "0", 1),
        variable(IFNAME, "eth0,", 1),
    ),
    "two interfaces, the other way round": together(
        TWO, variable(IFNAME, "eth0,eth1", 0), variable(IFNAME, "eth1,eth0", 1)
    ),
}


def chosen(faults: dict[str, Fault], *always: str) -> list[object]:
    """The names of all; only those of ``always`` are run each time."""
    return [pytest.param(name, marks=[] if name in always else [pytest.mark.scoreboard]) for name in faults]


def verdicts(fault: Fault) -> tuple[bool, set[str], set[str]]:
    """(whether plain PyTorch runs, the verdicts of distdoctor, the checks that it names)."""
    with Cluster(2) as cluster:
        launch = Launch(cluster, check_flags=("--wait", "30"))
        fault(launch)
        truth = plain.runs(launch)
        reports = [one.report for one in run(launch, diagnose=False).ended if one.report]
    checks = {finding["check"] for report in reports for finding in report["findings"]}
    return truth, {report["verdict"] for report in reports}, checks


@pytest.mark.parametrize("name", chosen(FATAL, "DETAIL"))
def test_what_breaks_a_job_is_a_failure(name: str) -> None:
    truth, said, checks = verdicts(FATAL[name])
    assert not truth
    assert said == {"fail"}
    assert checks & {"environment/setting-mismatch", "gloo/interface-not-found"}


@pytest.mark.parametrize("name", chosen(HARMLESS, "seven of them"))
def test_what_breaks_no_job_is_no_finding(name: str) -> None:
    truth, said, checks = verdicts(HARMLESS[name])
    assert truth
    assert said == {"pass"}
    assert not checks


@pytest.mark.scoreboard
def test_a_limit_of_new_connections_that_only_delays_a_job_is_a_warning() -> None:
    """The kernel sends a SYN that is dropped again, and the job of 3 x 2 ranks starts some 10 s later."""
    with Cluster(3) as cluster:
        launch = Launch(cluster, check_flags=("--wait", "30"))
        nft(0, 'iifname "lo" accept', "tcp flags syn limit rate over 1/second burst 2 packets drop")(launch)
        assert plain.runs(launch, per_host=2, seconds=300, limit=60)
        reports = [one.report for one in run(launch, diagnose=False).ended if one.report]
    assert {report["verdict"] for report in reports} == {"warn"}
    found = {(finding["check"], finding["severity"]) for report in reports for finding in report["findings"]}
    assert found == {("network/connection-limit", "warn")}
