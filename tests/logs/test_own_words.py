"""Which words of a log are shown: the innermost error of the user's own code, and what a library says of its error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged, raised

HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
WARNED = "n1:88:120 [0] {level} socket: connect to 10.0.0.2<4000> returned No route to host\n"
ERROR = (
    "RuntimeError: NCCL error in: NCCLUtils.hpp:275, unhandled system error (run with NCCL_DEBUG=INFO for details), "
    "NCCL version 2.21.5"
)
REMOTE = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, remote process exited or there was a network "
    "error, NCCL version 2.27.3"
)
LAST = "ncclSystemError: System call or external library call failed.\nLast error:\n{text}\n"
SOLUTION = "Check the peers of this device."
CANN = f"EI0006: Getting socket times out. Reason: a peer is late.\n        Solution: {SOLUTION}\n"


@pytest.mark.parametrize(
    ("function", "outer", "place", "kind"),
    [
        ("call_with_retry", "Exception: gave up after 3 tries", "train.py:8", "KeyError"),
        ("run", "Exception: gave up", "train.py:8", "KeyError"),
        ("run", "StageError: no batch", "train.py:8", "StageError"),  # it says more than what it handled
    ],
)
def test_the_innermost_error_of_the_users_own_code(
    tmp_path: Path, function: str, outer: str, place: str, kind: str
) -> None:
    helper = raised("", outer).replace(
        " in main", f' in main\n    again()\n  File "/x/helper.py", line 9, in {function}'
    )
    helper = (
        helper.replace("/x/helper.py", "/v/lib/python3.12/site-packages/helper.py") if kind == "StageError" else helper
    )
    (found,) = judged(tmp_path, raised("", "KeyError: 'x'") + HANDLING + helper).findings
    assert f"failed at {place} with {kind}" in found.summary
    assert f"Fix the {kind} at {place}" in found.fixes[0].text


@pytest.mark.parametrize(
    ("above", "below", "said"),
    [
        (WARNED.format(level="NCCL WARN"), "", "NCCL: socket: connect to 10.0.0.2"),
        (WARNED.format(level="NCCL ERROR"), "", "NCCL: socket: connect to 10.0.0.2"),
        (WARNED.format(level="NCCL WARN"), LAST.format(text="ibv_open_device failed"), "NCCL: ibv_open_device failed"),
        ("", "", ""),
    ],
)
@pytest.mark.parametrize("prefix", ["[rank0]: ", "(W[rank=3] pid=7, ip=10.0.0.3) ", ""])
@pytest.mark.parametrize("error", [ERROR, REMOTE])
def test_nccls_own_words_are_quoted_beside_torchs(
    tmp_path: Path, above: str, below: str, said: str, prefix: str, error: str
) -> None:
    text = above + raised(prefix, error) + "".join(f"{prefix}{line}\n" for line in below.splitlines())
    found = judged(tmp_path, text)
    shown = " ".join(
        [*(one.why for one in found.candidates), *(line for one in found.findings for line in one.evidence)]
    )
    assert error in shown and (said in shown if said else "the last line of NCCL" not in shown)


def test_the_advice_of_the_log_is_shown(tmp_path: Path) -> None:
    found = judged(tmp_path, f"[rank1]: {CANN}")
    assert SOLUTION in " ".join(
        [*(one.why for one in found.candidates), *(one.fixes[0].text for one in found.findings)]
    )


def test_the_place_that_a_line_names(tmp_path: Path) -> None:
    text = raised("(Worker pid=911, ip=10.0.0.3) ", "KeyError: 'x'")
    (found,) = judged(tmp_path, text).findings
    assert found.nodes == ("10.0.0.3",) and found.summary.startswith("Process 911 on 10.0.0.3 failed")


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("Failed to open libnvidia-ml.so.1", "gpu/none-visible"),
        ("Failed to CUDA calloc async 4 bytes", "gpu/out-of-memory"),
        ("Bootstrap : no socket interface found", "nccl/interface-not-found"),
    ],
)
@pytest.mark.parametrize("prefix", ["[rank0]: ", "gpu01: [rank0]: ", ""])
def test_nccls_last_error_is_what_its_warn_line_says(tmp_path: Path, text: str, check: str, prefix: str) -> None:
    lines = f"{ERROR}\n{LAST.format(text=text)}".splitlines()
    found = judged(tmp_path, "".join(f"{prefix}{line}\n" for line in lines))
    assert check in [one.check for one in found.findings] + [one.check for one in found.candidates]
    assert judged(tmp_path, f"{prefix}{text}\n").verdict != "fail" or check == "nccl/interface-not-found"


def test_an_exception_without_its_traceback_is_named_in_the_fix(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, "[rank2]: torch.x.MeshError: no dimension 'tp'\n").findings
    assert "Fix the MeshError" in found.fixes[0].text and "-B 40 MeshError LOGS" in found.fixes[0].text
