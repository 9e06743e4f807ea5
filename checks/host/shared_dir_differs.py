"""A folder that all nodes should share is not the same folder.

## What you see
`FileNotFoundError` for a checkpoint that rank 0 has just written, or a data set or compile cache that only some nodes
have. Ranks wait for a file that never appears. Or one node prints `Permission denied` or `Read-only file system`.

## Why it happens
The file system is not mounted on a node, so that the path is a folder of its local disk. Or nodes mount different
exports under one name. Or a node may not write: another user number, a read-only export, or root mapped to nobody.

## Fix
Mount the same file system there on every node, with the same rights for the job's user: `mount -t nfs
fileserver:/export/share /mnt/share`.

## Confirm with
`findmnt -T /mnt/share` prints the same source on every node.

## When it is harmless
Only folders named with --shared are checked. A file system that shows changes to other nodes after seconds is reported
as another folder.

## See also
environment/init-file-not-shared, host/disk-full
"""

from shlex import quote

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, files, names_of

SEVERITY = "fail"
PREVENTS = "results right"
LOOKS_AT = ("host",)
WHY = {
    "ENOENT": "the folder does not exist",
    "ENOTDIR": "it is not a folder",
    "EACCES": "this user may not write there",
    "EPERM": "this user may not write there",
    "EROFS": "it is read-only",
    "ENOSPC": "no space is left",
    "EDQUOT": "this user's quota is used up",
    "ESTALE": "the server no longer knows it (stale file handle)",
    "timeout": "the file system did not answer",
}
MOUNT = "Mount the file system of the other nodes there. Confirm with:"
RIGHTS = "Let this user write there, with the same uid on all nodes and an export without uid mapping. Confirm with:"
REMEDY = {
    "EACCES": RIGHTS,
    "EPERM": RIGHTS,
    "EROFS": "Mount it read-write (rw), also on the server. Confirm with:",
    "ENOSPC": "Free space there. Confirm with:",
    "EDQUOT": "Free space there, or ask the administrator for a larger quota. Confirm with:",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    named = (view.path for node in cluster.nodes for view in files.shared_folders(node) if view.by == "--shared")
    for path in dict.fromkeys(named):
        here = {node: view for node in cluster.nodes if (view := files.shared_folder(node, path)) is not None}
        closed = [node for node, view in here.items() if view.error]
        if closed:
            yield finding(cluster, path, closed, f"{names_of(closed)} cannot write to {path}.")
        apart, unsure = files.nodes_with_other_folder(cluster, path)
        apart = [node for node in apart if node not in closed]
        if apart:
            if unsure:
                summary = f"{path} is not one folder for {names_of(apart)}: each sees only its own files."
            else:
                summary = f"{path} on {names_of(apart)} is another folder: the other nodes do not see its files."
            yield finding(cluster, path, apart, summary, unsure)


def finding(cluster: Cluster, path: str, bad: list[Node], summary: str, unsure: bool = False) -> Finding:
    look = f"findmnt -T {quote(path)}; ls -ld {quote(path)}; id"
    by_text: dict[str, list[Node]] = {}
    for node in bad:
        view = files.shared_folder(node, path)
        by_text.setdefault(REMEDY.get(view.error if view else "", MOUNT), []).append(node)
    return Finding.about(
        bad,
        summary,
        unsure=unsure,
        evidence=(
            evidence_line(view, node) for node in cluster.nodes if (view := files.shared_folder(node, path)) is not None
        ),
        fixes=(Fix.on(nodes, text, commands=(look,)) for text, nodes in by_text.items()),
    )


def evidence_line(view: files.SharedFolder, node: Node) -> str:
    place = f"{view.source or 'an unknown source'} ({view.filesystem or 'unknown type'})"
    if view.error:
        return f"{node.name}: {WHY.get(view.error, 'a file could not be written')} ({view.error}); it is on {place}"
    if view.node0 is None:
        return f"{node.name}: writing a file there worked; it is on {place}"
    if view.node0:
        why = "is missing" if view.node0 == "ENOENT" else f"cannot be read ({view.node0})"
        return f"{node.name}: writing a file there worked, but node 0's file {why}; it is on {place}"
    return f"{node.name}: writing a file and reading node 0's file there worked; it is on {place}"
