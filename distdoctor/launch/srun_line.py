"""srun's own words: where they end and the command begins, and which of them a check beside the job is to have, too.

getopt_long with ``+``: options end at the first word that is none (srun(1), and ``srun --help`` of 22.05 and 23.11).
"""

from __future__ import annotations

from collections.abc import Sequence

_SHORT_PLAIN = "EHIkKlOQsuvVXhZ"
"""Those that take none, or one only without a space."""
_PLAIN = (
    "contiguous", "disable-status", "exact", "exclusive", "external", "hold", "immediate", "interactive",
    "kill-on-bad-exit", "label", "multi-prog", "no-allocate", "no-kill", "overcommit", "overlap", "oversubscribe",
    "preserve-env", "pty", "quiet", "reboot", "send-libs", "spread-job", "test-only", "unbuffered", "use-min-nodes",
    "verbose", "version", "help", "usage", "whole", "wait-all-nodes", "quit-on-interrupt", "resv-ports", "nice",
    "compress", "propagate",
)  # fmt: skip
"""Those that take no value, or only one behind ``=``."""
_NOT_FOR_A_CHECK = (
    "output", "error", "input", "pty", "label", "multi-prog", "kill-on-bad-exit", "job-name", "unbuffered", "quiet",
    "verbose", "bcast", "epilog", "prolog", "task-prolog", "task-epilog", "wait",
)  # fmt: skip
_NOT_FOR_A_CHECK_SHORT = "oeilKJuQvW"


def split(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Its options as far as a check is to have them, and the command."""
    kept: list[str] = []
    left = [*words]
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        taken = [word]
        if word.startswith("--"):
            name, equals, _ = word[2:].partition("=")
            if not equals and name not in _PLAIN and left:
                taken.append(left.pop(0))
            wanted = name not in _NOT_FOR_A_CHECK
        else:
            valued = word[1:].lstrip(_SHORT_PLAIN)
            switches = word[1 : len(word) - len(valued)]
            if len(valued) == 1 and left:  # its value is the next word
                taken.append(left.pop(0))
            if valued[:1] in _NOT_FOR_A_CHECK_SHORT:
                valued, taken = "", [word]
            taken[0] = "-" + "".join(one for one in switches if one not in _NOT_FOR_A_CHECK_SHORT) + valued
            wanted = taken[0] != "-"
        kept += taken if wanted else []
    return tuple(kept), left
