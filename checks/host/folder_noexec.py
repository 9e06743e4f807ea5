"""Compiled code cannot be loaded from a folder mounted with noexec.

## What you see
`failed to map segment from shared object: Operation not permitted`, or `ImportError` of a newly built file, at the
first torch.compile, Triton kernel or extension.

## Why it happens
The file system is mounted with noexec, often /tmp on hardened hosts and /dev/shm. Code compiled there can be written
but not loaded. torch.compile builds below TMPDIR, Triton in ~/.triton, extensions in ~/.cache/torch_extensions.
TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR and TORCH_EXTENSIONS_DIR change that.

## Fix
Set the variable to a folder on another file system, `export TORCHINDUCTOR_CACHE_DIR=$HOME/.cache/torchinductor`; or
remount with exec: `mount -o remount,exec /tmp`.

## Confirm with
`findmnt -no OPTIONS -T "$TORCHINDUCTOR_CACHE_DIR"` prints no noexec.

## When it is harmless
The job compiles nothing. For /tmp, torch.compile's default, the finding is only INFO.

## See also
host/disk-full, host/compile-cache-shared
"""

from distdoctor.check_api import Cluster, Finding, Fix, Folder, Iterator, Node, names_of

SEVERITY = "warn"
MATTERS = "a rank cannot load code compiled there, and fails"
LOOKS_AT = ("host.folders",)
OF_CODE = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
TEMPORARY, INSTEAD = ("TMPDIR", "/tmp"), "TORCHINDUCTOR_CACHE_DIR"
"""torch/_inductor/runtime/cache_dir_utils.py: a folder below the temporary one, unless the variable names one."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    closed = {node: entry for node in cluster.nodes if (entry := without_exec(node))}
    # Who names a folder for it will build there; in /tmp most jobs build nothing.
    named = {node: folders for node, folders in closed.items() if any(entry.use != TEMPORARY[1] for entry in folders)}
    if reported := named or closed:
        names = dict.fromkeys(folder.use for folders in reported.values() for folder in folders)
        yield Finding.about(
            reported,
            f"Ranks cannot load compiled code from {' and '.join(names)} on {names_of(list(reported))}: mounted with "
            "noexec.",
            severity="warn" if named else "info",
            evidence=(
                f"{node.name}: {named_as(folder)} is on {folder.source or folder.filesystem or 'a disk'}, with noexec"
                for node, folders in reported.items()
                for folder in folders
            ),
            fixes=(fix(node, folder) for node, folders in reported.items() for folder in folders),
        )


def named_as(folder: Folder) -> str:
    return folder.path if folder.use == folder.path else f"{folder.use}={folder.path}"


def without_exec(node: Node) -> tuple[Folder, ...]:
    """Those in which code is compiled, and from which none can be loaded."""
    folders = node.host.folders or ()
    uses = OF_CODE if any(entry.use == INSTEAD for entry in folders) else (*OF_CODE, *TEMPORARY)
    return tuple(entry for entry in folders if entry.noexec and entry.use in uses)


def fix(node: Node, folder: Folder) -> Fix:
    if folder.use not in TEMPORARY:
        text = f"Unset {folder.use}, or set it to a folder on another file system."
        return Fix.on(node, text, env={folder.use: None})
    home = next((entry for entry in node.host.folders or () if entry.use == "HOME"), None)
    free = home is not None and not home.noexec and not home.error
    env: dict[str, str | None] = {INSTEAD: f"{home.path}/.cache/torchinductor"} if home is not None and free else {}
    return Fix.on(node, f"Set {INSTEAD} to a folder on another file system.", env=env)
