"""Lines of MLPerf's mllog: the run that begins, and its result."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Mark

DIALECT = Dialect(
    begins=(Mark('"run_start"', r'"key": ?"run_start"'),),
    success=(
        Mark('"run_stop"', r'"key": ?"run_stop".{0,400}"status": ?"success"'),
        Mark("RESULT,", r"^RESULT,[A-Z][A-Z0-9_]{1,40},"),  # of the scripts that start a submission's run
    ),
)
