"""The file of --init-method file:// holds an earlier run.

## What you see
Ranks connect to addresses of the earlier run: `Connection refused` on one of them, silence on the others, or `File
already exists`. The second try often works, because the failed run removed the file.

## Why it happens
A file store does not empty its file at the start: ranks append to it, and treat its content as written by this run. A
run that was killed leaves its file behind.

## Fix
Remove the file before each start, `rm -f /mnt/share/init`, or give every run a path of its own.

env:// and tcp:// need no file.

## Confirm with
`ls -l /mnt/share/init` prints "No such file" before the start.

## When it is harmless
The job runs right now, and the file is its own. An empty file is not reported.

## See also
environment/init-file-not-shared
"""

import shlex

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, duration_text, names_of, together

SEVERITY = "fail"
LOG = (
    Line("File already exists", "(?:RuntimeError|FileStore|c10d).{0,120}File already exists"),
    Line(
        "worker_count=",
        r"world_size=(?P<expected>\d{1,9}), worker_count=(?P<here>\d{1,9})",
        above=("here", "expected"),
        shows="hint",
        why="a restart after an earlier failure shows the same",
    ),
)
PREVENTS = "all met"
LOOKS_AT = ("host",)
FOLLOWS_ANYWHERE = ("environment/init-file-not-shared",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if stale(node)]
    if not bad:
        return
    paths = list(dict.fromkeys(path(node) for node in bad))
    yield Finding.about(
        bad, f"{together(paths)} on {names_of(bad)} holds an earlier run.", evidence=map(line, bad), fixes=fixes(bad)
    )


def stale(node: Node) -> bool:
    file = node.host.init_file
    return file is not None and file.exists and file.size > 0


def path(node: Node) -> str:
    assert node.host.init_file
    return node.host.init_file.path


def line(node: Node) -> str:
    assert node.host.init_file
    file = node.host.init_file
    return f"{node.name}: {file.path} has {file.size} bytes, last written {duration_text(file.age)} ago"


def fixes(bad: list[Node]) -> tuple[Fix, ...]:
    # -f: on a shared file system the first node's command removes it for all.
    text = "Remove the file before the start, unless a running job uses it."
    same: dict[str, list[str]] = {}
    for node in bad:
        same.setdefault(path(node), []).append(node.name)
    return tuple(Fix(text, tuple(names), commands=(f"rm -f {shlex.quote(p)}",)) for p, names in same.items())
