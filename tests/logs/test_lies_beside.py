"""Tests of what a kernel, and tools that were asked, say beside the logs of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import CLOSED, judged_files, raised

STEPS = "2026-11-20 09:58:01 step 100 loss 2.31\n2026-11-20 09:58:11 step 110 loss 2.30\n"
ENDED = f"{STEPS}2026-11-20 10:58:21 step 4000 loss 1.20\nTraining completed.\nDone.\n"
XID_13 = (
    "[{day} 2026] NVRM: Xid (PCI:0000:3b:00): 13, pid=11, name=python, Graphics Exception: ESR 0x50df30=0x107000e\n"
)
LINK_DOWN = "[Fri Nov 20 {time} 2026] mlx5_core 0000:ab:00.0 ibs5: Link down\n"
GIVEN_UP = (
    "2026-11-20 10:00:07 node1:1:2 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer "
    "10.0.0.2<40000> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_3\n"
)
SMI = """==============NVSMI LOG==============

Attached GPUs                             : 1
GPU 00000000:18:00.0
    Remapped Rows
        Pending                           : No
        Remapping Failure Occurred        : {failed}
    Fabric
        Status                            : Success
"""
IBSTAT = "CA 'mlx5_3'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n"
POD = """Name:             train-worker-1
Namespace:        team
Containers:
  pytorch:
    State:          {state}{last}
    Ready:          False
"""
COMPLETED = "Terminated\n      Reason:       Completed\n      Exit Code:    0"
KILLED = "\n    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137"
ACCOUNT = "JobID           JobName      State ExitCode \n4711              train  COMPLETED      0:0 \n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nvidia-smi-q-node1.txt", SMI.format(failed="No")),
        ("ibstat-node2.txt", IBSTAT),
        ("sacct.txt", ACCOUNT),
        ("node1.dmesg", "[Fri Nov 20 10:31:00 2026] mlx5_core 0000:ab:00.0 ibs5: Link up\n"),
        ("disks.txt", "Filesystem      Size  Used Avail Use% Mounted on\n/dev/sda1  1.8T  1.6T  160G  91% /\n"),
        (
            "memory.txt",
            "               total        used        free      shared  buff/cache   available\nMem: 1 0 1 0 0 1\n",
        ),
        (
            "links.txt",
            "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue\n3: eth1: <NO-CARRIER> mtu 1500 state DOWN\n",
        ),
        (
            "nodes.txt",
            "REASON               USER      TIMESTAMP           NODELIST\nmaintenance root 2026-11-19T10:19:12 n33\n",
        ),
        ("pod.txt", POD.format(state=COMPLETED, last="")),
        ("pod.txt", POD.format(state=COMPLETED, last=KILLED)),  # and did well when it was started again
        ("pyspy-rank0.txt", 'Thread 7 (active): "MainThread"\n    all_reduce (distributed_c10d.py:2825)\n'),
        (  # NCCL Inspector (ext-profiler/inspector/README.md of NCCL)
            "n1-pid4711.log",
            '{"header":{"id":"0x7f8c496ae9f661","rank":2,"n_ranks":8,"nnodes":1},"metadata":{"hostname":"n1"},"coll_perf":'
            '{"coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974}}\n',
        ),
    ],
)
def test_a_job_that_ended_well_is_a_pass_beside_them(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "train.log").write_text(ENDED)
    (tmp_path / name).write_text(text)
    found = judged_files(tmp_path)
    assert (found.verdict, found.findings) == ("pass", ())


@pytest.mark.parametrize("day", ["Mon Nov  2 08:00:00", "Fri Nov 20 10:30:00"])
def test_what_shows_no_failure_of_a_job_that_ended_well(tmp_path: Path, day: str) -> None:
    """It may be another program's: it is told, and fails nothing."""
    found = judged_files(write(tmp_path, {"train.log": ENDED, "node1.dmesg": XID_13.format(day=day)}))
    assert (found.verdict, found.candidates) == ("warn" if day.startswith("Fri") else "pass", ())
    assert any("beside a job that ended well" in note for note in found.notes) == day.startswith("Fri")


def test_a_fault_is_one_also_beside_a_job_that_says_it_ended(tmp_path: Path) -> None:
    fault = XID_13.format(day="Fri Nov 20 10:30:00").replace(": 13,", ": 79,")
    assert judged_files(write(tmp_path, {"train.log": ENDED, "node1.dmesg": fault})).verdict == "fail"


@pytest.mark.parametrize(
    ("row", "check"),
    [
        ("4711              train     FAILED      1:0 ", "process/exception"),
        ("4711              train CANCELLED+      0:0 ", "process/killed-by-scheduler"),
    ],
)
def test_whom_the_scheduler_has_as_failed_did_not_end_well(tmp_path: Path, row: str, check: str) -> None:
    """Whatever its log says last: another step, or the script, may have failed."""
    table = ACCOUNT.replace("4711              train  COMPLETED      0:0 ", row)
    for log in (ENDED, STEPS):
        found = judged_files(write(tmp_path, {"train.log": log, "sacct.txt": table}))
        assert (found.verdict, [one.check for one in found.candidates]) == ("incomplete", [check])


OOM = "[Fri Nov 20 {time} 2026] Out of memory: Killed process 31337 (python3) total-vm:8kB, anon-rss:6kB, UID:1001\n"


@pytest.mark.parametrize(("log", "verdict"), [(ENDED, "pass"), (STEPS, "warn")])
def test_a_process_that_the_kernel_killed_hours_before_was_another(tmp_path: Path, log: str, verdict: str) -> None:
    found = judged_files(write(tmp_path, {"train.log": log, "node1.dmesg": OOM.format(time="05:10:00")}))
    assert (found.verdict, found.findings) == (verdict, ())
    during = write(tmp_path, {"train.log": log, "node1.dmesg": OOM.format(time="09:58:30")})
    assert judged_files(during).verdict == "fail"


@pytest.mark.parametrize(
    ("rows", "check"),
    [
        (("4711 train COMPLETED 0:0", "4711 train NODE_FAIL 0:0"), "process/killed-by-scheduler"),
        (("4711_1 train NODE_FAIL 0:0", "4711_2 train COMPLETED 0:0"), "process/killed-by-scheduler"),
        (("4711 train NODE_FAIL 0:0", "4711.batch batch COMPLETED 0:0"), "process/killed-by-scheduler"),
        (
            ("4711 train COMPLETED 0:0", "4712 train COMPLETED 0:0", "4713 train TIMEOUT 0:0"),
            "process/killed-by-scheduler",
        ),
        (("4710 train CANCELLED 0:15", "4711 train COMPLETED 0:0"), "process/killed-by-scheduler"),
    ],
)
def test_a_job_that_the_scheduler_has_as_failed(tmp_path: Path, rows: tuple[str, ...], check: str) -> None:
    table = "JobID JobName State ExitCode\n" + "".join(f"{row} \n" for row in rows)
    found = judged_files(write(tmp_path, {"train.log": ENDED, "sacct.txt": table}))
    told = [*(one.check for one in found.findings), *(one.check for one in found.candidates)]
    assert told == ([check] if check else [])
    assert (found.verdict == "pass") == (not check)


@pytest.mark.parametrize("row", ["2m11s", "team  2m11s (x3 over 9m)", "<invalid>"])
def test_whose_event_it_is(tmp_path: Path, row: str) -> None:
    event = f"{row}   Normal   Preempted   pod/train-worker-2   Preempted by pod 6c8b61ee on node gke-a100-3\n"
    files = {"train-worker-0.log": f"{STEPS}[rank0]: {CLOSED}\n", "events.txt": event}
    found = judged_files(write(tmp_path, files)).findings[0]
    assert (found.check, found.nodes) == ("process/killed-by-scheduler", ("train-worker-2",))


def test_a_symptom_of_another_day_is_no_candidate(tmp_path: Path) -> None:
    failed = f"{STEPS}2026-11-20 10:00:00 RuntimeError: CUDA error: unspecified launch failure\n"
    for day, told in (("Mon Nov  2 08:00:00", False), ("Fri Nov 20 09:59:59", True)):
        found = judged_files(write(tmp_path, {"train.log": failed, "node1.dmesg": XID_13.format(day=day)}))
        assert found.verdict == "incomplete"
        assert any("Xid" in match.text for match in found.reading.symptoms) == told


def test_a_folder_of_them_alone_shows_nothing_of_a_job(tmp_path: Path) -> None:
    found = judged_files(write(tmp_path, {"nvidia-smi.txt": SMI.format(failed="No")}))
    assert found.verdict == "incomplete"
    assert "none of these files is a log of the job" in found.notes[0]


def test_a_row_that_could_not_be_replaced_is_a_candidate(tmp_path: Path) -> None:
    found = judged_files(write(tmp_path, {"train.log": STEPS, "nvidia-smi.txt": SMI.format(failed="Yes")}))
    assert [one.check for one in found.candidates] == ["gpu/hardware"]


@pytest.mark.parametrize(
    ("time", "root", "node"),
    [
        ("09:59:58", "nccl/infiniband-link", "node2"),
        ("09:30:00", "nccl/infiniband-unreachable", "node1"),  # not what NCCL met half an hour later
        ("10:02:00", "nccl/infiniband-unreachable", "node1"),  # nor after it
    ],
)
def test_a_link_that_went_down_before_a_peer_did_not_answer(tmp_path: Path, time: str, root: str, node: str) -> None:
    found = judged_files(write(tmp_path, {"console.log": GIVEN_UP, "node2.dmesg": LINK_DOWN.format(time=time)}))
    assert (found.findings[0].check, found.findings[0].nodes) == (root, (node,))
    told = [one.check for one in found.findings if one.because_of is not None]
    assert told == (["nccl/infiniband-unreachable"] if root == "nccl/infiniband-link" else [])


PYSPY = """Process {pid}: python train.py
Python v3.11.9 (/usr/bin/python3.11)

Thread 0x7F00 (idle): "Thread-1"
    wait (threading.py:331)
Thread {pid} (active): "MainThread"
    {place}
    train (train.py:42)
"""
ALL_REDUCE, READ = "all_reduce (torch/distributed/distributed_c10d.py:2825)", "read (data.py:18)"


@pytest.mark.parametrize(
    ("places", "ranks"),
    [
        ([ALL_REDUCE, ALL_REDUCE, READ, ALL_REDUCE], (2,)),
        ([READ, ALL_REDUCE, ALL_REDUCE, READ, ALL_REDUCE], (0, 3)),
        ([ALL_REDUCE] * 3, None),  # all at one place
        ([ALL_REDUCE, READ], None),  # neither is the odd one
        ([ALL_REDUCE, READ, "write (save.py:1)"], None),
    ],
)
def test_stacks_of_ranks_that_stand_elsewhere(tmp_path: Path, places: list[str], ranks: tuple[int, ...] | None) -> None:
    stacks = {f"pyspy-rank{n}.txt": PYSPY.format(pid=100 + n, place=place) for n, place in enumerate(places)}
    found = judged_files(write(tmp_path, stacks))
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert [one.check for one in found.candidates] == (["process/waiting-in-user-code"] if ranks else [])
    if ranks:
        assert found.reading.symptoms[0].ranks == ranks
    assert judged_files(write(tmp_path, {"train.log": ENDED})).verdict == "pass"


FAULTHANDLER = """Current thread 0x00007f9e1b9ba6c0 (most recent call first):
  File "/env/torch/distributed/debug/_handlers.py", line 30 in dump

Thread 0x00007f9e1cc29b80 (most recent call first):
  File "/home/u/{file}", line {line} in {function}
  File "/home/u/train.py", line 42 in <module>
"""


@pytest.mark.parametrize("kind", ["pyspy_dump", "stacks"])
@pytest.mark.parametrize("partial", ["", "PARTIAL DATA: 4/5 workers responded\n  Rank 4: Error: timed out\n\n"])
@pytest.mark.parametrize("odd", [2, None])
def test_stacks_of_all_ranks_by_the_debug_server(tmp_path: Path, kind: str, partial: str, odd: int | None) -> None:
    """Dumps of torch.distributed.debug, as torch 2.13 writes them; the last one counts."""
    work, read = ("wait", "c10d.py", 2825), ("read", "data.py", 18)

    def dump(odd: int | None) -> str:
        each = []
        for rank in range(4):
            function, file, line = read if rank == odd else work
            place = f"{function} ({file}:{line})"
            spied = PYSPY.format(pid=100, place=place)
            stack = FAULTHANDLER.format(function=function, file=file, line=line) if kind == "stacks" else spied
            each.append(f"=== Rank {rank}: http://n{rank // 2}:4{rank}01 ===\n{stack}")
        return partial + "\n".join(each)

    files = {f"{kind}_20261128_1200{n}0.txt": dump(one) for n, one in enumerate((1, odd))}
    found = judged_files(write(tmp_path, files))
    assert found.findings == () and bool(found.candidates) == (odd is not None)
    if odd is not None:
        assert [one.check for one in found.candidates] == ["process/waiting-in-user-code"]
        assert found.reading.symptoms[-1].ranks == (odd,)


REFUSED = """2026-03-02 10:20:01,120 ERROR   MainThread:4120 [retry.py:__call__():163] Retry attempt failed:
Traceback (most recent call last):
  File "/usr/lib/python3/urllib3/connectionpool.py", line 715, in urlopen
    httplib_response = self._make_request(
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.wandb.ai', port=443): Max retries exceeded
"""
HTTP = '{"time":"2026-03-02T10:20:01Z","level":"ERROR","msg":"RuntimeError: upload of run 7 failed"}\n'


@pytest.mark.parametrize("ended", [True, False])
def test_what_wandb_tried_again_is_no_failure_of_the_job(tmp_path: Path, ended: bool) -> None:
    run = tmp_path / "wandb" / "run-20260302_100001-ab12cd34"
    (run / "files").mkdir(parents=True)
    (run / "logs").mkdir()
    write(tmp_path / "wandb", {"debug.log": REFUSED})
    write(run / "logs", {"debug.log": REFUSED, "debug-internal.log": HTTP})
    write(run / "files", {"output.log": ENDED if ended else STEPS * 9})
    for folder in (tmp_path, tmp_path / "wandb", run):
        found = judged_files(folder)
        assert (found.verdict, found.findings) == ("pass" if ended else "warn", ())


@pytest.mark.parametrize("head", ["", "== the next of gpu07\n"])
@pytest.mark.parametrize(
    ("places", "told"),
    [
        ([ALL_REDUCE, ALL_REDUCE, READ, ALL_REDUCE], "stacks: process 102 in read (data.py:18), the 3 others in all"),
        ([ALL_REDUCE] * 3, ""),
        ([ALL_REDUCE, READ], ""),
        # Two workers of a DataLoader and the agent have stacks of their own, too.
        ([ALL_REDUCE, ALL_REDUCE, ALL_REDUCE, "poll (q.py:1)\n    _worker_loop (worker.py:3)"], ""),
    ],
)
def test_stacks_of_several_processes_in_one_file(tmp_path: Path, places: list[str], told: str, head: str) -> None:
    dumps = [PYSPY.format(pid=100 + n, place=place) for n, place in enumerate(places)]
    agent = PYSPY.format(pid=99, place="poll (agent.py:7)").replace("train.py", "-m torch.distributed.run", 1)
    found = judged_files(write(tmp_path, {"pyspy.txt": head + agent + head.join(dumps)}))
    assert found.findings == () and bool(found.candidates) == bool(told)
    if told:
        assert [one.check for one in found.candidates] == ["process/waiting-in-user-code"]
        assert found.reading.symptoms[0].text.startswith(told)


@pytest.mark.parametrize(
    "state", ["Running\n      Started:  Fri, 20 Nov 2026 10:31:00 +0000", COMPLETED.replace("0", "1")]
)
def test_a_container_that_was_killed_and_runs_again_or_failed_again(tmp_path: Path, state: str) -> None:
    found = judged_files(write(tmp_path, {"train.log": STEPS, "pod.txt": POD.format(state=state, last=KILLED)}))
    assert [one.check for one in found.findings] == ["process/killed-by-oom"]
    assert found.findings[0].nodes == ("train-worker-1",)


@pytest.mark.parametrize(
    ("node", "host"),
    [("slurm     2026-11-20T10:19:12 n07", "n07"), ("slurm(200)   2026-11-20T10:19:12 down*  n[07,11]", None)],
)
def test_a_node_that_did_not_answer_slurm(tmp_path: Path, node: str, host: str | None) -> None:
    """It may be another job's."""
    files = {"sinfo.txt": f"REASON               USER      TIMESTAMP           NODELIST\nNot responding       {node}\n"}
    assert judged_files(write(tmp_path, {**files, "train.log": ENDED})).verdict == "pass"
    found = judged_files(write(tmp_path, {"train.log": f"[rank0]: {CLOSED}\n"}))
    told = [one for one in found.reading.symptoms if one.check == "process/killed-by-scheduler"]
    assert [one.who.host for one in told] == [host] and not found.findings
    assert "process/killed-by-scheduler" in [one.check for one in found.candidates]


OF_RANKS = {f"rank{rank}.log": ENDED for rank in (0, 1)}
PODS = """NAMESPACE   NAME                 READY   STATUS             RESTARTS   AGE
team-a      train-worker-1       0/1     Completed          0          42m
team-b      bert-eval-7c9f5d     0/1     OOMKilled          0          3h
team-b      scraper-5d8f-x2x4z   0/1     CrashLoopBackOff   311        26h
"""


@pytest.mark.parametrize(("name", "text"), [("pods.txt", PODS), ("node1.dmesg", OOM.format(time="10:30:00"))])
def test_whom_a_kernel_or_a_cluster_killed_beside_ranks_that_ended_well(tmp_path: Path, name: str, text: str) -> None:
    """Where the ranks themselves say so: a script says it whatever becomes of them."""
    found = judged_files(write(tmp_path, {**OF_RANKS, name: text}))
    assert (found.verdict, found.findings) == ("warn", ())
    assert found.notes[0].startswith("beside a job that ended well: ")
    (tmp_path / "rank1.log").write_text(STEPS)
    assert judged_files(tmp_path).verdict == "fail"


def test_a_script_that_says_it_ended_is_no_rank(tmp_path: Path) -> None:
    during = OOM.format(time="10:30:00")
    assert judged_files(write(tmp_path, {"train.log": ENDED, "node1.dmesg": during})).verdict == "fail"


def test_the_pod_of_a_list_is_named(tmp_path: Path) -> None:
    table = PODS.replace("NAMESPACE   ", "").replace("team-a      ", "").replace("team-b      ", "")
    (root, *_) = judged_files(write(tmp_path, {"rank0.log": CLOSED, "pods.txt": table})).findings
    assert (root.check, root.nodes) == ("process/killed-by-oom", ("bert-eval-7c9f5d",))


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ("4711.1             train     FAILED      1:0 ", "incomplete"),  # the script went on after it
        ("4711.1        nvidia-smi  CANCELLED     0:15 ", "incomplete"),
    ],
)
def test_a_step_that_did_not_complete(tmp_path: Path, row: str, verdict: str) -> None:
    found = judged_files(write(tmp_path, {"train.log": ENDED, "sacct.txt": f"{ACCOUNT}{row}\n"}))
    assert found.verdict == verdict
    assert judged_files(write(tmp_path, {"train.log": STEPS})).verdict == "incomplete"


def test_a_unit_of_something_else_that_was_killed(tmp_path: Path) -> None:
    told = "Nov 20 10:30:00 n1 systemd[1]: {}.service: {}\n"
    lines = (
        "A process of this unit has been killed by the OOM killer.",
        "Main process exited, code=killed, status=9/KILL",
    )
    text = "".join(told.format("snapd", line) for line in lines)
    found = judged_files(write(tmp_path, {"rank0.log": ENDED, "journal.txt": text}))
    assert (found.verdict, found.notes) == ("pass", ())


MANIFEST = """apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    labels:
      job: train
    name: train-worker-{number}
    namespace: team
  status:
    containerStatuses:
    - name: pytorch
      state:
        terminated:
          exitCode: {code}
          reason: {reason}
"""


def test_pods_as_yaml_name_the_one_that_was_killed(tmp_path: Path) -> None:
    pods = MANIFEST.format(number=0, code=1, reason="Error") + MANIFEST.format(number=1, code=137, reason="OOMKilled")
    found = judged_files(write(tmp_path, {"train-worker-0.log": STEPS, "pods.yaml": pods}))
    assert [(one.check, one.nodes) for one in found.findings] == [("process/killed-by-oom", ("train-worker-1",))]


WRITER = "RuntimeError: basic_ios::clear: iostream error\n"
TRACED = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/x/train.py", line 9, in <module>\n'
TRACED += f"[rank1]: {WRITER}"


@pytest.mark.parametrize(
    ("state", "code", "check"),
    [
        ("FAILED", "1:0", "process/exception"),
        ("CANCELLED by 1001", "0:0", "process/killed-by-scheduler"),
        ("TIMEOUT", "0:15", "process/killed-by-scheduler"),
        ("OUT_OF_MEMORY", "0:125", "process/killed-by-oom"),
        ("COMPLETED", "0:0", ""),
    ],
)
def test_a_table_of_sacct_that_is_to_be_parsed(tmp_path: Path, state: str, code: str, check: str) -> None:
    rows = "".join(f"4711{step}|train|{state}|{code}|gpu[03-04]\n" for step in ("", ".batch"))
    found = judged_files(
        write(tmp_path, {"train.log": STEPS, "jobs.txt": f"JobID|JobName|State|ExitCode|NodeList\n{rows}"})
    )
    told = {one.check for one in found.findings} | {one.check for one in found.candidates}
    assert told == ({check} if check else set())
    assert found.verdict == "warn" if not check else found.verdict in ("fail", "incomplete")


@pytest.mark.parametrize(
    "line",
    [
        "worker-1 exited with code 0",
        "worker-1 exited with code 143",  # as docker compose down ends it
        "worker-1   1/1     Running   0          18m",
        "n1 systemd[1]: train.service: Main process exited, code=exited, status=0/SUCCESS",
        "n1 systemd[1]: sshd@4.service: Main process exited, code=exited, status=255/EXCEPTION",
        "the server exited with code 1",
        "the DeepEP timeout is 1000 s; DeepEP dispatch takes 12 us",
    ],
)
def test_what_tells_of_no_failure_of_the_job(tmp_path: Path, line: str) -> None:
    found = judged_files(write(tmp_path, {"train.log": STEPS, "beside.txt": f"Nov 20 10:30:00 {line}\n{line}\n"}))
    assert (found.verdict, found.findings, found.candidates) == ("warn", (), ())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("alerts.yaml", 'rules:\n- expr: pods{reason="OOMKilled"} > 0\n  summary: a pod was OOMKilled\n'),
        ("job.yml", "kind: Job\nspec:\n  command: |\n    echo $? | grep 137 && echo OOMKilled\n"),
        ("run.sh", "#!/bin/bash\ncat <<END\nOut of memory: Killed process 12 (python)\nEND\n"),
        ("job.sbatch", "#!/bin/bash\ncat <<END\nslurmstepd: error: Detected 1 oom_kill event in StepId=1.0\nEND\n"),
        ("alerts.toml", "[rule]\ntext = \nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus\n"),
    ],
)
def test_what_somebody_has_set_and_scripted_happened_to_nobody(tmp_path: Path, name: str, text: str) -> None:
    done = STEPS + "Training complete\n"
    assert judged_files(write(tmp_path, {"train.log": done, name: text})).verdict == "pass"
    found = judged_files(write(tmp_path, {"train.log": STEPS + raised("", "KeyError: 'x'"), name: text})).findings
    assert [one.check for one in found] == ["process/exception"]
