"""What a host is like: its names, interfaces, folders and left-overs."""

from __future__ import annotations

from dataclasses import dataclass, field

from distdoctor.model.facts.account import Account
from distdoctor.model.facts.kernel import KernelLine
from distdoctor.model.facts.limits import Limits
from distdoctor.model.facts.torch import TorchFailure


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
        """What tells the host from every other: several nodes, or ranks of one, may be on it."""
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
        """Whether it is being built here; older facts of a job have only ``holder``."""
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
