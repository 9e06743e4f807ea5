"""TMPDIR is too long for sockets.

What you see
------------
`OSError: AF_UNIX path too long`.

Why it happens
--------------
The name of a Unix socket has at most 107 bytes; multiprocessing puts its sockets below TMPDIR.

Fix
---
TMPDIR=/tmp, or another short path.

When it is harmless
-------------------
Where nothing of the job makes such a socket: before a job it is a warning. A DataLoader with workers, a
multiprocessing.Manager and tensors that are sent between processes do.

See also
--------
host/temporary-folder
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, names_of

SEVERITY = "fail"
MATTERS = "a DataLoader with workers, or tensors sent between processes, would fail: their sockets are made there"
LOOKS_AT = ("host.temporary",)
LONGEST = 107
"""Bytes of a socket's path (sun_path in unix(7) has 108, the last of which is zero)."""
BELOW = len("/pymp-01234567/listener-01234567")
"""What multiprocessing puts below the folder (multiprocessing/util.py, connection.py: names of 8 random characters)."""
PREVENTS = "store used"
LOG = (Line("AF_UNIX path too long"), Line("Socket pathname is too long", "[Ss]ocket pathname is too long"))


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if length(node) + BELOW > LONGEST]
    if bad:
        yield Finding.about(
            bad,
            f"The folder for temporary files on {names_of(bad)} has too long a path for sockets.",
            severity="warn",
            evidence=(
                f"{node.name}: {folder(node)} has {length(node)} bytes, and {length(node) + BELOW} with the name of a "
                f"socket that Python makes below it; {LONGEST} are allowed"
                for node in bad
            ),
            fixes=(Fix.on(bad, "Name a shorter one.", env={"TMPDIR": "/tmp"}),),
        )


def folder(node: Node) -> str:
    temporary = node.host.temporary
    return temporary.path or "" if temporary else ""


def length(node: Node) -> int:
    return len(folder(node).encode(errors="surrogateescape"))
