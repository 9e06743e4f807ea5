"""Ray's jobs by what its processes and files show, as Ray 2.49 wrote them; Ray itself need not be installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distdoctor.hang import ray as hang_ray
from distdoctor.hang.ray import Session, session_view
from distdoctor.hang.stacks import training_thread
from distdoctor.model.facts import Frame, RayBundle, RayDemand, RayView

HEAD = """2026-11-28 04:56:55,954\tINFO autoscaler.py:408 --
======== Autoscaler status: 2026-11-28 04:56:55.954 ========
Node status
---------------------------------------------------------------
Active:
 1 node_08203059a251817f2db5f377b4585b5a251d8dd834f7ce425b24a50c
{more}Pending:
 {pending}
Recent failures:
 (no failures)

Resources
---------------------------------------------------------------
Total Usage:
 {used}/2.0 CPU
 0B/21.54GiB memory
 693B/100.00MiB object_store_memory

Total Constraints:
 (no request_resources() constraints)
Total Demands:
 {demands}
"""
NEXT = (
    "2026-11-28 04:57:05,962\tINFO autoscaler.py:463 -- The autoscaler took 0.001 seconds to complete the iteration.\n"
)
REFUSED = (
    "2026-11-28 04:57:00,952\tINFO monitor.py:434 -- :event_summary:Error: No available node types can fulfill "
    "resource request {'CPU': 1.0, 'GPU': 1.0}. Add suitable node types to this cluster to resolve this issue.\n"
)
WORKERS_V1 = """:job_id:01000000
:actor_name:TrainTrainable
Started distributed worker processes:
- (node_id=1e3a, ip=10.0.0.1, pid=7) world_rank=0, local_rank=0, node_rank=0
- (node_id=1e3a, ip=10.0.0.1, pid=8) world_rank=1, local_rank=1, node_rank=0
Started distributed worker processes:
- (node_id=1e3a, ip=10.0.0.1, pid={first}) world_rank=0, local_rank=0, node_rank=0
- (node_id=77aa, ip=10.0.0.2, pid={second}) world_rank=1, local_rank=0, node_rank=1
"""
WORKERS_V2 = """Started training worker group of size 2:
- (ip=10.0.0.1, pid={first}) world_rank=0, local_rank=0, node_rank=0
- (ip=10.0.0.2, pid={second}) world_rank=1, local_rank=0, node_rank=1
"""


def status(demands: str = "(no resource demands)", used: str = "0.0", pending: str = "(no pending nodes)") -> str:
    return HEAD.format(more="", demands=demands, used=used, pending=pending) + NEXT


def seen(tmp_path: Path, log: str) -> RayView:
    (tmp_path / "logs").mkdir(exist_ok=True)
    (tmp_path / "logs/monitor.log").write_text(log)
    return session_view(Session(1, tmp_path, "/tmp/ray/session_1"), 9, {})


def test_what_waits_to_be_placed(tmp_path: Path) -> None:
    waits = "{'CPU': 1.0, 'GPU': 1.0} * 1, {'GPU': 1.0} * 3 (PACK): 1+ pending placement groups"
    found = seen(tmp_path, status() + REFUSED + status(waits))
    demand = RayDemand((RayBundle({"CPU": 1.0, "GPU": 1.0}), RayBundle({"GPU": 1.0}, 3)), "PACK")
    assert (found.status, found.demands, found.impossible) == (True, (demand,), True)
    assert (found.resources, found.nodes, found.starting) == ({"CPU": (0.0, 2.0)}, 1, ())
    assert (demand.count, demand.total("GPU"), demand.total("CPU")) == (4, 4.0, 1.0)


def test_what_does_not_wait_any_more_is_not_told(tmp_path: Path) -> None:
    found = seen(
        tmp_path, status("{'GPU': 1.0}: 1+ pending tasks/actors") + status(used="2.0", pending="w, 1 launching")
    )
    assert (found.demands, found.resources, found.starting) == ((), {"CPU": (2.0, 2.0)}, ("w, 1 launching",))


def test_actors_that_wait(tmp_path: Path) -> None:
    (demand,) = seen(tmp_path, status("{'GPU': 1.0}: 1+ pending tasks/actors")).demands
    assert demand == RayDemand((RayBundle({"GPU": 1.0}),))


@pytest.mark.parametrize(
    "log",
    [
        "",
        "0\0",
        "======== Autoscaler status:",
        status("{'GPU': x} * 2 (PACK): 1+ pending placement groups"),
        status("{'GPU'} (P): 1 pending placement groups"),
    ],
)
def test_a_log_that_makes_no_sense_tells_nothing(tmp_path: Path, log: str) -> None:
    assert seen(tmp_path, log).demands == ()


MAIN = (
    Frame("wait", "threading.py", 331),
    Frame("get_next", "ray/train/_internal/session.py", 286),
    Frame("main_loop", "ray/_private/worker.py", 984),
    Frame("<module>", "ray/_private/workers/default_worker.py", 323),
)
IDLE = MAIN[2:]
LOOP = Frame("loop", "train.py", 16, own=True)
V1 = (LOOP, Frame("train_fn", "ray/train/_internal/utils.py", 207), Frame("run", "ray/air/_internal/util.py", 107))
MONITOR = Frame("ThreadRunner._monitor_target", "ray/train/v2/_internal/execution/worker_group/thread_runner.py", 72)
V2 = (LOOP, Frame("_run_target", "ray/train/v2/_internal/execution/worker_group/thread_runner.py", 37))


@pytest.mark.parametrize(
    ("stack", "tid"),
    [
        ({5: MAIN, 6: V1}, 6),
        ({5: IDLE, 6: V2}, 6),
        ({5: IDLE, 6: V2, 7: (LOOP, Frame("run", "threading.py", 982))}, 6),
        ({5: IDLE, 6: V2, 7: (MONITOR, Frame("run", "threading.py", 982))}, 6),
        ({5: MAIN}, 5),
        ({5: MAIN, 6: V1, 7: V1}, 5),  # which of them is not known
        ({5: (LOOP, *IDLE), 6: V1}, 5),  # an actor whose method trains
        ({5: (LOOP,), 6: V1}, 5),  # no worker of Ray's
        ({}, 5),
    ],
)
def test_the_thread_that_runs_the_training_function(stack: dict[int, tuple[Frame, ...]], tid: int) -> None:
    assert training_thread(5, stack) == tid


RAYLET = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, b"raylet", 0, 0, 0)
print(1, flush=True)
time.sleep(600)
"""
DRIVER = """
import os, sys, time
held = open(f"{sys.argv[1]}/logs/python-core-driver-01000000{'f' * 48}_{os.getpid()}.log", "w")
print(1, flush=True)
time.sleep(600)
"""
WORKER = """
import ctypes, os, sys, time
print(1, flush=True)
time.sleep(600)
"""


ADDRESS = "10.0.0.1:6379"
FIND = """
import json
from distdoctor.hang import jobs, jobs
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
print(json.dumps([
    {
        "id": job.id,
        "roles": {pid: role for pid, (_, role) in job.members.items()},
        "told": [[one.variables.get(name) for name in names] for one in job.ranks],
        "driver": job.ray and job.ray.driver,
        "workers": job.ray and job.ray.workers,
        "address": job.ray and job.ray.address,
        "demands": job.ray and [demand.count for demand in job.ray.demands],
    }
    for job in jobs.find(jobs.scan_processes())
]))
"""


class Fake:
    """Processes that look like Ray's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "session_1"
        (self.folder / "logs").mkdir(parents=True)
        self.processes: list[subprocess.Popen[str]] = []
        address = ["--node_ip_address=10.0.0.1", f"--gcs-address={ADDRESS}"]
        self.raylet = self.start(RAYLET, f"--session_dir={self.folder}", *address)

    def start(self, code: str, *words: str, title: str = sys.executable, **env: str) -> int:
        """Start a process; gives its number once it runs."""
        command = [title, "-c", code, *words]
        process = subprocess.Popen(
            command, executable=sys.executable, stdout=subprocess.PIPE, text=True, env={**os.environ, **env}
        )
        self.processes.append(process)
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        return process.pid

    def worker(self, title: str) -> int:
        """A worker of this raylet."""
        return self.start(WORKER, title=title, RAY_JOB_ID="01000000", RAY_RAYLET_PID=str(self.raylet))

    def found(self) -> list[dict[str, Any]]:
        """The jobs of these processes, as a process finds them that is not above these."""
        done = subprocess.run([sys.executable, "-c", FIND], capture_output=True, text=True, check=True)
        mine = {str(one.pid) for one in self.processes}
        return [job for job in json.loads(done.stdout) if not mine.isdisjoint(job["roles"])]


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[Fake]:
    fake = Fake(tmp_path)
    try:
        yield fake
    finally:
        for process in fake.processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("log", [WORKERS_V1, WORKERS_V2])
def test_a_worker_has_the_rank_that_ray_train_logged(ray: Fake, log: str) -> None:
    driver, starts = ray.start(DRIVER, str(ray.folder)), ray.worker("ray::TrainController.run")
    first = ray.worker("ray::RayTrainWorker")
    # The process of rank 1 on the other node has a number that another process has here.
    text = log.format(first=first, second=driver)
    (ray.folder / f"logs/worker-aa-01000000-{starts}.err").write_text(text)
    (job,) = ray.found()
    assert job["roles"] == {str(driver): "launcher", str(starts): "launcher", str(first): "rank"}
    assert job["told"] == [["0", "0", "2", "1"]]
    assert (job["driver"], job["workers"], job["address"]) == (driver, {"0": "10.0.0.1", "1": "10.0.0.2"}, ADDRESS)


def test_a_controller_that_waits_is_a_job_without_ranks(ray: Fake) -> None:
    starts = ray.worker("ray::TrainController.run")
    (ray.folder / "logs/monitor.log").write_text(status("{'GPU': 1.0} * 4 (PACK): 1+ pending placement groups"))
    (job,) = ray.found()
    assert (job["roles"], job["driver"], job["demands"]) == ({str(starts): "launcher"}, None, [4])


def test_two_groups_of_one_job_are_two_jobs(ray: Fake) -> None:
    for _ in range(2):
        starts, first = ray.worker("ray::_Inner.train"), ray.worker("ray::RayTrainWorker")
        text = WORKERS_V2.format(first=first, second=1)
        (ray.folder / f"logs/worker-aa-01000000-{starts}.err").write_text(text)
    assert sorted(len(job["told"]) for job in ray.found() if job["told"]) == [1, 1]


def test_a_rank_that_connects_to_ray_stays_in_its_own_job(ray: Fake) -> None:
    told = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}
    rank = ray.start(DRIVER, str(ray.folder), **told)
    (job,) = ray.found()
    assert (job["id"], job["roles"], job["driver"]) == ("127.0.0.1:29577", {str(rank): "rank"}, None)


def test_ranks_that_are_actors_of_their_own_are_the_job_and_not_their_driver(ray: Fake) -> None:
    """As those of a trainer that does without Ray Train."""
    ray.start(DRIVER, str(ray.folder))
    named = WORKER.replace("print", 'ctypes.CDLL(None).prctl(15, b"gloo_tcp_loop", 0, 0, 0)\nprint', 1)
    told = {"LOCAL_RANK": "0", "RAY_JOB_ID": "01000000", "RAY_RAYLET_PID": str(ray.raylet)}
    actor = ray.start(named, title="ray::WorkerDict", **told)
    assert [job["roles"] for job in ray.found()] == [{str(actor): "rank"}]


def test_idle_workers_and_a_driver_without_torch_are_no_job_beside_one(ray: Fake) -> None:
    ray.worker("ray::IDLE")
    driver = ray.start(DRIVER, str(ray.folder))
    assert hang_ray.job_of_driver(driver, hang_ray.sessions([ray.raylet])[0]) == "01000000"
    other = ray.start(WORKER, RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29577")
    assert [job["roles"] for job in ray.found()] == [{str(other): "rank"}]
