"""Lines of Kubernetes, Docker and stern about containers and pods."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import ERROR, Dialect, Wording

_PROGRAM = r"\b(?:[Jj]ob|[Tt]rain\w*|torchrun|python[\d.]*|[Cc]ontainer|[Cc]ommand|[Ss]cript)\b"
_POD = r"(?:^(?:[\w-]{1,63} +)?(?P<pod>[\w.-]{1,253}) +\d{1,3}/\d{1,3} +)?"
DIALECT = Dialect(
    prefixes=(
        # stern: pod and container, before what nothing but a job writes
        (
            "a0",
            r"(?P<host>[a-z0-9][a-z0-9.-]{0,200}-[a-z0-9]{1,10}) [a-z0-9][a-z0-9-]{0,62} "
            rf"(?=Traceback \(|  File \"|\[rank\d|\[?[WEIF]\d{{4}} \d\d:|{ERROR})",
        ),
    ),
    ends=(
        # Docker, docker compose, Kubernetes; 143 is a container that somebody took down
        Wording(" exited with code ", r"^(?P<pod>[\w.-]{1,128}[-_]\d{1,4}) exited with code (?!143)(?P<code>\d{1,3})$"),
        Wording(" exited with code ", rf"{_PROGRAM}.{{0,60}} exited with code (?!143)(?P<code>\d{{1,3}})\b"),
        Wording('"ExitCode": ', r'"ExitCode": (?P<code>137)\b'),
        Wording("Exit Code:", r"Exit Code: {1,12}(?P<code>\d{1,3})\b", launcher="kubectl"),
        Wording(
            ("OOMKilled", "OOM Killed"),
            rf"{_POD}OOM ?Killed",
            "out of memory",
            unless=r"OOMKilled['\"]?[:=] ?['\"]?(?:false|0)\b",
        ),
        Wording(
            ("low on resource: memory", "MemoryPressure"),
            r"low on resource: memory|had condition: \[MemoryPressure",
            "out of memory",
        ),
        Wording(
            ("Preempted by", "Preempted in order to admit"),
            r"Preempted (?:by (?:a |pod \S|\S{1,120}/|\S{1,120} on node)|in order to admit)",
            "preempted",
        ),
        Wording("in response to imminent node shutdown", "", "node shut down"),
        Wording(
            ("active longer than specified deadline", "DeadlineExceeded"),  # of activeDeadlineSeconds
            r"was active longer than specified deadline|Reason: {1,12}DeadlineExceeded",
            "time limit",
        ),
        Wording(
            (
                "CrashLoopBackOff",
                "Back-off restart",
                "specified backoff limit",
                "BackoffLimitE",
                " Error ",
                " Evicted ",
            ),
            r"^(?:[\w-]{1,63} +)?(?P<pod>[\w.-]{1,253}) +\d/\d +(?:CrashL|Error|Evicted)"
            r"|CrashL|Back-off r|backoff l|BackoffLimitE",
            "container failed",
        ),
    ),
)
