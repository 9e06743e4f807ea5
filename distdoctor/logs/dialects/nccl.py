"""Prefixes of NCCL's lines, also of RCCL: host, process and thread, then the number of the GPU."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, OwnWords

DIALECT = Dialect(
    prefixes=(
        ("a0", r"(?P<host>(?=[\w.-]{0,63}[A-Za-z])\w[\w.-]{0,63}):(?P<pid>\d{1,9}):\d{1,9} \[\d{1,6}\] "),
        ("a0", r"(?P<host>(?=[\w.-]{0,63}[A-Za-z])\w[\w.-]{0,63}):(?P<pid>\d{1,9}):\d{1,9} (?=\[Proxy|\[Service|NCCL)"),
    ),
    own_words=OwnWords(
        "NCCL",
        r"NCCL error(?: in)?: |unhandled \w{1,10} error|nccl(?:Unhandled|System|Internal|Invalid|Remote)\w{1,20}",
        above=rb"NCCL (?:WARN|ERROR|ATTN) ([^\n]{3,400})",
        below=rb"Last error: ?\r?\n([^\n]{3,400})",
    ),
)
