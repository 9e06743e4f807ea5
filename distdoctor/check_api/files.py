"""Files that the nodes of a job have in common, or should have."""

from __future__ import annotations

from distdoctor.check_api.node_addresses import reachable_address
from distdoctor.model.addresses import endpoint
from distdoctor.model.cluster import Cluster
from distdoctor.model.findings import Fix
from distdoctor.model.launch_settings import INIT_METHOD, MASTER_ADDR

NETWORK_FILESYSTEMS = (
    "nfs", "lustre", "gpfs", "ceph", "beegfs", "fuse", "cifs", "smb", "9p", "wekafs", "afs", "gfs", "ocfs",
)  # fmt: skip
"""What the names of their types begin with (/proc/self/mounts)."""


def is_network_filesystem(kind: str | None) -> bool:
    """Whether other hosts may have the files of a file system of this type, too."""
    return (kind or "").startswith(NETWORK_FILESYSTEMS) and kind != "fuseblk"  # that is a local disk (fuse(4))


def instead_of_init_file(cluster: Cluster, other_path: str) -> tuple[Fix, ...]:
    """To meet without a file; ``other_path``: the second option, which is a file elsewhere."""
    everyone = tuple(node.name for node in cluster.nodes)
    elsewhere = Fix(other_path, everyone, 2)
    sources = [node.plan.sources.get("master_addr", "") for node in cluster.nodes]
    if all(source.startswith(("--", "PET_", MASTER_ADDR.variables[0])) for source in sources):
        return Fix("Leave it out: env:// meets at MASTER_ADDR.", everyone, flags={INIT_METHOD.flag: None}), elsewhere
    address = reachable_address(cluster.node0, cluster) if cluster.node0 else None
    if address is None:
        return Fix(f"Use {INIT_METHOD.flag} tcp:// with node 0's address instead.", everyone), elsewhere
    method = f"tcp://{endpoint(address, cluster.plan.master_port or 29500)}"
    flags: dict[str, str | None] = {INIT_METHOD.flag: method, MASTER_ADDR.flag: None}
    return Fix("Meet at node 0's address.", everyone, flags=flags), elsewhere
