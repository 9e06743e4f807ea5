"""What the kernel lets a process use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SharedMemory:
    """/dev/shm: sizes in bytes, None where it is not mounted or cannot be looked at."""

    size: int | None = None
    free: int | None = None
    writable: bool = True
    error: str | None = None
    read_only: bool = False
    """Mounted so that nobody can write."""


@dataclass(frozen=True)
class Limits:
    """What the kernel lets this process use. ``None``: not known; for the rlimits -1 means unlimited."""

    open_files: int | None = None
    open_files_hard: int | None = None
    open_files_inherited: int | None = None
    """How many files were left open for this process by what started it, beside stdin, stdout and stderr."""
    locked_memory: int | None = None
    """Bytes."""
    may_lock_memory: bool = False
    """Whether this process has CAP_IPC_LOCK of the machine itself, to which that limit does not apply."""
    file_size: int | None = None
    """RLIMIT_FSIZE: how many bytes a file may have that this process writes."""
    address_space: int | None = None
    """RLIMIT_AS, in bytes."""
    data_segment: int | None = None
    """RLIMIT_DATA, in bytes."""
    stack: int | None = None
    """RLIMIT_STACK, in bytes."""
    shared_memory: SharedMemory | None = None
    port_range: tuple[int, int] | None = None
    """net.ipv4.ip_local_port_range: the first and the last port that connect() and bind(0) use."""
    unprivileged_port_start: int | None = None
    """net.ipv4.ip_unprivileged_port_start: ports below it need CAP_NET_BIND_SERVICE."""
    may_bind_privileged: bool = False
    """Whether this process has CAP_NET_BIND_SERVICE."""
    rdma_devices: tuple[str, ...] = ()
    reserved_ports: str = ""
    """net.ipv4.ip_local_reserved_ports: ports of the range that are never handed out, as ``8080,29500-29510``."""
    processes: int | None = None
    """RLIMIT_NPROC: how many processes and threads this user may have; root's are not counted."""
    processes_hard: int | None = None
    pids_max: int | None = None
    """How many the container or unit may have (pids.max of its cgroup); None where there is no limit or none is seen.
    """
    cpus: int | None = None
    """How many CPUs this process may run on (sched_getaffinity)."""
    cpus_online: int | None = None
    """How many the machine has."""
    cpu_quota: float | None = None
    """CPUs' worth of time that the container or unit may use (its cgroup, or one above); None as for ``memory``."""
    cpu_seconds: int | None = None
    """RLIMIT_CPU: processor time after which a process is ended; None: there is no limit, or it is not known."""
    memory: int | None = None
    """Bytes that the container or unit may use (its cgroup, or one above); None: there is no limit, or none is seen."""
    memory_used: int | None = None
    """Bytes of these that were in use and cannot be reclaimed, before torch was imported."""
    pids_used: int | None = None
    """How many processes and threads there were in the cgroup of ``pids_max``."""
    user_processes: int | None = None
    """How many this user had; None where ``processes`` does not bind it, as with root, or was far from being reached.
    """
    threads: int | None = None
    """How many processes and threads there were on the machine."""
    threads_max: int | None = None
    """kernel.threads-max: how many there may be."""
    pid_max: int | None = None
    """kernel.pid_max: process and thread numbers are below it, so there can be no more of them."""
    pids_seen: int | None = None
    """How many processes and threads this process sees, where ``pid_max`` is that of a container: ``threads`` then
    counts others', too. None where it is the machine's."""
    threads_forbidden: bool = False
    """No thread can be started: a sandbox (seccomp) answers clone3() with EPERM."""
