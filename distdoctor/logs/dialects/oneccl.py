"""Lines of oneCCL, torch's xccl: its prefix, with the time and the process."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, OwnWords

DIALECT = Dialect(
    prefixes=(
        ("0", r"(?P<date>\d{4}:\d\d:\d\d)-(?P<clock>\d\d:\d\d:\d\d):\( {0,9}(?P<pid>\d{1,9})\) (?:\|CCL_\w{1,12}\| )?"),
    ),
    # exception() of include/oneapi/ccl/exception.hpp of uxlfoundation/oneCCL; CCL_THROW_WITH_ERROR() logs it below
    # what each function says that failed: the innermost one first
    own_words=OwnWords(
        "oneCCL",
        r"\boneCCL: |ccl::v1::exception",
        above=rb"\|CCL_ERROR\| ([^\n]{3,400})(?:\n(?:[^\n|]{0,200}\n)?[^\n]{0,200}\|CCL_ERROR\| [^\n]{0,400})*",
    ),
)
