"""Limits of the kernel for this process: file descriptors, memory, ports, processors, sysctls."""

from __future__ import annotations

import os
import resource
from dataclasses import replace

from distdoctor.model.facts import Limits, SharedMemory, TorchFailure
from distdoctor.probes.host import proc, process_room

CAP_NET_BIND_SERVICE, CAP_IPC_LOCK = 10, 14
FIRST_NAMESPACE = ["0", "0", "4294967295"]
"""/proc/self/uid_map of the machine's own user namespace (user_namespaces(7))."""


def probe_limits() -> Limits:
    """Return this process's limits."""
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
        cpu_quota=processor_quota(),
        cpu_seconds=processor_seconds(),
        memory=memory_limit(),
        pids_used=pids.used,
        user_processes=process_room.room_of_user(processes),
        threads=process_room.room_on_machine(),
        threads_max=proc.number("/proc/sys/kernel/threads-max"),
        pid_max=pid_max,
        pids_seen=process_room.visible_processes(pid_max),
        threads_forbidden=process_room.threads_forbidden(),
    )


def shared_memory(path: str = "/dev/shm") -> SharedMemory:
    """Return the file system in memory that NCCL, gloo's shared-memory users and DataLoader workers allocate from."""
    try:
        stat = os.statvfs(path)
    except OSError as err:
        return SharedMemory(error=err.strerror, writable=False)
    writable = os.access(path, os.W_OK | os.X_OK)
    read_only = bool(stat.f_flag & os.ST_RDONLY)
    return SharedMemory(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize, writable, read_only=read_only)


def _inherited() -> int | None:
    """Return the number of inherited descriptors below the limit, beside stdin, stdout and stderr.

    Python closes its own in a program that it starts (PEP 446), and leaves inherited ones open. The limit is one of
    numbers (getrlimit(2)): a higher descriptor takes none below it.
    """
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


# Memory of this process's surroundings: the limit, and kills of the kernel for lack of memory.


CGROUP = "/sys/fs/cgroup"
UNLIMITED = 1 << 60
"""Least number that means no limit in cgroup v1."""


def memory_around(failure: TorchFailure, kills_before: int | None) -> TorchFailure:
    """Return the failure with the facts of this process's surroundings. ``kills_before``: see :func:`oom_kills`."""
    kills = oom_kills()
    return replace(
        failure,
        folder_gone=not _has_folder(),
        address_space=address_space(),
        data_segment=_soft(resource.RLIMIT_DATA),
        memory_limit=memory_limit(),
        oom_kills=None if kills is None or kills_before is None else kills - kills_before,
        loader=tuple(name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if os.environ.get(name)),
    )


def _has_folder() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:  # it was deleted
        return False


def address_space() -> int | None:
    """Return RLIMIT_AS (``ulimit -v``) in bytes; None without a limit."""
    return _soft(resource.RLIMIT_AS)


def _soft(kind: int) -> int | None:
    limit = resource.getrlimit(kind)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def memory_limit() -> int | None:
    """Return the bytes that this process's cgroup, or one above it, may use; None without a visible limit."""
    limits = []
    for folder in cgroups():
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = proc.text(f"{folder}/{name}")
            if text.isdecimal() and int(text) < UNLIMITED:
                limits.append(int(text))
    return min(limits, default=None)


def memory_used() -> int | None:
    """Return the bytes in use, and not reclaimable, of the cgroup of :func:`memory_limit`; None if unreadable."""
    usages: list[tuple[int, int]] = []
    for folder in cgroups():
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most, now = proc.text(f"{folder}/{limit_name}"), proc.text(f"{folder}/{used_name}")
            if most.isdecimal() and int(most) < UNLIMITED and now.isdecimal():
                usages.append((int(most), max(0, int(now) - _files(f"{folder}/memory.stat"))))
    return min(usages)[1] if usages else None


def _files(path: str) -> int:
    """Return the page cache, which the kernel reclaims first (cgroup v2's names, and those of v1 for a whole tree)."""
    rows = dict(line.split(" ", 1) for line in proc.text(path).splitlines() if " " in line)
    for prefix in ("total_", ""):
        values = [rows.get(f"{prefix}{name}", "") for name in ("active_file", "inactive_file")]
        if all(value.isdecimal() for value in values):
            return sum(map(int, values))
    return 0


def own_memory(pid: int) -> int | None:
    """Return the bytes of a process's memory that are its own and no file's (RssAnon of proc(5)); None if unknown."""
    for line in proc.text(f"/proc/{pid}/status").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return None


def oom_kills() -> int | None:
    """Return the number of processes of this cgroup that the kernel has killed for lack of memory; None if
    unreadable."""
    for folder in cgroups():
        for name in ("memory.events", "memory.oom_control"):
            for line in proc.text(f"{folder}/{name}").splitlines():
                word, _, number = line.partition(" ")
                if word == "oom_kill" and number.strip().isdecimal():
                    return int(number)
    return None


def cgroups(controller: str = "memory") -> list[str]:
    """Return the visible folders of this process's cgroup and those above it (cgroups(7))."""
    folders: list[str] = []
    for line in proc.text("/proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        root = f"{CGROUP}/{controller}" if controllers else CGROUP
        while path not in ("", "/"):
            folders.append(f"{root}{path}")
            path = os.path.dirname(path)
        folders.append(root)
    return folders


# Processor time of this process's cgroup, and its own limit.


THROTTLED = {"throttled_usec": 1e6, "throttled_time": 1e9}
"""Unit of each file: its count per second."""


def processor_quota() -> float | None:
    """Return the CPUs' worth of time that the cgroup, or one above it, may use (cpu.max; v1: cpu.cfs_quota_us); None
    without a visible limit."""
    quotas = []
    for folder in cgroups("cpu"):
        words = proc.text(f"{folder}/cpu.max").split() or [
            proc.text(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period")
        ]
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def throttled_seconds() -> float:
    """Return the seconds for which the cgroup, or one above it, was throttled after using up its quota, over all
    processors together (throttled_usec of cpu.stat; v1: throttled_time, in nanoseconds); 0 without a visible limit."""
    most = 0.0
    for folder in cgroups("cpu"):
        for line in proc.text(f"{folder}/cpu.stat").splitlines():
            name, _, value = line.partition(" ")
            if name in THROTTLED and value.isdecimal():
                most = max(most, int(value) / THROTTLED[name])
    return most


def processor_seconds() -> int | None:
    """Return RLIMIT_CPU: the seconds of processor time after which the kernel ends a process; None without a limit."""
    most = resource.getrlimit(resource.RLIMIT_CPU)[0]
    return None if most == resource.RLIM_INFINITY else most


# Settings of the kernel (sysctl) that a job's connections, memory and start depend on.


_NAMES = """
net.core.somaxconn net.core.rmem_max net.core.wmem_max net.core.netdev_max_backlog
net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_congestion_control net.ipv4.tcp_mtu_probing net.ipv4.tcp_sack
net.ipv4.tcp_window_scaling net.ipv4.tcp_timestamps net.ipv4.tcp_ecn net.ipv4.tcp_syn_retries net.ipv4.tcp_retries2
net.ipv4.tcp_keepalive_time net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_tw_reuse
net.ipv4.ip_forward net.ipv4.conf.all.rp_filter net.ipv4.conf.all.arp_ignore net.ipv4.conf.all.arp_announce
net.ipv4.neigh.default.gc_thresh3 net.ipv6.conf.all.disable_ipv6 net.ipv6.bindv6only net.netfilter.nf_conntrack_max
net.netfilter.nf_conntrack_tcp_timeout_established net.ipv4.ip_default_ttl
kernel.numa_balancing kernel.yama.ptrace_scope vm.overcommit_memory vm.overcommit_ratio vm.max_map_count
vm.nr_hugepages vm.zone_reclaim_mode fs.nr_open
"""
NAMES = tuple(_NAMES.split())
"""Names, without those that are facts of their own (``Limits``)."""


def probe_sysctls(root: str = "/proc/sys") -> dict[str, str]:
    """Return their values by name, without those that this kernel or container lacks or hides."""
    sysctls = {}
    for name in NAMES:
        try:
            with open(f"{root}/{name.replace('.', '/')}") as file:
                sysctls[name] = " ".join(file.read(200).split())
        except OSError:
            continue
    return sysctls
