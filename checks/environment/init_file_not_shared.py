"""The file of --init-method file:// is not one file that all nodes can write.

## What you see
Silence, then `Wait timeout` on every node: each waits for the others in a file of its own. If a node's folder is
missing or not writable, its ranks fail with `No such file or directory` or wait as well.

## Why it happens
The path is on a local disk (/tmp, /dev/shm, a container's own layers), or the shared file system is not mounted on one
node. Or some nodes have another file or none, and look for the others at node 0's port.

## Fix
Use env:// or tcp://, which need no file, for example `init_method="tcp://host0:29500"`; or use a path on a file system
that all nodes share.

## Confirm with
`findmnt -T /mnt/share` prints the same source on every node.

## When it is harmless
All ranks run on one host.

## See also
environment/stale-init-file
"""

from distdoctor.check_api import Cluster, Finding, Fix, InitFile, Iterator, Node, files, names_of

SEVERITY = "fail"
PREVENTS = "all met"
LOOKS_AT = ("host", "everyone")
LOCAL = {"tmpfs", "ramfs", "overlay", "aufs", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat", "rootfs"}
"""Types of file systems that one kernel has to itself."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if file_of(node) is not None]
    lacking = [node for node in nodes if closed(node)]
    if lacking:
        yield finding(cluster, lacking, f"{path(lacking[0])} cannot be written on {names_of(lacking)}.")
        return
    if nodes and (others := [node for node in cluster.nodes if not by_file(node)]):
        yield other_init_methods(cluster, nodes, others)
        return
    if len({node.host_key for node in nodes}) > 1 and not shared(nodes):
        hosts = names_of(nodes)
        yield finding(cluster, nodes, f"{path(nodes[0])} is not one file for {hosts}: each has its own.")


def file_of(node: Node) -> InitFile | None:
    return node.host.init_file


def by_file(node: Node) -> bool:
    return file_of(node) is not None or (node.plan.init_method or "").startswith("file:")


def other_init_methods(cluster: Cluster, nodes: list[Node], others: list[Node]) -> Finding:
    """Some meet by the file, the others at node 0's port: neither looks where the other is."""
    right, wrong = (others, nodes) if len(others) > len(nodes) else (nodes, others)
    method = right[0].plan.init_method
    return Finding.about(
        wrong if len(right) > len(wrong) else [*nodes, *others],
        f"{names_of(nodes)} would join through {path(nodes[0])}, but {names_of(others)} would not.",
        unsure=len(right) == len(wrong),
        evidence=(f"{node.name}: init_method {node.plan.init_method or 'env://'}" for node in cluster.nodes),
        fixes=(Fix.on(wrong, f"Use init_method {method or 'env://'} on every node.", flags={"--init-method": method}),),
    )


def path(node: Node) -> str:
    file = file_of(node)
    return file.path if file else ""


def closed(node: Node) -> bool:
    file = file_of(node)
    return file is not None and not (file.folder_exists and file.writable)


def shared(nodes: list[Node]) -> bool:
    """Return whether it is one file, or may be one: False only where that is ruled out."""
    if len({path(node).rpartition("/")[2] for node in nodes}) > 1:
        return False
    folder = path(nodes[0]).rpartition("/")[0] or "/"
    looked = [view.node0 for node in nodes if (view := files.shared_folder(node, folder)) is not None]
    if len(looked) == len(nodes) and None not in looked:
        return not any(looked)  # each looked for a file that node 0 had left beside it
    named = [(node, file) for node in nodes if (file := file_of(node)) is not None]
    if len({file.path for _, file in named}) > 1:
        return False
    if len({node.identity.boot_id for node, _ in named}) == 1:
        # Containers or namespaces of one kernel: its numbers for devices and files can be compared.
        inodes = {file.inode for _, file in named if file.inode is not None}
        return len({file.device for _, file in named}) == 1 and len(inodes) < 2
    return not any(file.filesystem in LOCAL for _, file in named)


def finding(cluster: Cluster, bad: list[Node], summary: str) -> Finding:
    return Finding.about(
        bad,
        summary,
        evidence=(line(node) for node in cluster.nodes if file_of(node) is not None),
        fixes=files.instead_of_init_file(cluster, "Or use a path on a file system that all nodes share and can write."),
    )


def line(node: Node) -> str:
    file = file_of(node)
    assert file is not None
    if not file.folder_exists:
        return f"{node.name}: the folder of {file.path} does not exist"
    if not file.writable:
        return f"{node.name}: {node.identity.user or 'this user'} may not write {file.path}"
    number = f", device {file.device}" if file.device is not None else ""
    return f"{node.name}: {file.path} is on {file.filesystem or 'a file system of unknown type'}{number}"
