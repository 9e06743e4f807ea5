"""Ranks of several nodes share one compile cache.

## What you see
One rank prints `.triton/cache/...: Stale file handle` or `FileNotFoundError: ... .tmp.pid_...` below a triton or
inductor cache. The other ranks hang.

## Why it happens
Ranks replace each other's files in a cache on a network file system. A file that one host replaces or removes
disappears for processes that have it open on another host.

## Fix
Give each node a cache on a local disk: `export TRITON_CACHE_DIR=/tmp/triton
TORCHINDUCTOR_CACHE_DIR=/tmp/torchinductor`.

## Confirm with
`findmnt -T "$TRITON_CACHE_DIR"` shows a local file system on every node.

## When it is harmless
On a local disk, also shared by the containers of one host. For a job that compiles nothing: before a job it is
therefore a WARN.

## See also
process/exception
"""

from distdoctor.check_api import Cluster, Finding, Fix, Folder, Iterator, Line, Node, files, names_of

SEVERITY = "fail"
PREVENTS = "store used"
RESTART = "yes"
MATTERS = "if the job compiles, ranks of one host remove files that ranks of another host have open"
LOOKS_AT = ("host.folders", "everyone")
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
LOG = (
    Line(
        ("Stale file handle", "tale NFS file handle"),  # the latter glibc's of old, and Go's
        shows="symptom",
        why="it may be any file on a network file system",
        unless=r"triton|inductor|Stale file handle: ?\S",
    ),
    Line(
        ("triton", "inductor"),
        r"(?:\.triton|triton/cache|triton_cache|inductor).{0,300}(?:Stale file handle|Device or resource busy"
        r"|\.tmp\.pid_)|(?:Stale file handle|Errno 116|Errno 16\]).{0,300}(?:triton|inductor)",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for variable in CACHES:
        users: dict[tuple[str, str], dict[Node, Folder]] = {}
        for node in cluster.nodes:
            for folder in node.host.folders or ():
                if folder.use == variable and has_server(folder):
                    users.setdefault((folder.source, folder.path), {})[node] = folder
        for (_, path), users_of_folder in users.items():
            if len({node.identity.boot_id for node in users_of_folder}) > 1:
                yield finding(variable, path, users_of_folder)


def has_server(folder: Folder) -> bool:
    """Return whether the folder's source is a file server; in a sandbox (gVisor's 9p) it is unknown."""
    return folder.source != "none" and files.is_network_filesystem(folder.filesystem)


def finding(variable: str, path: str, users_of_folder: dict[Node, Folder]) -> Finding:
    return Finding.about(
        users_of_folder,
        f"{variable} is one folder for {names_of(users_of_folder)}, on a network file system.",
        severity="warn",
        evidence=(
            f"{node.name}: {variable}={path} is on {folder.filesystem}, mounted from {folder.source}"
            for node, folder in users_of_folder.items()
        ),
        fixes=(fix(node, variable) for node in users_of_folder),
    )


def fix(node: Node, variable: str) -> Fix:
    local = node.host.temporary.path if node.host.temporary else None
    folder = f"{local or '/tmp'}/{variable.removesuffix('_CACHE_DIR').lower()}"
    return Fix.on(node, "Give each host its own cache on a local disk.", env={variable: folder})
