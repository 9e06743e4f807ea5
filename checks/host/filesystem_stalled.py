"""A filesystem does not answer.

What you see
------------
Kernel log: `nfs: server X not responding`, `task python:123 blocked for more than 120 seconds`.

Why it happens
--------------
A file server or disk stands still, and every process that touches it with it: a slow rank to the others.

Fix
---
Look at the file server; keep what all ranks read on local disks.

When it is harmless
-------------------
Where it recovered soon (`server X OK`).

See also
--------
host/disk-full, collective/slow-rank
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, live, names_of

SEVERITY = "fail"
MATTERS = "every process that touches it waits, and the other ranks with it"
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
        why="where it answered again soon, the job only waited",
    ),
    Line(
        "blocked for more than",
        r"task (?P<program>.{1,32}):(?P<pid>\d+) blocked for more than \d+ seconds",
        shows="symptom",
        why="it waited for a disk or a lock, not for ever",
    ),
    Line(
        "DataLoader timed out after",
        shows="symptom",
        why="workers that compute long, and such as wait for a lock that was held when they were forked, show the same",
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
        why="where it answered again soon, the job only waited",
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
        why="whether the job used that disk is not said",
    ),
    Line(
        "This client was evicted by",
        r"LustreError: .{1,200}This client was evicted by",
        shows="symptom",
        why="whether the job had files open there is not said",
    ),
    Line(
        ("Transport endpoint is not connected", "Host is down"),
        r"\[Errno (?:107|112)\].{0,60}: ['\"]/",
        shows="symptom",
        why="what serves that folder ended, or cannot be reached",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    """A folder that the job uses does not answer, and the kernel says the same of its server."""
    silent = {node: lines for node in cluster.nodes if (lines := list(waits(node)))}
    if silent:
        servers = any("nfs: server" in line for lines in silent.values() for line in lines)
        text = "Look at the server, and at the way to it." if servers else "Look at the disk, or at what serves it."
        command = "dmesg -T | grep nfs:" if servers else "dmesg -T | grep -A20 'blocked for more than'"
        yield Finding.about(
            silent,
            f"A {'file server' if servers else 'file system'} does not answer {names_of(list(silent))}, which "
            f"{'has' if len(silent) == 1 else 'have'} folders of the job on it.",
            severity="warn",
            evidence=(f"{node.name}: {line}" for node, lines in silent.items() for line in lines),
            fixes=(Fix.on(silent, text, commands=(command,)),),
        )


def waits(node: Node) -> Iterator[str]:
    """The folders whose server answers neither this check nor the kernel, which said nothing better since; and of other
    file systems those that do not answer while the kernel says that processes wait for longer than two minutes."""
    last: dict[str, tuple[bool, str]] = {}
    hung = ""
    for line in node.host.kernel_log or ():
        if line.check == "host/filesystem-stalled" and "server" in line.values:
            last[line.values["server"]] = line.shows != "noise", line.text
        elif line.check == "host/filesystem-stalled" and "pid" in line.values:
            hung = line.text
    folders = [(one.path, one.source, one.error) for one in node.host.folders or ()]
    folders += [(one.path, one.source, one.error) for one in node.host.shared or ()]
    for path, source, error in folders:
        bad, text = last.get(source.partition(":")[0], (bool(hung), hung))
        if bad and error == "timeout":
            yield f"{path} ({source}) did not answer; the kernel's log: {text}"


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    still = [rank for rank in job.ranks if rank.place.kind == live.places.DEVICE and not rank.works] if job else []
    stuck = [rank for rank in still if not rank.pauses]
    if job is None or not stuck:
        return
    nodes = list(dict.fromkeys(rank.node for rank in stuck))
    yield live.rank_finding(
        stuck,
        f"{live.called(stuck)} on {names_of(nodes)} wait{'s' if len(stuck) == 1 else ''} in the kernel for a disk or "
        "a file server, and nothing comes.",
        evidence=(*live.where_ranks_are(stuck), *live.waiting_evidence(job, stuck)),
        fixes=(Fix.on(nodes, "Look at the file server or disk (dmesg -T; df): the job goes on when it answers."),),
    )
