"""There is no folder for temporary files.

What you see
------------
torchrun ends at once, before it starts a rank:

    FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', '/workspace']

Why it happens
--------------
torchrun makes a folder for its ranks' logs and errors, and Python's multiprocessing one for its sockets. Both go below
$TMPDIR, /tmp or /var/tmp, and this user may write none of them: the container's root is read-only, /tmp was closed, or
the disk is full. Or the umask takes away the user's own rights (umask 777): it may make a folder, and nothing in it.

Fix
---
Set TMPDIR to a folder that this user may write, or mount one at /tmp; umask 022 in the shell that starts the job.

When it is harmless
-------------------
When the ranks are started by something else than torchrun and use no DataLoader workers; inside a rank that was
started the finding is a warning.

See also
--------
host/shared-memory-permission
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, TemporaryFolder, names_of

SEVERITY = "fail"
MATTERS = "what needs a temporary file, such as a DataLoader with workers, would fail; the ranks start without one"
PREVENTS = "store used"
FOLLOWS = ("host/file-size-limit",)
LOOKS_AT = ("host.temporary",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    found = {node: folder for node in cluster.nodes if (folder := lacking(node)) is not None}
    for started in ("node", "rank"):
        bad = [node for node in found if node.plan.started == started]
        if bad:
            yield Finding.about(
                bad,
                f"There is no folder for temporary files on {names_of(bad)}.",
                severity="fail" if started == "node" else "warn",
                evidence=(f"{node.name}: {said(found[node])}" for node in bad),
                fixes=(fix(node, found[node]) for node in bad),
            )


def lacking(node: Node) -> TemporaryFolder | None:
    folder = node.host.temporary
    return folder if folder is not None and folder.path is None else None


def said(folder: TemporaryFolder) -> str:
    return f"{folder.error}; umask {folder.umask}" if folder.umask else folder.error


def fix(node: Node, folder: TemporaryFolder) -> Fix:
    if folder.umask:
        return Fix.on(node, "Let the user into the folders that it makes.", commands=("umask 022",))
    if folder.instead is None:
        return Fix.on(node, "Let this user write /tmp, as root; where it is read-only, mount one.")
    return Fix.on(node, "Name a folder that this user may write.", env={"TMPDIR": folder.instead})
