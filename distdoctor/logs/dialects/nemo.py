"""Lines of NeMo."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect

# BaseNeMoFormatter and DebugNeMoFormatter of nemo/utils/formatters/base.py of NVIDIA/NeMo, 1 and 2
DIALECT = Dialect(
    prefixes=(
        (
            "[",
            r"\[NeMo [DIWEC] (?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d) \w{1,60}:\d{1,6}"
            r"(?: rank:(?P<rank>\d{1,6}))?\] {0,4}",
        ),
    )
)
