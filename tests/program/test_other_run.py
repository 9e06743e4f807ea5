"""A check that is started where another job's check has the port."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.hostile import FURTHER, TOKEN
from tests.helpers.runs import check, ended, failures, listens, node, started
from tests.helpers.servers import unused_port

OTHER = "another token of a job"


def one(port: int) -> tuple[str, ...]:
    return ("--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(port))


def taken(report: dict[str, Any]) -> dict[str, Any]:
    """The only root: that another run has the port."""
    (root,) = (f for f in report["findings"] if f["because_of"] is None and f["severity"] == "fail")
    assert root["id"] == "network/port-in-use", root
    assert root["summary"].startswith("Another run of distdoctor check holds port ")
    return dict(root)


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param(("", ""), id="no tokens"),
        pytest.param((TOKEN, OTHER), id="two", marks=FURTHER),
        pytest.param((TOKEN, ""), id="theirs", marks=FURTHER),
        pytest.param(("", TOKEN), id="ours", marks=FURTHER),
    ],
)
def test_one_node_names_it_at_once_and_another_port_cures_it(tokens: tuple[str, str]) -> None:
    """The other is a job of two nodes, which waits for its second one all the while, and is not disturbed."""
    port = unused_port()
    with started(*node(0, port, "--wait", "60"), DISTDOCTOR_TOKEN=tokens[0]) as other:
        listens(port)
        status, report = check(*one(port), "--wait", "30", DISTDOCTOR_TOKEN=tokens[1])
        root = taken(report)
        assert status == 1 and "pid" in " ".join(root["evidence"])
        (flags,) = (fix["flags"] for fix in root["fixes"] if fix["option"] == 1)
        status, report = check(*one(int(flags["--master-port"])), DISTDOCTOR_TOKEN=tokens[1])
        assert (status, failures(report)) == (0, [])
        with started(*node(1, port), DISTDOCTOR_TOKEN=tokens[0]) as second:
            results = [ended(other), ended(second)]
    assert [(status, failures(report)) for status, report in results] == [(0, []), (0, [])]


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param((TOKEN, OTHER), id="two", marks=FURTHER),
        pytest.param((TOKEN, ""), id="theirs"),
        pytest.param(("", TOKEN), id="ours", marks=FURTHER),
    ],
)
def test_node_0_of_two_names_it_where_the_tokens_tell_the_runs_apart(tokens: tuple[str, str]) -> None:
    port = unused_port()
    with started(*node(0, port, "--wait", "60"), DISTDOCTOR_TOKEN=tokens[0]):
        listens(port)
        status, report = check(*node(0, port, "--wait", "30"), DISTDOCTOR_TOKEN=tokens[1])
    assert status == 1
    assert taken(report)["fixes"][0]["flags"]["--master-port"] != str(port)


def test_looking_only_it_is_named_too_and_the_printed_port_is_free() -> None:
    port = unused_port()
    with started(*node(0, port, "--wait", "60")):
        listens(port)
        status, report = check(*node(0, port, "--until", "network"))
        assert status == 1
        (flags,) = (fix["flags"] for fix in taken(report)["fixes"] if fix["option"] == 1)
        status, report = check(*node(0, int(flags["--master-port"]), "--until", "network"))
        assert (status, failures(report)) == (0, [])
        status, report = check(*node(1, port, "--until", "network"))
        assert (status, failures(report)) == (0, [])
