"""Files in a cache folder cannot be locked.

What you see
------------
`OSError: [Errno 37] No locks available` from a line with `flock`, or `NotImplementedError: FileSystem does not appear
to support flock`, on one rank, at load_dataset(), from_pretrained() or the first compiled function; or nothing, for
ever, while the others wait for it.

Why it happens
--------------
Hugging Face's libraries and torch.compile lock files in their caches with flock(2), by the package filelock. Some NFS,
FUSE and Lustre mounts do not offer that, or only with an option or a daemon (NFS: nolock, a lockd that does not run;
Lustre: flock). filelock then raises the error; its older versions, and the copy in older versions of datasets, take the
answer for a lock that somebody else has, and try again without end.

Fix
---
Name a folder on a local disk, or have the file system mounted with locks.

When it is harmless
-------------------
Where the job neither downloads nor compiles anything. Where flock says that there is no such function (ENOSYS), newer
versions of filelock use files alone, which a rank that is killed leaves behind.

See also
--------
environment/init-file-no-flock, host/cache-unwritable, host/extension-lock-stale
"""

from collections.abc import Iterable, Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Folder, Node, names_of

SEVERITY = "warn"
MATTERS = "what downloads or compiles there ends, or waits for ever, and the other ranks with it"
LOOKS_AT = ("host.folders",)
FOLDER_OF = {
    "HF_HOME": "huggingface",
    "HF_HUB_CACHE": "huggingface/hub",
    "HF_DATASETS_CACHE": "huggingface/datasets",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
}


def judge(cluster: Cluster) -> Iterator[Finding]:
    found = {node: folders for node in cluster.nodes if (folders := without_locks(node))}
    if found:
        names = dict.fromkeys(folder.path for folders in found.values() for folder in folders)
        yield Finding.about(
            found,
            f"{what_is_wrong(found.values())} in {' and '.join(names)} on {names_of(list(found))}.",
            evidence=(f"{node.name}: {said(folder)}" for node, folders in found.items() for folder in folders),
            fixes=(fix(node, folder) for node, folders in found.items() for folder in folders),
        )


def what_is_wrong(found: Iterable[tuple[Folder, ...]]) -> str:
    unanswered = all(folder.lock_error == "timeout" for folders in found for folder in folders)
    return "Nobody answers who locks a file" if unanswered else "Files cannot be locked"


def without_locks(node: Node) -> tuple[Folder, ...]:
    return tuple(one for one in node.host.folders or () if one.lock_error)


def said(folder: Folder) -> str:
    kind = folder.filesystem or "a file system of unknown type"
    what = "was not answered" if folder.lock_error == "timeout" else f"ends with {folder.lock_error}"
    return f"flock() of a new file in {folder.use}={folder.path} {what}; it is on {kind}"


def fix(node: Node, folder: Folder) -> Fix:
    variable = folder.use if folder.use in FOLDER_OF else "HF_HOME"
    local = node.host.temporary.path if node.host.temporary else None
    place = f"{local or '/tmp'}/{FOLDER_OF[variable]}"
    return Fix.on(node, "Have it on a local disk, or the file system mounted with locks.", env={variable: place})
