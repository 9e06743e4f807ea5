"""The init file is on a file system without file locks.

## What you see
`RuntimeError: flock: Function not implemented`.

## Why it happens
The file store of file:// locks its file (flock) each time it reads it. Some NFS, FUSE and Lustre mounts have no locks,
or only with an option (Lustre: flock).

## Fix
Use env:// or tcp:// instead, for example `init_method="tcp://host0:29500"`, or put the file on a file system with
locks.

## Confirm with
`flock /mnt/share/init true` exits without an error on every node.

## When it is harmless
Never.

## See also
environment/stale-init-file, environment/init-file-not-shared
"""

from distdoctor.check_api import Cluster, Finding, Iterator, Line, Node, files, names_of

SEVERITY = "fail"
PREVENTS = "plan agreed"
LOOKS_AT = ("host",)
FOLLOWS = ("environment/init-file-not-shared",)
LOG = (
    Line("Function not implemented", "flock: Function not implemented|flock.{0,80}Function not implemented"),
    Line("No locks available", "(?:flock|Errno 37).{0,80}No locks available"),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if node.host.init_file and node.host.init_file.lock_error]
    if bad:
        yield Finding.about(
            bad,
            f"{names_of(bad)} cannot lock files in the folder of the init file.",
            evidence=map(evidence_line, bad),
            fixes=files.instead_of_init_file(cluster, "Or use a path on a file system with file locks."),
        )


def evidence_line(node: Node) -> str:
    file = node.host.init_file
    assert file
    kind = file.filesystem or "a file system of unknown type"
    return f"{node.name}: flock() of a new file next to {file.path} fails with {file.lock_error}; it is on {kind}"
