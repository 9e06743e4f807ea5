"""Accounts of failures that are cut, pasted together, or told over several lines: what of them counts, and for whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged, raised, roots


@pytest.mark.parametrize(
    ("frame", "check"),
    [("/v/site-packages/torch/__init__.py", "environment/torch-broken"), ("/v/dgl/__init__.py", "process/exception")],
)
@pytest.mark.parametrize("library", ["libcudart.so.10.2", "libnccl.so.2", "libgomp.so.1"])
def test_a_library_that_is_not_found_is_torchs_where_torch_asks_for_it(
    tmp_path: Path, frame: str, check: str, library: str
) -> None:
    error = f"OSError: {library}: cannot open shared object file: No such file or directory"
    text = raised("", error).replace("/home/u/train.py", frame)
    assert roots(tmp_path, text) == [(check, ())]


FRAMES = (
    "frame #2: c10d::ProcessGroupNCCL::WorkNCCL::isCompleted() + 0x58 (0x7fd1d83df4c8 in /v/lib/libtorch_cuda.so)",
    '  File "/v/site-packages/vllm/distributed/device_communicators/pynccl.py", line 99 in __init__',
    "│ ❱ 753 │   elastic_launch(            │",
)


@pytest.mark.parametrize("frame", FRAMES)
def test_frames_alone_show_that_something_failed(tmp_path: Path, frame: str) -> None:
    found = judged(tmp_path, f"{frame}\n")
    assert (found.verdict, found.findings) == ("incomplete", ()) and found.candidates


@pytest.mark.parametrize("frame", FRAMES)
def test_frames_below_a_line_that_is_known_say_nothing_more(tmp_path: Path, frame: str) -> None:
    noise = "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node1, 29500) cannot be retrieved (gai error: -2"
    found = judged(tmp_path, f"starting\n{noise.replace('gai error: -2', 'errno: 97')}\n{frame}\n")
    alone = judged(tmp_path, f"starting\n{noise.replace('gai error: -2', 'errno: 97')}\n")
    assert (found.verdict, found.candidates) == (alone.verdict, alone.candidates)


def test_pythons_resource_tracker_tells_and_goes_on(tmp_path: Path) -> None:
    told = raised("", "KeyError: '/loky-20105-x'", "cache[rtype].remove(name)")
    told = told.replace("/home/u/train.py", "/usr/lib/python3.10/multiprocessing/resource_tracker.py")
    assert roots(tmp_path, told) == []
    assert roots(tmp_path, told + raised("", "ValueError: no data")) == [("process/exception", ())]


def test_lines_that_were_pasted_as_one(tmp_path: Path) -> None:
    text = 'raise RuntimeError(f"NCCL error: {error}") ERROR [x.py:597] RuntimeError: NCCL error: unhandled cuda error'
    found = judged(tmp_path, text)
    assert [candidate.check for candidate in found.candidates] == ["nccl/init-failed"]


def test_mpiexec_says_of_which_process_it_tells(tmp_path: Path) -> None:
    lines = ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "=   RANK 2 PID 7 RUNNING AT node2")
    found = judged(tmp_path, "\n".join([*lines, "=   EXIT CODE: 139", ""]))
    assert [(one.check, one.ranks, one.nodes) for one in found.findings][:1] == [("process/crashed", (2,), ("node2",))]


def test_an_exception_of_java_is_no_ranks(tmp_path: Path) -> None:
    text = "org.elasticsearch.transport.ConnectTransportException: [][192.168.1.1:9300] connect_timeout[10s]\n"
    assert roots(tmp_path, text) == []
    assert roots(tmp_path, "py4j.protocol.Py4JJavaError: An error occurred\n") == [("process/exception", ())]


def test_what_python_raised_is_below_the_head_of_javas_account(tmp_path: Path) -> None:
    head = "py4j.protocol.Py4JJavaError: An error occurred while calling z:o.apache.spark.api.python.PythonRDD.run.\n"
    spark = ": org.apache.spark.SparkException: Job aborted due to stage failure: task ResultTask(1, 1) finished\n"
    told = head + spark + raised("", "ValueError: no data")
    (finding,) = judged(tmp_path, told).findings
    assert (finding.check, any("ValueError: no data" in text for text in finding.evidence)) == (
        "process/exception",
        True,
    )
    found = judged(
        tmp_path,
        head + spark + raised("", "RuntimeError: NCCL_ERROR: b'remote process exited or there was a network error'"),
    )
    assert (found.findings, found.candidates[0].check) == ((), "process/peer-died")
