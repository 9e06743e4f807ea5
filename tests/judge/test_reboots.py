"""A host whose log tells that it was started again, beside the logs of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import TRACEBACK, judged_files

STEPS = "".join(f"2026-11-20 10:00:{second:02} step {second} loss 2.31\n" for second in range(0, 60, 5))
KERNEL = "Linux version 5.15.0-91-generic (buildd@lcy02-amd64-045) (gcc 11.4.0)"
BOOT = "-- Boot 3f1c0d4ae0aa4bd09a7e4c1d2b3a4f5e --\n"
UNCLEAN = "systemd-journald[512]: File /var/log/journal/a/system.journal corrupted or uncleanly shut down, renaming."


def journal(at: str, day: str = "Nov 20") -> str:
    before = f"{day} 08:40:02 gpu7 systemd[1]: Started Session 12 of User u.\n"
    return f"{before}{BOOT}{day} {at}:11 gpu7 kernel: {KERNEL}\n{day} {at}:13 gpu7 {UNCLEAN}\n"


DATED = f"[Fri Nov 20 10:04:11 2026] {KERNEL}\n[Fri Nov 20 10:04:12 2026] Command line: quiet\n"
ISO = f"2026-11-20T10:04:11+0000 gpu7 kernel: {KERNEL}\n2026-11-20T10:04:13+0000 gpu7 kernel: Command line: quiet\n"


def lost(folder: Path, **files: str) -> tuple[str, list[tuple[str, tuple[str, ...]]]]:
    """The verdict, and what is found of which hosts, on these files (``__`` for a folder)."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".txt")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found = judged_files(folder)
    return found.verdict, [(one.check, one.nodes) for one in found.findings if one.because_of is None]


@pytest.mark.parametrize("told", [journal("10:04"), ISO, DATED], ids=["journal", "iso", "dmesg"])
def test_the_host_was_started_again_while_the_job_ran(tmp_path: Path, told: str) -> None:
    hosts = () if told == DATED else ("gpu7",)
    assert lost(tmp_path, train=STEPS, journal=told) == ("fail", [("store/node-lost", hosts)])


def test_whose_peers_only_lost_it(tmp_path: Path) -> None:
    error = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4"
    peer = STEPS + TRACEBACK.format(who="[rank0]: ", source="dist.all_reduce(x)", error=error)
    told = journal("10:04").replace("gpu7", "node1")
    files = {"node0__train": peer, "node1__train": STEPS, "node1__journal": told}
    assert lost(tmp_path, **files) == ("fail", [("store/node-lost", ("node1",))])


def test_a_job_of_two_hosts_of_which_another_one_went(tmp_path: Path) -> None:
    """What lies with node0's log is no word of node1."""
    files = {"node0__train": STEPS, "node1__train": f"{STEPS}Training completed.\n"}
    told = journal("10:04").replace("gpu7", "node1")
    assert lost(tmp_path, **files, node1__journal=told) == ("warn", [])


@pytest.mark.parametrize(
    ("train", "at", "verdict"),
    [
        (f"{STEPS}Training completed.\n", "10:04", "pass"),
        (STEPS, "09:40", "warn"),  # before the job began
        (STEPS, "14:40", "warn"),  # hours later
        (STEPS + STEPS.replace(" 10:", " 11:"), "10:04", "warn"),  # which goes on after it
        (STEPS.replace("2026-11-20 ", ""), "10:04", "warn"),  # no date
        ("step 1 loss 2.3\nstep 2 loss 2.2\n", "10:04", "warn"),  # no time
    ],
    ids=["ended", "before", "later", "goes on", "no date", "no time"],
)
def test_a_start_of_the_host_that_ended_no_job(tmp_path: Path, train: str, at: str, verdict: str) -> None:
    assert lost(tmp_path, train=train, journal=journal(at)) == (verdict, [])


def test_a_job_that_had_failed_before(tmp_path: Path) -> None:
    failed = STEPS + TRACEBACK.format(who="[rank0]: ", source="x = d[k]", error="KeyError: 'mask'")
    assert lost(tmp_path, train=failed, journal=journal("10:04")) == ("fail", [("process/exception", ())])


def test_a_job_that_tells_its_hosts_version(tmp_path: Path) -> None:
    assert lost(tmp_path, train=f"{KERNEL}\n{STEPS}") == ("warn", [])
    assert lost(tmp_path, train=f"{KERNEL}\n{STEPS}Training completed.\n") == ("pass", [])
