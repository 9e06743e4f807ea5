"""Files that the nodes of a job share, or should share."""

from __future__ import annotations

from distdoctor.check_api.nodes import reachable_address
from distdoctor.model.addresses import endpoint
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import SharedFolder
from distdoctor.model.findings import Fix
from distdoctor.model.launch_settings import INIT_METHOD, MASTER_ADDR

__all__ = [
    "NETWORK_FILESYSTEMS",
    "SharedFolder",
    "instead_of_init_file",
    "is_network_filesystem",
    "nodes_with_other_folder",
    "shared_folder",
    "shared_folders",
]
NETWORK_FILESYSTEMS = (
    "nfs", "lustre", "gpfs", "ceph", "beegfs", "fuse", "cifs", "smb", "9p", "wekafs", "afs", "gfs", "ocfs",
)  # fmt: skip
"""Prefixes of network file systems' types (/proc/self/mounts)."""


LOCAL_OF_FUSE = {
    "fuseblk", "fuse.fuse-overlayfs", "fuse.squashfuse", "fuse.squashfuse_ll", "fuse.lxcfs", "fuse.ext4", "fuse.exfat",
    "fuse.portal", "fuse.snapfuse", "fuse.erofsfuse", "fuse.archivemount",
}  # fmt: skip
"""Types of fuse(4) on a disk or in a file of this host."""


def is_network_filesystem(kind: str | None) -> bool:
    """Return whether a file system of this type may be shared with other hosts."""
    return (kind or "").startswith(NETWORK_FILESYSTEMS) and kind not in LOCAL_OF_FUSE


def shared_folders(node: Node) -> tuple[SharedFolder, ...]:
    """Return the folders that this node should share with the others, as it saw them."""
    return node.host.shared or ()


def shared_folder(node: Node, path: str) -> SharedFolder | None:
    """Return the shared folder with this path."""
    return next((folder for folder in shared_folders(node) if folder.path == path), None)


def nodes_with_other_folder(cluster: Cluster, path: str) -> tuple[list[Node], bool]:
    """Return the nodes for which ``path`` is another folder than for the rest, and whether the wrong ones are unknown.

    Evidence is node 0's file, which each node looked for.
    """
    folders = {
        node: folder for node in cluster.nodes if (folder := shared_folder(node, path)) is not None and not folder.error
    }
    others = [node for node, folder in folders.items() if folder.node0 is not None and node is not cluster.node0]
    without = [node for node in others if folders[node].node0]
    if not without:
        return [], False
    zero = cluster.node0
    if zero is None or zero not in folders or len(without) < len(others):
        return without, False  # the others have node 0's
    places = {(folders[node].filesystem, folders[node].source) for node in without}
    network = {is_network_filesystem(kind) for kind, _ in places}
    own = is_network_filesystem(folders[zero].filesystem)
    if network == {True} and not own:
        return [zero], False
    if own and True not in network:
        return without, False
    if (
        len(without) > 1 and len(places) == 1 and True in network
    ):  # they share one server's folder, and node 0 has another
        return [zero], False
    return [zero, *without], True


def instead_of_init_file(cluster: Cluster, other_path: str) -> tuple[Fix, ...]:
    """Return fixes for joining without a file; ``other_path``: the second option, a file elsewhere."""
    everyone = tuple(node.name for node in cluster.nodes)
    other_file = Fix(other_path, everyone, 2)
    sources = [node.plan.sources.get("master_addr", "") for node in cluster.nodes]
    if all(source.startswith(("--", "PET_", MASTER_ADDR.variables[0])) for source in sources):
        text = f"Remove {INIT_METHOD.flag}: env:// uses MASTER_ADDR."
        return Fix(text, everyone, flags={INIT_METHOD.flag: None}), other_file
    address = reachable_address(cluster.node0, cluster) if cluster.node0 else None
    if address is None:
        return Fix(f"Use {INIT_METHOD.flag} tcp:// with node 0's address instead.", everyone), other_file
    method = f"tcp://{endpoint(address, cluster.plan.master_port or 29500)}"
    flags: dict[str, str | None] = {INIT_METHOD.flag: method, MASTER_ADDR.flag: None}
    return Fix("Use node 0's address.", everyone, flags=flags), other_file
