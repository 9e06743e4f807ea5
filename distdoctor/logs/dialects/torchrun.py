"""Lines of torchrun and of torch itself (torch/distributed/elastic, torch/multiprocessing)."""

from __future__ import annotations

import re

from distdoctor.logs.dialects.dialect import ENDS_OTHERS, SENT, Dialect, Wording

TABLE_RANK = re.compile(r"\brank\s*: (?P<rank>\d{1,6}) \(local_rank: (?P<local>\d{1,4})\)")
TABLE_HOST = re.compile(r"\bhost\s*: (?P<host>[\w.:-]{1,253})")
TABLE_TIME = re.compile(r"\btime\s*: (\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d)")
TABLE_CODE = b"exitcode"
TABLE_ROOT = b"Root Cause (first observed failure)"
"""Head of the entry of the first failed rank in torchrun's table of failures (ChildFailedError); the rows of an entry
follow in the order in which they stand in it."""
DIALECT = Dialect(
    prefixes=(
        ("[", r"\[rank[ =]?(?P<rank>\d{1,6})\]:? ?"),  # torch.distributed's excepthook and loggers; Determined's
        ("[", r"\[(?:[A-Za-z_]\w{0,30}?)(?P<local_rank>\d{1,4})\]: ?"),  # torchrun --tee: [default3]:, [trainer0]:
        ("[", r"\[(?P<local_rank>\d{1,4})\]:(?=\S)"),  # the same of a role without a name
        # glog, as torch writes it: E1121 12:00:00.123456 1234 torch/x.py:1] with [host], [rank] where they are
        (
            "a[",
            r"\[?[IWEF](?P<mm>[01]?\d)(?P<dd>[0-3]\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?: +(?P<pid>\d{1,9}))? "
            r"[\w./\\:-]{1,200}:\d{1,6}\] ?",
        ),
        ("[", r"\[[IWEF] [\w.:/\\ -]{1,80}\] ?"),  # the same in older versions: [E ProcessGroupNCCL.cpp:475]
    ),
    ends=(
        # torch/distributed/elastic/multiprocessing: messages of the agent, rows of its table, its own signals
        Wording(
            "exitcode",
            r"exitcode {0,4}[:=]? {0,4}\(?(?P<code>-?\d{1,10})\b(?: \(pid: (?P<process>\d{1,10})\)"
            r"|\) local_rank: (?P<agent>\d{1,4})\b)?",
            marks=SENT,
            launcher="torchrun",
        ),
        Wording("(SIG", r"Signal (?P<signal>\d{1,2}) \(SIG", marks=SENT, launcher="torchrun"),
        Wording(
            "closing signal",
            r"(?:Sending process (?P<process>\d{1,10}) )?closing signal (?:Signals\.)?(?P<name>SIG[A-Z]{2,5})",
            reason="sent by launcher",
            marks=SENT,
        ),
        Wording(
            "death signal",
            r"Received (?:(?P<signal>\d{1,2})|Signals\.(?P<name>SIG[A-Z]{2,5})) death signal",
            reason="launcher signalled",
            marks=ENDS_OTHERS,
        ),
        Wording("got signal: ", r"got signal: (?P<signal>\d{1,2})\b", reason="launcher signalled", marks=ENDS_OTHERS),
        Wording(
            "Received Signals.SIG",
            r"Received Signals\.(?P<name>SIG[A-Z]{2,5})(?! death)",
            reason="launcher signalled",
            marks=ENDS_OTHERS,
        ),
        Wording("Received SIGHUP", reason="launcher signalled", signal=1),
        Wording("ChildFailedError", reason="failed", launcher="torchrun"),
        Wording("torchelastic.worker.status.FAILED", reason="failed"),
        # torch/distributed/elastic/timer: api.py and file_based_local_timer.py
        Wording(
            "uccessfully reaped worker=[",
            r"[Ss]uccessfully reaped worker=\[(?P<pid>\d+)\](?: with signal=(?P<signal>\d+))?",
            reason="timer expired",
        ),
        Wording(
            "because of expired timers",
            r"Terminating the server process=\[\d+\] because of expired timers",
            reason="timer expired",
        ),
        # torch.multiprocessing.spawn, subprocess of Python's library, torch's data loader
        Wording(
            ("terminated with signal SIG", "<Signals.SIG"),
            r"(?:process (?P<local_rank>\d{1,4}) )?(?:terminated with signal |<Signals\.)(?P<name>SIG[A-Z]{2,5})",
        ),
        Wording("terminated with exit code", r"process (?P<rank>\d+) terminated with exit code (?P<code>-?\d{1,10})"),
        Wording(
            "killed by signal: ",
            r"killed by signal: (?P<word>Killed|Segmentation fault|Aborted|Bus error)",
            reason="data loader worker",
        ),
    ),
    over=r"\(SUCCEEDED\)|\btraining SUCCESS\b",
    wrappers=r"(?:torch\.\S{1,80}\.)?(?:ChildFailedError|ProcessRaisedException|ProcessExitedException"
    r"|CheckpointException)\b",
)
