"""The JSON document: its field names are fixed, and it is always one valid document."""

from __future__ import annotations

import json

import pytest

from distdoctor.render.json import render

from . import reports


@pytest.mark.parametrize("name", ["healthy", "loopback", "missing", "port_in_use", "hostile", "majority"])
def test_one_document_in_ascii(name: str) -> None:
    text = render(getattr(reports, name)())
    assert text.isascii()
    assert text.endswith("}\n")
    assert json.loads(text)["schema_version"] == 1


def test_field_names_are_fixed() -> None:
    document = json.loads(render(reports.loopback()))
    assert list(document) == [
        "schema_version", "verdict", "distdoctor", "torch", "started_at", "seconds",
        "plan", "nodes", "stages", "findings", "ignored", "notes", "details", "checks", "candidates",
    ]  # fmt: skip
    assert list(document["nodes"][0]) == [
        "name", "node_rank", "arrived", "hostname", "ranks", "address", "torch", "distdoctor",
    ]  # fmt: skip
    assert list(document["stages"][0]) == ["stage", "node", "status", "seconds", "reason", "blocked_by"]
    assert list(document["findings"][0]) == [
        "id", "check", "severity", "title", "summary", "nodes", "ranks", "local_ranks", "links", "blame", "matters",
        "evidence", "because_of", "restart", "docs_url", "fixes",
    ]  # fmt: skip
    assert list(document["findings"][0]["fixes"][0]) == [
        "option", "text", "env", "flags", "commands", "nodes", "verified",
    ]  # fmt: skip


def test_values() -> None:
    document = json.loads(render(reports.loopback()))
    root, follows = document["findings"]
    assert (document["verdict"], document["plan"]["sources"]["nnodes"]) == ("fail", "--nnodes")
    assert (root["ranks"], root["because_of"], follows["because_of"]) == ([0, 1, 2, 3], None, "gloo/loopback-address")
    assert root["fixes"][0]["env"] == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert [fix["verified"] for fix in root["fixes"]] == [True, True, None, None]
    assert json.loads(render(reports.port_in_use()))["findings"][0]["fixes"][1]["env"] == {"MASTER_PORT": None}
    assert json.loads(render(reports.majority()))["findings"][0]["links"] == [["host3", "host7"]]


def test_numbers_that_json_does_not_have_are_null() -> None:
    text = render(reports.report(details={"rtt": float("nan"), "most": float("inf"), "ranks": (1, 2)}))
    assert json.loads(text)["details"] == {"rtt": None, "most": None, "ranks": [1, 2]}
