"""Ranks of one job that were told different ports of the store: they are found to be one job, and it is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.hang import jobs, stacks
from distdoctor.hang.jobs import JobCandidate
from distdoctor.model.facts import CallArguments, Contact, Frame, JobProcess, NodeFacts, StoreView
from tests.hang.job_cases import REDUCE, REFUSED, SILENT, WAITING_HOST, judged, roots
from tests.hang.live_facts import C10D, MAKING, RENDEZVOUS, node, process, store
from tests.hang.test_jobs import candidate, scan


def rank(number: int, port: int, world: int = 3, *, script: str = "train.py", **more: str) -> JobCandidate:
    told = {"RANK": str(number), "WORLD_SIZE": str(world), "MASTER_ADDR": "host0", "MASTER_PORT": str(port), **more}
    return replace(candidate(number + 10 * port, 0, told, "2.13.0", False), command=("python", script))


LOCAL = {"LOCAL_WORLD_SIZE": "2"}
FIRST_OF_TWO, SECOND_OF_TWO = LOCAL | {"LOCAL_RANK": "0"}, LOCAL | {"LOCAL_RANK": "1"}


@pytest.mark.parametrize(
    ("ranks", "found"),
    [
        ([rank(0, 1), rank(1, 1), rank(2, 2)], [[0, 1, 2]]),
        ([rank(0, 3), rank(1, 2), rank(2, 1)], [[0, 1, 2]]),
        ([rank(2, 1, 8, **FIRST_OF_TWO), rank(3, 2, 8, **SECOND_OF_TWO)], [[2, 3]]),
        ([rank(0, 1), rank(1, 2)], [[0], [1]]),  # rank 2 of each may be on another host
        ([rank(0, 1), rank(1, 1), rank(2, 2, script="evaluate.py")], [[0, 1], [2]]),
        ([rank(0, 1, 2), rank(1, 1, 2), rank(0, 2, 2), rank(1, 2, 2)], [[0, 1], [0, 1]]),
        ([rank(0, 1, 2, MASTER_ADDR="host0"), rank(1, 2, 2, MASTER_ADDR="host1")], [[0], [1]]),
        ([rank(2, 1, 8, **FIRST_OF_TWO), rank(2, 2, 8, **FIRST_OF_TWO)], [[2], [2]]),
        # Beside another program of as many ranks.
        ([rank(0, 1), rank(1, 1), rank(2, 2), *(rank(n, 3, script="b.py") for n in range(3))], [[0, 1, 2], [0, 1, 2]]),
    ],
)
def test_ranks_that_are_a_job_only_together(ranks: list[JobCandidate], found: list[list[int]]) -> None:
    them = jobs.find(scan(*ranks))
    assert sorted(sorted(int(one.variables["RANK"]) for one in job.ranks) for job in them) == found


def test_the_store_that_is_asked_is_that_of_most_or_of_rank_0() -> None:
    for ports, right in (((1, 2, 2), "2"), ((1, 2, 3), "1")):
        (job,) = jobs.find(scan(*(rank(number, port) for number, port in enumerate(ports))))
        assert job.variable("MASTER_PORT") == right


def with_master_port(one: JobProcess, port: int) -> JobProcess:
    return replace(one, variables={"MASTER_PORT": str(port)}, world_size=3)


def waits(number: int, port: int) -> JobProcess:
    return with_master_port(process(number, RENDEZVOUS, threads=()), port)


HOST = with_master_port(WAITING_HOST, 29500)


@pytest.mark.parametrize(
    ("facts", "blamed"),
    [
        (node(HOST, waits(1, 29500), waits(2, 29511), stores=(store((), 3, clients=2),)), (2,)),
        (node(HOST, waits(1, 29511), waits(2, 29511), stores=(replace(REFUSED, port=29511),)), (0,)),
        (node(HOST, waits(1, 4001), waits(2, 4002), stores=(store((), 3, clients=1),)), (1, 2)),
    ],
)
def test_the_ranks_with_another_port_are_blamed(facts: NodeFacts, blamed: tuple[int, ...]) -> None:
    report = judged(facts)
    assert roots(report) == [("environment/master-mismatch", blamed, ("host0",))]
    finding = next(one for one in report.findings if one.check == "environment/master-mismatch")
    assert "different ports: MASTER_PORT=29500 in rank" in finding.summary
    assert finding.fixes[0].env == {"MASTER_PORT": "29511" if blamed == (0,) else "29500"}


@pytest.mark.parametrize(
    "facts",
    [
        node(
            *(with_master_port(process(number, REDUCE), 29500 + number) for number in range(3)),
            stores=(store((0, 1, 2), 3),),
        ),
        node(HOST, waits(1, 29500), waits(2, 29500), stores=(store((), 3),)),
        node(*(replace(waits(number, 29500), sockets=(SILENT,)) for number in (1, 2)), stores=(REFUSED,)),
    ],
)
def test_others_are_not(facts: NodeFacts) -> None:
    """Who has met was told by other ways; and who has the same port."""
    assert "environment/master-mismatch" not in {one.check for one in judged(facts).findings}


def meets(number: int, method: str, **changes: object) -> JobProcess:
    """A rank in init_process_group(), with what it was given there."""
    frames = tuple(
        replace(one, given=CallArguments(init_method=method)) if one.function == "init_process_group" else one
        for one in MAKING
    )
    return replace(process(number, frames, threads=(), **changes), world_size=2)


POLLS = {"call": "clock_nanosleep", "moved": replace(process(0, MAKING).moved, switches=140)}  # type: ignore[type-var]


def test_ranks_that_were_given_other_files_to_meet_in() -> None:
    """A store that is a file is looked at again and again: who does so waits for the others."""
    report = judged(node(*(meets(number, f"file:///tmp/{number}", **POLLS) for number in (0, 1)), world_size=2))
    assert roots(report) == [("environment/master-mismatch", (1,), ("host0",))]
    assert report.findings[0].summary == (
        "The ranks look for each other in different places: init_method is file:///tmp/0 in rank 0 and file:///tmp/1 "
        "in rank 1."
    )


def test_ranks_that_wait_at_one_file_wait_for_others() -> None:
    report = judged(node(*(meets(number, "file:///tmp/0", **POLLS) for number in (0, 1)), world_size=3))
    assert roots(report) == [] and report.verdict == "incomplete"
    assert not any("wait for requests" in note or "it polls there" in note for note in report.notes)


@pytest.mark.parametrize("methods", [("tcp://host0:1", "tcp://10.0.0.1:1"), ("file:///x?rank=0", "file:///x?rank=1")])
def test_one_place_may_have_several_spellings(methods: tuple[str, str]) -> None:
    report = judged(node(*(meets(number, method) for number, method in enumerate(methods)), world_size=2))
    assert "environment/master-mismatch" not in {one.check for one in report.findings}


@pytest.mark.parametrize(
    ("shown", "given"), [("file:///a/b", "file:///a/b"), ("tcp://h:1", "tcp://h:1"), ("env://", "")]
)
def test_what_init_process_group_was_given(shown: str, given: str) -> None:
    frame = stacks._frame({"name": "init_process_group", "short_filename": C10D, "filename": f"/x/{C10D}", "line": 1,
                           "locals": [{"name": "init_method", "repr": f'"{shown}"'}]})  # fmt: skip
    assert isinstance(frame, Frame) and (frame.given.init_method if frame.given else "") == given


def on_host(number: int, master: str, *ranks: JobProcess) -> NodeFacts:
    """Return what one host shows whose ranks look for the store at ``master``; nobody serves it at host 1."""
    address = f"10.0.0.{number + 1}"
    contact = Contact(address, 29500, "open") if number == 0 else Contact(address, 29500, "refused", 111)
    views = (StoreView(master, 29500, "unreached" if number else "read", contact),)
    facts = node(*ranks, name=f"host{number}", stores=views)
    return replace(facts, jobs=(replace(facts.jobs[0], master_addr=master),))


HOST_OF_TWO = process(0, RENDEZVOUS, threads=("pt_tcpstore_uv",), call="clock_nanosleep", world_size=2)
LOOKS = process(1, RENDEZVOUS, threads=(), call="clock_nanosleep", world_size=2)


@pytest.mark.parametrize(("first", "second"), [("host0", "host1"), ("localhost", "127.0.0.1"), ("host0", "localhost")])
def test_each_host_names_itself(first: str, second: str) -> None:
    """MASTER_ADDR=$(hostname) in the script that is started on each."""
    report = judged(on_host(0, first, HOST_OF_TWO), on_host(1, second, LOOKS))
    assert roots(report) == [("environment/master-mismatch", (1,), ("host1",))]
    finding = report.findings[0]
    assert f"MASTER_ADDR={first} on host0 and MASTER_ADDR={second} on host1" in finding.summary
    assert finding.fixes[0].env == {"MASTER_ADDR": "host0"}


def test_who_names_another_host_than_itself_is_left_to_the_others() -> None:
    """It is not known which host that is: an alias, or another card of host 0."""
    report = judged(on_host(0, "host0", HOST_OF_TWO), on_host(1, "host0-ib", LOOKS))
    assert "environment/master-mismatch" not in [found.check for found in report.findings]
