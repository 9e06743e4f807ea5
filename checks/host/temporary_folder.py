"""No folder for temporary files is writable.

## What you see
torchrun ends at once, before it starts a rank:

    FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', '/workspace']

## Why it happens
torchrun creates a folder for its ranks' logs and errors, and Python's multiprocessing one for its sockets. Both go
below $TMPDIR, /tmp or /var/tmp. This user may write to none of them: a read-only container root, a closed /tmp or a
full disk. Or the umask removes the user's own rights (umask 777).

## Fix
Set TMPDIR to a writable folder, `export TMPDIR=/scratch/$USER`, or mount one at /tmp; set the umask in the shell that
starts the job, `umask 022`.

## Confirm with
`python -c "import tempfile; print(tempfile.gettempdir())"` prints the folder.

## When it is harmless
Another launcher than torchrun starts the ranks, or torchrun has `--log-dir`, and they use no DataLoader workers. Then,
and inside a started rank, the finding is a WARN.

## See also
host/shared-memory-permission
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, TemporaryFolder, names_of

SEVERITY = "fail"
MATTERS = "the ranks start without one, but a DataLoader with workers, for example, fails"
PREVENTS = "store used"
FOLLOWS = ("host/file-size-limit",)
LOOKS_AT = ("host.temporary",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    missing_on = {node: folder for node in cluster.nodes if (folder := lacking(node)) is not None}
    for needed in (True, False):
        bad = [node for node, folder in missing_on.items() if needs(node, folder) is needed]
        if bad:
            yield Finding.about(
                bad,
                f"{names_of(bad)} {'has' if len(bad) == 1 else 'have'} no writable folder for temporary files.",
                severity="fail" if needed else "warn",
                evidence=(f"{node.name}: {error_text(missing_on[node])}" for node in bad),
                fixes=(fix(node, missing_on[node]) for node in bad),
            )


def needs(node: Node, folder: TemporaryFolder) -> bool:
    """Return whether torchrun needs it: with --log-dir it makes its folders there, but by the same umask."""
    return node.plan.started == "node" and bool(folder.umask or not node.plan.log_dir)


def lacking(node: Node) -> TemporaryFolder | None:
    folder = node.host.temporary
    return folder if folder is not None and folder.path is None else None


def error_text(folder: TemporaryFolder) -> str:
    return f"{folder.error}; umask {folder.umask}" if folder.umask else folder.error


def fix(node: Node, folder: TemporaryFolder) -> Fix:
    if folder.umask:
        return Fix.on(node, "Set a umask that leaves the user its own rights.", commands=("umask 022",))
    if folder.instead is None:
        return Fix.on(
            node, "Let this user write to /tmp, as root (chmod 1777 /tmp); if it is read-only, mount a tmpfs."
        )
    return Fix.on(node, "Set TMPDIR to a folder that this user may write.", env={"TMPDIR": folder.instead})
