"""What the kernel lets this process use: file descriptors, locked memory, shared memory, ports."""

from __future__ import annotations

import os
import resource

from distdoctor.model.facts import Limits, SharedMemory
from distdoctor.probes import memory, proc, process_room, processor

CAP_NET_BIND_SERVICE, CAP_IPC_LOCK = 10, 14
FIRST_NAMESPACE = ["0", "0", "4294967295"]
"""What /proc/self/uid_map has in the machine's own user namespace (user_namespaces(7))."""


def probe() -> Limits:
    """This process's limits."""
    files, files_hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes, processes_hard = resource.getrlimit(resource.RLIMIT_NPROC)
    pids = process_room.cgroup()
    capabilities = proc.capabilities()
    own_namespace = proc.text("/proc/self/uid_map").split() == FIRST_NAMESPACE
    pid_max = proc.number("/proc/sys/kernel/pid_max")
    return Limits(
        open_files=files,
        open_files_hard=files_hard,
        open_files_inherited=_inherited(),
        locked_memory=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        may_lock_memory=bool(capabilities >> CAP_IPC_LOCK & 1) and own_namespace,
        file_size=resource.getrlimit(resource.RLIMIT_FSIZE)[0],
        address_space=resource.getrlimit(resource.RLIMIT_AS)[0],
        data_segment=resource.getrlimit(resource.RLIMIT_DATA)[0],
        stack=resource.getrlimit(resource.RLIMIT_STACK)[0],
        shared_memory=shared_memory(),
        port_range=_port_range(),
        unprivileged_port_start=proc.number("/proc/sys/net/ipv4/ip_unprivileged_port_start"),
        may_bind_privileged=bool(capabilities >> CAP_NET_BIND_SERVICE & 1),
        rdma_devices=tuple(proc.names("/sys/class/infiniband")),
        reserved_ports=proc.text("/proc/sys/net/ipv4/ip_local_reserved_ports")[:500],
        processes=processes,
        processes_hard=processes_hard,
        pids_max=pids.most,
        cpus=len(os.sched_getaffinity(0)),
        cpus_online=os.cpu_count(),
        cpu_quota=processor.quota(),
        cpu_seconds=processor.seconds(),
        memory=memory.limit(),
        pids_used=pids.used,
        user_processes=process_room.of_user(processes),
        threads=process_room.on_machine(),
        threads_max=proc.number("/proc/sys/kernel/threads-max"),
        pid_max=pid_max,
        pids_seen=process_room.seen(pid_max),
        threads_forbidden=process_room.threads_forbidden(),
    )


def shared_memory(path: str = "/dev/shm") -> SharedMemory:
    """The file system in memory that NCCL, gloo's shared-memory users and DataLoader workers allocate from."""
    try:
        stat = os.statvfs(path)
    except OSError as err:
        return SharedMemory(error=err.strerror, writable=False)
    writable = os.access(path, os.W_OK | os.X_OK)
    read_only = bool(stat.f_flag & os.ST_RDONLY)
    return SharedMemory(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize, writable, read_only=read_only)


def _inherited() -> int | None:
    """What this process opens itself is closed in a program that it starts (PEP 446); what came to it is not. Who has a
    number beyond the limit, which is one of numbers (getrlimit(2)), takes none of those below it."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return None
    below = (number for number in numbers if number < most or most == resource.RLIM_INFINITY)
    return sum(number > 2 and _stays(number) for number in below)  # beside stdin, stdout and stderr


def _stays(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # that of the folder itself
        return False


def _port_range() -> tuple[int, int] | None:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            low, high = file.read().split()
            return int(low), int(high)
    except (OSError, ValueError):
        return None
