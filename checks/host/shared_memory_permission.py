"""/dev/shm is missing, or this user may not write to it.

## What you see
NCCL: `shm_open failed : Permission denied`, `failed to create shared memory file /dev/shm/nccl-..., error Read-only
file system`. DataLoader workers and multiprocessing fail at their first lock: `PermissionError: [Errno 13]`, `OSError:
[Errno 38] Function not implemented` or `FileNotFoundError`.

## Why it happens
/dev/shm is not mounted in this container or chroot, is mounted read-only, or does not have its mode 1777, which lets
every user write.

## Fix
Restore the mode, `chmod 1777 /dev/shm`; mount it if it is missing, `mount -t tmpfs -o mode=1777 tmpfs /dev/shm`;
remount it if it is read-only, `mount -o remount,rw /dev/shm`.

## Confirm with
`touch /dev/shm/x && rm /dev/shm/x` exits without an error.

## When it is harmless
The job uses gloo, or the check itself created its NCCL group, and its DataLoaders have no workers. The finding is then
a WARN.

## See also
host/shared-memory-small
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    SharedMemory,
    gpus,
    names_of,
    plans_nccl_group,
    rank_count,
)

SEVERITY = "warn"
LOG = (
    Line("shm_open failed", "shm_open failed.{0,80}Permission denied"),
    Line("/dev/shm/", "shared memory.{0,200}/dev/shm/.{0,200}(?:Permission denied|Read-only file system)"),
    Line("unable to open shared memory object", "Permission denied"),
)
MATTERS = "DataLoaders with workers would fail there; a job without them runs"
PREVENTS = "nccl group formed"
LOOKS_AT = ("host.limits.shared_memory",)
REFUSED = r"/dev/shm/nccl.*(?:Permission denied|Read-only file system|No such file)"
MOUNT = "mkdir -p /dev/shm && mount -t tmpfs -o mode=1777 tmpfs /dev/shm"


def judge(cluster: Cluster) -> Iterator[Finding]:
    closed_on = {node: shm for node in cluster.nodes if (shm := closed(node)) is not None}
    if not closed_on:
        return
    fails = any(refused(node) for node in closed_on)
    yield Finding.about(
        closed_on,
        f"The job's user cannot write to /dev/shm on {names_of(closed_on)}.",
        severity="fail" if fails else "warn",
        evidence=(
            *(line(node, shm) for node, shm in closed_on.items()),
            *(text for node in closed_on for text in gpus.nccl_warned(node, REFUSED)[:1]),
        ),
        fixes=(fix(node, shm) for node, shm in closed_on.items()),
    )


def refused(node: Node) -> bool:
    """Return whether NCCL's group cannot be made for it: NCCL says so, or there are ranks that meet there."""
    if gpus.nccl_warned(node, REFUSED):
        return True
    return plans_nccl_group(node) and rank_count(node) > 1 and not gpus.nccl_made([node])


def closed(node: Node) -> SharedMemory | None:
    shm = node.limits.shared_memory
    return shm if shm is not None and not shm.writable else None


def line(node: Node, shm: SharedMemory) -> str:
    if shm.error:
        return f"{node.name}: /dev/shm: {shm.error}"
    if shm.read_only:
        return f"{node.name}: /dev/shm is mounted read-only"
    return f"{node.name}: {node.identity.user or 'this user'} may not write to /dev/shm"


def fix(node: Node, shm: SharedMemory) -> Fix:
    if shm.error:
        return Fix.on(node, "Mount /dev/shm, as root.", commands=(MOUNT,))
    if shm.read_only:
        return Fix.on(node, "Remount /dev/shm read-write, as root.", commands=("mount -o remount,rw /dev/shm",))
    return Fix.on(node, "Let every user write to /dev/shm, as root.", commands=("chmod 1777 /dev/shm",))
