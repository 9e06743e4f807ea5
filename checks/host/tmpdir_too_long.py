"""TMPDIR is too long for socket paths.

## What you see
`OSError: AF_UNIX path too long`.

## Why it happens
The path of a Unix socket has at most 107 bytes, and multiprocessing puts its sockets below TMPDIR.

## Fix
Use a short path: `export TMPDIR=/tmp`.

## Confirm with
`echo -n "$TMPDIR" | wc -c` prints at most 75.

## When it is harmless
The job creates no such socket: before a job it is therefore a WARN. A DataLoader with workers, a
multiprocessing.Manager and tensors sent between processes create one.

## See also
host/temporary-folder
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, names_of

SEVERITY = "fail"
MATTERS = "a DataLoader with workers, or tensors sent between processes, would fail: their sockets are there"
LOOKS_AT = ("host.temporary",)
LONGEST = 107
"""Bytes of a socket's path (sun_path in unix(7) has 108, the last of which is zero)."""
BELOW = len("/pymp-01234567/listener-01234567")
"""Names that multiprocessing puts below the folder (multiprocessing/util.py, connection.py: 8 random characters)."""
PREVENTS = "store used"
LOG = (Line("AF_UNIX path too long"), Line("Socket pathname is too long", "[Ss]ocket pathname is too long"))


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if length(node) + BELOW > LONGEST]
    if bad:
        yield Finding.about(
            bad,
            f"The path of the temporary folder on {names_of(bad)} is too long for sockets.",
            severity="warn",
            evidence=(
                f"{node.name}: {folder(node)} has {length(node)} bytes, and {length(node) + BELOW} with the name of "
                f"Python's socket below it; the limit is {LONGEST}"
                for node in bad
            ),
            fixes=(Fix.on(bad, "Use a shorter path.", env={"TMPDIR": "/tmp"}),),
        )


def folder(node: Node) -> str:
    temporary = node.host.temporary
    return temporary.path or "" if temporary else ""


def length(node: Node) -> int:
    return len(folder(node).encode(errors="surrogateescape"))
