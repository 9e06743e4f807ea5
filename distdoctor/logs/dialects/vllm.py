"""Lines of vLLM: its prefix, its own ports, and the errors that refer to another one."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import ENDS_OTHERS, Dialect, Mark, Wording

DIALECT = Dialect(
    prefixes=(
        (
            "a",
            r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) +(?P<mm>\d\d)-(?P<dd>\d\d) (?P<clock>\d\d:\d\d:\d\d) "
            r"\[?[\w./-]{1,120}:\d{1,6}\] ?",
        ),
    ),
    ends=(
        Wording(
            "trigger received signal=SIG",  # vllm/v1/engine/core.py
            r"\[shutdown\] EngineCore: trigger received signal=(?P<name>SIG[A-Z]{2,5})",
            reason="launcher signalled",
            marks=ENDS_OTHERS,
        ),
        Wording("died unexpectedly, shutting down client", reason="engine died"),  # vllm/v1/engine/core_client.py
        # monitor_workers() of vllm/v1/executor/multiproc_executor.py and ray_executor_v2.py
        Wording("died unexpectedly, shutting down executor", reason="worker crashed"),
    ),
    # only its handler of signals writes the first (vllm/entrypoints/launcher.py); uvicorn writes the other after a
    # signal, and after the end of an engine, which then stands above it
    stops=(
        Mark("[shutdown] API server: shutdown triggered"),
        Mark("INFO:     Shutting down", r"INFO:     Shutting down$"),
    ),
    own_port=r"distributed_init_method=tcp://\S{1,256}:(?P<port>\d{1,5})\b",
    port_fix="Start the engine again, or give it a free range: `export VLLM_PORT=20000` (the first port; the others "
    "follow it).",
    wrappers=r"\S{0,80}Error: (?:Engine core initialization failed|EngineCore (?:failed|encountered)"
    r"|WorkerProc initialization failed|Engine process failed to start)|\S{0,80}EngineDeadError\b",
)
