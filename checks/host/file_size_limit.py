"""A limit keeps files from growing.

## What you see
`OSError: [Errno 27] File too large`, or `File size limit exceeded` and signal 25 (SIGXFSZ). It fails at the first
checkpoint, or when a DataLoader passes its first batch.

## Why it happens
A limit on file size (`ulimit -f`, LimitFSIZE= of a unit, limits.conf) also counts for files in /dev/shm. With a limit
of 0, torchrun finds no folder for temporary files and does not start, unless it has `--log-dir`.

## Fix
Remove the limit in the shell or unit that starts the job: `ulimit -f unlimited`.

## Confirm with
`ulimit -f` prints unlimited in the shell that starts the job.

## When it is harmless
The job writes no file of that size. Before a job it is a WARN, unless the limit is 0 and torchrun has no `--log-dir`.

## See also
host/disk-full, host/shared-memory-small
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, names_of

SEVERITY = "fail"
PREVENTS = "store used"
MATTERS = "a log file, a checkpoint or a tensor in shared memory may not exceed that size"
LOOKS_AT = ("host.limits",)
TRIED = 4
"""Bytes of the file by which Python's tempfile finds a folder."""
ENOUGH = 1 << 30
"""Bytes; the state of a small model is larger."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = {node: size for node in cluster.nodes if 0 <= (size := limit(node.limits.file_size)) < ENOUGH}
    if bad:
        ended = [node for node in bad if ends_torchrun(node)]
        yield Finding.about(
            bad,
            f"torchrun does not start on {names_of(ended)}: it may write no temporary file there."
            if ended
            else f"The job may not write files larger than {min(bad.values()):,} bytes on {names_of(list(bad))}.",
            severity="fail" if ended else "warn",
            evidence=(f"{node.name}: the limit on the size of files (ulimit -f) is {n:,} B" for node, n in bad.items()),
            fixes=(
                Fix.on(bad, "Remove the limit in the shell that starts the job.", commands=("ulimit -f unlimited",)),
            ),
        )


def ends_torchrun(node: Node) -> bool:
    """Return whether no temporary file can be written, and torchrun is to make its folder for logs among these.

    Python tries each folder with a file of 4 bytes (tempfile), so that a limit of 4 does no harm. With --log-dir,
    torchrun makes folders alone, and the ranks start.
    """
    folder = node.host.temporary
    missing = folder is not None and folder.path is None
    return (
        missing and 0 <= limit(node.limits.file_size) < TRIED and node.plan.started == "node" and not node.plan.log_dir
    )


def limit(size: int | None) -> int:
    """-1 where there is none, or where it is not known."""
    return -1 if size is None else size
