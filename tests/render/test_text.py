"""The page of text, whole: what a reader sees is compared with files, which are read in review.

``UPDATE_GOLDEN=1 pytest tests/render`` writes them anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distdoctor.cli.diagnose import judged
from distdoctor.cli.options import LogFlags
from distdoctor.model.findings import Finding, Fix
from distdoctor.model.report import ONE_HOST, Report, ReportCheck, ReportNode
from distdoctor.model.stages import STAGES
from distdoctor.render.style import Style
from distdoctor.render.text import render
from tests.facts_builder import CHECKS

from . import reports

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("name", "make", "how"),
    [
        ("healthy", reports.healthy, {}),
        ("healthy_verbose", reports.healthy, {"verbose": 1}),
        ("healthy_verbose_narrow", reports.healthy, {"verbose": 1, "width": 60}),
        ("warned", reports.warned, {}),
        ("loopback", reports.loopback, {}),
        ("loopback_quiet", reports.loopback, {"quiet": True}),
        ("loopback_ascii_narrow", reports.loopback, {"ascii_only": True, "width": 60}),
        ("loopback_colour", reports.loopback, {"colour": True, "width": 100}),
        ("loopback_80", reports.loopback, {"width": 80}),
        ("missing", reports.missing, {}),
        ("port_in_use", reports.port_in_use, {}),
        ("hostile", reports.hostile, {}),
        ("majority", reports.majority, {}),
    ],
)
def test_whole_page(name: str, make: Callable[[], Report], how: dict[str, Any]) -> None:
    text = render(make(), Style(**how))
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


WHOLE = {
    "pass": ("recorded/healthy/2-nodes.json.gz", "PASS: 2 nodes are ready for the job"),
    "pass_gpu": ("recorded/gpu/check-one-rank-nccl.json.gz", "PASS: "),
    "warn": ("recorded/cases/64-open-files.json.gz", "WARN  "),
    "fail": ("recorded/cases/127-0-1-1-on-both.json.gz", "FAIL  "),
    "incomplete": ("recorded/cases/node-1-is-not-started.json.gz", "INCOMPLETE  1 of 2 nodes joined; "),
    "hang": ("recorded/gpu/hang-barrier.json.gz", "HANG  "),
    "waiting": ("recorded/gpu/hang-late.json.gz", "WAITING  "),
    "running": ("recorded/gpu/hang-healthy.json.gz", "RUNNING: "),
    "inconclusive": ("recorded/gpu/hang-kernel.json.gz", "INCONCLUSIVE: "),
    "log_fail": ("logs/reports/process/killed-by-oom/accelerate-deepspeed-table-sigkill.log", "FAIL  "),
    "log_inconclusive": ("logs/reports/cannot-tell/a6000-node2-one-element-rank13-rank14.log", "INCONCLUSIVE: "),
    "log_pass": ("logs/reports/none/axolotl-packing-estimates-first-loss.log", "NO FAILURE FOUND: "),
}
"""Whole outputs of real runs: recorded facts or a log, and how the report on them begins."""


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_output_of_a_real_run(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])  # file names are in the reports on logs
    path, beginning = WHOLE[name]
    report, _ = judged([Path(path)], CHECKS, (), LogFlags(), whole=False)
    text = render(report, Style(width=width))
    golden = GOLDEN / f"run_{name}_{width}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert text.startswith(beginning)


@pytest.mark.parametrize("colour", [False, True])
def test_data_cannot_act_on_the_terminal(colour: bool) -> None:
    text = render(reports.hostile(), Style(colour=colour))
    without_our_colours = re.sub(r"\x1b\[[0-9;]*m", "", text) if colour else text
    assert "\x1b" not in without_our_colours
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", without_our_colours)
    assert "[red]evil[/red]" in text
    assert "[rank0]: [/tmp/x]" in text


def test_commands_stay_on_lines_of_their_own_at_any_width() -> None:
    lines = render(reports.loopback(), Style(width=30)).splitlines()
    assert f"{'':15}export GLOO_SOCKET_IFNAME=eth0" in lines
    assert f"{'':15}echo '10.77.0.10 host0' >> /etc/hosts" in lines


def test_ascii_only_is_ascii() -> None:
    for make in (reports.healthy, reports.loopback, reports.hostile, reports.majority):
        assert render(make(), Style(ascii_only=True, verbose=1)).isascii()


def test_nothing_is_wrapped_without_a_width() -> None:
    root = reports.loopback().findings[0]
    assert render(reports.loopback()).startswith(f"FAIL  {root.summary[:-1]}  [{root.id}]\n")


def test_a_pass_says_how_far_it_goes() -> None:
    whole = reports.healthy()
    text = render(replace(whole, torch=None, stages=tuple(s for s in whole.stages if s.stage in STAGES[:4])))
    assert "PASS up to network" in text and "no torch" not in text
    assert "torchrun" not in text.splitlines()[-1] and "distdoctor check" in text.splitlines()[-1]


EVERY = [reports.healthy, reports.loopback, reports.missing, reports.port_in_use, reports.warned, reports.majority]
EVERY += [reports.taken_for_alone]


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_all_but_what_is_pasted_fits_and_breaks_at_words(make: Callable[[], Report], width: int) -> None:
    whole = render(make(), Style(verbose=1))
    narrow = render(make(), Style(verbose=1, width=width))
    assert narrow.split() == whole.split()
    pasted = [
        line for line in whole.splitlines() if re.match(r" {4,15}(export|echo|unset|distdoctor|torchrun|--)", line)
    ]
    assert all(len(line) <= width or line in pasted for line in narrow.splitlines())
    assert set(pasted) <= set(narrow.splitlines())


@pytest.mark.parametrize("make", EVERY)
def test_the_verdict_is_first_and_the_command_last(make: Callable[[], Report]) -> None:
    lines = render(make()).splitlines()
    assert re.match(f"{make().verdict.upper()}(:|  )", lines[0])
    stages = next(n for n, line in enumerate(lines) if line.startswith("passed "))
    assert all(n < stages for n, line in enumerate(lines) if re.match("(FAIL|WARN)  |  evidence", line))
    assert lines[-1].startswith("    ")
    assert any(line.startswith("Next: ") for line in lines[-4:])
    assert any(line.startswith(f"{make().verdict.upper()}: ") for line in lines[-6:])


def test_the_last_screen_of_24_lines_has_the_fix_and_the_rerun() -> None:
    last = render(reports.loopback(), Style(width=80)).splitlines()[-24:]
    assert last[-2:] == ["    export GLOO_SOCKET_IFNAME=eth0", "    distdoctor check --nnodes 2 --master-addr host0"]


def test_a_fix_that_differs_from_node_to_node_is_not_told_twice() -> None:
    whole = reports.loopback()
    root = whole.findings[0]
    fixes = tuple(replace(fix, env={"GLOO_SOCKET_IFNAME": f"eth{fix.nodes[0][-1]}"}) for fix in root.fixes[:2])
    text = render(replace(whole, findings=(replace(root, fixes=fixes),)))
    assert text.count("export GLOO_SOCKET_IFNAME=eth1") == 1
    assert "Next: apply the fix above, then check again on every node:" in text
    one = replace(root, nodes=("host1",), fixes=fixes[1:])
    assert "apply the fix above on host1, then" in render(replace(whole, findings=(one,)))


def test_a_verified_line_is_to_be_kept() -> None:
    assert "tested here: gloo init and barrier pass with it. Keep this line in the job's script." in render(
        reports.loopback()
    )


def test_what_two_nodes_are_told_word_for_word_is_told_once() -> None:
    """Also where it names one of them."""
    fixes = tuple(
        Fix("Unset it: it hides host0:29500.", env={"PET_X": None}, nodes=(name,)) for name in ("host0", "host1")
    )
    finding = replace(reports.loopback().findings[0], fixes=fixes)
    text = render(reports.report(2, "fail", (finding,)))
    assert text.count("hides host0:29500") == 1 and "fix        on every node (host[0-1]): unset it: " in text


def test_importing_torch_has_a_row_of_its_own() -> None:
    lines = render(reports.healthy(), Style(verbose=1)).splitlines()
    skipped = next(n for n, line in enumerate(lines) if line.startswith("skipped  gpu "))
    assert lines[skipped + 1] == "passed   import torch    3.91 s"
    assert "import torch (3.9 s)" in render(reports.healthy())


def test_an_import_that_was_under_way_when_the_check_ended_is_no_failure() -> None:
    whole = reports.healthy()
    name = whole.nodes[0].name
    importing = {name: {"torch_importing": True, "torch_seconds": 2.0}}
    begun = replace(whole, nodes=(replace(whole.nodes[0], torch=None),), details={"nodes": importing})
    assert "import torch (not through after 2.0 s, when the check ended)" in render(begun)
    blamed = Finding("torch's import does not end.", nodes=(name,), severity="fail", check="environment/slow", id="x")
    assert "failed     import torch" in render(replace(begun, verdict="fail", findings=(blamed,))).splitlines()


def test_a_sites_checks_are_named_where_one_of_them_is_to_be_explained() -> None:
    text = render(reports.warned(), Style(checks=["/site"], given=[("--nnodes", "2"), ("--checks", "/site")]))
    assert "  details    distdoctor explain host/dns-slow --checks /site" in text.splitlines()


def test_a_check_that_only_node_0_has_is_explained_there() -> None:
    text = render(reports.warned(), Style(unknown_checks={"host/dns-slow"}))
    command = "distdoctor explain host/dns-slow --checks DIR    (on host0, with its DIR of --checks)"
    assert f"  details    {command}" in text.splitlines()


def test_one_host_for_all_nodes_is_no_reason_of_an_incomplete_check() -> None:
    notes = (f"2{ONE_HOST}vm runs both. No link between hosts was checked.", "the check host/odd was not judged: why")
    whole = replace(reports.healthy(), verdict="incomplete", notes=notes)
    assert render(whole).splitlines()[0] == "INCOMPLETE: the check host/odd was not judged: why"


def test_the_results_of_a_sites_checks_are_one_line() -> None:
    checks = (
        *(ReportCheck(name, "clear") for name in ("host/clear", "host/too", "host/built-in")),
        ReportCheck("host/bad", "found"),
        ReportCheck("host/unseen", "not-judged", "why"),
    )
    sites = ("host/clear", "host/too", "host/bad", "host/unseen")
    whole = replace(reports.healthy(), checks=checks)
    line = "site checks: host/clear, host/too clear on 2 nodes; host/bad found; host/unseen not judged"
    assert line in render(whole, Style(site_checks=sites)).splitlines()
    assert "site checks" not in render(whole)
    without = replace(whole, checks=())  # as a node 0 without these checks sends it
    line = f"site checks: {', '.join(sites)} did not run: give host0 the same --checks"
    assert line in render(without, Style(site_checks=sites, here="host1")).splitlines()


def test_what_is_only_a_warning_does_not_hide_what_to_do_about_a_missing_node() -> None:
    whole = reports.missing()
    warned = replace(whole, findings=(*whole.findings, *reports.warned().findings))
    assert render(warned).splitlines()[-2:] == render(whole).splitlines()[-2:]
    assert render(warned).splitlines()[-2] == "Next: run this on node1, and here again:"


def test_stages_left_out_for_the_same_reasons_share_their_lines() -> None:
    """Also where they differ from node to node."""
    left = {"host0": "not run: needs store", "host1": "not reached"}
    made = tuple(
        replace(s, status="skip", reason=left[s.node]) if s.stage in STAGES[5:] else s for s in reports.report().stages
    )
    report = reports.report(verdict="incomplete", stages=made)
    lines = [" ".join(line.split()) for line in render(report, Style(verbose=1)).splitlines()]
    place = next(n for n, line in enumerate(lines) if "mesh" in line)
    assert lines[place : place + 2] == [
        "skipped mesh, gloo, nccl, barrier, collective host0 not run: needs store",
        "skipped host1 not reached",
    ]
    assert "skipped    mesh, gloo, nccl, barrier, collective (host0: need store)" in render(report).splitlines()


def test_nodes_that_fail_in_one_stage_for_several_reasons_are_named_together() -> None:
    why = {"host1": "refused", "host2": "timed out"}
    made = tuple(
        replace(s, status="fail", reason=why[s.node]) if s.stage == "network" and s.node in why else s
        for s in reports.report(3).stages
    )
    assert "failed     network (host[1-2])" in render(reports.report(3, "fail", stages=made)).splitlines()


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"python": "3.11.2", "executable": "/opt/python"}, "  Python 3.11.2, /opt/python"),
        ({"torch_importing": True, "torch_seconds": 41.2}, "  torch was still being imported after 41.2 s"),
        ({"torch_error": "ImportError: libcudart.so.12", "torch_seconds": 0.2},
         "  torch cannot be imported: ImportError: libcudart.so.12"),
    ],
)  # fmt: skip
def test_what_is_known_of_torch_and_python_is_told_in_words(values: dict[str, Any], line: str) -> None:
    text = render(reports.report(details={"nodes": {"host0": values}}), Style(verbose=1))
    assert line in text.splitlines()
    assert "torch_" not in text


def test_where_it_cannot_be_told_which_node_it_is_the_first_is_not_singled_out() -> None:
    fixes = (Fix("Or, let it through.", ("host0",), 1), Fix("Or, let it through.", ("host1",), 2))
    root = Finding("x", nodes=("host0", "host1"), blame="one-of", fixes=fixes, severity="fail", check="mesh/x", id="x")
    lines = render(reports.report(2, "fail", (root,))).splitlines()
    assert "  fix        on host0: let it through." in lines and "  or         on host1: let it through." in lines
    assert "Next: apply one of the fixes above, then check again on every node:" in lines


UNEVEN = {"world_size": 6, "nproc_per_node": 4, "nnodes": 3}


@pytest.mark.parametrize(
    ("plan", "ranks", "shape"),
    [
        ({"launcher": "SLURM"}, (2, 2), "2 nodes x 2 ranks (SLURM)"),
        ({"launcher": "env"}, (2, 2), "2 nodes x 2 ranks"),
        ({"nnodes": 1, "alone": True}, (2,), "1 node x 2 ranks (this machine only)"),
        ({"nnodes": 1}, (2,), "1 node x 2 ranks"),
        ({"launcher": "SLURM", **UNEVEN}, (4, 1, 1), "3 nodes, 6 ranks (4 + 1 + 1) (SLURM)"),
        # one of the three did not come: what the launcher says of it
        ({**UNEVEN, "ranks_per_node": [4, 1, 1]}, (4, 1), "3 nodes, 6 ranks (4 + 1 + 1)"),
        ({"launcher": "Open MPI", "world_size": 3, "nnodes": None}, (2, 1), "2 nodes, 3 ranks (Open MPI)"),
        ({"launcher": "hydra", "world_size": 3, "nnodes": None}, (1,), "3 ranks (hydra)"),
        ({"launcher": "env", "world_size": 3, "nnodes": None}, (2, 1), "3 ranks"),
    ],
)
def test_the_header_counts_nodes_and_ranks_and_names_the_launcher(
    plan: dict[str, Any], ranks: tuple[int, ...], shape: str
) -> None:
    nodes = tuple(ReportNode(f"host{n}", n, True, ranks=tuple(range(count))) for n, count in enumerate(ranks))
    one = reports.report(plan={**reports.plan(), **plan}, nodes=nodes)
    assert render(one).splitlines()[1].startswith(f"{shape}, gloo, ")


def test_what_each_node_climbs_by_itself_passes_for_that_node_alone() -> None:
    """As task 0 of srun with --until network: the others tell elsewhere."""
    up_to = ("environment", "host", "gpu", "network")

    def ending(count: int) -> str:
        whole = reports.report(count, plan=reports.plan(3, 1, started="rank"))
        return render(replace(whole, stages=tuple(s for s in whole.stages if s.stage in up_to)), Style())

    assert "PASS up to network: host0 passed; each node is checked by itself up to network" in ending(1)
    assert "Next: run the remaining stages: start the check without --until" in ending(1)
    assert "PASS up to network: all 3 nodes passed" in ending(3)


def test_two_nodes_on_one_host_are_named_in_the_first_line_and_in_a_note() -> None:
    note = "2 nodes on one host: host0 runs both. No link between hosts was checked."
    text = render(replace(reports.healthy(), notes=(note,)))
    assert text.startswith("PASS: 2 nodes are ready for the job, all on one host\n") and f"\nnote: {note}\n" in text
    assert "one host" not in render(reports.healthy())


def test_where_nobody_came_it_says_so() -> None:
    report = replace(reports.healthy(), nodes=(ReportNode("gpu0", 0, False),), verdict="incomplete")
    assert render(report).startswith("INCOMPLETE: 0 of 2 nodes checked; missing: gpu0\n")


def test_a_node_that_met_nobody_counts_those_that_are_planned() -> None:
    made = reports.healthy()
    nodes = (made.nodes[0], ReportNode("gpu1", 1, False))
    report = replace(made, nodes=nodes, verdict="incomplete", plan={**made.plan, "nnodes": 3})
    never = replace(reports.missing().findings[0], nodes=("gpu1",))
    assert render(replace(report, findings=(never,))).startswith("INCOMPLETE  1 of 3 nodes joined; node1 never came")
    assert render(report).startswith("INCOMPLETE: 1 of 3 nodes checked; missing: gpu1\n")
