"""Logs as what gathers them gives them out: clouds, Loki, journald; of several tries, in folders of trackers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distdoctor.logs.reading import formats
from distdoctor.logs.reading.file_names import owners_by_name
from tests.logs.test_folders import OUT_OF_MEMORY, STEPS, judged_folder, roots
from tests.logs.test_folders import START as START_LINE
from tests.logs.test_reader import judged

TRACE = f'Traceback (most recent call last):\n  File "/app/t.py", line 8, in main\n    step()\n{OUT_OF_MEMORY}'
LINES = [*STEPS.splitlines(), *TRACE.splitlines()]
START = 1_767_261_600
"""2026-01-01 10:00:00 in seconds since 1970."""


def moment(number: int) -> str:
    return f"2026-01-01T10:{number // 60:02d}:{number % 60:02d}.5Z"


def loki(number: int, line: str) -> dict[str, object]:
    return {"labels": {"app": "t", "node_name": "gke-a-2"}, "line": line, "timestamp": moment(number)}


def stackdriver(number: int, line: str) -> dict[str, object]:
    where = {"type": "k8s_container", "labels": {"pod_name": "gke-a-2"}}
    return {"insertId": "a", "resource": where, "textPayload": line, "timestamp": moment(number)}


def journald(number: int, line: str) -> dict[str, object]:
    """A line with a colour in it is given as its bytes."""
    said = list(f"\x1b[31m{line}\x1b[0m".encode()) if "Error" in line else line
    time = str((START + number) * 1_000_000)
    return {"__REALTIME_TIMESTAMP": time, "_HOSTNAME": "gke-a-2", "_PID": "7", "MESSAGE": said}


def cloudwatch(number: int, line: str) -> dict[str, object]:
    return {"logStreamName": "train-job/gke-a-2", "timestamp": (START + number) * 1000, "message": line}


def docker(number: int, line: str) -> dict[str, object]:
    return {"log": f"\x1b[31m[host=gke-a-2] {line}\x1b[0m\n", "stream": "stderr", "time": moment(number)}


@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("form", [loki, stackdriver, journald, cloudwatch, docker], ids=lambda form: form.__name__)
@pytest.mark.parametrize("array", [False, True], ids=["lines", "array"])
def test_what_gathers_logs(tmp_path: Path, form: object, array: bool, newest_first: bool) -> None:
    assert callable(form)
    said = [json.dumps(form(number, line)) for number, line in enumerate(LINES)]
    said = said[::-1] if newest_first else said
    (tmp_path / "x.json").write_text("[" + ",\n".join(said) + "]" if array else "".join(f"{one}\n" for one in said))
    finding = judged(tmp_path).findings[0]
    assert (finding.check, finding.nodes) == ("gpu/out-of-memory", ("gke-a-2",))
    number = 1 if newest_first else len(LINES)
    assert finding.evidence[0].startswith(f"{tmp_path}/x.json:{number}: {OUT_OF_MEMORY}")


def test_the_events_of_cloudwatch(tmp_path: Path) -> None:
    events = [cloudwatch(number, line) for number, line in enumerate(LINES)]
    (tmp_path / "x.json").write_text(json.dumps({"events": events, "searchedLogStreams": []}, indent=4))
    assert [(one.check, one.nodes) for one in judged(tmp_path).findings] == [("gpu/out-of-memory", ("gke-a-2",))]


def test_a_text_with_its_newest_line_first(tmp_path: Path) -> None:
    """Lines within a text, which have no time of their own, stay below their first."""
    lines = [f"{moment(number)}\t{line}" for number, line in enumerate(STEPS.splitlines())] + [f"{moment(50)}\t{TRACE}"]
    (tmp_path / "x.txt").write_text("\n".join(reversed(lines)) + "\n")
    finding = judged(tmp_path).findings[0]
    assert finding.check == "gpu/out-of-memory" and f"x.txt:4: {OUT_OF_MEMORY}" in finding.evidence[0]


def test_two_clocks_that_differ_turn_nothing(tmp_path: Path) -> None:
    late = (
        "2026-01-01T10:00:03Z step 1 loss 2\n2026-01-01T10:00:01Z step 1 loss 2\n2026-01-01T10:00:02Z step 2 loss 2\n"
    )
    (tmp_path / "x.txt").write_text(late + "".join(f"{moment(60)} {line}\n" for line in LINES))
    assert f"x.txt:{3 + len(LINES)}: " in judged(tmp_path).findings[0].evidence[0]


@pytest.mark.parametrize(
    "before",
    [
        "2026-01-01T10:00:00+0000 trn-b torchrun[71]: ",
        "2026-01-01T10:00:00.123456+00:00 trn-b torchrun[71]: ",
        "Jan  1 10:00:00 trn-b python3[71]: ",
    ],
)
def test_what_a_log_of_the_host_has_before_a_line(tmp_path: Path, before: str) -> None:
    failed = TRACE.replace(OUT_OF_MEMORY, "KeyError: 'mask'")
    (tmp_path / "x.log").write_text("".join(f"{before}{line}\n" for line in failed.splitlines()))
    assert [(one.summary, one.nodes) for one in judged(tmp_path).findings] == [
        ("A process on trn-b failed at t.py:8 with KeyError: 'mask'.", ("trn-b",))
    ]


def test_a_stream_of_sagemaker_as_aws_logs_tail_tells_it(tmp_path: Path) -> None:
    before = "2026-01-01T10:00:00.000000+00:00 job-x/algo-2-1732183200 "
    (tmp_path / "x.log").write_text("".join(f"{before}{line}\n" for line in TRACE.splitlines()))
    assert [(one.check, one.nodes) for one in judged(tmp_path).findings] == [("gpu/out-of-memory", ("algo-2",))]


@pytest.mark.parametrize("name", ["try1/x.log", "x_attempt1.log", "logs/x.retry-1.log"])
def test_of_tries_that_a_script_has_numbered_the_last(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(f"{STEPS}{TRACE}\n")
    (tmp_path / name.replace("1", "2")).parent.mkdir(exist_ok=True)
    (tmp_path / name.replace("1", "2")).write_text(STEPS + TRACE.replace(OUT_OF_MEMORY, "KeyError: 'mask'") + "\n")
    found = judged(tmp_path)
    assert roots(found) == ["process/exception"] and "an earlier try is not judged" in found.notes[0]


@pytest.mark.parametrize("name", ["worker-1.previous.log", "worker-1-previous.log", "worker-1_prev.log"])
@pytest.mark.parametrize("end", ["Training finished.\n", ""], ids=["ends well", "in mid-work"])
def test_what_a_container_wrote_before_it_was_started_again(tmp_path: Path, name: str, end: str) -> None:
    (tmp_path / name).write_text(f"{STEPS}{TRACE}\n")
    (tmp_path / "worker-1.log").write_text(f"{STEPS}{STEPS}{end}")
    found = judged(tmp_path)
    assert found.verdict == ("pass" if end else "fail")
    assert not end or "an earlier try is not judged" in found.notes[0]


@pytest.mark.parametrize(("again", "root"), [(START_LINE, "process/exception"), ("", "process/killed-by-scheduler")])
def test_a_job_that_slurm_queued_again_in_one_log(tmp_path: Path, again: str, root: str) -> None:
    """What is written in the time of grace is no new try; a launcher that is started is one."""
    taken = "slurmstepd: error: *** JOB 77 ON gn01 CANCELLED AT 2026-01-01T10:00:00 DUE TO PREEMPTION ***\n"
    failed = TRACE.replace(OUT_OF_MEMORY, "KeyError: 'mask'")
    (tmp_path / "x.out").write_text(f"{START_LINE}{STEPS}{taken}{again}{STEPS}{failed}\n")
    assert roots(judged(tmp_path)) == [root]


def test_an_archive_of_logs_that_is_not_read_is_no_pass(tmp_path: Path) -> None:
    (tmp_path / "logs.zip").write_bytes(b"PK\x03\x04" + bytes(99))
    found = judged_folder(tmp_path, a__log=f"{STEPS}Training finished.\n")
    assert (found.verdict, found.notes) == ("incomplete", (f"{tmp_path}/logs.zip: an archive; unpack it first",))


def test_a_rotated_log_has_one_end(tmp_path: Path) -> None:
    found = judged_folder(tmp_path, a__log__1=STEPS, a__log=f"{STEPS}Training finished.\n")
    assert found.verdict == "pass" and not found.notes


def test_what_trackers_keep_beside_a_log_is_not_asked_how_it_ends(tmp_path: Path) -> None:
    run, wandb = tmp_path / "mlruns" / "0" / "ab", tmp_path / "wandb" / "run-1" / "logs"
    for folder in (run / "metrics", run / "params", wandb):
        folder.mkdir(parents=True)
    (run / "metrics" / "loss").write_text("1767261600000 2.5 1\n")
    (run / "params" / "rate").write_text("0.1")
    (wandb / "debug.log").write_text(
        "2026-01-01 10:00:00,123 INFO    MainThread:1 [wandb_init.py:init():100] starting\n"
    )
    (tmp_path / "output.log").write_text(f"{STEPS}Training finished.\n")
    assert judged(tmp_path).verdict == "pass"


def test_who_ends_without_a_word_is_told(tmp_path: Path) -> None:
    """Its two streams are one process."""
    closed = "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.7]:41822\n"
    logs = {
        "rank0__out": STEPS,
        "rank0__err": closed,
        "rank1__out": STEPS,
        "rank2__out": f"{STEPS}Training finished.\n",
    }
    found = judged_folder(tmp_path, **logs)
    first, second = [note for note in found.notes if "shows no failure" in note]
    assert first.startswith(f"{tmp_path}/rank1.out shows") and "; it ends at line 30, last seen doing: step 29" in first
    assert second.startswith(f"{tmp_path}/rank2.out shows") and "with the end of the job: Training finished." in second


def test_of_ranks_that_print_no_steps_the_one_that_says_nothing_is_told(tmp_path: Path) -> None:
    closed = "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.7]:41822\n"
    ready = "ready\n"
    logs = {f"rank{rank}__log": ready if rank == 2 else (STEPS if rank == 0 else ready) + closed for rank in range(4)}
    found = judged_folder(tmp_path, **logs)
    notes = [note for note in found.notes if "shows no failure" in note]
    assert len(notes) == 1 and notes[0].startswith(f"{tmp_path}/rank2.log shows no failure; it ends at line 1")
    logs = {f"rank{rank}__log": ready if rank > 1 else ready + closed for rank in range(4)}
    assert not [note for note in judged_folder(tmp_path, **logs).notes if "says nothing" in note]


def test_the_host_on_which_the_table_of_torchrun_has_the_rank(tmp_path: Path) -> None:
    row = "  host      : n03\n  rank      : 5 (local_rank: 1)\n  exitcode  : 1 (pid: 7)\n"
    text = "".join(f"[rank5]: {line}\n" for line in TRACE.splitlines())
    found = judged_folder(tmp_path, node1__log=f"{text}Root Cause (first observed failure):\n[0]:\n{row}")
    assert [(one.check, one.ranks, one.nodes) for one in found.findings[:1]] == [("gpu/out-of-memory", (5,), ("n03",))]


def test_whom_the_names_of_all_files_tell(tmp_path: Path) -> None:
    logs = {f"llm-88123-dgx-a0{rank // 2}-{rank}__err": STEPS for rank in range(4)}
    logs["llm-88123-dgx-a01-3__err"] = f"{STEPS}{TRACE}\n"
    found = judged_folder(tmp_path, **logs)
    assert [(one.check, one.ranks, one.nodes) for one in found.findings] == [("gpu/out-of-memory", (3,), ("dgx-a01",))]


def test_torchruns_folders_of_several_nodes(tmp_path: Path) -> None:
    for node, text in (("nodeA", STEPS), ("nodeB", f"{STEPS}{TRACE}\n")):
        (folder := tmp_path / node / "none_k3" / "attempt_0" / "1").mkdir(parents=True)
        (folder / "stderr.log").write_text(text)
    assert [(one.nodes, one.local_ranks) for one in judged(tmp_path).findings] == [(("nodeB",), (1,))]


@pytest.mark.parametrize(
    "names",
    [
        ["slurm-991_0.out", "slurm-991_1.out"],
        ["run-2024-lr.log", "run-2024-bs.log"],
        ["20241121-rank0.log", "20241121-rank1.log"],
        ["x/run1/none_k/attempt_0/0/stderr.log", "x/run2/none_q/attempt_0/0/stderr.log"],
        ["job-123-dgx1.out"],
    ],
)
def test_names_that_tell_no_host(names: list[str]) -> None:
    assert owners_by_name(names) == {}


def test_one_task_of_each_host_may_be_a_launcher_of_ranks() -> None:
    told = owners_by_name(["a/x-123-gn11-0.out", "a/x-123-gn12-1.out"])
    assert [(who.rank, who.host) for who in told.values()] == [(None, "gn11"), (None, "gn12")]


def test_a_step_that_srun_ended_and_another_in_one_log(tmp_path: Path) -> None:
    """As a job that queues itself again leaves them; steps alone may be what was still to be written."""
    ended = "srun: error: gn01: task 1: Exited with exit code 1\nsrun: Terminating StepId=88.0\n"
    ended += "slurmstepd: error: *** STEP 88.0 ON gn01 CANCELLED AT 2026-01-01T10:05:00 ***\n"
    again = STEPS + "[rank2]: " + TRACE.replace(OUT_OF_MEMORY, "KeyError: 'mask'").replace("\n", "\n[rank2]: ")
    again += "\nsrun: error: gn02: task 2: Exited with exit code 1\nsrun: Terminating StepId=88.1\n"
    first = STEPS + "[rank1]: " + TRACE.replace("\n", "\n[rank1]: ") + f"\n{ended}"
    (tmp_path / "x.out").write_text(f"{first}NCCL version 2.26.2+cuda12.8\n{again}")
    found = judged(tmp_path)
    assert roots(found) == ["process/exception"] and found.findings[0].ranks == (2,)
    assert "an earlier try is not judged; it ended with gpu/out-of-memory" in found.notes[0]
    (tmp_path / "x.out").write_text(first + again)
    assert roots(judged(tmp_path)) == ["gpu/out-of-memory"]


def test_the_ranks_of_determined(tmp_path: Path) -> None:
    before = "[2026-01-01T10:00:00.123456Z] 5f1c2a3b || [rank=2] "
    (tmp_path / "x.log").write_text("".join(f"{before}{line}\n" for line in TRACE.splitlines()))
    assert [(one.check, one.ranks) for one in judged(tmp_path).findings] == [("gpu/out-of-memory", (2,))]


@pytest.mark.parametrize(("own", "told"), [("3f2a9c1b7d0e", "3f2a9c1b7d0e"), ("localhost", "train-2")])
def test_a_container_that_torchrun_knows_by_another_name_is_one_node(tmp_path: Path, own: str, told: str) -> None:
    row = f"  host      : {own}\n  rank      : 5 (local_rank: 1)\n  exitcode  : -9 (pid: 77)\n  error_file: <N/A>\n"
    text = "E0101 10:00:01.0 1 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: -9) "
    text += f"local_rank: 1 (pid: 77) of binary: /usr/bin/python\nRoot Cause (first observed failure):\n[0]:\n{row}"
    text += "  traceback : Signal 9 (SIGKILL) received by PID 77\n"
    (tmp_path / "x.log").write_text("".join(f"train-2  | {line}\n" for line in text.splitlines()))
    assert [(one.check, one.ranks, one.nodes) for one in judged(tmp_path).findings] == [
        ("process/killed-by-oom", (5,), (told,))
    ]


@pytest.mark.parametrize(
    ("before", "host"),
    [
        ("train_worker.2.p0q9z7x1k2m4@trn-b    | ", "trn-b"),
        ('2026-01-01T10:00:00Z {container="t", pod="llm-1"} ', "llm-1"),
        ("[2026-01-01, 10:00:00 UTC] {subprocess.py:93} INFO - ", None),
        ("[2026-01-01 10:00:00,123] {bash_operator.py:126} INFO - ", None),
    ],
    ids=["docker service", "logcli", "Airflow", "Airflow 1"],
)
def test_what_stands_before_a_line(tmp_path: Path, before: str, host: str | None) -> None:
    failed = TRACE.replace(OUT_OF_MEMORY, "KeyError: 'mask'")
    (tmp_path / "x.log").write_text("".join(f"{before}{line}\n" for line in (STEPS + failed).splitlines()))
    assert [(one.check, one.nodes, one.evidence[-1]) for one in judged(tmp_path).findings] == [
        ("process/exception", (host,) if host else (), "raised at /app/t.py:8 in main")
    ]


def test_lines_in_logfmt_and_those_of_fluentd(tmp_path: Path) -> None:
    failed = (STEPS + TRACE.replace(OUT_OF_MEMORY, "KeyError: 'mask'")).splitlines()
    pairs = [f"ts={moment(number)} level=info pod=llm-1 msg={json.dumps(line)}" for number, line in enumerate(failed)]
    tagged = [
        f"{moment(number)}\tkube.train\t{json.dumps({'log': line, 'kubernetes': {'pod_name': 'llm-1'}})}"
        for number, line in enumerate(failed)
    ]
    for name, lines in (("pairs", pairs), ("tagged", tagged)):
        (tmp_path / f"{name}.log").write_text("".join(f"{line}\n" for line in lines))
        finding = judged(tmp_path / f"{name}.log").findings[0]
        assert (finding.check, finding.nodes) == ("process/exception", ("llm-1",))
        assert finding.evidence[0].startswith(f"{tmp_path}/{name}.log:{len(failed)}: KeyError: 'mask'")


def test_what_a_daemon_says_of_itself_in_logfmt_is_left_as_it_is() -> None:
    line = b'time="2026-01-01T10:00:00Z" level=error msg="failed to start" error="exit 1"\n'
    assert formats.json_as_text(line) == line


@pytest.mark.parametrize(
    ("said", "ranks"),
    [("", (1,)), ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n", ())],
    ids=["ranks", "a launcher on each node"],
)
def test_what_srun_writes_of_each_task_beside_the_log_of_the_job(tmp_path: Path, said: str, ranks: object) -> None:
    failed = TRACE.replace(OUT_OF_MEMORY, "KeyError: 'mask'")
    logs = {"slurm-4711__out": "srun: Terminating StepId=4711.0\n", "slurm-4711_0__out": f"{STEPS}{said}"}
    found = judged_folder(tmp_path, **logs, **{"slurm-4711_1__out": f"{STEPS}{failed}\n{said}"})
    assert [(one.check, one.ranks) for one in found.findings[:1]] == [("process/exception", ranks)]


def test_the_jobs_of_an_array_are_no_ranks(tmp_path: Path) -> None:
    failed = TRACE.replace(OUT_OF_MEMORY, "KeyError: 'mask'")
    found = judged_folder(tmp_path, **{"slurm-4711_0__out": STEPS, "slurm-4711_1__out": f"{STEPS}{failed}\n"})
    assert [(one.check, one.ranks) for one in found.findings] == [("process/exception", ())]


@pytest.mark.parametrize(
    ("name", "host"), [("nodeB/task1.log", "nodeB"), ("logs/host-b.log", "host-b"), ("nodes/1.log", "")]
)
def test_a_node_that_is_named_by_a_letter(tmp_path: Path, name: str, host: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(STEPS + TRACE + "\n")
    assert [one.nodes for one in judged(tmp_path).findings] == [(host,) if host else ()]


def test_what_loki_answers_to_a_query(tmp_path: Path) -> None:
    """Streams one after the other, each with its newest line first."""
    closed = [
        *STEPS.splitlines(),
        "RuntimeError: [x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:1",
    ]

    def stream(pod: str, since: int, lines: list[str]) -> dict[str, object]:
        values = [[str((START + since + number) * 10**9), line] for number, line in enumerate(lines)]
        return {"stream": {"pod": pod, "container": "t"}, "values": values[::-1]}

    answer = {"resultType": "streams", "result": [stream("llm-0", 5, closed), stream("llm-1", 0, LINES)], "stats": {}}
    whole = json.dumps({"status": "success", "data": answer})
    (tmp_path / "query.json").write_text(whole)
    found = judged(tmp_path)
    assert [(one.check, one.nodes) for one in found.findings[:1]] == [("gpu/out-of-memory", ("llm-1",))]
    (tmp_path / "query.json").write_text(whole[:-40])
    assert judged(tmp_path).verdict != "pass"
