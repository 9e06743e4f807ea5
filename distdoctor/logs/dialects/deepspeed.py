"""Lines of DeepSpeed's launcher (deepspeed/launcher/launch.py)."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import ENDS_OTHERS, SENT, Dialect, Wording

DIALECT = Dialect(
    ends=(
        Wording(
            "exits with return code = ",
            r"exits with return code = \(?(?P<code>-?\d{1,10})\b",
            marks=SENT,
            launcher="deepspeed",
        ),
        Wording(
            "Killing subprocess ", r"sigkill_handler\] Killing subprocess \d|^Killing subprocess \d", "ends its ranks"
        ),
        Wording(
            "Main process received SIG",
            r"Main process received (?P<name>SIGINT|SIGTERM), exiting",
            reason="launcher signalled",
            marks=ENDS_OTHERS,
        ),
    )
)
