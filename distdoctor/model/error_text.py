"""The texts of errors on one line: without source paths of whoever built PyTorch, and with the end where the use is."""

from __future__ import annotations

import re

_PATH = re.compile(r"(?:/[\w.+~-]+){2,}/([\w.+-]+\.(?:c|cc|cpp|cu|cuh|h|hpp|py)\b)")
_TRACE = re.compile(r"(?s)\s*(?:Exception raised from |C\+\+ CapturedTraceback:|\(no backtrace available\)).*")
_ADVICE = re.compile(r"\s*This is typically caused by a remote worker crashing\.(?:(?!\]).)*")
"""What gloo (transport/tcp/pair.cc) puts behind every connection that was closed: it names nobody."""
_CUDA_ADVICE = re.compile(
    r"\s*(?:Search for `\w+' in https://\S+ for more information\.|For debugging consider passing \w+=\d\.?|"
    r"(?:CUDA|HIP) kernel errors might be asynchronously reported at some other API call,? so the stacktrace below "
    r"might be incorrect\.|Compile with `TORCH_USE_\w+_DSA` to enable device-side assertions\.|"
    r"Device-side assertion tracking was not enabled by user\.)"
)
"""What torch (c10/cuda/CUDAMiscFunctions.cpp, CUDAException.cpp) puts behind every error of CUDA's."""
_GAP = " ... "


def one_line(text: str) -> str:
    """``text`` on one line, its C++ backtrace and general advice left out, source paths cut to
    ``ProcessGroupGloo.cpp:123``."""
    said = _CUDA_ADVICE.sub("", _ADVICE.sub("", _TRACE.sub("", text)))
    return " ".join(_PATH.sub(r"\1", said).split())


def shortened(text: str, most: int) -> str:
    """``text`` on one line of at most ``most`` characters. What goes is the middle: a C++ error says first who speaks
    and last what happened to whom."""
    line = one_line(text)
    if len(line) <= most:
        return line
    room = most - len(_GAP)
    head = room // 3
    start, end = line[:head], line[-(room - head) :]
    # Whole words, where there are any near the cut.
    start = start[:cut] if (cut := start.rfind(" ")) > head // 2 else start
    end = end[cut + 1 :] if 0 <= (cut := end.find(" ")) < 20 else end
    return start.rstrip() + _GAP + end.lstrip()
