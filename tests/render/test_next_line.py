"""The last line of a page: the command that comes next, with what was given and what is to be given anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.cli.check import CheckCommand
from distdoctor.cli.options import ReportFlags, RunFlags
from distdoctor.judge.report import assemble
from distdoctor.model.cluster import build
from distdoctor.model.findings import Finding, Fix
from distdoctor.model.launch_settings import LEAST_LENGTH, TOKEN_PLACEHOLDER
from distdoctor.model.stages import STAGES
from distdoctor.plan.job_command import read_job_command
from distdoctor.plan.syntax import address_problem
from distdoctor.plan.values import Flags
from distdoctor.render.style import Style
from distdoctor.render.text import render
from tests.facts_builder import healthy, judged, outside, with_master, with_plan

from . import reports


def test_flag_fixes_are_in_the_next_command() -> None:
    last = render(reports.port_in_use()).splitlines()[-1]
    assert last == "    distdoctor check --nnodes 2 --master-addr host0 --master-port 29501"


def test_commands_start_the_program_as_it_was_started() -> None:
    lines = render(reports.port_in_use(), Style(program="python3 -m distdoctor")).splitlines()
    assert lines[-1].startswith("    python3 -m distdoctor check --nnodes 2")
    assert any(line.startswith("  details    python3 -m distdoctor explain ") for line in lines)


def test_what_was_given_is_in_the_next_command() -> None:
    given: list[tuple[str, str | None]] = [
        ("--nnodes", "2"), ("--rdzv-id", "job 7"), ("--timeout", "90"), ("--until", "gloo"), ("--ignore", "host/*"),
        ("--no-try-fixes", None),
    ]  # fmt: skip
    last = render(reports.loopback(), Style(given=given)).splitlines()[-1]
    assert last == (
        "    distdoctor check --nnodes 2 --master-addr host0 --rdzv-id 'job 7' --timeout 90 --until gloo "
        "--ignore 'host/*' --no-try-fixes"
    )
    short = replace(reports.healthy(), stages=tuple(s for s in reports.healthy().stages if s.stage in STAGES[:7]))
    ending = render(short, Style(given=given)).splitlines()[-2:]
    assert ending[0] == "Next: run the remaining stages:"
    assert "--until" not in ending[1] and "--timeout 90 --ignore 'host/*'" in ending[1]


def test_a_run_with_a_token_is_run_again_with_one_and_the_line_says_so() -> None:
    """The token itself is in no report; the placeholder is refused as too short where it is pasted as it is."""
    command = CheckCommand(Flags(nnodes="2"), RunFlags(token="a token that is long enough"), ReportFlags())
    given = command.given()
    assert ("--token", TOKEN_PLACEHOLDER) in given and len(TOKEN_PLACEHOLDER) < LEAST_LENGTH
    ending = render(reports.loopback(), Style(given=given)).splitlines()
    assert ending[-1].endswith(" --token TOKEN")
    assert any("TOKEN being this run's token" in line for line in ending if line.startswith("Next: "))


def test_the_launch_line_has_the_rendezvous_that_was_given() -> None:
    given = [("--nnodes", "2"), ("--rdzv-backend", "c10d"), ("--rdzv-endpoint", "host0:29400"), ("--rdzv-id", "7")]
    assert render(reports.healthy(), Style(given=[*given, ("--backend", "gloo")])).splitlines()[-2:] == [
        "Next: start the job:",
        "    torchrun --nnodes 2 --nproc-per-node 2 --rdzv-endpoint host0:29400 --rdzv-backend c10d --rdzv-id 7 "
        "your_script.py",
    ]


def test_the_rendezvous_of_saved_facts_is_checked_again() -> None:
    """Without it another rendezvous would be tried, and nothing of what was wrong is seen."""
    report = reports.loopback()
    told = {"nnodes": "--nnodes", "master_addr": "--rdzv-endpoint", "master_port": "--rdzv-endpoint"}
    plan = {**report.plan, "rdzv_backend": "c10d", "sources": {**told, "rdzv_backend": "--rdzv-backend"}}
    last = render(replace(report, plan=plan)).splitlines()[-1]
    assert last == "    distdoctor check --nnodes 2 --rdzv-endpoint host0:29500 --rdzv-backend c10d"


@pytest.mark.parametrize(
    ("method", "again"),
    [
        ("file:///mnt/init", "--master-addr host0 --init-method file:///mnt/init"),
        ("tcp://host0:29500", "--init-method tcp://host0:29500"),
    ],
)
def test_the_init_method_of_saved_facts_is_checked_again(method: str, again: str) -> None:
    report = reports.loopback()
    source = "--master-addr" if method.startswith("file") else "--init-method"
    plan = {**report.plan, "init_method": method, "sources": {"nnodes": "--nnodes", "master_addr": source}}
    assert render(replace(report, plan=plan)).splitlines()[-1] == f"    distdoctor check --nnodes 2 {again}"


def test_the_launch_line_names_a_master_that_torchrun_does_not_read_from_variables() -> None:
    report = reports.healthy()
    plan = {**report.plan, "sources": {"master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT"}}
    last = render(replace(report, plan=plan), Style(given=[("--nnodes", "2")])).splitlines()[-1]
    assert last == (
        "    torchrun --nnodes 2 --nproc-per-node 2 --master-addr host0 --master-port 29500 --node-rank N "
        "your_script.py"
    )


def test_a_master_that_node_0_chose_is_an_endpoint_for_c10d() -> None:
    report = reports.healthy()
    plan = {**report.plan, "sources": {"master_addr": "route, eth0"}}
    given = [("--nnodes", "2"), ("--rdzv-backend", "c10d")]
    last = render(replace(report, plan=plan), Style(given=given)).splitlines()[-1]
    assert "--rdzv-endpoint host0:29500" in last and "--master-addr" not in last


def test_flags_of_a_fix_take_the_place_of_those_given() -> None:
    given = [("--nnodes", "2"), ("--master-port", "29500"), ("--wait", "5")]
    last = render(reports.port_in_use(), Style(given=given)).splitlines()[-1]
    assert last == "    distdoctor check --nnodes 2 --master-addr host0 --master-port 29501 --wait 5"


NAMELESS = with_master(healthy(2)[1], "gpu-0x", own=None, resolved=[])


@pytest.mark.parametrize(
    ("given", "again"),
    [
        ([("--master-addr", "gpu-0x"), ("--node-rank", "1")], "--master-addr MASTER_IP --node-rank 1"),
        ([("--rdzv-endpoint", "gpu-0x:29500")], "--rdzv-endpoint MASTER_IP:29500"),
        ([("--init-method", "tcp://gpu-0x:29500")], "--init-method tcp://MASTER_IP:29500"),
    ],
)
def test_a_value_that_is_wrong_is_not_given_again(given: list[tuple[str, str]], again: str) -> None:
    """Where node 0's facts are not here nobody knows the right one. Pasted as it is, the line is refused."""
    whole = assemble(build([outside(NAMELESS, None)]), judged(outside(NAMELESS, None)), started_at="", seconds=1.0)
    *_, words, line = render(whole, Style(given=[("--nnodes", "2"), *given], here="host1")).splitlines()
    assert line == f"    distdoctor check --nnodes 2 {again}"
    assert words.startswith("Next: ") and words.endswith(", MASTER_IP being node 0's address:")
    assert address_problem("MASTER_IP") == ("is a placeholder that was never filled in", None)


def test_a_node_rank_that_is_wrong_is_not_given_again() -> None:
    host0, host1, *_ = healthy(4, declared=True)
    twice = (host0, with_plan(host1, node_rank=0))
    whole = assemble(build(twice), judged(*twice), started_at="", seconds=1.0)
    given = [("--nnodes", "4"), ("--node-rank", "0"), ("--master-addr", "host0")]
    for here, number in (("host1", "N"), ("host0", "0")):
        last = render(whole, Style(given=given, here=here)).splitlines()[-1]
        assert last == f"    distdoctor check --nnodes 4 --master-addr host0 --node-rank {number}"


def ranked(name: str) -> str:
    """The end of the report on two nodes that were both started with --node-rank 0, as ``name`` prints it."""
    fix = Fix("Make host1 node 1.", ("host1",), flags={"--node-rank": "1"})
    root = Finding(
        "host0 and host1 have the same node rank, 0.",
        nodes=("host1",), fixes=(fix,), severity="fail", check="environment/duplicate-node-rank", id="x",
    )  # fmt: skip
    given = [("--nnodes", "2"), ("--node-rank", "0"), ("--master-addr", "host0")]
    return "\n".join(render(reports.report(2, "fail", (root,)), Style(given=given, here=name)).splitlines()[-2:])


def test_a_node_rank_that_was_given_is_checked_again_with_the_fix() -> None:
    """Without the flag it would be assigned, and the check would pass where the job's own launch line still fails."""
    head = "Next: apply the fix above on host1, then check again on every node, each with its own --node-rank:\n"
    assert ranked("host0") == head + "    distdoctor check --nnodes 2 --master-addr host0 --node-rank 0"
    assert ranked("host1") == head + "    distdoctor check --nnodes 2 --master-addr host0 --node-rank 1"


def test_missing_ranks_are_started_by_their_launcher() -> None:
    whole = reports.missing()
    once_per_rank = replace(whole, plan={**whole.plan, "started": "rank"})
    assert render(once_per_rank).splitlines()[-1] == "Next: start the check on node1, and here again."


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("vllm serve m --port 8000", "-- vllm serve m --port 8001"),
        ("vllm serve m --port=8000 -tp 2", "-- vllm serve m -tp 2 --port 8001"),
        ("env A=1 vllm serve m", "-- env A=1 vllm serve m --port 8001"),
    ],
)
def test_an_engine_s_line_is_checked_again_with_the_fix_in_it(words: str, again: str) -> None:
    line = read_job_command(words.split(), {})
    given = CheckCommand(Flags(), RunFlags(wait=6), ReportFlags(), line=line).given()
    report = reports.port_in_use()
    (finding,) = report.findings
    finding = replace(finding, fixes=(Fix("Use 8001.", flags={"--port": "8001"}),))
    report = replace(report, findings=(finding,), plan={**report.plan, "engine": "vLLM"})
    assert render(report, Style(given=given)).splitlines()[-1] == f"    distdoctor check --wait 6 {again}"


def test_a_line_with_a_secret_is_not_printed_again() -> None:
    line = read_job_command(["vllm", "serve", "m", "--api-key", "1234"], {})
    assert CheckCommand(Flags(), RunFlags(), ReportFlags(), line=line).given() == []


def test_an_incomplete_report_with_a_cause_names_its_fix() -> None:
    """All nodes are here, so that no other has to be started first."""
    fix = Fix.on(["host0"], "Accept TCP on all ports from 10.77.0.0/24.", commands=("nft insert rule x",))
    cause = Finding(
        summary="A rate limits connections.", nodes=("host0",), fixes=(fix,), severity="fail", incomplete=True
    )
    report = replace(reports.healthy(), verdict="incomplete", findings=(cause,), notes=("a note",))
    ending = [line for line in render(report).splitlines() if line.startswith("Next: ")]
    assert ending == ["Next: apply the fix above on host0, then check again on every node:"]
