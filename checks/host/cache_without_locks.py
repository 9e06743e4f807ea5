"""Files in a cache folder cannot be locked.

## What you see
One rank fails at load_dataset(), from_pretrained() or the first compiled function: `OSError: [Errno 37] No locks
available` with `flock`, or `NotImplementedError: FileSystem does not appear to support flock`. Or it hangs in silence,
and the other ranks wait for it.

## Why it happens
Hugging Face's libraries and torch.compile lock files in their caches with flock(2), through the package filelock. Some
NFS, FUSE and Lustre mounts do not support it without an option or a daemon (NFS: nolock, lockd; Lustre: flock).
filelock then raises the error. Older versions, also in older datasets, treat the error as a held lock and retry without
end.

## Fix
Put the cache on a local disk, `export HF_HOME=/tmp/$USER/huggingface`, or mount the file system with locks.

## Confirm with
`flock "$HF_HOME/x" true` exits without an error on every node.

## When it is harmless
The job neither downloads nor compiles anything. If flock is not implemented (ENOSYS), newer versions of filelock use
plain files, which a killed rank leaves behind.

## See also
environment/init-file-no-flock, host/cache-unwritable, host/extension-lock-stale
"""

from collections.abc import Iterable, Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Folder, Node, names_of

SEVERITY = "warn"
MATTERS = "a rank that downloads or compiles there fails or waits without end, and the other ranks wait for it"
LOOKS_AT = ("host.folders",)
FOLDER_OF = {
    "HF_HOME": "huggingface",
    "HF_HUB_CACHE": "huggingface/hub",
    "HF_DATASETS_CACHE": "huggingface/datasets",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    by_node = {node: folders for node in cluster.nodes if (folders := without_locks(node))}
    if by_node:
        names = dict.fromkeys(folder.path for folders in by_node.values() for folder in folders)
        yield Finding.about(
            by_node,
            f"{failure_text(by_node.values())} in {' and '.join(names)} on {names_of(list(by_node))}.",
            evidence=(
                f"{node.name}: {evidence_text(folder)}" for node, folders in by_node.items() for folder in folders
            ),
            fixes=(fix(node, folder) for node, folders in by_node.items() for folder in folders),
        )


def failure_text(by_node: Iterable[tuple[Folder, ...]]) -> str:
    unanswered = all(folder.lock_error == "timeout" for folders in by_node for folder in folders)
    return "Locking a file gets no answer" if unanswered else "Files cannot be locked"


def without_locks(node: Node) -> tuple[Folder, ...]:
    return tuple(entry for entry in node.host.folders or () if entry.lock_error)


def evidence_text(folder: Folder) -> str:
    kind = folder.filesystem or "a file system of unknown type"
    what = "got no answer" if folder.lock_error == "timeout" else f"fails with {folder.lock_error}"
    return f"flock() of a new file in {folder.use}={folder.path} {what}; it is on {kind}"


def fix(node: Node, folder: Folder) -> Fix:
    variable = folder.use if folder.use in FOLDER_OF else "HF_HOME"
    local = node.host.temporary.path if node.host.temporary else None
    place = f"{local or '/tmp'}/{FOLDER_OF[variable]}"
    return Fix.on(node, "Put the cache on a local disk, or mount its file system with locks.", env={variable: place})
