"""A cache folder cannot be written.

What you see
------------
`PermissionError: [Errno 13] Permission denied: '/root/.triton'`, `FileExistsError: [Errno 17] File exists:
'/home/me/.cache'`, `NotADirectoryError`, at the first compiled kernel or download: on one rank, while the others wait
for it.

Why it happens
--------------
TRITON_CACHE_DIR, HF_HOME and the like name a folder of another user, or one that is not there and that this user may
not make; a container runs as another user than the one its image was made for; a file server does not take root for
root (root_squash); somebody else compiled first by this user's name, as root by `sudo -E` (/tmp/torchinductor_NAME);
or ~/.cache is a link to a scratch disk whose folder was cleared away. Or the folder lies on a mount
whose server is gone (`Transport endpoint is not connected`, `Stale file handle`).

Fix
---
Name a folder that this user may write, or leave the variable out; make the folder that a link leads to.

When it is harmless
-------------------
Where the job neither compiles nor downloads anything. Of HOME it is only said where it is the user's own by its entry
in /etc/passwd.

See also
--------
host/disk-full, host/user-unknown, host/folder-noexec
"""

from collections.abc import Iterator
from shlex import quote

from distdoctor.check_api import Cluster, Finding, Fix, Folder, Node, names_of

SEVERITY = "warn"
MATTERS = "what keeps compiled code or downloads there fails, and its rank ends"
LOOKS_AT = ("host.folders", "host.account")
WHY = {
    "EACCES": "this user may not write there",
    "EPERM": "this user may not write there",
    "EEXIST": "it is no folder",
    "ENOTDIR": "a part of its path is no folder",
}
BROKEN = {
    "ENOTCONN": "what serves this mount has ended",
    "ESTALE": "its server no longer knows it (stale file handle)",
    "EHOSTDOWN": "its server is down",
    "EIO": "its disk fails",
    "ELOOP": "it is a link that leads back to itself",
}
"""Nothing there can be used, whatever it is for."""
TEMPORARY = ("TMPDIR", "/tmp", ".")
"""Python takes another one in place of the first two; from the third a job only starts."""
NOT_TOLD = (*TEMPORARY, "HF_HUB_CACHE")
"""Also what models are read from: those that are there need no writing, and are often another user's."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    found = {node: folders for node in cluster.nodes if (folders := closed(node))}
    if not found:
        return
    names = dict.fromkeys(name(folder) for folders in found.values() for folder in folders)
    yield Finding.about(
        found,
        f"{' and '.join(names)} cannot be written on {names_of(list(found))}.",
        evidence=(f"{node.name}: {said(folder)}" for node, folders in found.items() for folder in folders),
        fixes=(fix(node, folder) for node, folders in found.items() for folder in folders),
    )


def closed(node: Node) -> tuple[Folder, ...]:
    """Those that a variable names, and what the user's own home has; of all what is broken."""
    account = node.host.account
    own = account is not None and account.home == account.home_of_entry and account.home != "/"
    return tuple(
        one
        for one in node.host.folders or ()
        if one.error in BROKEN or (one.error in WHY and one.use not in NOT_TOLD and (own or one.use != "HOME"))
    )


def name(folder: Folder) -> str:
    return folder.path if "/" in folder.use or folder.use in TEMPORARY[1:] else folder.use


def said(folder: Folder) -> str:
    told = folder.path if name(folder) == folder.path else f"{folder.use}={folder.path}"
    if folder.leads_to:
        link = "it" if folder.nearest == folder.path else folder.nearest
        return f"{told}: {link} is a link to {folder.leads_to}, which is not there ({folder.error})"
    above = folder.nearest if folder.nearest != folder.path else ""
    if folder.error == "ENOTDIR" and above:
        return f"{told}: {above} is no folder (ENOTDIR)"
    missing = f" is not there, and {above}" if above else ""
    return f"{told}{missing}: {(WHY | BROKEN)[folder.error]} ({folder.error})"


def fix(node: Node, folder: Folder) -> Fix:
    if folder.leads_to.startswith("/"):
        return Fix.on(node, "Make the folder that the link leads to.", commands=(f"mkdir -p {quote(folder.leads_to)}",))
    if folder.error in BROKEN:
        again = (f"umount -l {quote(folder.nearest or folder.path)}",) if folder.error in ("ENOTCONN", "ESTALE") else ()
        return Fix.on(node, "Mount it again, or name another folder.", commands=again)
    if folder.use.startswith("TMPDIR/"):
        text = "Have torch.compile keep its code elsewhere; or remove that folder, as its owner or root."
        return Fix.on(node, text, env={"TORCHINDUCTOR_CACHE_DIR": f"{folder.path}_own"})
    if folder.use.startswith("HOME"):
        temporary = node.host.temporary.path if node.host.temporary else None
        text = "Let this user write there, or have caches elsewhere."
        return Fix.on(
            node, text, env={"XDG_CACHE_HOME": f"{temporary or '/tmp'}/cache"} if ".cache" in folder.use else {}
        )
    return Fix.on(node, "Leave it out, or name a folder that this user may write.", env={folder.use: None})
