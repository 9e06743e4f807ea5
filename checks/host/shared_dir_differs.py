"""A folder that all nodes are to share is not one.

What you see
------------
`FileNotFoundError` for a checkpoint that rank 0 has just written, a data set or compile cache that is there on some
nodes only, ranks that wait for a file that never comes; or `Permission denied` and `Read-only file system` on one node.

Why it happens
--------------
The file system is not mounted on a node, so that the path is a folder of its own disk there; nodes mount different
exports under one name; or a node may not write: another user number, an export that is read-only or takes root for
nobody.

Fix
---
Mount the same file system there on every node (`findmnt -T DIR` says what it is now), with the same rights for the
job's user.

When it is harmless
-------------------
It is only looked at where --shared names the folder. A file system whose changes other nodes see only after seconds is
told as another folder.

See also
--------
environment/init-file-not-shared, host/disk-full
"""

from collections.abc import Iterator
from shlex import quote

from distdoctor.check_api import Cluster, Finding, Fix, Node, files, names_of

SEVERITY = "fail"
PREVENTS = "results right"
LOOKS_AT = ("host",)
WHY = {
    "ENOENT": "there is no such folder",
    "ENOTDIR": "it is no folder",
    "EACCES": "this user may not write there",
    "EPERM": "this user may not write there",
    "EROFS": "it is read-only",
    "ENOSPC": "no space is left",
    "EDQUOT": "this user's quota is used up",
    "ESTALE": "the server no longer knows it (stale file handle)",
    "timeout": "the file system did not answer",
}
MOUNT = "Mount there what the other nodes have there; this says what it is now."
RIGHTS = "Let this user write there: it needs the same number on all nodes, and an export that takes it as it is."
REMEDY = {
    "EACCES": RIGHTS,
    "EPERM": RIGHTS,
    "EROFS": "Mount it so that it can be written (rw), on the server's side, too.",
    "ENOSPC": "Free space there.",
    "EDQUOT": "Free space there, or have the quota raised.",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    named = (one.path for node in cluster.nodes for one in files.shared_folders(node) if one.by == "--shared")
    for path in dict.fromkeys(named):
        here = {node: one for node in cluster.nodes if (one := files.shared_folder(node, path)) is not None}
        closed = [node for node, one in here.items() if one.error]
        if closed:
            yield finding(cluster, path, closed, f"{path} cannot be written on {names_of(closed)}.")
        apart, unsure = files.nodes_with_other_folder(cluster, path)
        apart = [node for node in apart if node not in closed]
        if apart:
            whose = f"is another folder on {names_of(apart)}" if not unsure else f"is not one for {names_of(apart)}"
            yield finding(cluster, path, apart, f"{path} {whose}: a file of one is not there for the others.", unsure)


def finding(cluster: Cluster, path: str, bad: list[Node], summary: str, unsure: bool = False) -> Finding:
    look = f"findmnt -T {quote(path)}; ls -ld {quote(path)}; id"
    by_text: dict[str, list[Node]] = {}
    for node in bad:
        one = files.shared_folder(node, path)
        by_text.setdefault(REMEDY.get(one.error if one else "", MOUNT), []).append(node)
    return Finding.about(
        bad,
        summary,
        unsure=unsure,
        evidence=(seen(one, node) for node in cluster.nodes if (one := files.shared_folder(node, path)) is not None),
        fixes=(Fix.on(nodes, text, commands=(look,)) for text, nodes in by_text.items()),
    )


def seen(one: files.SharedFolder, node: Node) -> str:
    place = f"{one.source or 'an unknown source'} ({one.filesystem or 'unknown type'})"
    if one.error:
        return f"{node.name}: {WHY.get(one.error, 'a file could not be written')} ({one.error}); it is on {place}"
    if one.node0 is None:
        return f"{node.name}: a file was written there; it is on {place}"
    if one.node0:
        why = "is not there" if one.node0 == "ENOENT" else f"cannot be read ({one.node0})"
        return f"{node.name}: a file was written there, and node 0's {why}; it is on {place}"
    return f"{node.name}: a file was written there, and node 0's was read; it is on {place}"
