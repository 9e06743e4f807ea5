"""``check --ray`` on a real Ray cluster of three raylets in the lab; skipped where Ray is not installed.

Ray's own start takes most of the time: one cluster serves all tests.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.host import PRIVATE, Host
from tests.lab.harness.namespaces import why_not
from tests.lab.harness.runner import roots

if importlib.util.find_spec("ray") is None:
    pytest.skip("Ray is not installed here: pip install ray", allow_module_level=True)

pytestmark = [pytest.mark.long, pytest.mark.scoreboard, pytest.mark.timeout(900)]
START_SECONDS = 300
HEAD, PORTS = "10.77.0.10:6379", range(52365, 52369)
AGENT_PORTS = ("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "metrics-export-port",
               "runtime-env-agent-port")  # fmt: skip
"""Ports of Ray's helpers: without a fixed one the raylet waits 15 s at most for each to start."""
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_agent_register_timeout_ms": "200000", "HOME": f"{PRIVATE}/tmp"}
RAY = [sys.executable, "-m", "ray.scripts.scripts"]
CHECK = [sys.executable, "-m", "distdoctor", "check", "--json", "--nproc-per-node", "1", "--timeout", "300"]
LEFT = "ps -eo args | grep -i [d]istdoctor"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three hosts with a raylet each."""
    if reason := why_not():
        pytest.skip(reason)
    ray = Path(str(importlib.util.find_spec("ray").origin)).parents[1]  # type: ignore[union-attr]
    with Cluster(3, shown=[ray]) as hosts:
        for host in hosts:
            start(host)
        yield hosts


def start(host: Host, *flags: str, **variables: str) -> None:
    """Start a raylet; its own output would keep a pipe open."""
    place = ["--head", "--port=6379", "--include-dashboard=false"] if host.index == 0 else [f"--address={HEAD}"]
    ports = [f"--{name}={port}" for name, port in zip(AGENT_PORTS, PORTS, strict=True)]
    command = [*RAY, "start", *place, *ports, "--num-cpus=1", *flags,
               f"--node-ip-address={host.addresses[0]}", "--object-store-memory=90000000"]  # fmt: skip
    script = f"{shlex.join(command)} >{PRIVATE}/ray.log 2>&1 </dev/null || {{ tail {PRIVATE}/ray.log; exit 1; }}"
    for _ in range(3):  # Ray gives its own processes 30 s to start, which a busy machine may miss
        done = host.run(["sh", "-c", script], env={**ENVIRONMENT, **variables}, timeout=START_SECONDS)
        if done.returncode == 0:
            return
        host.run([*RAY, "stop", "--force"], env=ENVIRONMENT, timeout=START_SECONDS)
    pytest.skip(f"Ray does not start here: {done.stdout.strip().splitlines()[-1:]}")


def check(host: Host, *flags: str, **variables: str) -> tuple[int, Any]:
    """The status and the report of a check on this host."""
    done = host.run([*CHECK, *flags], env={**ENVIRONMENT, **variables}, timeout=400)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def findings(report: Any) -> list[tuple[str, Sequence[str]]]:
    """The root causes, with their nodes."""
    return [(one["check"], one["nodes"]) for one in roots(report)]


def nothing_left(cluster: Cluster) -> None:
    """No actor and none of its processes is left on any host."""
    end = time.monotonic() + 60
    while any(host.sh(LEFT).stdout for host in cluster):
        assert time.monotonic() < end, [host.sh(LEFT).stdout for host in cluster]
        time.sleep(0.5)


@pytest.mark.parametrize("nodes", [2, 3])
def test_healthy_nodes_pass(cluster: Cluster, nodes: int) -> None:
    status, report = check(cluster[0], "--ray", HEAD, "--nnodes", str(nodes))
    assert (status, report["verdict"], report["findings"]) == (0, "pass", [])
    assert [node["name"] for node in report["nodes"]] == ["host0", "host1", "host2"][:nodes]
    nothing_left(cluster)


def test_a_blocked_port_between_workers_is_named(cluster: Cluster) -> None:
    rule = "tcp dport 29500 ip saddr 10.77.0.11 drop"
    cluster[0].inside(
        f"nft -f - <<'END'\ntable inet f {{\nchain c {{\ntype filter hook input priority 0;\n{rule}\n}}\n}}\nEND"
    )
    try:
        status, report = check(cluster[0], "--ray", HEAD, "--nnodes", "2", "--wait", "20")
    finally:
        cluster[0].inside("nft delete table inet f")
    assert status == 1
    assert findings(report) == [("network/port-filtered", ["host0"])], report["findings"]


INSIDE = """
import json, os, sys, ray
head, way, interface, folder = sys.argv[1:]
ray.init(address=head, log_to_driver=False)

@ray.remote(num_cpus=0)
class Told:
    def __init__(self): self.all = []
    def add(self, *one): self.all.append(one)
    def get(self): return sorted(self.all)

def work(rank, told):
    import distdoctor
    if rank == 1 and interface:
        os.environ["GLOO_SOCKET_IFNAME"] = interface
    found = distdoctor.preflight("gloo", fail_on="never", wait=200, timeout=200)
    ids = [one["id"] for one in found.findings]
    ray.get(told.add.remote(rank, found.verdict, ids, found.text))

told = Told.remote()
if way == "train":
    import ray.train
    from ray.train.torch import TorchConfig, TorchTrainer
    scaling = ray.train.ScalingConfig(num_workers=3, resources_per_worker={"CPU": 1}, placement_strategy="SPREAD")
    run = ray.train.RunConfig(storage_path=folder)
    loop = lambda config: work(ray.train.get_context().get_world_rank(), told)
    TorchTrainer(loop, torch_config=TorchConfig(backend="gloo"), scaling_config=scaling, run_config=run).fit()
else:
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as Strategy
    group = placement_group([{"CPU": 1}] * 3, "STRICT_SPREAD")
    ray.get(group.ready())

    @ray.remote(num_cpus=1)
    class Rank:
        def address(self): return ray.util.get_node_ip_address()
        def go(self, rank, master):
            names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
            os.environ.update(zip(names, (str(rank), "3", "0", "1", master, "29600")))
            work(rank, told)

    ranks = [Rank.options(scheduling_strategy=Strategy(group, number)).remote() for number in range(3)]
    master = ray.get(ranks[0].address.remote())
    ray.get([one.go.remote(number, master) for number, one in enumerate(ranks)])
print(json.dumps(ray.get(told.get.remote())))
"""


@pytest.mark.parametrize("way", ["train", "actors"])
@pytest.mark.parametrize("interface", ["", "eth9"])
def test_preflight_inside_a_trainer_and_in_the_actors_of_a_placement_group(
    cluster: Cluster, tmp_path: Path, way: str, interface: str
) -> None:
    """One report for all ranks: each of them has the same findings."""
    if way == "train" and importlib.util.find_spec("tensorboardX") is None:
        pytest.skip("Ray Train is not installed here: pip install 'ray[train]'")
    command = [sys.executable, "-c", INSIDE, HEAD, way, interface, str(tmp_path)]
    done = cluster[0].run(command, env=ENVIRONMENT, timeout=600)
    told = json.loads(done.stdout.splitlines()[-1])
    verdict, ids = ("fail", ["gloo/interface-not-found"]) if interface else ("pass", [])
    assert [one[:3] for one in told] == [[rank, verdict, ids] for rank in range(3)], told


def test_a_setting_of_the_shell_alone_is_named(cluster: Cluster) -> None:
    status, report = check(cluster[0], "--ray", HEAD, "--until", "network", NCCL_IB_DISABLE="1")
    (finding,) = report["findings"]
    assert (status, finding["check"], finding["severity"]) == (0, "environment/setting-mismatch", "warn")
    assert finding["summary"].startswith("NCCL_IB_DISABLE is set in this shell, and not so in the Ray workers on ")


def test_the_servers_of_the_jobs_line_are_tried_in_the_actors(cluster: Cluster) -> None:
    queue = "transfer_queue.backend"
    settings = [
        f"{queue}.storage_backend=MooncakeStore",
        f"{queue}.MooncakeStore.master_server_address=10.77.0.12:50124",
    ]
    line = ["--", "python", "-m", "verl.trainer.main_ppo", "transfer_queue.enable=True", *settings]
    status, report = check(cluster[0], "--ray", HEAD, "--until", "network", *line)
    assert status == 1
    assert findings(report) == [("network/engine-server-unreachable", ["host2"])], report["findings"]


def test_ctrl_c_leaves_nothing(cluster: Cluster) -> None:
    process = cluster[2].popen([*CHECK, "--ray", HEAD], env=ENVIRONMENT)
    assert process.stderr is not None
    for line in process.stderr:
        if "environment: ok" in line:
            break
    process.send_signal(signal.SIGINT)
    report = json.loads(process.communicate(timeout=120)[0])
    assert report["verdict"] != "pass"
    assert "interrupted by SIGINT" in report["notes"][0]
    nothing_left(cluster)


def test_a_missing_node_is_named(cluster: Cluster) -> None:
    """From now on host1 is gone, and started again with a variable of its own."""
    cluster[1].run([*RAY, "stop", "--force"], env=ENVIRONMENT, timeout=120)
    end = time.monotonic() + 120
    while True:
        done = cluster[0].run([*CHECK, "--ray", HEAD, "--nnodes", "3"], env=ENVIRONMENT, timeout=400)
        if "host1 (10.77.0.11) is dead" in done.stderr + done.stdout:
            break
        assert time.monotonic() < end, done
    assert done.returncode == 2
    start(cluster[1], GLOO_SOCKET_IFNAME="eth9")
    status, report = check(cluster[0], "--ray", HEAD, "--nnodes", "3")
    assert status == 1
    assert findings(report) == [("gloo/interface-not-found", ["host1"])], report["findings"]


def test_an_actor_for_each_gpu(cluster: Cluster) -> None:
    """A GPU is a number that Ray counts: none is there. The last two hosts start again with some."""
    for host in (cluster[1], cluster[2]):
        host.run([*RAY, "stop", "--force"], env=ENVIRONMENT, timeout=120)
        start(host, "--num-gpus=2")
    status, report = check(cluster[0], "--ray", HEAD, "--per-gpu", "--nproc-per-node", "2", "--backend", "gloo")
    assert (status, report["verdict"], report["findings"]) == (0, "pass", [])
    assert [node["name"] for node in report["nodes"]] == ["host1#0", "host1#1", "host2#2", "host2#3"]
    nothing_left(cluster)


HOLD = """
import sys, time, ray
from ray.util import placement_group
ray.init(address=sys.argv[1], log_to_driver=False)
ray.get(placement_group([{"GPU": 1}], "PACK", name="trainer").ready())
print("holds", flush=True)
time.sleep(1000)
"""
GROUPS = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
print([one["state"] for one in ray.util.placement_group_table().values() if one["name"] == "distdoctor"])
"""


def no_group_is_left(cluster: Cluster) -> None:
    nothing_left(cluster)
    done = cluster[0].run([sys.executable, "-c", GROUPS, HEAD], env=ENVIRONMENT, timeout=120)
    assert set(ast.literal_eval(done.stdout.splitlines()[-1])) == {"REMOVED"}, done


@pytest.mark.parametrize(
    ("strategy", "flags", "nodes_of_a_host"),
    [
        ("SPREAD", ["--per-gpu"], [2, 2]),
        ("STRICT_SPREAD", [], [1, 1]),
        ("STRICT_PACK", ["--per-gpu", "--nnodes=1"], [2]),
    ],
)
def test_actors_in_placement_groups(
    cluster: Cluster, strategy: str, flags: list[str], nodes_of_a_host: list[int]
) -> None:
    """In the cluster of the test before, with two GPUs on each of two hosts."""
    more = ["--placement-group", strategy, "--nproc-per-node", "2", "--backend", "gloo", *flags]
    status, report = check(cluster[0], "--ray", HEAD, *more)
    assert (status, report["verdict"], report["findings"]) == (0, "pass", []), report
    assert sorted(Counter(node["hostname"] for node in report["nodes"]).values()) == nodes_of_a_host
    no_group_is_left(cluster)


def test_a_group_without_room_names_who_has_it(cluster: Cluster) -> None:
    with cluster[2].popen([sys.executable, "-c", HOLD, HEAD], env=ENVIRONMENT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "holds"
        flags = ["--ray", HEAD, "--placement-group", "STRICT_SPREAD", "--nproc-per-node", "2"]
        done = cluster[0].run([*CHECK, *flags], env=ENVIRONMENT, timeout=400)
        waits = cluster[0].popen([*CHECK, *flags], env=ENVIRONMENT)
        time.sleep(8)  # Ray waits for room
        waits.send_signal(signal.SIGINT)
        waits.communicate(timeout=60)
        no_group_is_left(cluster)
        holder.kill()
    assert done.returncode == 2
    said = re.sub(r"job \w{8}, .* \(pid \d+ on ", "job JOB, DRIVER (pid PID on ", done.stderr)
    held = re.search(r"holds 1 on (host\d)", said)
    assert held is not None, said
    assert "Ray did not place 2 bundles of 2 GPUs (STRICT_SPREAD): there is room for 1 of them; " in said
    assert "without other jobs there is room for all; " in said
    assert f"{held[1]} 1 of 2 GPUs" in said
    assert "placement group trainer of job JOB, DRIVER (pid PID on 10.77.0.12), holds 1 on " in said
    no_group_is_left(cluster)


def test_ctrl_c_removes_the_groups(cluster: Cluster) -> None:
    flags = ["--ray", HEAD, "--placement-group", "PACK", "--nproc-per-node", "2"]
    process = cluster[2].popen([*CHECK, *flags], env=ENVIRONMENT)
    assert process.stderr is not None
    for line in process.stderr:
        if "environment: ok" in line:
            break
    process.send_signal(signal.SIGINT)
    assert json.loads(process.communicate(timeout=120)[0])["verdict"] != "pass"
    no_group_is_left(cluster)


def test_a_cluster_with_a_token() -> None:
    """The head of a cluster of its own has one; Ray uses it by itself only where it finds the cluster itself."""
    if reason := why_not():
        pytest.skip(reason)
    ray = Path(str(importlib.util.find_spec("ray").origin)).parents[1]  # type: ignore[union-attr]
    with Cluster(2, shown=[ray]) as hosts:
        folder = f"{ENVIRONMENT['HOME']}/.ray"
        hosts[0].inside(f"mkdir -p {folder} && printf %032d 7 >{folder}/auth_token")
        start(hosts[0])
        status, report = check(hosts[0], "--ray", "--nnodes", "1")
        assert (status, report["verdict"]) == (0, "pass"), report
        done = hosts[1].run([*CHECK, "--ray", HEAD], env=ENVIRONMENT, timeout=200)
        assert done.returncode == 2
        assert f"no Ray cluster answered at {HEAD}: the cluster wants a token: set RAY_AUTH_MODE=token" in done.stderr
