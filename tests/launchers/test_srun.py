"""srun, for real: one report of every step, however its tasks are placed, and a refusal where nothing starts them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.helpers.report_schema import report_in
from tests.launchers.harness.site import JOB, Site, python_module

CHECK = ("check", "--json", "--wait", "60", "--timeout", "60")


def check(*flags: str) -> list[str]:
    return python_module("distdoctor", *CHECK, *flags)


def report_of(site: Site, *srun: str, flags: tuple[str, ...] = (), status: int = 0) -> dict[str, Any]:
    """The one document that srun's output is."""
    done = site.run(["srun", *srun, *check(*flags)])
    assert done.returncode == status, done.stderr
    report: dict[str, Any] = report_in(done.stdout)
    return report


def shape(report: dict[str, Any]) -> dict[str, list[int]]:
    return {node["name"]: node["ranks"] for node in report["nodes"]}


def test_uneven_tasks(with_slurm: Site) -> None:
    report = report_of(with_slurm, "-N2", "-n3")
    assert (report["verdict"], shape(report)) == ("pass", {"host0": [0, 1], "host1": [2]})
    assert (report["plan"]["launcher"], report["plan"]["ranks_per_node"]) == ("SLURM", [2, 1])


def test_what_starts_nothing_on_the_other_nodes_is_refused(with_slurm: Site) -> None:
    """A shell of salloc, and a node's flags on several tasks of a node."""
    alone = with_slurm.run(["salloc", "-Q", "-N2", *check()])
    assert alone.returncode == 2 and alone.stderr.count("type `srun distdoctor check`") == 1
    several = with_slurm.run(["srun", "-N2", "--ntasks-per-node=2", *check("--nproc-per-node", "2")])
    assert several.returncode == 2 and several.stderr.count("--ntasks-per-node=1") == 1
    clean = ["sh", "-c", 'env -i PATH="$PATH" PYTHONPATH="$PYTHONPATH" "$@"; exit $?', "sh", *check()]
    lost = with_slurm.run(["srun", "-N2", *clean])
    assert lost.returncode == 2 and lost.stderr.count("SLURM started this as one of several") == 1
    assert "variables were lost on the way here" in json.loads(lost.stdout)["notes"][0]
    assert json.loads(alone.stdout)["verdict"] == json.loads(several.stdout)["verdict"] == "incomplete"


@pytest.mark.scoreboard
@pytest.mark.parametrize(
    ("srun", "flags", "ranks"),
    [
        (["-N2", "-n4", "-m", "cyclic"], (), None),
        (["-N1", "-n1", ":", "-N1", "-n2"], (), {"host0": [0], "host1": [1, 2]}),
        (["-N2", "--ntasks-per-node=1"], ("--nproc-per-node", "2"), {"host0": [0, 1], "host1": [2, 3]}),
        (["-n3", "-m", "arbitrary"], (), {"host0": [1], "host2": [0, 2]}),
    ],
)
def test_other_shapes(
    with_slurm: Site, srun: list[str], flags: tuple[str, ...], ranks: dict[str, list[int]] | None
) -> None:
    if "arbitrary" in srun:
        with_slurm.cluster.put("places", "host2\nhost0\nhost2\n")
        srun = [*srun, "-w", "/mnt/places"]
    if ":" in srun:
        command = ["srun", *srun[:2], *check(), *srun[2:], *check()]
        done = with_slurm.run(command)
        report = json.loads(done.stdout)
    else:
        report = report_of(with_slurm, *srun, flags=flags)
    assert report["verdict"] == "pass"
    assert ranks is None or {name: sorted(held) for name, held in shape(report).items()} == ranks
    assert sum(map(len, shape(report).values())) == report["plan"]["world_size"]


@pytest.mark.scoreboard
@pytest.mark.parametrize(("dead", "name"), [(2, "host2"), (0, "host0")])
def test_a_task_that_ends_at_once_is_named_in_one_report(with_slurm: Site, dead: int, name: str) -> None:
    """Where it is the first, the second tells."""
    script = f'[ "$SLURM_PROCID" = {dead} ] && exit 127; exec "$@"'
    waiting = [sys.executable, "-m", "distdoctor", "check", "--json", "--wait", "12"]
    done = with_slurm.run(["srun", "-N3", "/mnt/job", "sh", "-c", script, "sh", *waiting])
    report = json.loads(done.stdout)
    assert report["verdict"] == "incomplete"
    assert {node["name"] for node in report["nodes"] if not node["arrived"]} == {name}


@pytest.mark.scoreboard
def test_every_task_takes_its_own_host_for_the_master(with_slurm: Site) -> None:
    """As ``MASTER_ADDR=$(hostname)`` in what each task runs: one report, of the first."""
    own = 'MASTER_ADDR=$(hostname) exec "$@"'
    waiting = [sys.executable, "-m", "distdoctor", "check", "--json", "--wait", "8"]
    done = with_slurm.run(["srun", "-N2", "/mnt/job", "sh", "-c", own, "sh", *waiting])
    report = json.loads(done.stdout)
    (root,) = [one for one in report["findings"] if one["because_of"] is None]
    assert (root["check"], root["nodes"]) == ("environment/master-mismatch", ["host1"])
    assert "host1: environment/master-mismatch: host1 looks for the store at host1, and host0 has it" in done.stderr


@pytest.mark.scoreboard
def test_every_task_takes_the_host_that_srun_was_typed_on_for_the_master(with_slurm: Site) -> None:
    """One document: the second task does not take the first for gone because nothing listens there."""
    own = 'MASTER_ADDR=$SLURM_LAUNCH_NODE_IPADDR exec "$@"'
    waiting = [sys.executable, "-m", "distdoctor", "check", "--json", "--wait", "8"]
    done = with_slurm.run(["srun", "-N2", "/mnt/job", "sh", "-c", own, "sh", *waiting])
    report = json.loads(done.stdout)
    assert [(f["check"], f["nodes"]) for f in report["findings"]] == [("network/master-not-node0", ["host0"])]


@pytest.mark.scoreboard
def test_torchruns_that_take_themselves_for_the_whole_job(with_slurm: Site) -> None:
    """``srun torchrun`` without --nnodes: each trains alone. With the flags of the fix it is one job."""
    agent = [JOB, sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1"]
    done = with_slurm.run(["srun", "-N2", "--ntasks-per-node=1", *agent, *check("--until", "network")[2:]])
    report, _ = json.JSONDecoder().raw_decode(done.stdout)
    (finding,) = [one for one in report["findings"] if one["check"] == "environment/agents-apart"]
    assert "starts a job of one node" in finding["summary"]
    assert (done.returncode, report["verdict"]) == (0, "warn")
    flags = finding["fixes"][0]["flags"]
    assert (flags["--nnodes"], flags["--master-addr"]) == ("2", "host0")
    words = 'agent=$1; shift; exec "$agent" -m torch.distributed.run --node-rank "$SLURM_NODEID" "$@"'
    given = [word for name in ("--nnodes", "--master-addr") for word in (name, flags[name])]
    fixed = [JOB, "sh", "-c", words, "sh", sys.executable, *given, *agent[4:], *check("--until", "network")[2:]]
    report, _ = json.JSONDecoder().raw_decode(with_slurm.run(["srun", "-N2", "--ntasks-per-node=1", *fixed]).stdout)
    assert (report["verdict"], report["plan"]["nnodes"], report["findings"]) == ("pass", 2, [])
    launch = [JOB, sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "-m"]
    accelerated = with_slurm.run(["srun", "-N2", "--ntasks-per-node=1", *launch, *check("--until", "network")[3:]])
    assert "starts a job of one node" in accelerated.stdout and "--num_machines N" in accelerated.stdout
    told = ["--standalone", *check("--until", "network")[2:]]
    alone = with_slurm.run(["srun", "-N2", "--ntasks-per-node=1", *agent, *told])
    assert "starts a job of one node" not in alone.stdout and '"schema_version": 1' in alone.stdout


@pytest.mark.scoreboard
def test_what_each_node_climbs_alone_is_told_of_that_node(with_slurm: Site) -> None:
    """The second node's fault is on stderr and in the status."""
    with_slurm.sets("host1", GLOO_SOCKET_IFNAME="ib0")
    try:
        done = with_slurm.run(["srun", "-N2", *check("--until", "network")])
    finally:
        with_slurm.sets("host1")
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"], [node["name"] for node in report["nodes"]]) == (1, "pass", ["host0"])
    assert "each node is checked by itself; this report is of host0" in report["notes"][0]
    assert "host1: gloo/interface-not-found" in done.stderr


@pytest.mark.scoreboard
def test_a_node_s_flags_in_a_batch_script(with_slurm: Site) -> None:
    script = "\n".join(["#!/bin/sh", " ".join(check("--nnodes", "2", "--wait", "6"))])
    with_slurm.cluster.put("batch", script)
    told = "sbatch --wait --quiet -N2 --output=/mnt/batch.out --error=/dev/null /mnt/batch; cat /mnt/batch.out"
    report = json.loads(with_slurm.run(["sh", "-c", told]).stdout)
    (finding,) = report["findings"]
    assert (finding["check"], finding["nodes"]) == ("store/nodes-missing", ["host1"])
    assert "Put `srun --ntasks-per-node=1` before the line" in finding["fixes"][0]["text"]


ODD = '[ "$TASK" = {task} ] && export {setting}; exec "$@"'


def with_odd_task(variable: str, task: int, setting: str, wait: str = "8") -> list[str]:
    """A check in which the launcher's task ``task`` exports ``setting`` before it."""
    script = f"TASK=${variable}; {ODD.format(task=task, setting=setting)}"
    return ["sh", "-c", script, "sh", sys.executable, "-m", "distdoctor", "check", "--json", "--wait", wait]


@pytest.mark.parametrize(
    ("shape", "task", "host"),
    [(("-N1", "-n3"), 2, "host0"), pytest.param(("-N2", "-n4"), 3, "host1", marks=pytest.mark.scoreboard)],
)
def test_a_task_with_another_port_beside_others_on_its_node(
    with_slurm: Site, shape: tuple[str, ...], task: int, host: str
) -> None:
    env = {"MASTER_ADDR": "host0", "MASTER_PORT": "29611"}
    odd = with_odd_task("SLURM_PROCID", task, "MASTER_PORT=29777", wait="40")
    done = with_slurm.run(["srun", *shape, JOB, *odd], env=env)
    report = json.loads(done.stdout)
    (root,) = [one for one in report["findings"] if one["because_of"] is None]
    assert (report["verdict"], root["check"], root["nodes"]) == ("fail", "environment/master-mismatch", [host])
    assert root["ranks"] == [task] and root["fixes"][0]["env"] == {"MASTER_PORT": "29611"}


@pytest.mark.parametrize(
    ("nodes", "task", "setting", "blamed", "fix"),
    [
        (2, 1, "MASTER_PORT=29777", "host1", {"MASTER_PORT": "29611"}),
        pytest.param(3, 0, "MASTER_PORT=29777", "host0", {"MASTER_PORT": "29611"}, marks=pytest.mark.scoreboard),
        pytest.param(3, 2, "MASTER_ADDR=host1", "host2", {"MASTER_ADDR": "host0"}, marks=pytest.mark.scoreboard),
    ],
)
def test_a_task_with_another_master_is_named_in_one_report(
    with_slurm: Site, nodes: int, task: int, setting: str, blamed: str, fix: dict[str, str]
) -> None:
    """On ports that no rule would guess: node 0's notice leads the others to its store."""
    env = {"MASTER_ADDR": "host0", "MASTER_PORT": "29611"}
    done = with_slurm.run(["srun", f"-N{nodes}", JOB, *with_odd_task("SLURM_PROCID", task, setting)], env=env)
    report = json.loads(done.stdout)  # one document
    (root,) = [one for one in report["findings"] if one["because_of"] is None]
    assert (done.returncode, root["check"], root["nodes"]) == (1, "environment/master-mismatch", [blamed])
    assert root["ranks"] == [task] and root["fixes"][0]["env"] == fix
    assert all(port in " ".join(root["evidence"]) for port in ("29611", setting.partition("=")[2])), root
