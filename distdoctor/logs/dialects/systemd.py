"""Lines of systemd about a unit in which a job runs."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Wording

_UNIT = r"systemd\[\d+\]: [^:]{0,80}(?:train|torch|py|job|run|slurm|docker)[^:]{0,200}: "
"""Unit of systemd in which a job may run."""
DIALECT = Dialect(
    ends=(
        Wording(
            ("code=killed, status=", "code=dumped, status=", "code=exited, status="),
            rf"{_UNIT}Main process exited, code=(?:(?:killed|dumped), status=(?P<signal>\d{{1,2}})/"
            r"|exited, status=(?P<code>[1-9]\d{0,2}))",
            launcher="systemd",
        ),
        Wording(
            ("by the OOM killer", "result 'oom-kill'"),
            r"systemd\[\d+\]: [^:]{0,80}(?:train|torch|py|job|run|slurm|docker|cri-|kubepods|session|user)[^:]{0,200}"
            r"\.(?:service|scope|slice): (?:A|Failed)",
            "out of memory",
        ),
    )
)
