"""Ports as ibstat and ibv_devinfo tell them, beside the logs of a job: one down on one host is a candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged_files
from tests.logs.test_lies_beside import ENDED

WAITED = (
    "[rank1]:[E1020 10:30:00.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=262, NumelOut=262, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out.\n"
)
IBSTAT = """CA 'mlx5_{n}'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: {state}
\t\tPhysical state: Polling
\t\tRate: 10
\t\tLink layer: InfiniBand
"""
DEVINFO = """hca_id:\tmlx5_{n}
\ttransport:\t\t\tInfiniBand (0)
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_{state} (1)
\t\t\tmax_mtu:\t\t4096 (5)
"""
UP, DOWN = "Active", "Down"


def write(folder: Path, log: str, files: dict[str, str]) -> Path:
    for name, text in {"train.log": log, **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def ports(*states: str, form: str = IBSTAT) -> str:
    return "".join(form.format(n=number, state=state) for number, state in enumerate(states))


def devinfo(*states: str) -> str:
    return ports(*(state.upper() for state in states), form=DEVINFO)


def gathered(**hosts: str) -> str:
    """As pdsh hands on what hosts wrote."""
    return "".join(f"{host}: {line}\n" for host, text in hosts.items() for line in text.splitlines())


@pytest.mark.parametrize(
    ("files", "host"),
    [
        ({"gpu06/ibstat.txt": ports(UP, UP), "gpu07/ibstat.txt": ports(UP, DOWN)}, "gpu07"),
        ({"gpu06/devinfo.txt": devinfo(UP, UP), "gpu07/devinfo.txt": devinfo(UP, DOWN)}, "gpu07"),
        ({"ibstat.txt": gathered(gpu06=ports(UP, "Initializing"), gpu07=ports(UP, UP))}, "gpu06"),
        ({"gpu06/ibstat.txt": ports(UP, DOWN), "gpu07/ibstat.txt": ports(UP, DOWN)}, ""),  # a spare one
        ({"gpu07/ibstat.txt": ports(UP, DOWN)}, ""),  # what the others have is not known
        ({"ibstat-1.txt": ports(UP, UP), "ibstat-2.txt": ports(UP, DOWN)}, ""),  # nor whose these are
        ({"gpu06/ibstat.txt": ports(UP), "gpu07/ibstat.txt": ports(UP, DOWN)}, ""),  # another kind of host
    ],
)
def test_a_port_that_is_down_on_one_host(tmp_path: Path, files: dict[str, str], host: str) -> None:
    found = judged_files(write(tmp_path, WAITED, files))
    assert (found.verdict, found.findings) == ("incomplete", ())
    told = [one for one in found.reading.symptoms if one.check == "nccl/infiniband-link"]
    assert [one.who.host for one in told] == ([host] if host else [])
    assert ("nccl/infiniband-link" in [one.check for one in found.candidates]) == bool(host)
    assert judged_files(write(tmp_path, ENDED, files)).verdict == "pass"


@pytest.mark.parametrize(
    "line",
    [
        "mlx5_core 0000:5e:00.0 mlx5_3: Port: 1 Link DOWN",
        "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged",
        "mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)",
    ],
)
def test_what_the_kernel_says_of_a_link(tmp_path: Path, line: str) -> None:
    kernel = {"gpu07/dmesg.txt": f"[Mon Oct 20 10:18:40 2025] {line}\n"}
    found = judged_files(write(tmp_path, WAITED, kernel))
    assert found.verdict == "incomplete" and "nccl/infiniband-link" in [one.check for one in found.candidates]
    assert judged_files(write(tmp_path, ENDED, kernel)).verdict == "pass"
    plugged = {"gpu07/dmesg.txt": kernel["gpu07/dmesg.txt"].replace(line, line.replace("DOWN", "ACTIVE"))}
    if "DOWN" in line:
        found = judged_files(write(tmp_path, WAITED, plugged))
        assert "nccl/infiniband-link" not in [one.check for one in found.candidates]
