"""Lines of oneCCL: its prefix, with the time and the process."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect

DIALECT = Dialect(
    prefixes=(
        ("0", r"(?P<date>\d{4}:\d\d:\d\d)-(?P<clock>\d\d:\d\d:\d\d):\( {0,9}(?P<pid>\d{1,9})\) (?:\|CCL_\w{1,12}\| )?"),
    )
)
