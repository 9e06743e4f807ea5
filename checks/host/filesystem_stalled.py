"""A file system does not answer.

## What you see
Kernel log: `nfs: server X not responding`, `task python:123 blocked for more than 120 seconds`.

## Why it happens
A file server or disk makes no progress, and every process that uses it waits. To the other ranks it looks like a slow
rank.

## Fix
Restart or reconnect the file server, after `dmesg -T | grep -e nfs: -e 'blocked for more'` has named it; keep files
that all ranks read on local disks.

## Confirm with
`timeout 5 ls /mnt/share` returns at once on every node.

## When it is harmless
The server recovered soon (`server X OK`).

## See also
host/disk-full, collective/slow-rank
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, live, names_of

SEVERITY = "fail"
MATTERS = "every process that uses it waits, and the other ranks wait for that process"
PREVENTS = "store used"
LOOKS_AT = ("host.kernel_log",)
RESTART = "yes"
NEXT = ("the rest of the kernel's log", "dmesg -T")
LOG = (
    Line("nfs: server", r"nfs: server (?P<server>\S{1,253}) OK", shows="noise", why="it answers again"),
    Line(
        "not responding",
        r"nfs: server (?P<server>\S{1,253}) not responding",
        shows="symptom",
        why="if it answered soon after, the job only waited",
    ),
    Line(
        "blocked for more than",
        r"task (?P<program>.{1,32}):(?P<pid>\d+) blocked for more than \d+ seconds",
        shows="symptom",
        why="it waited for a disk or a lock, perhaps only for minutes",
    ),
    Line(
        "DataLoader timed out after",
        shows="symptom",
        why="workers that compute for long, or that wait for a lock held at the fork, show the same",
    ),
    Line(
        "uninterruptible",  # torchrun's, of a process that SIGKILL does not end
        r"in uninterruptible (?:kernel )?sleep",
        shows="symptom",
        why="a GPU or an adapter whose driver does not answer shows the same",
    ),
    Line(
        ("Lustre: ", "CIFS: ", "ceph: mds"),
        r"Lustre: .{1,200}Connection restored to|CIFS: .{0,80}reconnected|ceph: mds\d{1,4} (?:came back|recovery comp)",
        shows="noise",
        why="it answers again",
    ),
    Line(
        ("Lustre: ", "CIFS: ", "ceph: mds"),
        r"Lustre: .{1,300}was lost; in progress operations using this service will wait"
        r"|CIFS: .{1,200}has not responded in|ceph: mds\d{1,4} hung",
        shows="symptom",
        why="if it answered soon after, the job only waited",
    ),
    Line(
        (
            "-fs error (device ",
            "I/O error, dev ",
            "controller is down; will reset",
            "timeout, reset controller",
            "Internal error XFS_",
            "Filesystem has been shut down due to",  # XFS, from 5.13 on
            "xfs_do_force_shutdown(",
        ),
        shows="symptom",
        why="the job may not use that disk",
    ),
    Line(
        "This client was evicted by",
        r"LustreError: .{1,200}This client was evicted by",
        shows="symptom",
        why="the job may have had no files open there",
    ),
    Line(
        ("Transport endpoint is not connected", "Host is down"),
        r"\[Errno (?:107|112)\].{0,60}: ['\"]/",
        shows="symptom",
        why="the server process of that folder ended, or is unreachable",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    """A folder that the job uses does not answer, and the kernel says the same of its server."""
    silent = {node: lines for node in cluster.nodes if (lines := list(stalled_folders(node)))}
    if silent:
        servers = any("nfs: server" in line for lines in silent.values() for line in lines)
        text = f"Restart or reconnect the {'file server' if servers else 'disk or its server'}. Confirm with:"
        command = "dmesg -T | grep nfs:" if servers else "dmesg -T | grep -A20 'blocked for more than'"
        yield Finding.about(
            silent,
            f"A {'file server' if servers else 'file system'} with folders of the job does not answer "
            f"{names_of(list(silent))}.",
            severity="warn",
            evidence=(f"{node.name}: {line}" for node, lines in silent.items() for line in lines),
            fixes=(Fix.on(silent, text, commands=(command,)),),
        )


def stalled_folders(node: Node) -> Iterator[str]:
    """Yield the folders whose server answers neither this check nor the kernel.

    For other file systems: folders that do not answer while the kernel reports processes blocked for more than two
    minutes.
    """
    last: dict[str, tuple[bool, str]] = {}
    hung = ""
    for line in node.host.kernel_log or ():
        if line.check == "host/filesystem-stalled" and "server" in line.values:
            last[line.values["server"]] = line.shows != "noise", line.text
        elif line.check == "host/filesystem-stalled" and "pid" in line.values:
            hung = line.text
    folders = [(folder.path, folder.source, folder.error) for folder in node.host.folders or ()]
    folders += [(folder.path, folder.source, folder.error) for folder in node.host.shared or ()]
    for path, source, error in folders:
        bad, text = last.get(source.partition(":")[0], (bool(hung), hung))
        if bad and error == "timeout":
            yield f"{path} ({source}) did not answer; kernel log: {text}"


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    still = [rank for rank in job.ranks if rank.place.kind == live.places.DEVICE and not rank.works] if job else []
    stuck = [rank for rank in still if not rank.pauses]
    if job is None or not stuck:
        return
    nodes = list(dict.fromkeys(rank.node for rank in stuck))
    yield live.rank_finding(
        stuck,
        f"{live.ranks_called(stuck)} on {names_of(nodes)} wait{'s' if len(stuck) == 1 else ''} in the kernel for a "
        "disk "
        "or "
        "a file server, without progress.",
        evidence=(*live.where_ranks_are(stuck), *live.waiting_evidence(job, stuck)),
        fixes=(
            Fix.on(
                nodes,
                "Restart or reconnect the file server or disk; the job continues when it answers. Confirm with: `dmesg "
                "-T; df`.",
            ),
        ),
    )
