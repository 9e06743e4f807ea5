"""A disk that the job writes to is full or read-only.

## What you see
`[Errno 28] No space left on device`, `[Errno 122] Disk quota exceeded`, `Read-only file system`, `PytorchStreamWriter
failed writing file`.

## Why it happens
The home, /tmp or checkpoint file system has no blocks, inodes or quota left, or the kernel remounted it read-only after
errors.

## Fix
Free space (`df -h`, `df -i` and `quota -s` show what is full), or move caches and checkpoints to another disk: `export
TMPDIR=/scratch/$USER HF_HOME=/scratch/$USER/hf`.

## Confirm with
`df -h . /tmp "$HOME"; df -i . /tmp "$HOME"` shows free blocks and inodes.

## When it is harmless
The job writes nothing there; the start itself needs little. Before a job it is therefore a WARN. It covers the folders
that torch, Triton, Hugging Face's libraries and checkpoints use.

## See also
host/temporary-folder, host/shared-memory-small
"""

from shlex import quote

from distdoctor.check_api import Cluster, Finding, Fix, Folder, Iterator, Line, Node, names_of

SEVERITY = "fail"
MATTERS = "what the job writes there fails: checkpoints, compile caches, temporary files"
LOOKS_AT = ("host.folders",)
HELPED_BY = ("host.kernel_log",)
FULL = {"ENOSPC": "no space or no inode is left", "EDQUOT": "this user's quota is used up"}
READ_ONLY = "EROFS"
COMMONLY_READ_ONLY = ("HOME", "/tmp", ".")
"""Containers often have no other file system than a read-only one, and jobs in them name another folder."""
MODELS = "HF_HUB_CACHE"
"""Folder of models: its files can be read from a disk that is mounted read-only, as many mount it."""
PREVENTS = "store used"
NEXT = ("the free space of the disks", "df -h; df -i; quota -s")
FREE_SPACE_FIX = (
    "Write to another folder (TMPDIR, HF_HOME, TORCH_HOME, the output folder), or mount this one with write access. "
    "If it was writable before, find its error with dmesg on that host."
)
LOG = (
    Line("No space left on device", unless="shm|shared memory|nccl-|posix_fallocate"),
    Line("Disk quota exceeded"),
    Line(
        ("[Errno 28] ", "[Errno 122] "),  # in whatever language the system says it
        unless=r"shm|shared memory|nccl-|posix_fallocate|\] (?:No space left|Disk quota)",
    ),
    Line(
        "Read-only file system",
        "(?:Errno 30|Error|[Cc]annot|[Ff]ailed to).{0,160}Read-only file system",
        unless="/dev/shm/|shared memory",
        told="A disk that the job writes to is read-only",
        fix=FREE_SPACE_FIX,
    ),
    Line(
        "emounting filesystem read-only",
        r"(?:\((?P<device>[\w.-]{1,64})\).{0,80})?[Rr]emounting filesystem read-only",
        told="The kernel remounted a disk read-only after an error",
        fix=FREE_SPACE_FIX,
    ),
    Line(
        "forced readonly",
        r"BTRFS .{0,40}\(device (?P<device>[\w.-]{1,64})[^)]{0,40}\): forced readonly",
        told="The kernel remounted a disk read-only after an error",
        fix=FREE_SPACE_FIX,
    ),
    Line(
        ("PytorchStreamWriter failed writing", "basic_ios::clear: iostream error", "unexpected pos"),
        r"StreamWriter failed|iostream error|inline_container\.cc.{0,80}unexpected pos",
        shows="end",
        why="a file that two ranks write at once, or that disappears meanwhile, shows the same",
        told="A file could not be written, often because the disk is full",
    ),
    Line(
        ("low on resource: ephemeral-storage", "DiskPressure"),
        r"low on resource: ephemeral-storage|had condition: \[DiskPressure",
    ),
    Line(  # df's
        "100% /",
        r"^\S{1,200} .{0,120} 0 +100% /\S{0,200}$",
        unless=r"^(?:/dev/loop|squashfs)|/snap/| /boot|iso9660",
        shows="hint",
        why="the job may not write there",
        told="A disk is full",
    ),
    Line(  # the kubelet's pkg/kubelet/eviction
        ("ephemeral local storage usage exceeds", "local ephemeral storage limit", "Usage of EmptyDir volume"),
        r"local storage usage exceeds the total limit|exceeded its local ephemeral storage limit"
        r"|Usage of EmptyDir volume .{1,160} exceeds the limit",
        told="A pod wrote more than its limit, and was evicted",
        fix="Raise the pod's limit (resources.limits.ephemeral-storage, or the volume's sizeLimit), or write to a "
        "volume of its own.",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    full_folders = {node: folders for node in cluster.nodes if (folders := unusable(node))}
    if not full_folders:
        return
    places = dict.fromkeys(folder.path for folders in full_folders.values() for folder in folders)
    yield Finding.about(
        full_folders,
        f"The job cannot write to {' and '.join(places)} on {names_of(list(full_folders))}.",
        severity="warn",
        evidence=(
            f"{node.name}: {line}"
            for node, all_ in full_folders.items()
            for entry in all_
            for line in evidence_lines(node, entry)
        ),
        fixes=(fix(node, folder) for node, folders in full_folders.items() for folder in folders),
    )


def unusable(node: Node) -> tuple[Folder, ...]:
    return tuple(
        folder
        for folder in node.host.folders or ()
        if folder.error in FULL
        or (folder.error == READ_ONLY and (not commonly_read_only(node, folder) or remounted(node, folder)))
    )


def commonly_read_only(node: Node, folder: Folder) -> bool:
    """Return whether the folder is often read-only, or is inside a home that is."""
    if folder.use.startswith("HOME/"):
        return any(entry.use == "HOME" and entry.error == READ_ONLY for entry in node.host.folders or ())
    return folder.use in (*COMMONLY_READ_ONLY, MODELS)


def remounted(node: Node, folder: Folder) -> str:
    """Return the kernel's line about remounting the disk of this folder read-only; empty if there is none."""
    for line in node.host.kernel_log or ():
        device = line.values.get("device") if line.check == "host/disk-full" else None
        if device and folder.error == READ_ONLY and folder.source.rpartition("/")[2] == device:
            return line.text
    return ""


def evidence_lines(node: Node, folder: Folder) -> Iterator[str]:
    yield folder_text(folder)
    if text := remounted(node, folder):
        yield f"kernel log: {text}"


def folder_text(folder: Folder) -> str:
    why = FULL.get(folder.error, "it is read-only")
    name = f"{folder.use}={folder.path}" if folder.use not in COMMONLY_READ_ONLY[1:] else folder.path
    left = "" if folder.free is None else f"; {folder.free:,} bytes free"
    files = "" if folder.free_files is None else f", {folder.free_files:,} inodes"
    return f"{name} ({folder.filesystem}): {why} ({folder.error}{left}{files})"


def fix(node: Node, folder: Folder) -> Fix:
    if remounted(node, folder):
        text = "Drain the node: its disk fails. Confirm with:"
        return Fix.on(node, text, commands=("dmesg -T | grep -i -B20 'remounting filesystem read-only'",))
    other = node.host.temporary.path if node.host.temporary else None
    if folder.use in ("TMPDIR", "/tmp") and other not in (None, folder.path):
        return Fix.on(node, "Put temporary files into another folder, or free space there.", env={"TMPDIR": other})
    if folder.error == READ_ONLY:
        return Fix.on(node, f"Set {folder.use} to a writable folder.")
    looks = f"{'df -i' if folder.free_files == 0 else 'df -h'} {quote(folder.path)}"
    if folder.error == "EDQUOT":
        looks = "quota -s"  # the disk itself may have room
    return Fix.on(node, "Free space there, or use another disk. Confirm with:", commands=(looks,))
