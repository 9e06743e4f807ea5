"""What a host is like: its names, interfaces, folders and left-overs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Identity:
    """Which process on which host this is. A node is hostname + boot id + network namespace, never one alone."""

    hostname: str
    boot_id: str
    netns: str
    pid: int
    distdoctor: str
    python: str
    user: str = ""
    torch: str | None = None
    """The version of torch, or None where it cannot be imported; then ``torch_error`` says why."""
    torch_error: str | None = None
    cuda: str | None = None
    """The CUDA version that this torch was built for; None for a build without CUDA."""
    backends: tuple[str, ...] = ()
    """The backends this torch was built with, as torch.distributed lists them."""
    nccl: str | None = None
    """The version of the NCCL that torch was built with."""
    executable: str = ""
    """The Python that runs this, and that torch was looked for in."""
    torch_path: str | None = None
    """The folder that torch was imported from."""
    torch_seconds: float | None = None
    """How long the import of torch took; so far, where it had not ended (``torch_importing``)."""
    torch_importing: bool = False
    """The import of torch had not ended when these facts were written."""
    torch_failure: TorchFailure | None = None
    """What else was seen where torch cannot be imported."""
    torch_memory: int | None = None
    """Bytes of memory of its own (RssAnon) that a process has once torch is imported: what each rank takes at least."""
    kernel: str = ""
    """Its release, as ``uname -r`` tells it."""
    libc: str = ""
    """The C library and its version, as ``glibc 2.36``; empty where it does not say."""
    torch_cpus: int | None = None
    """On how many CPUs that process may run once torch is imported: its OpenMP may have bound it to fewer."""

    @property
    def host(self) -> tuple[str, str, str]:
        """Return what tells the host from every other: several nodes, or ranks of one, may be on it."""
        return self.hostname, self.boot_id, self.netns


@dataclass(frozen=True)
class Resolution:
    """One getaddrinfo() of ``name``: every address in the order returned, or why there is none."""

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
    """Its hardware address, in lower case (``02:42:ac:11:00:02``); empty where it has none or that is not known."""
    speed: int | None = None
    """Mbit/s, as it was agreed upon with the other end (ethtool); None: the driver does not tell, or it is down."""
    half_duplex: bool = False
    """It sends or receives, never both at once."""
    no_arp: bool = False
    """It has no ARP (IFF_NOARP, netdevice(7)): the kernel asks nobody there for a hardware address, and answers nobody.
    So it is with a tunnel; an Ethernet card has it switched off."""
    arp_ignore: int | None = None
    """Which requests of ARP it leaves without an answer (the kernel's ip-sysctl.rst: of the interface's value and that
    of ``all`` the larger one counts; 8 is all of them); None: not known."""
    refused: tuple[str, ...] = ()
    """Its IPv6 addresses that another host on its link has, too, as that one answered: the kernel does not use them
    (RFC 4862, 5.4; ``dadfailed`` in ip-address(8))."""
    bridge: str = ""
    """The bridge that it is a port of (``ip link set ... master``): what comes in there is the bridge's, also what is
    for an address of the port's own."""

    @property
    def device(self) -> str:
        """The card, as routing tables name it: getifaddrs() lists an address with a label by that (``eth0:0``), gloo
        and NCCL take it for the name of an interface, and the kernel knows none of that name."""
        return self.name.partition(":")[0]


@dataclass(frozen=True)
class HostsLine:
    """One line of /etc/hosts: its number (from 1) and its text."""

    number: int
    text: str


@dataclass(frozen=True)
class AddressChoice:
    """An address that a backend picks (or would pick) to be reached at, and the rule that leads to it."""

    address: str | None
    interface: str | None
    reason: str
    """One of: ``variable`` (from GLOO_SOCKET_IFNAME), ``hostname`` (first bindable address of the host name),
    ``fallback`` (the host name gave none: 127.0.0.1), ``not-found`` (the variable names no interface)."""
    variable: str | None = None
    """The value of the variable that decided, where one did."""


@dataclass(frozen=True)
class Leftover:
    """A process of an earlier run: it has a launcher's variables and its launcher is gone. Its command line is not
    kept: people put tokens there."""

    pid: int
    name: str
    user: str
    age: float
    """Seconds since it was started."""
    ports: tuple[int, ...] = ()
    """The TCP ports it listens on."""
    rank: str | None = None


@dataclass(frozen=True)
class InitFile:
    """The file that ``--init-method file://`` names, before the run."""

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
    """The errno's name where a file of that folder cannot be locked (flock), as ENOLCK."""


@dataclass(frozen=True)
class TemporaryFolder:
    """Where Python, and with it torchrun, puts temporary files."""

    path: str | None = None
    """None where there is none that this user may write."""
    error: str = ""
    """Then: Python's own words, which name the folders tried."""
    instead: str | None = None
    """Then: a folder that this user may write all the same."""
    umask: str = ""
    """Then: the umask, in octal digits, where it is that which keeps the user out of folders that it makes itself."""


@dataclass(frozen=True)
class Folder:
    """A folder that jobs write to, and whether a file could be written there."""

    use: str
    """The variable that names it (``TMPDIR``, ``HF_HOME``), ``/tmp`` where TMPDIR is not set, or ``.`` for the folder
    that the job is started in."""
    path: str
    error: str = ""
    """The errno's name where nothing could be written, as ENOSPC; ``timeout`` where the file system did not answer."""
    free: int | None = None
    """Bytes that this user may still write."""
    free_files: int | None = None
    """How many files may still be made; None where the file system has no such limit."""
    filesystem: str | None = None
    source: str = ""
    """What is mounted there: a device, or of a network file system the server and its folder."""
    noexec: bool = False
    """Mounted so that nothing there can be run or loaded as a library."""
    nearest: str = ""
    """Where the folder is not there: the nearest path above it that is; ``error`` then is what making it would end
    with. Empty: it is there, or that is not known."""
    leads_to: str = ""
    """Where that is a link to something that is not there: to what."""
    lock_error: str = ""
    """The errno's name where files there cannot be locked (flock(2)), as ENOLCK; ``timeout`` where a lock was not
    answered, though a file had been written; empty: they can, or nobody tried."""


@dataclass(frozen=True)
class SharedFolder:
    """A folder that all nodes are to have in common, in which this one left a file for the others for as long as the
    check went on."""

    path: str
    by: str = "--shared"
    """The flag that names it: ``--shared``, or ``--init-method`` for the folder of its file."""
    error: str = ""
    """The errno's name where no file could be left, as ENOENT; ``timeout`` where the file system did not answer."""
    mark: str = ""
    """The name of that file, which nobody can guess."""
    filesystem: str | None = None
    source: str = ""
    """What is mounted there: a device, or of a network file system the server and its folder."""
    node0: str | None = None
    """What became of node 0's file here: empty: it was there and could be read; the errno's name, as ENOENT, where not;
    ``timeout``. None: nobody looked, as where no nodes met."""


@dataclass(frozen=True)
class BuildLock:
    """A lock of torch.utils.cpp_extension, which waits for it without limit."""

    path: str
    age: float
    """Seconds since it was made, by this host's clock."""
    held: bool = False
    """Whether a process of this host has it open, as one that builds has."""
    filesystem: str | None = None
    holder: int | None = None
    """The process of this host that has it open, where that is known."""

    @property
    def building(self) -> bool:
        """Return whether it is being built here; older facts of a job have only ``holder``."""
        return self.held or self.holder is not None


@dataclass(frozen=True)
class HostFacts:
    """What the host calls itself and which interfaces it has."""

    own_name: Resolution
    interfaces: tuple[Interface, ...] = ()
    hosts_lines: tuple[HostsLine, ...] = ()
    """Lines of /etc/hosts that name this host (by its name, or the name's first label)."""
    gloo: AddressChoice | None = None
    """What gloo will pick, predicted by its own rules."""
    nccl: AddressChoice | None = None
    """What NCCL's bootstrap will pick, predicted by its own rules (reasons: ``variable``, ``not-found``, ``order``)."""
    limits: Limits | None = None
    leftovers: tuple[Leftover, ...] = ()
    init_file: InitFile | None = None
    gloo_more: tuple[AddressChoice, ...] = ()
    """gloo's further devices: it makes one for each name in GLOO_SOCKET_IFNAME."""
    announced: Resolution | None = None
    """The name by which torchrun's c10d rendezvous announces its ranks' store (getfqdn()), and what it means here."""
    announced_reached: bool | None = None
    """Whether this host is reached by that name; None where it was not tried, as with an address of its own."""
    name_sources: tuple[str, ...] | None = None
    """Where look-ups of hosts look, by ``hosts:`` of /etc/nsswitch.conf (``files``, ``dns``); None without it."""
    hosts_file_closed: bool = False
    """This user may not read /etc/hosts (EACCES): what stands there is neither known nor looked up."""
    temporary: TemporaryFolder | None = None
    folders: tuple[Folder, ...] | None = None
    """None where they were not looked at."""
    shared: tuple[SharedFolder, ...] | None = None
    """Those of --shared and of a file:// init method; None where they were not looked at, or none is named."""
    build_locks: tuple[BuildLock, ...] | None = None
    """None where they were not looked at."""
    account: Account | None = None
    sysctls: dict[str, str] = field(default_factory=dict)
    """Settings of the kernel that jobs depend on, by their names; those that are not here or may not be read lack."""
    kernel_log: tuple[KernelLine, ...] | None = None
    """Those that checks know which look at it: of the last quarter of an hour, and what tells of a state that lasts
    however old it is; None where it may not be read."""
    link_losses: dict[str, int] | None = None
    """How often each interface lost its link or was switched off while the check ran, by rtnetlink's messages; an
    interface that stayed up lacks. None where nobody watched."""
    interfaces_hidden: str = ""
    """The errno's name where getifaddrs() fails, as in a sandbox; ``interfaces`` is then seen in another way."""


# Whom the job runs as, and what of it the host takes away or keeps.


@dataclass(frozen=True)
class Account:
    """The user of this process."""

    uid: int = 0
    known: bool = True
    """Whether the user database (/etc/passwd) has an entry for this number."""
    named: str = ""
    """The variable that getpass.getuser() takes the name from: LOGNAME, USER, LNAME or USERNAME; empty: none is set."""
    home: str | None = None
    """HOME as it is set; None where it is not."""
    home_error: str = ""
    """The errno's name where nothing can be written there, as EACCES; ENOENT where there is no such folder."""
    home_of_entry: str = ""
    """The home that the user's entry names; empty: there is no entry, or it is not known."""
    remove_ipc: bool | None = None
    """RemoveIPC= of systemd-logind; None where it does not run here, or where its setting is not known."""
    lingers: bool = False
    """The user's manager stays when its last session ends (loginctl enable-linger)."""
    in_session: bool = False
    """This process belongs to a login session of its user, or to the user's manager (its cgroup)."""
    allocator: tuple[str, str] | None = None
    """Variable and value where torch's allocator is set to expandable segments: they are shared by pidfd_getfd(2)."""
    systemd: bool | None = None
    """Whether it runs the services here (sd_booted(3)): not in most containers, nor on machines with another init."""
    descriptors: str = ""
    """The errno's name with which that is refused to a process that is not the other's parent; asked only then."""
    withheld: tuple[str, ...] = ()
    """What nobody may do here, root neither, as in a container: ``NET_ADMIN`` and ``SYS_ADMIN`` where they are not in
    the bounding set, and the paths below that are mounted read-only."""
    missing_programs: tuple[str, ...] = ()
    """Of those that fixes use (``PROGRAMS``), the ones that are not installed."""


NET_ADMIN, SYS_ADMIN = "CAP_NET_ADMIN", "CAP_SYS_ADMIN"
HOSTS_FILE, NAME_SOURCES, KERNEL_SETTINGS = "/etc/hosts", "/etc/nsswitch.conf", "/proc/sys"
PROGRAMS = ("ip", "sysctl")


# What the kernel wrote to its log.


@dataclass(frozen=True)
class KernelLine:
    """A line of the kernel's log that a check knows (its ``LOG``)."""

    check: str
    shows: str
    """What it shows of that, as of other logs."""
    text: str
    at: float = 0.0
    """When it was written, in seconds since the epoch by this host's clock."""
    values: dict[str, str] = field(default_factory=dict)
    """What its expression names, as ``pid``."""


# What the kernel lets a process use.


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


# How the import of torch failed.


@dataclass(frozen=True)
class Shadow:
    """A file that Python imports in place of the module that torch means."""

    module: str
    file: str
    """The file, or the folder of a package."""
    hides: str | None = None
    """What would be imported without it; None where there is nothing else of that name."""
    entry: str = ""
    """The folder on sys.path that it lies in."""
    by: str = "folder"
    """``folder``: the working folder, taken for the script's own; ``PYTHONPATH``."""
    pythonpath: str | None = None
    """What PYTHONPATH would be without that folder, where it is there by PYTHONPATH."""


@dataclass(frozen=True)
class NcclLibrary:
    """An NCCL that the loader may take: one that a variable puts before torch's own, or an installed package."""

    name: str
    """The library's file, or the package with its version: ``nvidia-nccl-cu12 2.21.5``."""
    by: str = ""
    """``LD_PRELOAD`` or ``LD_LIBRARY_PATH``; empty: a package."""
    without: str | None = None
    """What that variable would be without it; None: nothing would be left."""


@dataclass(frozen=True)
class TorchFailure:
    """What was seen when the import of torch did not end well."""

    type: str = ""
    """The class of the exception; empty where the process ended instead."""
    text: str = ""
    module: str | None = None
    """The module that an ImportError names."""
    errno: int | None = None
    signal: int | None = None
    """The signal that ended the process."""
    status: int | None = None
    """The exit status of the process, where it ended by itself."""
    said: str = ""
    """The end of what it printed."""
    found: str | None = None
    """The folder of the torch that was found; None where there is none on sys.path, or where that is not known."""
    looked: bool = False
    """Whether ``found`` is known."""
    version: str | None = None
    """The version that this folder says it has."""
    built_for: tuple[str, ...] = ()
    """The Pythons that its C extension was built for, as in its file's name: ``cpython-312-x86_64-linux-gnu``."""
    shadows: tuple[Shadow, ...] = ()
    folder_gone: bool = False
    """The working folder was deleted."""
    address_space: int | None = None
    """RLIMIT_AS in bytes; None where there is no limit."""
    data_segment: int | None = None
    """RLIMIT_DATA in bytes, which counts all writable memory of a process; None as before."""
    memory_limit: int | None = None
    """Bytes that the container (cgroup) may use; None where there is no limit or none is seen."""
    oom_kills: int | None = None
    """Processes of the container that the kernel killed for want of memory since this run began."""
    loader: tuple[str, ...] = ()
    """Those of LD_LIBRARY_PATH and LD_PRELOAD that are set."""
    package: str = ""
    """The package other than torch in whose code, or for want of whose content, it failed; empty: none, or not known.
    """
    package_file: str = ""
    """Then: the file of it."""
    cause: str = ""
    """The exception that the one told was raised for, where there was one."""
    noexec: tuple[str, ...] = ()
    """Files of a library that could not be mapped, on file systems that are mounted with noexec."""
    closed: tuple[str, ...] = ()
    """Files and folders of torch that are there, and that this user may not read."""
    settings: tuple[str, ...] = ()
    """Those of PYTHONWARNINGS and TORCH_LOGS that are set."""
    nccl: tuple[NcclLibrary, ...] = ()
    """Where the text names NCCL: each that the loader may take, in its order (ld.so(8)), then the packages."""
