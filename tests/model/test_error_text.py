"""Errors on one line: the paths of whoever built PyTorch go, and the end stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distdoctor.model.text import one_line, shortened

LONG = (
    "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:123] connectFullMesh failed "
    "with "
    "[/__w/pytorch/pytorch/torch/csrc/distributed/c10d/ProcessGroupGloo.cpp:2088] "
    + "timed out connecting: "
    * 20
    + "SO_ERROR: Connection refused, remote=[10.0.0.5]:41904\nException raised from connect at "
    "/__w/pytorch/pytorch/c10/util/x.cpp:1 (most recent call first):\nframe #0: c10::Error::Error"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[/__w/pytorch/pytorch/torch/csrc/distributed/c10d/ProcessGroupGloo.cpp:123] no",
            "[ProcessGroupGloo.cpp:123] no",
        ),
        ('File "/usr/lib/python3/dist-packages/torch/x.py", line 3', 'File "x.py", line 3'),
        ("open /etc/hosts\nfailed: /dev/shm", "open /etc/hosts failed: /dev/shm"),
        (
            "[/g/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.5]:42731. This is typically caused "
            "by a remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF! 🏖️",
            "[pair.cc:553] Connection closed by peer [10.0.0.5]:42731.",
        ),
        (
            "CUDA error: invalid device ordinal\nSearch for `cudaErrorInvalidDevice' in https://docs.nvidia.com/cuda/"
            "cuda-runtime-api/group__CUDART__TYPES.html for more information.\nCUDA kernel errors might be "
            "asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
            "CUDA error: invalid device ordinal",
        ),
        ("boom\nException raised from f at /a/b/c.cpp:1\nframe #0", "boom"),
    ],
)
def test_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize("most", [100, 160, 300])
def test_the_end_of_a_long_error_is_kept(most: int) -> None:
    text = shortened(LONG, most)
    assert len(text) <= most
    assert text.startswith("RuntimeError: [device.cc:123]")
    assert text.endswith("Connection refused, remote=[10.0.0.5]:41904")
    assert " ... " in text


@given(st.text(max_size=400), st.integers(20, 200))
def test_never_longer_than_asked(text: str, most: int) -> None:
    assert len(shortened(text, most)) <= most
    if len(one_line(text)) <= most:
        assert shortened(text, most) == one_line(text)
