"""Tests of whom the errors of ranks are blamed on: the peer that all of them name, or whose own error it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Limits, NodeFacts
from tests.checks.row import Facts
from tests.facts_builder import failing, healthy, judged, loopback_name, with_host

CONNECT = (
    "RuntimeError: Gloo connectFullMesh failed with [/__w/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:150] "
    "timed out connecting: SO_ERROR: {how}, remote=[{at}]:41904"
)
READ = "RuntimeError: [/__w/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Read error [{at}]:40123: {how}"
WAITED = "Timed out waiting 15000ms for recv operation to complete"
KILLED = "ended after 3 s: another rank failed"


def refused(at: str) -> str:
    return CONNECT.format(how="Connection refused", at=at)


def unanswered(at: str) -> str:
    return CONNECT.format(how="Connection timed out", at=at)


def reset(at: str) -> str:
    return READ.format(how="Connection reset by peer", at=at)


def said(stage: str, *texts: str | None, of: int = 3) -> Facts:
    """Nodes whose ranks failed with these texts; None: ``KILLED``, because they were ended because of the others."""
    facts: list[NodeFacts] = []
    for one, text in zip(healthy(of), texts, strict=True):
        facts.append(failing(one, stage, text or KILLED, **({} if text else {"killed": True})))
    return tuple(facts)


HOST2 = "10.77.0.12"
BLAMED: dict[str, tuple[tuple[str | None, ...], tuple[str, ...], str]] = {
    "two name the third": ((refused(HOST2), refused(HOST2), None), ("host2",), "all"),
    "two name the third, in vain": ((unanswered(HOST2), unanswered(HOST2), None), ("host2",), "all"),
    "two name the third, which names one of them": (
        (reset(HOST2), reset(HOST2), reset("10.77.0.10")),
        ("host2",),
        "all",
    ),
    "one names another that answered": ((refused(HOST2), None, None), ("host2",), "all"),
    "one names another that did not": ((unanswered(HOST2), None, None), ("host0", "host2"), "one-of"),
    "each of two names the other": ((reset("10.77.0.11"), reset("10.77.0.10"), None), ("host0", "host1"), "one-of"),
    "each names the next": (
        (reset("10.77.0.11"), reset(HOST2), reset("10.77.0.10")),
        ("host0", "host1", "host2"),
        "one-of",
    ),
    "one has an error of its own": ((reset(HOST2), reset(HOST2), "some error"), ("host2",), "all"),
    "one has an error of its own, the others name each other": (
        (reset("10.77.0.11"), "Resource temporarily unavailable", reset("10.77.0.10")),
        ("host1",),
        "all",
    ),
    "the store lacks a rank's key": (
        ("wait timeout after 5000ms, keys: /distdoctor/1/gloo/0//cpu//0/4", None, None),
        ("host0", "host2"),
        "one-of",
    ),
    "the store lacks the same rank's key for two": (
        (
            "wait timeout after 5000ms, keys: /gloo/0//cpu//0/5",
            "wait timeout after 5000ms, keys: /gloo/0//cpu//0/4",
            None,
        ),
        ("host2",),
        "all",
    ),
    "time-outs that name nobody": ((WAITED, WAITED, None), ("host0", "host1"), "one-of"),
    "a time-out that names nobody": ((WAITED, None, None), ("host0", "host1", "host2"), "one-of"),
    "NCCL names it": (
        (f"socketStartConnect: Connect to {HOST2}<40123> failed : Connection refused", None, None),
        ("host2",),
        "all",
    ),
    "local is not remote": (
        (f"Connection closed by peer, local=[10.77.0.10]:1, remote=[{HOST2}]:2", None, None),
        ("host2",),
        "all",
    ),
}


@pytest.mark.parametrize("stage", ["gloo", "collective", "barrier"])
@pytest.mark.parametrize("name", BLAMED)
def test_the_blame_goes_to_whom_the_errors_name(stage: str, name: str) -> None:
    texts, nodes, blame = BLAMED[name]
    (root,) = judged(*said(stage, *texts)).roots
    assert root.check == {"gloo": "gloo/init-failed", "barrier": "barrier/rank-missing"}.get(stage, f"{stage}/failed")
    assert (root.nodes, root.blame) == (nodes, blame)
    assert root.fixes and all(set(fix.nodes) <= set(nodes) for fix in root.fixes)


def test_the_store_names_its_host() -> None:
    text = "The client socket has timed out after 5000ms while trying to connect to (host0, 29500)."
    (root,) = judged(*said("store", None, text, text)).roots
    assert (root.id, root.nodes, root.blame) == ("store/failed", ("host0",), "all")


def test_the_summary_says_who_reports_it() -> None:
    (root,) = judged(*said("gloo", refused(HOST2), refused(HOST2), None)).roots
    assert "with host2 (10.77.0.12), according to host0 and host1" in root.summary
    assert root.ranks == (4, 5)
    assert ("host0", "host2") in root.links


def test_a_loopback_address_is_that_of_whoever_offers_it() -> None:
    a, b = healthy(2)
    a, b = failing(a, "gloo", refused("127.0.1.1")), failing(loopback_name(b), "gloo", KILLED, killed=True)
    failed = next(f for f in judged(a, b).findings if f.check == "gloo/init-failed")
    assert (failed.nodes, failed.because_of) == (("host1",), "gloo/loopback-address")


# -- remedies by the errors' own words --------------------------------------------------------------------------------

COMPARE = "an interface that every other node reaches"


def remedy(text: str, **changes: object) -> tuple[str, ...]:
    a, b = healthy(2)
    b = failing(with_host(b, **changes) if changes else b, "gloo", text)
    (root,) = judged(failing(a, "gloo", KILLED, killed=True), b).roots
    assert (root.nodes, root.blame) == (("host1",), "all")
    return tuple(" ".join((fix.text, *fix.commands)) for fix in root.fixes)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("RuntimeError: Resource temporarily unavailable", "processes and threads"),
        ("DistBackendError: File name too long", "shorten the path"),
        ("RuntimeError: makeDeviceForHostname(): unsupported gloo device", "transport"),
        ("RuntimeError: Cannot allocate memory", "memory"),
        ("RuntimeError: No space left on device", "df -h"),
        ("RuntimeError: some error", "Fix the quoted error"),
    ],
)
def test_an_error_that_is_of_no_connection_gets_no_advice_about_addresses(text: str, says: str) -> None:
    found = remedy(text)
    assert says in found[0] and COMPARE not in "".join(found)


def test_a_failed_connection_does() -> None:
    (fix,) = judged(*said("gloo", refused(HOST2), None, None)).roots[0].fixes
    assert COMPARE in fix.text and "Start with host2 (10.77.0.12)" in fix.text
    # Of a pair of addresses, though it does not speak of connections.
    assert COMPARE in remedy("[enforce fail at device.cc:285] ss1.ss_family == ss2.ss_family. 10 vs 2")[0]


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(processes=40, processes_hard=4096), "ulimit -u 4096"),
        (Limits(processes=40, processes_hard=40), "limits.conf"),
        (Limits(processes=-1, processes_hard=-1, pids_max=64), "64 processes and threads of the container"),
        (Limits(), "end leftover ranks"),
    ],
)
def test_the_limit_that_is_there_is_the_one_to_raise(limits: Limits, says: str) -> None:
    assert says in remedy("Resource temporarily unavailable", limits=limits)[0]


def test_a_host_name_of_64_letters_is_told_apart_from_a_long_path() -> None:
    a, b = healthy(2)
    b = replace(b, identity=replace(b.identity, hostname="h" * 64))
    b = failing(b, "gloo", "DistBackendError: File name too long")
    (root,) = judged(failing(a, "gloo", KILLED, killed=True), b).roots
    assert [(f.option, f.env) for f in root.fixes] == [(1, {"GLOO_SOCKET_IFNAME": "eth0"}), (2, {})]


def test_a_transport_that_torch_lacks_on_one_node_is_not_to_be_set_on_all() -> None:
    a, b = healthy(2)
    b = replace(b, variables={"GLOO_DEVICE_TRANSPORT": "TCP_TLS"})
    text = "RuntimeError: makeDeviceForHostname(): unsupported gloo device"
    (root,) = judged(failing(a, "gloo", KILLED, killed=True), failing(b, "gloo", text)).roots
    assert (root.check, root.nodes) == ("gloo/init-failed", ("host1",))
    assert [(f.nodes, f.env) for f in root.fixes] == [(("host1",), {"GLOO_DEVICE_TRANSPORT": None})]


def test_a_transport_that_torch_lacks_is_unset_where_it_is_set() -> None:
    a, b = healthy(2)
    both = [replace(one, variables={"GLOO_DEVICE_TRANSPORT": "TCP_TLS"}) for one in (a, b)]
    text = "RuntimeError: makeDeviceForHostname(): unsupported gloo device"
    (root,) = judged(*(failing(one, "gloo", text) for one in both)).roots
    assert [(f.nodes, f.env) for f in root.fixes] == [
        (("host0",), {"GLOO_DEVICE_TRANSPORT": None}),
        (("host1",), {"GLOO_DEVICE_TRANSPORT": None}),
    ]
