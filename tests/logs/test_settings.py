"""Tests of what NCCL_DEBUG=INFO says: versions, interfaces, transports, by who said it."""

from __future__ import annotations

from pathlib import Path

from distdoctor.judge.logs.findings import judge_logs
from distdoctor.logs.collect import Collector
from tests.facts_builder import CHECKS
from tests.logs.judging import LOGS

INFO = """\
gpu0{n}:10:20 [0] NCCL INFO Bootstrap : Using {interface}:10.0.0.{n}<0>
gpu0{n}:10:20 [0] NCCL INFO cudaDriverVersion 12040
gpu0{n}:10:20 [0] NCCL INFO NCCL version {version}
gpu0{n}:10:20 [0] NCCL INFO Using network Socket
gpu0{n}:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu0{n}:10:20 [0] NCCL INFO Channel 01/0 : 1[0] -> 2[1] [send] via NET/Socket/0
"""


def settings(path: Path, *texts: str) -> dict[str, str]:
    for number, text in enumerate(texts):
        (path / f"{number}.log").write_text(text)
    return Collector(LOGS).collect([path]).logs.settings


def test_what_all_say_is_said_once(tmp_path: Path) -> None:
    texts = [INFO.format(n=n, interface="eth0", version="2.21.5+cuda12.4") for n in (1, 2)]
    found = settings(tmp_path, *texts)
    transport = found.pop("transport")
    assert transport == "P2P/CUMEM/read (gpu01, gpu02); NET/Socket (gpu01, gpu02)"
    assert found == {
        "interface": "eth0",
        "CUDA driver": "12040",
        "NCCL version": "2.21.5+cuda12.4",
        "network": "Socket",
    }


def test_who_says_something_else_is_named(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        INFO.format(n=1, interface="eth0", version="2.21.5+cuda12.4"),
        INFO.format(n=2, interface="docker0", version="2.18.1+cuda12.1"),
    )
    assert found["NCCL version"] == "2.21.5+cuda12.4 (gpu01); 2.18.1+cuda12.1 (gpu02)"
    assert found["interface"] == "eth0 (gpu01); docker0 (gpu02)"
    assert found["transport"].startswith("P2P/CUMEM/read (gpu01, gpu02); NET/Socket")


def test_networks_that_differ_are_a_candidate_where_something_failed(tmp_path: Path) -> None:
    one = INFO.format(n=1, interface="eth0", version="2.21.5+cuda12.4").replace(
        "network Socket", "network AWS Libfabric"
    )
    two = INFO.format(n=2, interface="eth0", version="2.21.5+cuda12.4")
    failed = "gpu02:10:20 [0] NCCL WARN Net : Connection closed by remote peer gpu01<5000>\n"
    settings(tmp_path, one, two + failed)
    found = judge_logs(Collector(LOGS).collect([tmp_path]).logs, CHECKS)
    candidate = next(one for one in found.candidates if one.check == "nccl/rdma-unused")
    assert found.verdict == "incomplete" and "AWS Libfabric (gpu01); Socket (gpu02)" in candidate.why
    settings(tmp_path, one + two.replace("gpu02", "gpu01"), failed)  # one host with two networks, one after the other
    found = judge_logs(Collector(LOGS).collect([tmp_path]).logs, CHECKS)
    assert "nccl/rdma-unused" not in [one.check for one in found.candidates]


def test_versions_that_differ_are_a_candidate_where_something_failed(tmp_path: Path) -> None:
    one = INFO.format(n=1, interface="eth0", version="2.21.5+cuda12.4")
    two = INFO.format(n=2, interface="eth0", version="2.18.1+cuda12.1")
    failed = "gpu02:10:20 [0] NCCL WARN Net : Connection closed by remote peer gpu01<5000>\n"
    settings(tmp_path, one, two + failed)
    found = judge_logs(Collector(LOGS).collect([tmp_path]).logs, CHECKS)
    assert found.verdict == "incomplete" and found.candidates[0].check == "environment/version-mismatch"
    assert "2.18.1+cuda12.1 (gpu02)" in found.candidates[0].why
    assert any("Connection closed" in candidate.why for candidate in found.candidates) and not found.notes
    settings(tmp_path, one, two)
    found = judge_logs(Collector(LOGS).collect([tmp_path]).logs, CHECKS)
    assert found.candidates == () and not any("says of itself" in note for note in found.notes)


def test_variables_that_must_be_alike_and_are_not(tmp_path: Path) -> None:
    one, two = (
        INFO.format(n=n, interface="eth0", version="2.21.5+cuda12.4")
        + f"gpu0{n}:10:20 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth{n}\n"
        for n in (1, 2)
    )
    said = "gpu01:10:20 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 1.\n"
    failed = "gpu02:10:20 [0] NCCL WARN Message truncated : received 4096 bytes instead of 512\n"
    settings(tmp_path, one + said, two + failed)
    found = judge_logs(Collector(LOGS).collect([tmp_path]).logs, CHECKS)
    assert [one.check for one in found.candidates][:2] == [
        "environment/setting-mismatch",
        "environment/version-mismatch",
    ]
    assert "NCCL_MAX_NCHANNELS: 1 (gpu01); not set (gpu02)" in found.candidates[0].why
    assert "IFNAME" not in found.candidates[0].why
    both = said + said.replace("gpu01", "gpu02")
    for alike in (
        both,
        said.replace("gpu01", "rank7"),
        said.replace("MAX_NCHANNELS", "P2P_DISABLE").replace("1.", "0."),
    ):
        settings(tmp_path, one + alike, two + failed)
        found = judge_logs(Collector(LOGS).collect([tmp_path]).logs, CHECKS)
        assert "environment/setting-mismatch" not in [one.check for one in found.candidates]
    settings(tmp_path, one + said, two)
    assert judge_logs(Collector(LOGS).collect([tmp_path]).logs, CHECKS).candidates == ()
