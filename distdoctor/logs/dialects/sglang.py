"""Lines of SGLang: its prefix, its watchdog of the scheduler, and the signal with which a child ends its launcher."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Wording

DIALECT = Dialect(
    prefixes=(("[", r"\[(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)(?: [A-Z]{2,4}\d{1,4}){0,4}\] "),),
    ends=(
        # kill_process_tree() follows; older versions write "proces.", newer ones the second form while they serve
        Wording(
            ("Received sigquit from a child proces", "It usually means one child failed"),
            reason="ends its ranks",
            launcher="sglang",
        ),
    ),
)
