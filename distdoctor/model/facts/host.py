"""Facts of a host: identity, names, interfaces, folders, left-overs, user, limits, and the import of torch."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Identity:
    """Process, host, user, Python and torch. A node is hostname + boot id + network namespace, never one alone."""

    hostname: str
    boot_id: str
    netns: str
    pid: int
    distdoctor: str
    python: str
    user: str = ""
    torch: str | None = None
    """Version of torch, or None if it cannot be imported; then ``torch_error`` has the reason."""
    torch_error: str | None = None
    cuda: str | None = None
    """CUDA version that this torch was built for; None for a build without CUDA."""
    backends: tuple[str, ...] = ()
    """Backends this torch was built with, as torch.distributed lists them."""
    nccl: str | None = None
    """Version of the NCCL that torch was built with."""
    executable: str = ""
    """Python that runs this, and in which torch was looked for."""
    torch_path: str | None = None
    """Folder that torch was imported from."""
    torch_seconds: float | None = None
    """Seconds of the import of torch; so far, if it had not ended (``torch_importing``)."""
    torch_importing: bool = False
    """True if the import of torch had not ended when these facts were written."""
    torch_failure: TorchFailure | None = None
    """Further observations if torch cannot be imported."""
    torch_memory: int | None = None
    """Bytes of memory of its own (RssAnon) of a process that has imported torch: what each rank takes at least."""
    kernel: str = ""
    """Release of the kernel, as ``uname -r`` prints it."""
    libc: str = ""
    """C library and its version, as ``glibc 2.36``; empty if it does not say."""
    torch_cpus: int | None = None
    """Number of CPUs on which that process may run once torch is imported: its OpenMP may have bound it to fewer."""
    packages: dict[str, str] = field(default_factory=dict)
    """Name -> version of the packages whose versions must fit between nodes (``PACKAGES`` of probes/host/identity.py)
    in the Python that runs this, and of the EFA installer; without those that are not installed."""

    @property
    def host(self) -> tuple[str, str, str]:
        """Key that distinguishes hosts: several nodes, or ranks of one, may share a host."""
        return self.hostname, self.boot_id, self.netns


@dataclass(frozen=True)
class Resolution:
    """One getaddrinfo() of ``name``: every address in the order returned, or the error."""

    name: str
    addresses: tuple[str, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    timed_out: bool = False


@dataclass(frozen=True)
class Interface:
    """One network interface, as getifaddrs() lists it. IPv6 zone suffixes (%eth0) are removed from addresses."""

    name: str
    addresses: tuple[str, ...] = ()
    prefix_lengths: tuple[int, ...] = ()
    up: bool = True
    loopback: bool = False
    mtu: int = 0
    mac: str = ""
    """Hardware address in lower case (``02:42:ac:11:00:02``); empty if it has none or that is unknown."""
    speed: int | None = None
    """Mbit/s negotiated with the other end (ethtool); None: the driver does not say, or the link is down."""
    half_duplex: bool = False
    """True if it sends or receives, never both at once."""
    no_arp: bool = False
    """True without ARP (IFF_NOARP, netdevice(7)): the kernel neither requests hardware addresses there nor answers
    requests. Usual for a tunnel; on an Ethernet card it was switched off."""
    arp_ignore: int | None = None
    """Level of the ARP requests that it ignores (the kernel's ip-sysctl.rst: the larger of the interface's value and
    that of ``all``; 8 is all of them); None: unknown."""
    refused: tuple[str, ...] = ()
    """Its IPv6 addresses that another host on its link has, too: the kernel does not use them (RFC 4862, 5.4;
    ``dadfailed`` in ip-address(8))."""
    bridge: str = ""
    """Bridge that it is a port of (``ip link set ... master``). The bridge receives what arrives there, also for an
    address of the port's own."""

    @property
    def device(self) -> str:
        """Card, as routing tables name it. getifaddrs() lists a labelled address by its label (``eth0:0``), gloo and
        NCCL take that for an interface name, and the kernel knows none of that name."""
        return self.name.partition(":")[0]


@dataclass(frozen=True)
class HostsLine:
    """One line of /etc/hosts: its number (from 1) and its text."""

    number: int
    text: str


@dataclass(frozen=True)
class AddressChoice:
    """Address that a backend picks (or would pick) to be reached at, and the rule that leads to it."""

    address: str | None
    interface: str | None
    reason: str
    """One of: ``variable`` (from GLOO_SOCKET_IFNAME), ``hostname`` (first bindable address of the hostname),
    ``fallback`` (the hostname gave none: 127.0.0.1), ``not-found`` (the variable names no interface)."""
    variable: str | None = None
    """Value of the variable that decided, if one did."""


@dataclass(frozen=True)
class Leftover:
    """Process of an earlier run: it has a launcher's variables and its launcher is gone. Its command line is not kept:
    people put tokens there."""

    pid: int
    name: str
    user: str
    age: float
    """Seconds since it was started."""
    ports: tuple[int, ...] = ()
    """TCP ports it listens on."""
    rank: str | None = None


@dataclass(frozen=True)
class InitFile:
    """File that ``--init-method file://`` names, before the run."""

    path: str
    exists: bool
    size: int = 0
    age: float = 0.0
    """Seconds since it was last written, by this host's clock."""
    folder_exists: bool = True
    writable: bool = True
    device: int | None = None
    inode: int | None = None
    filesystem: str | None = None
    lock_error: str = ""
    """Name of the errno if a file of that folder cannot be locked (flock), as ENOLCK."""


@dataclass(frozen=True)
class TemporaryFolder:
    """Folder in which Python, and with it torchrun, puts temporary files."""

    path: str | None = None
    """None if no such folder is writable for this user."""
    error: str = ""
    """Without a folder: Python's own error, which names the folders tried."""
    instead: str | None = None
    """Without a folder: one that is writable for this user all the same."""
    umask: str = ""
    """Without a folder: the umask, in octal digits, if it keeps the user out of folders that he creates."""


@dataclass(frozen=True)
class Folder:
    """Folder that jobs write to, and the result of writing a file there."""

    use: str
    """Variable that names it (``TMPDIR``, ``HF_HOME``), ``/tmp`` if TMPDIR is unset, or ``.`` for the job's working
    folder."""
    path: str
    error: str = ""
    """Name of the errno if nothing could be written, as ENOSPC; ``timeout`` if the file system did not answer."""
    free: int | None = None
    """Bytes that this user may still write."""
    free_files: int | None = None
    """Number of files that may still be created; None if the file system has no such limit."""
    filesystem: str | None = None
    source: str = ""
    """Mounted device, or server and folder of a network file system."""
    noexec: bool = False
    """True if mounted so that nothing there can be run or loaded as a library."""
    nearest: str = ""
    """For a missing folder: the nearest existing path above it; ``error`` then is the result of creating the folder.
    Empty: it exists, or that is unknown."""
    leads_to: str = ""
    """Missing target, if ``nearest`` is a link to one."""
    lock_error: str = ""
    """Name of the errno if files there cannot be locked (flock(2)), as ENOLCK; ``timeout`` if a lock was not answered,
    though a file had been written; empty: they can, or nobody tried."""


@dataclass(frozen=True)
class SharedFolder:
    """Folder that all nodes are to share, in which this one left a file for the others while the check ran."""

    path: str
    by: str = "--shared"
    """Flag that names it: ``--shared``, or ``--init-method`` for the folder of its file."""
    error: str = ""
    """Name of the errno if no file could be left, as ENOENT; ``timeout`` if the file system did not answer."""
    mark: str = ""
    """Name of that file, which nobody can guess."""
    filesystem: str | None = None
    source: str = ""
    """Mounted device, or server and folder of a network file system."""
    node0: str | None = None
    """Result of reading node 0's file here. Empty: it was readable; else the errno's name, as ENOENT, or ``timeout``.
    None: not tried, as if no nodes joined."""


@dataclass(frozen=True)
class BuildLock:
    """Lock of torch.utils.cpp_extension, which waits for it without limit."""

    path: str
    age: float
    """Seconds since it was created, by this host's clock."""
    held: bool = False
    """True if a process of this host has it open, as a running build has."""
    filesystem: str | None = None
    holder: int | None = None
    """Process of this host that has it open, if known."""

    @property
    def building(self) -> bool:
        """True if a build of this host holds it; older facts of a job have only ``holder``."""
        return self.held or self.holder is not None


@dataclass(frozen=True)
class HostFacts:
    """Names, interfaces, folders, limits and left-overs of a host."""

    own_name: Resolution
    interfaces: tuple[Interface, ...] = ()
    hosts_lines: tuple[HostsLine, ...] = ()
    """Lines of /etc/hosts that name this host (by its name, or the name's first label)."""
    gloo: AddressChoice | None = None
    """Address that gloo will pick, predicted by its own rules."""
    nccl: AddressChoice | None = None
    """Address that NCCL's bootstrap will pick, predicted by its own rules (reasons: ``variable``, ``not-found``,
    ``order``)."""
    limits: Limits | None = None
    leftovers: tuple[Leftover, ...] = ()
    init_file: InitFile | None = None
    gloo_more: tuple[AddressChoice, ...] = ()
    """gloo's further devices: it makes one for each name in GLOO_SOCKET_IFNAME."""
    announced: Resolution | None = None
    """Name by which torchrun's c10d rendezvous announces its ranks' store (getfqdn()), as it resolves here."""
    announced_reached: bool | None = None
    """True if this host is reached by that name; None if not tried, as with an address of its own."""
    name_sources: tuple[str, ...] | None = None
    """Sources of host look-ups, by ``hosts:`` of /etc/nsswitch.conf (``files``, ``dns``); None without it."""
    hosts_file_closed: bool = False
    """True if this user may not read /etc/hosts (EACCES): its content is neither known nor looked up."""
    temporary: TemporaryFolder | None = None
    folders: tuple[Folder, ...] | None = None
    """None if not probed."""
    shared: tuple[SharedFolder, ...] | None = None
    """Folders of --shared and of a file:// init method; None if not probed, or none is named."""
    build_locks: tuple[BuildLock, ...] | None = None
    """None if not probed."""
    account: Account | None = None
    sysctls: dict[str, str] = field(default_factory=dict)
    """Settings of the kernel that jobs depend on, by name, without those that are missing or unreadable here."""
    kernel_log: tuple[KernelLine, ...] | None = None
    """Lines that checks know: of the last quarter of an hour, and on a lasting state however old; None if the log is
    unreadable."""
    link_losses: dict[str, int] | None = None
    """Number of link losses (or switch-offs) of each interface while the check ran, by rtnetlink's messages, without
    interfaces that stayed up. None if not watched."""
    links_down: tuple[str, ...] = ()
    """Interfaces of ``link_losses`` that had no link at the last look."""
    interfaces_hidden: str = ""
    """Name of the errno if getifaddrs() fails, as in a sandbox; ``interfaces`` then has another source."""


# User of the job, and the host's restrictions on it.


@dataclass(frozen=True)
class Account:
    """User of this process."""

    uid: int = 0
    known: bool = True
    """True if the user database (/etc/passwd) has an entry for this number."""
    named: str = ""
    """Variable that getpass.getuser() takes the name from: LOGNAME, USER, LNAME or USERNAME; empty: none is set."""
    home: str | None = None
    """HOME as it is set, or None."""
    home_error: str = ""
    """Name of the errno if nothing can be written there, as EACCES; ENOENT if there is no such folder."""
    home_of_entry: str = ""
    """Home in the user's entry; empty: there is no entry, or it is unknown."""
    remove_ipc: bool | None = None
    """RemoveIPC= of systemd-logind; None if it does not run here, or its setting is unknown."""
    lingers: bool = False
    """True if the user's manager stays when its last session ends (loginctl enable-linger)."""
    in_session: bool = False
    """True if this process belongs to a login session of its user, or to the user's manager (its cgroup)."""
    allocator: tuple[str, str] | None = None
    """Variable and value that set torch's allocator to expandable segments: they are shared by pidfd_getfd(2)."""
    systemd: bool | None = None
    """True if systemd runs the services here (sd_booted(3)): not in most containers, nor with another init."""
    descriptors: str = ""
    """Name of the errno with which pidfd_getfd is refused to a process that is not the other's parent; probed only with
    ``allocator``."""
    withheld: tuple[str, ...] = ()
    """Operations that nobody, root included, may do here, as in a container: ``NET_ADMIN`` and ``SYS_ADMIN`` if missing
    in the bounding set, and the paths below that are mounted read-only."""
    missing_programs: tuple[str, ...] = ()
    """Programs that fixes use (``PROGRAMS``) and that are not installed."""


NET_ADMIN, SYS_ADMIN = "CAP_NET_ADMIN", "CAP_SYS_ADMIN"
HOSTS_FILE, NAME_SOURCES, KERNEL_SETTINGS = "/etc/hosts", "/etc/nsswitch.conf", "/proc/sys"
PROGRAMS = ("ip", "sysctl")


# Lines of the kernel's log.


@dataclass(frozen=True)
class KernelLine:
    """Line of the kernel's log that a check knows (its ``LOG``)."""

    check: str
    shows: str
    """Meaning of the line, as in other logs."""
    text: str
    at: float = 0.0
    """Time at which it was written, in seconds since the epoch by this host's clock."""
    values: dict[str, str] = field(default_factory=dict)
    """Captures of the expression, as ``pid``."""


# Limits of the kernel for a process.


@dataclass(frozen=True)
class SharedMemory:
    """Size of /dev/shm in bytes; None if it is not mounted or unreadable."""

    size: int | None = None
    free: int | None = None
    writable: bool = True
    error: str | None = None
    read_only: bool = False
    """True if mounted so that nobody can write."""


@dataclass(frozen=True)
class Limits:
    """Limits of the kernel for this process. ``None``: unknown; for the rlimits -1 means unlimited."""

    open_files: int | None = None
    open_files_hard: int | None = None
    open_files_inherited: int | None = None
    """Number of files that the parent left open for this process, beside stdin, stdout and stderr."""
    locked_memory: int | None = None
    """RLIMIT_MEMLOCK, in bytes."""
    may_lock_memory: bool = False
    """True if this process has CAP_IPC_LOCK of the machine itself, to which that limit does not apply."""
    file_size: int | None = None
    """RLIMIT_FSIZE: limit of a file that this process writes, in bytes."""
    address_space: int | None = None
    """RLIMIT_AS, in bytes."""
    data_segment: int | None = None
    """RLIMIT_DATA, in bytes."""
    stack: int | None = None
    """RLIMIT_STACK, in bytes."""
    shared_memory: SharedMemory | None = None
    port_range: tuple[int, int] | None = None
    """net.ipv4.ip_local_port_range: first and last port that connect() and bind(0) use."""
    unprivileged_port_start: int | None = None
    """net.ipv4.ip_unprivileged_port_start: ports below it need CAP_NET_BIND_SERVICE."""
    may_bind_privileged: bool = False
    """True if this process has CAP_NET_BIND_SERVICE."""
    rdma_devices: tuple[str, ...] = ()
    reserved_ports: str = ""
    """net.ipv4.ip_local_reserved_ports: ports of the range that are never assigned, as ``8080,29500-29510``."""
    processes: int | None = None
    """RLIMIT_NPROC: limit of this user's processes and threads; root's are not counted."""
    processes_hard: int | None = None
    pids_max: int | None = None
    """Limit of the container's or unit's processes and threads (pids.max of its cgroup); None without a visible
    limit."""
    cpus: int | None = None
    """Number of CPUs this process may run on (sched_getaffinity)."""
    cpus_online: int | None = None
    """Number of CPUs of the machine."""
    cpu_quota: float | None = None
    """CPUs' worth of time for the container or unit (its cgroup, or one above); None as for ``memory``."""
    cpu_seconds: int | None = None
    """RLIMIT_CPU: processor time in seconds after which a process is ended; None: no limit, or unknown."""
    memory: int | None = None
    """Bytes for the container or unit (its cgroup, or one above); None: no limit, or none is visible."""
    memory_used: int | None = None
    """Bytes of these that were in use and not reclaimable, before torch was imported."""
    pids_used: int | None = None
    """Number of processes and threads in the cgroup of ``pids_max``."""
    user_processes: int | None = None
    """Number of this user's; None if ``processes`` does not bind it, as for root, or was far away."""
    threads: int | None = None
    """Number of processes and threads on the machine."""
    threads_max: int | None = None
    """kernel.threads-max: limit of the threads on the machine."""
    pid_max: int | None = None
    """kernel.pid_max: process and thread numbers are below it, so there can be no more of them."""
    pids_seen: int | None = None
    """Number of processes and threads visible to this process, if ``pid_max`` is that of a container: ``threads`` then
    counts others', too. None if it is the machine's."""
    threads_forbidden: bool = False
    """True if no thread can be started: a sandbox (seccomp) answers clone3() with EPERM."""


# Failure of the import of torch.


@dataclass(frozen=True)
class Shadow:
    """File that Python imports in place of the module that torch means."""

    module: str
    file: str
    """File, or folder of a package."""
    hides: str | None = None
    """Module that would be imported without it; None if there is no other of that name."""
    entry: str = ""
    """Folder on sys.path that contains it."""
    by: str = "folder"
    """``folder``: the working folder, taken for the script's own; ``PYTHONPATH``."""
    pythonpath: str | None = None
    """PYTHONPATH without that folder, if it is there by PYTHONPATH."""


@dataclass(frozen=True)
class NcclLibrary:
    """NCCL that the loader may take: one that a variable puts before torch's own, or an installed package."""

    name: str
    """File of the library, or the package with its version: ``nvidia-nccl-cu12 2.21.5``."""
    by: str = ""
    """``LD_PRELOAD`` or ``LD_LIBRARY_PATH``; empty: a package."""
    without: str | None = None
    """That variable without it; None: nothing would be left."""


@dataclass(frozen=True)
class TorchFailure:
    """Observations of a failed import of torch."""

    type: str = ""
    """Class of the exception; empty if the process ended instead."""
    text: str = ""
    module: str | None = None
    """Module that an ImportError names."""
    errno: int | None = None
    signal: int | None = None
    """Signal that ended the process."""
    status: int | None = None
    """Exit status of the process, if it ended by itself."""
    said: str = ""
    """End of its output."""
    found: str | None = None
    """Folder of the torch that was found; None if there is none on sys.path, or that is unknown."""
    looked: bool = False
    """True if ``found`` is known."""
    version: str | None = None
    """Version that this folder says it has."""
    built_for: tuple[str, ...] = ()
    """Pythons that its C extension was built for, as in its file's name: ``cpython-312-x86_64-linux-gnu``."""
    shadows: tuple[Shadow, ...] = ()
    folder_gone: bool = False
    """True if the working folder was deleted."""
    address_space: int | None = None
    """RLIMIT_AS in bytes; None without a limit."""
    data_segment: int | None = None
    """RLIMIT_DATA in bytes, which counts all writable memory of a process; None without a limit."""
    memory_limit: int | None = None
    """Bytes for the container (cgroup); None without a visible limit."""
    oom_kills: int | None = None
    """Processes of the container that the kernel killed for lack of memory since this run began."""
    loader: tuple[str, ...] = ()
    """Those of LD_LIBRARY_PATH and LD_PRELOAD that are set."""
    package: str = ""
    """Package other than torch in whose code, or for lack of whose content, it failed; empty: none, or unknown."""
    package_file: str = ""
    """File of that package."""
    cause: str = ""
    """Exception that caused the reported one, if any."""
    noexec: tuple[str, ...] = ()
    """Files of a library that could not be mapped, on file systems that are mounted with noexec."""
    closed: tuple[str, ...] = ()
    """Files and folders of torch that exist, and that this user may not read."""
    settings: tuple[str, ...] = ()
    """Those of PYTHONWARNINGS and TORCH_LOGS that are set."""
    nccl: tuple[NcclLibrary, ...] = ()
    """For a text that names NCCL: each NCCL that the loader may take, in its order (ld.so(8)), then the packages."""
