"""Lines of SGLang: its prefix, its watchdog of the scheduler, and the signal with which a child ends its launcher."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Mark, Wording

DIALECT = Dialect(
    prefixes=(
        # run_scheduler_process() of sgl-project/sglang, 0.3 to 0.5: the number in the group of TP is the rank, but
        # with PP, and of an engine that is a replica of another one (DP2 TP0) it is not
        (
            "[",
            r"\[(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,6})?)"
            r"(?: DP(?P<dp>\d{1,4})(?= TP(?P=dp)\b))?"
            r"(?:(?![^\]]{0,40} PP\d) TP(?P<rank>\d{1,4}))?(?: [A-Z_]{2,12}\d{1,4}){0,6}\] ",
        ),
    ),
    ends=(
        # kill_process_tree() follows; older versions write "proces.", newer ones the second form while they serve
        Wording(
            ("Received sigquit from a child proces", "It usually means one child failed"),
            reason="ends its ranks",
            launcher="sglang",
        ),
    ),
    stops=(Mark("SIGTERM received. signum="),),  # SignalHandler in srt/managers/tokenizer_manager.py
)
