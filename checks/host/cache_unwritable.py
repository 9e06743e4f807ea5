"""The job cannot write to a cache folder.

## What you see
`PermissionError: [Errno 13] Permission denied: '/root/.triton'`, `FileExistsError: [Errno 17] File exists:
'/home/me/.cache'` or `NotADirectoryError`, at the first compiled kernel or download. One rank fails, and the others
wait for it.

## Why it happens
TRITON_CACHE_DIR, HF_HOME or a similar variable names a folder of another user, or a missing folder that this user may
not create. A container runs as another user than its image expects, or a file server maps root to nobody (root_squash).

Another user compiled first under this user's name, as root by `sudo -E` (/tmp/torchinductor_NAME). Or ~/.cache is a
link to a deleted folder, or the mount's server is gone (`Transport endpoint is not connected`, `Stale file handle`).

## Fix
Set the variable to a folder that this user may write, `export TRITON_CACHE_DIR=/tmp/$USER/triton`, or unset it; create
the missing folder of a link.

## Confirm with
`touch "$TRITON_CACHE_DIR/x" && rm "$TRITON_CACHE_DIR/x"` exits without an error on every node.

## When it is harmless
The job neither compiles nor downloads anything. HOME is reported only if it is the user's own home in /etc/passwd.

## See also
host/disk-full, host/user-unknown, host/folder-noexec
"""

from shlex import quote

from distdoctor.check_api import Cluster, Finding, Fix, Folder, Iterator, Node, names_of

SEVERITY = "warn"
MATTERS = "a rank that writes compiled code or downloads there fails"
LOOKS_AT = ("host.folders", "host.account")
WHY = {
    "EACCES": "this user may not write there",
    "EPERM": "this user may not write there",
    "EEXIST": "it is not a folder",
    "ENOTDIR": "a part of its path is not a folder",
}
BROKEN = {
    "ENOTCONN": "the server process of this mount has ended",
    "ESTALE": "its server no longer knows it (stale file handle)",
    "EHOSTDOWN": "its server is down",
    "EIO": "its disk fails",
    "ELOOP": "it is a link to itself",
}
"""Nothing there can be used, whatever it is for."""
TEMPORARY = ("TMPDIR", "/tmp", ".")
"""Python takes another one in place of the first two; from the third a job only starts."""
NOT_REPORTED = (*TEMPORARY, "HF_HUB_CACHE")
"""Also what models are read from: those that are there need no writing, and are often another user's."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    closed_folders = {node: folders for node in cluster.nodes if (folders := closed(node))}
    if not closed_folders:
        return
    names = dict.fromkeys(name(folder) for folders in closed_folders.values() for folder in folders)
    yield Finding.about(
        closed_folders,
        f"The job's user cannot write to {' and '.join(names)} on {names_of(list(closed_folders))}.",
        evidence=(
            f"{node.name}: {evidence_text(folder)}" for node, folders in closed_folders.items() for folder in folders
        ),
        fixes=(fix(node, folder) for node, folders in closed_folders.items() for folder in folders),
    )


def closed(node: Node) -> tuple[Folder, ...]:
    """Those that a variable names, and what the user's own home has; of all what is broken."""
    account = node.host.account
    own = account is not None and account.home == account.home_of_entry and account.home != "/"
    return tuple(
        entry
        for entry in node.host.folders or ()
        if entry.error in BROKEN
        or (entry.error in WHY and entry.use not in NOT_REPORTED and (own or entry.use != "HOME"))
    )


def name(folder: Folder) -> str:
    return folder.path if "/" in folder.use or folder.use in TEMPORARY[1:] else folder.use


def evidence_text(folder: Folder) -> str:
    place = folder.path if name(folder) == folder.path else f"{folder.use}={folder.path}"
    if folder.leads_to:
        link = "it" if folder.nearest == folder.path else folder.nearest
        return f"{place}: {link} is a link to {folder.leads_to}, which does not exist ({folder.error})"
    above = folder.nearest if folder.nearest != folder.path else ""
    if folder.error == "ENOTDIR" and above:
        return f"{place}: {above} is not a folder (ENOTDIR)"
    missing = f" does not exist; {above}" if above else ""
    return f"{place}{missing}: {(WHY | BROKEN)[folder.error]} ({folder.error})"


def fix(node: Node, folder: Folder) -> Fix:
    if folder.leads_to.startswith("/"):
        return Fix.on(node, "Create the folder of the link.", commands=(f"mkdir -p {quote(folder.leads_to)}",))
    if folder.error in BROKEN:
        again = (f"umount -l {quote(folder.nearest or folder.path)}",) if folder.error in ("ENOTCONN", "ESTALE") else ()
        return Fix.on(node, f"Remount {folder.nearest or folder.path}, or use another folder.", commands=again)
    if folder.use.startswith("TMPDIR/"):
        text = "Give torch.compile a folder of its own; or remove this one, as its owner or root."
        return Fix.on(node, text, env={"TORCHINDUCTOR_CACHE_DIR": f"{folder.path}_own"})
    if folder.use.startswith("HOME"):
        temporary = node.host.temporary.path if node.host.temporary else None
        text = "Let this user write there (chown), or move the caches to another folder."
        return Fix.on(
            node, text, env={"XDG_CACHE_HOME": f"{temporary or '/tmp'}/cache"} if ".cache" in folder.use else {}
        )
    return Fix.on(node, f"Unset {folder.use}, or set it to a folder that this user may write.", env={folder.use: None})
