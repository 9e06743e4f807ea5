"""Errors of a rank's own whose words say what to do about them, where nothing is wrong between the nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from distdoctor.model.cluster import Node
from distdoctor.model.findings import Fix

NAME_LENGTH = 64
"""c10d's gloo asks for the host name with a buffer of HOST_NAME_MAX (64) bytes, in which a name of 64 has no room for
its end: gethostname(2) then gives ENAMETOOLONG. With GLOO_SOCKET_IFNAME it does not ask."""
USUAL_PROCESSES = 65536
BETWEEN = re.compile(
    r"(?i)connect|refused|unreachable|no route to host|reset by peer|closed|broken pipe|time-?d? ?out|read error"
    r"|did not return|another rank failed|ss_family"
)
"""What errors about connections say, and those of who waited for somebody else."""


def said_fixes(node: Node, text: str) -> tuple[Fix, ...]:
    """What to do on ``node`` about this error of one of its ranks; nothing where its words do not tell."""
    for words, remedy in _REMEDIES:
        if words.search(text):
            return tuple(remedy(node))
    if not BETWEEN.search(text):
        return (Fix(f"Read the error: it is of the ranks on {node.name} alone, and of no connection.", (node.name,)),)
    return ()


def _processes(node: Node) -> Iterator[Fix]:
    limits = node.limits
    names, option = (node.name,), 1
    soft, hard = limits.processes, limits.processes_hard
    if soft is not None and soft >= 0 and node.identity.user != "root":
        wanted = USUAL_PROCESSES if hard is None or hard < 0 else min(USUAL_PROCESSES, hard)
        if wanted > soft:
            text = f"On {node.name}, let the user have more processes and threads than {soft}, in the job's shell."
            yield Fix(text, names, option, commands=(f"ulimit -u {wanted}",))
        else:
            text = (
                f"On {node.name}, raise the user's limit of {soft} processes and threads, as root "
                "(nproc in /etc/security/limits.conf, LimitNPROC= or TasksMax= of the unit), and log in again."
            )
            yield Fix(text, names, option)
        option += 1
    if limits.pids_max is not None:
        text = (
            f"{'Or raise' if option > 1 else 'Raise'} the limit of {limits.pids_max} processes and threads of the "
            f"container or unit on {node.name} (docker run --pids-limit, TasksMax=, the kubelet's podPidsLimit)."
        )
        yield Fix(text, names, option)
        option += 1
    if option == 1:
        yield Fix(
            f"On {node.name}, look for a limit of processes and threads (ulimit -u, pids.max of the container, "
            "kernel.threads-max), and for ranks of earlier runs that use it up.",
            names,
        )


def _long_name(node: Node) -> Iterator[Fix]:
    name, primary = node.identity.hostname, node.network.primary
    if len(name) < NAME_LENGTH:
        text = f"On {node.name}, shorten the path that the error is about (TMPDIR, for sockets)."
        yield Fix(text, (node.name,))
        return
    option = 1
    if primary is not None and primary.interface:
        text = f"On {node.name}, name gloo's interface: it then does not ask for the host name of {len(name)} letters."
        yield Fix(text, (node.name,), option, env={"GLOO_SOCKET_IFNAME": primary.interface})
        option = 2
    text = f"give the host a name of at most {NAME_LENGTH - 1} letters."
    yield Fix(f"Or {text}" if option > 1 else text.capitalize(), (node.name,), option)


def _transport(node: Node) -> Iterator[Fix]:
    value = node.variables.get("GLOO_DEVICE_TRANSPORT")
    if value:
        text = f"Unset GLOO_DEVICE_TRANSPORT on {node.name}: its torch has no transport {value}."
        yield Fix(text, (node.name,), env={"GLOO_DEVICE_TRANSPORT": None})
    else:
        yield Fix(f"Install a torch on {node.name} whose gloo has a transport.", (node.name,))


def _memory(node: Node) -> Iterator[Fix]:
    text = f"On {node.name}, look at what uses the memory (free -m), and at limits of it (ulimit -v, the container's)."
    yield Fix(text, (node.name,))


def _space(node: Node) -> Iterator[Fix]:
    yield Fix(f"On {node.name}, look at which file system is full: df -h /dev/shm /tmp, df -i /tmp.", (node.name,))


def _system_files(node: Node) -> Iterator[Fix]:
    text = f"On {node.name}, look at what holds so many files open (lsof), or raise the kernel's own limit, as root."
    yield Fix(text, (node.name,), commands=("sysctl -w fs.file-max=1000000",))


_REMEDIES: tuple[tuple[re.Pattern[str], Callable[[Node], Iterator[Fix]]], ...] = (
    (re.compile(r"Resource temporarily unavailable|can't start new thread|EAGAIN"), _processes),
    (re.compile(r"File name too long|path too long|ENAMETOOLONG"), _long_name),
    (re.compile(r"unsupported gloo device"), _transport),
    (re.compile(r"Cannot allocate memory|ENOMEM|bad_alloc"), _memory),
    (re.compile(r"Too many open files in system|ENFILE"), _system_files),
    (re.compile(r"No space left on device|ENOSPC"), _space),
)
