"""store/node-lost: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import Contact, Limits, Link, MeshFacts, NodeFacts, Socket, StageFacts, StoreView
from distdoctor.model.facts.node import STOOD_STILL
from distdoctor.model.findings import Finding
from distdoctor.model.stages import stage_index
from tests.checks.gloo.test_interface_not_found import not_found
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.checks.store.test_nodes_missing import missing, uncounted
from tests.clusters.launch import problem
from tests.clusters.limits import on
from tests.clusters.links import across, cut
from tests.facts_builder import alone, failing, healthy, judged, with_host, with_meeting, with_network
from tests.job_builder import job, rank

CHECK = "store/node-lost"


def lost() -> Facts:
    a, b = healthy(2)
    return with_meeting(failing(a, "gloo", "Connection closed by peer"), lost=(b.key,)), b


def host_lost() -> Facts:
    _, b = healthy(2)
    return (with_network(with_meeting(b, host_lost=True, ended=True), master_name="host0"),)


def without_a_plan() -> Facts:
    """Its number of nodes makes no sense, and it came to the store of a node 0 that had the same to say."""
    (b,) = host_lost()
    wrong = problem("PET_NNODES", "0:2", "is not a number of nodes (N, or MIN:MAX)")
    return (replace(b, plan=replace(b.plan, nnodes=1, node_rank=0, problems=wrong)),)


def late() -> Facts:
    (b,) = host_lost()
    return (failing(b, "collective", "ended after 17.0 s: it was kept waiting", killed=True, starved=15.2),)


def unled(seconds: float = 62.0) -> Facts:
    """node 0's doctor was stopped after the gloo stage was opened; its store, and so its facts, told nothing more."""
    b = with_network(with_meeting(alone(healthy(2)[1]), unled=seconds), master_name="host0")
    return (failing(b, "gloo", "ended after 22.0 s: it did not return", killed=True),)


def stood_still(stage: str = "mesh", after: bool = False) -> Facts:
    """host1's doctor was stopped in the middle of this stage and the ranks of the others waited for its rank; or it
    went on ``after`` that stage."""
    waited = "DistStoreError: wait timeout after 20150ms, keys: /distdoctor/f64f5714022607c6/gloo/0/0//cpu//0/1"
    a, b, c = (failing(one, "gloo", waited) for one in healthy(3))
    its = StageFacts(stage, "error", 8.3, STOOD_STILL)
    before = [entry for entry in b.stages if after or stage_index(entry.stage) < stage_index(stage)]
    b = replace(b, stages=(*(entry for entry in before if entry.stage != stage), its))
    return a, b if after else replace(b, ranks=tuple(replace(rank, stages=()) for rank in b.ranks)), c


def silent_store() -> Facts:
    """All of node 0's check is stopped (Ctrl-Z): its store takes connections, and answers nothing."""
    return (with_meeting(host_lost()[0], store_silent=True),)


def no_answer() -> Facts:
    """Nobody answers for node 0 any more; its own facts are not here."""
    return (with_meeting(host_lost()[0], store_unanswered=True),)


def found_lost(*facts: NodeFacts) -> list[Finding]:
    return [f for f in judged(*facts).findings if f.check == CHECK]


def sending(remote: str, again: int) -> Socket:
    return Socket("ESTABLISHED", "10.0.0.10", 40000, remote, 41000, 4096, again)


def unacknowledged(*remotes: str, again: int = 5, **given: Any) -> Facts:
    return (job(rank(0, sockets=[sending(remote, again) for remote in remotes]), **given),)


def cut_off_under_load() -> Facts:
    """The host is slow, so that each packet was sent only twice so far; nor does distdoctor get through."""
    store = StoreView("host1", 29500, "unreached", Contact("10.0.0.11", 29500, "unreachable", 113))
    return unacknowledged("10.0.0.11", "10.0.0.12", again=1, stores=(store,), master_addr="host1")


def gone_silent(of: int) -> Facts:
    """All that goes to and comes from the last node is lost in the middle of the check, the store's connection too."""
    *others, last = cut(across(tuple(range(of - 1)), (of - 1,)), of)
    others[0] = with_meeting(others[0], lost=(last.key,))
    return (*others, with_meeting(last, host_lost=True))


ROWS = [
    Row("two lost sight of each other, and links fail", lambda: gone_silent(2), ("host0", "host1"), blame="one-of"),
    Row(
        "a job's data is not acknowledged", lambda: unacknowledged("10.0.0.11"), ("host0", "10.0.0.11"), blame="one-of"
    ),
    Row("a job's data is not acknowledged anywhere", lambda: unacknowledged("10.0.0.11", "10.0.0.12"), ("host0",)),
    Row("the same on a slow host", cut_off_under_load, ("host0",)),
    Row("node lost", lost, ("host1",), together=True),
    Row("store lost", host_lost, ("host0",)),
    Row("stood still in the mesh", stood_still, ("host1",), together=True),
    Row("nobody answers for node 0", no_answer, ("host0", "host1"), blame="one-of"),
    Row("node 0's whole check is stopped", silent_store, ("host0",), together=True),
    Row("node 0 orders nothing more", unled, ("host0",), together=True),
]

LOOK_ALIKES = [
    LookAlike("stood still, and went on", lambda: stood_still(after=True), "gloo/init-failed"),
    LookAlike("a packet of a job was lost", lambda: unacknowledged("10.0.0.11", again=1)),
    LookAlike("it got no processor, and came after node 0's end", late, "host/processor-starved"),
    LookAlike("a node without a plan", without_a_plan, "environment/invalid-variable"),
    LookAlike("node 0 is slow", lambda: unled(20.0), "gloo/init-failed"),
    LookAlike("node 0's check ended before this node was counted", uncounted, "store/nodes-missing"),
    LookAlike("never came", lambda: missing(1), "store/nodes-missing"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_nodes_that_lost_sight_of_each_other_are_one_of_both() -> None:
    a, b, c = healthy(3)
    a = with_meeting(a, lost=(b.key,))
    b = with_meeting(b, host_lost=True, ended=True)
    (found,) = found_lost(a, b, c)
    assert (found.nodes, found.blame) == (("host0", "host1"), "one-of")
    assert "lost their connection" in found.summary


def test_one_that_went_away_and_one_that_lost_sight_are_two_findings() -> None:
    a, b, c = healthy(3)
    a = with_meeting(a, lost=(b.key, c.key))
    b = with_meeting(b, host_lost=True, ended=True)
    assert sorted((f.nodes, f.blame) for f in found_lost(a, b, c)) == [
        (("host0", "host1"), "one-of"),
        (("host2",), "all"),
    ]


def test_a_node_0_that_came_to_its_end_is_not_lost_but_what_it_found_is_why() -> None:
    """host1 missed node 0's report; node 0's own facts say what it was about."""
    a, b = not_found()
    a = with_meeting(a, ended=True)
    b = with_meeting(b, host_lost=True, ended=True)
    result = judged(a, b)
    assert [f.check for f in result.roots] == ["gloo/interface-not-found"]
    assert [f.because_of for f in found_lost(a, b)] == ["gloo/interface-not-found"]


def test_without_node_0s_own_word_it_is_the_root() -> None:
    _, b = healthy(2)
    b = with_network(with_meeting(b, host_lost=True, ended=True), master_name="host0")
    assert [(f.nodes, f.because_of) for f in found_lost(b)] == [(("host0",), None)]


def test_a_node_that_ran_into_a_limit_went_away_for_that() -> None:
    a, b = healthy(2)
    b = with_host(b, limits=Limits(open_files=8, open_files_hard=8))
    result = judged(with_meeting(a, lost=(b.key,)), b)
    assert [f.check for f in result.roots] == ["host/open-files-limit"]


def test_two_that_lost_sight_of_each_other_for_want_of_a_thread() -> None:
    """One of them could not start what the connection needs; neither has to look at what is between them."""
    a, b = on((1,), pids_max=12, pids_used=6, threads=900, threads_max=190_000)
    b = failing(b, "gloo", "RuntimeError: Resource temporarily unavailable")
    result = judged(with_meeting(a, lost=(b.key,)), with_meeting(b, host_lost=True))
    assert [f.check for f in result.roots] == ["host/thread-limit"]


def test_what_is_too_low_on_one_is_no_reason_why_another_went() -> None:
    a, b, c, d = healthy(4)
    a = with_meeting(a, lost=(b.key, c.key, d.key))
    b = with_host(b, limits=Limits(open_files=8, open_files_hard=8))
    assert {(one.check, one.nodes) for one in judged(a, b, c).roots} == {
        ("host/open-files-limit", ("host1",)),
        (CHECK, ("host2", "host3")),
    }


def taken_away(signal: str = "SIGTERM") -> Facts:
    """host2's check was ended by a signal; the ranks of the others waited for its ranks."""
    a, b, c = healthy(3)
    refused = Link(c.key, "10.77.0.12", 40002, ("gloo", "primary"), "refused", 111)
    a, b = (
        replace(
            failing(one, "gloo", "ended after 1.2 s: another rank failed", killed=True), mesh=MeshFacts(1, (refused,))
        )
        for one in (a, b)
    )
    return a, b, with_meeting(alone(c), left=signal)


def test_a_node_that_a_signal_took_away_is_told_with_the_signal_and_nothing_else() -> None:
    result = judged(*taken_away())
    (root,) = result.roots
    assert (root.id, root.nodes, root.blame) == (CHECK, ("host2",), "all")
    assert "SIGTERM" in root.summary and result.verdict == "incomplete"
    lost = with_meeting(taken_away()[0], lost=(taken_away()[2].key,))
    assert [one.nodes for one in judged(lost, *taken_away()[1:]).roots] == [("host2",)]
    assert "\x1b" not in judged(*taken_away("\x1b[2J")).roots[0].summary


def test_where_all_were_interrupted_or_node_0_was_nobody_is_to_blame() -> None:
    a, b, c = (with_meeting(one, left="SIGINT") for one in healthy(3))
    assert judged(a, b, c).roots == judged(a, *healthy(3)[1:]).roots == judged(c).roots == ()


def test_who_is_cut_off_from_all_is_isolated() -> None:
    (root,) = judged(*gone_silent(3)).roots
    assert (root.check, root.nodes) == ("mesh/node-isolated", ("host2",))


def test_a_node_0_that_orders_nothing_more_is_all_that_is_said_and_the_job_is_not_said_to_fail() -> None:
    result = judged(*unled())
    (root,) = result.roots
    assert (root.id, root.nodes, result.verdict) == (CHECK, ("host0",), "incomplete")
    assert root.evidence == ("host1: the store of host0 answered, and no further order arrived for 62 s",)
    assert "kill -CONT" in root.fixes[0].text
    zero = with_meeting(healthy(2)[0], ended=True)
    assert [one.nodes for one in judged(zero, *unled()).roots] == [("host0",)]


def test_a_node_that_stood_still_is_why_the_others_waited_and_no_address_is() -> None:
    result = judged(*stood_still())
    (root,) = result.roots
    assert (root.id, root.nodes, result.verdict) == (CHECK, ("host1",), "incomplete")
    assert "stopped, or gets no processor" in root.summary and "kill -CONT" in root.fixes[0].text
    assert {one.check: one.because_of for one in result.findings} == {CHECK: None, "gloo/init-failed": CHECK}
    assert [fix.text for fix in result.findings[1].fixes] == [
        "Resume distdoctor on host1, then start the check again: the ranks of the other nodes waited for it. "
        "Confirm with: `ps -eo pid,stat,args | grep '[d]istdoctor'` (state T is stopped)."
    ]


def test_who_was_stopped_itself_was_left_by_others_for_that() -> None:
    """node 0 was stopped as a whole, and goes on: the others have given it up."""
    a, b = healthy(2)
    stopped = failing(with_meeting(a, lost=(b.key,)), "store", "the process is stopped", killed=True, state="T")
    result = judged(stopped, alone(b))
    assert [(one.check, one.nodes) for one in result.roots] == [("barrier/rank-stopped", ("host0",))]
    both = judged(stopped, with_meeting(silent_store()[0], ended=False))
    assert {node for one in both.roots for node in one.nodes} == {"host0"}
