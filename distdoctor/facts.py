"""Facts: what the probes saw, as plain data that survives a round trip through JSON.

One :class:`NodeFacts` is what one started ``distdoctor`` process saw: a whole node where it was started once per
node, one rank of it where it was started once per rank (``distdoctor.cluster`` puts those together again).
Nothing here judges: a fact is a value that was read, a call that was made and how it ended.

All times are in seconds. ``None`` means "not looked at" or "could not be known", and the field's text says which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from distdoctor.plan import Plan

SCHEMA_VERSION = 1
MAX_RATES = 8

ConnectOutcome = Literal[
    "open",  # the connection was made
    "refused",  # ECONNREFUSED: nothing listens there, or a firewall resets
    "reset",  # connected, then reset before anything was read
    "no-answer",  # no packet came back before the deadline
    "rejected",  # an ICMP error came back at once: a firewall answered
    "unreachable",  # no route, or nobody answers ARP/ND for the address
    "wrong-node",  # connected, but another process than the one meant answered
    "stalled",  # connected and small payloads pass, but larger ones never arrive
    "error",  # anything else; see errno
]
StageStatus = Literal["ok", "failed", "skipped", "error"]
AnswerKind = Literal["distdoctor", "tcpstore", "silent", "closed", "foreign"]


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
class SharedMemory:
    """/dev/shm: sizes in bytes, None where it is not mounted or cannot be looked at."""

    size: int | None = None
    free: int | None = None
    writable: bool = True
    error: str | None = None


@dataclass(frozen=True)
class Limits:
    """What the kernel lets this process use. ``None``: not known; for the two rlimits -1 means unlimited."""

    open_files: int | None = None
    open_files_hard: int | None = None
    locked_memory: int | None = None
    """Bytes."""
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


@dataclass(frozen=True)
class Leftover:
    """A process of an earlier run: it has a launcher's variables and its launcher is gone."""

    pid: int
    name: str
    command: str
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
    fqdn: str | None = None
    """getfqdn(): where torchrun's c10d rendezvous tells the other nodes to find its ranks' store."""
    limits: Limits | None = None
    leftovers: tuple[Leftover, ...] = ()
    init_file: InitFile | None = None


@dataclass(frozen=True)
class Gpu:
    """One visible device of one rank, as torch.cuda lists it."""

    index: int
    name: str
    uuid: str = ""
    memory_bytes: int = 0


@dataclass(frozen=True)
class GpuFacts:
    """The devices one process can see. ``reason`` says why there are none (no CUDA build, no driver, empty mask)."""

    visible: tuple[Gpu, ...] = ()
    reason: str | None = None
    cuda_visible_devices: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Contact:
    """One attempt to connect to address:port and how it ended."""

    address: str
    port: int
    outcome: ConnectOutcome
    errno: int | None = None
    seconds: float = 0.0
    icmp: bool = False
    """True where an ICMP error, hence a router or firewall and not the host's TCP, gave the answer."""


@dataclass(frozen=True)
class Answer:
    """What an open port answers to the handshakes that are safe for a live TCPStore."""

    kind: AnswerKind
    generation: str | None = None
    """For a TCPStore: ``2.5+``, ``2.2-2.4`` or ``<=2.1``."""
    sample: str = ""
    """The first printable bytes of something else's answer, at most 80."""


@dataclass(frozen=True)
class PortHolder:
    """The process that listens on a port of this host. Fields are None where the OS does not show them to this user."""

    address: str
    pid: int | None = None
    name: str | None = None
    user: str | None = None
    command: str | None = None


@dataclass(frozen=True)
class Bind:
    """Node 0 trying to host a TCPStore on MASTER_PORT."""

    ok: bool
    port: int
    errno: int | None = None
    error: str | None = None
    holders: tuple[PortHolder, ...] = ()
    answer: Answer | None = None
    """What answers on the port, where the bind failed because it is in use."""
    free_port: int | None = None
    """A port that can be bound, for the fix."""
    after: float = 0.0
    """Seconds after this process's start from which the store was there, where it is."""


@dataclass(frozen=True)
class Route:
    """How this node would send to ``target``: the source address and interface that the kernel picks."""

    target: str
    source: str | None = None
    interface: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class FirewallChain:
    """One chain on the way in or out of this host that can drop packets."""

    tool: Literal["nft", "iptables", "ip6tables"]
    family: str
    table: str
    name: str
    hook: Literal["input", "output"]
    policy: str = "accept"
    blocking_rules: tuple[str, ...] = ()
    """The text of its rules that drop or reject."""


@dataclass(frozen=True)
class Firewall:
    """The packet filter of this host, as far as this user may read it."""

    readable: bool
    why_not: str | None = None
    chains: tuple[FirewallChain, ...] = ()
    """Only chains that can block: a policy of drop, or a rule that drops or rejects."""


@dataclass(frozen=True)
class NetworkFacts:
    """Names, routes and the master's port, as seen from this node."""

    master: Resolution | None = None
    master_is_own: bool | None = None
    """Whether an address of MASTER_ADDR is on an interface of this host; None where it did not resolve."""
    route: Route | None = None
    primary: AddressChoice | None = None
    """The address by which this node is reached from the others: the source of its route to the master, or for the
    owner of MASTER_ADDR that address itself. None on a node that talks over loopback only."""
    bind: Bind | None = None
    contact: Contact | None = None
    """The last attempt to reach MASTER_ADDR:MASTER_PORT."""
    passed_over: tuple[Contact, ...] = ()
    """The attempts just before it, on addresses of MASTER_ADDR that a TCPStore tries first, where these failed."""
    control: Contact | None = None
    """The same host on a port that should be closed: a refusal there says that the host is up and not silent."""
    answer: Answer | None = None
    """What answered on MASTER_ADDR:MASTER_PORT, where it was open."""
    master_name: str | None = None
    """What /etc/hosts calls the address of MASTER_ADDR, where it is not this host's own."""
    firewall: Firewall | None = None
    resolved_after: float = 0.0
    """Seconds after which MASTER_ADDR had an address, where it had none at first; else 0."""
    reverse: Resolution | None = None
    """The reverse look-up of the master's address, which every store client makes (``addresses`` holds the name)."""


@dataclass(frozen=True)
class MeetingFacts:
    """How the meeting of the nodes went, as this process saw it."""

    joined: bool = False
    ours: bool | None = None
    """Whether the store reached carries the doctor's marker; None where no store was reached."""
    hosted: bool = False
    """This process hosts the store (it is node 0)."""
    waited: float = 0.0
    wait_limit: float = 0.0
    ended: bool = False
    """True once waiting is over (everyone came, or the limit was reached, or waiting cannot cure it)."""
    arrived: tuple[str, ...] = ()
    """Node 0's roll call: the keys (``hostname pid``) of the processes that came."""
    expected: int = 0
    """How many nodes (once per node) or ranks (once per rank) node 0 waited for."""
    counts: Literal["nodes", "ranks"] = "nodes"
    lost: tuple[str, ...] = ()
    """Keys of processes that came and then went silent before the end."""
    host_lost: bool = False
    """Node 0's store went away before the report."""


@dataclass(frozen=True)
class Link:
    """A connection from this node to another that did not work. Good links are counted, not listed."""

    to: str
    """The key (``hostname pid``) of the process meant to be reached."""
    address: str
    port: int
    use: tuple[str, ...]
    """Who would use the address: ``gloo``, ``nccl``, ``primary``."""
    outcome: ConnectOutcome
    errno: int | None = None
    seconds: float = 0.0
    icmp: bool = False


@dataclass(frozen=True)
class LinkRate:
    """The measured transfer to one other node, on the address that its backends use."""

    to: str
    bytes_per_second: float | None
    """What arrived, over the time it took; None where throughput was not measured on this link."""
    delivery_rate: float | None = None
    """The kernel's own estimate, in bytes per second (TCP_INFO): free of the time a busy process lost."""
    receiver_limited: float = 0.0
    """The share of the time in which the receiver's window, hence a busy receiver, held the sender up."""
    retransmitted: int = 0
    """Segments that TCP sent again while small messages went to and fro: without load, only loss does that."""
    segments: int = 0
    """Segments sent in that time; 0 where the kernel does not tell."""
    rtt: float | None = None
    """The median round trip of these small messages, in seconds."""


@dataclass(frozen=True)
class MeshFacts:
    """The connections this node made to every other on ephemeral ports."""

    good: int = 0
    bad: tuple[Link, ...] = ()
    rtt_median: float | None = None
    rtt_max: float | None = None
    tried: tuple[str, ...] = ()
    """Keys of the processes tried, in order."""
    rates: tuple[LinkRate, ...] = ()
    """The slowest and the lossiest measured links, at most MAX_RATES of them; the others are in the medians."""
    rate_median: float | None = None
    """Bytes per second, over all measured links of this node."""
    rates_measured: int = 0
    busy: float = 0.0
    """The share of this host's processors that was in use meanwhile, 0 to 1."""
    clock_offset: float | None = None
    """Node 0's clock minus this node's, in seconds."""
    clock_error: float | None = None
    """How far off ``clock_offset`` may be: half the round trip it was measured with."""


@dataclass(frozen=True)
class RankStage:
    """How one stage ended for one rank."""

    stage: str
    status: StageStatus
    seconds: float = 0.0
    error: str | None = None
    """The exception's text, or what was done to the rank (``killed after 20 s``)."""
    detail: dict[str, Any] = field(default_factory=dict)
    """Plain values of that stage: gloo: ``address``, ``port``; collective: ``wrong``: names of wrong results; ..."""


@dataclass(frozen=True)
class Work:
    """How much a rank got done beside everything else on its host (``distdoctor.ranks.work`` measures it)."""

    rate: float
    """Pieces of the same small work done per second, on one thread."""
    cpu: float
    """The share of one processor that the thread got meanwhile, 0 to 1."""
    processors: int
    """How many it may run on, of ``cores`` that the host has."""
    cores: int
    quota: float | None = None
    """How many processors its container may use; None where there is no limit or none is seen."""
    load: float = 0.0
    """The host's load average of the last minute."""


@dataclass(frozen=True)
class RankFacts:
    """One rank: who it is and how its stages went. ``rank`` is None where it is not known (yet, or RANK is invalid)."""

    rank: int | None
    local_rank: int
    pid: int | None = None
    gpu: GpuFacts | None = None
    stages: tuple[RankStage, ...] = ()
    work: Work | None = None
    """Measured after the collectives, where there are other ranks to compare with."""


@dataclass(frozen=True)
class StageFacts:
    """How one stage ended on one node."""

    stage: str
    status: StageStatus
    seconds: float = 0.0
    reason: str = ""
    blocked_by: str | None = None
    """The stage whose failure is why this one was not run."""


@dataclass(frozen=True)
class Trial:
    """A fix that is only environment, tried on the spot in new processes of all ranks."""

    check: str
    option: int
    env: dict[str, dict[str, str | None]]
    """Per node name: the variables set (null: unset)."""
    stages: tuple[str, ...]
    passed: bool
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class NodeFacts:
    """Everything one started process saw. See the module's text."""

    identity: Identity
    plan: Plan
    variables: dict[str, str] = field(default_factory=dict)
    """The launch and backend variables that were set, by an allow-list of names."""
    near_misses: tuple[str, ...] = ()
    """Names (never values) of variables that look like a known one misspelled."""
    node_rank: int | None = None
    """The node rank after the meeting (assigned or declared); None where it never met the others."""
    host: HostFacts | None = None
    network: NetworkFacts | None = None
    meeting: MeetingFacts | None = None
    mesh: MeshFacts | None = None
    ranks: tuple[RankFacts, ...] = ()
    stages: tuple[StageFacts, ...] = ()
    trials: tuple[Trial, ...] = ()
    started_at: float = 0.0
    """Seconds since the epoch, by this host's clock."""
    schema_version: int = SCHEMA_VERSION

    @property
    def key(self) -> str:
        """What identifies this process among those that met: ``hostname pid``, with its namespace's number."""
        return f"{self.identity.hostname} {self.identity.pid} {self.identity.netns}"


T = TypeVar("T")


class BadFacts(Exception):
    """A facts file or message that is not what it should be; the text says where."""


def encode(value: object) -> bytes:
    """Facts (any dataclass of this module) as one line of JSON."""
    return msgspec.json.encode(value)


def decode(data: bytes, kind: type[T]) -> T:
    """The dataclass ``kind`` back from JSON, every type checked. Raises BadFacts."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise BadFacts(str(err)) from None


@dataclass(frozen=True)
class FactsFile:
    """What ``--save`` writes and ``diagnose`` reads: the facts of one or more processes."""

    facts: tuple[NodeFacts, ...]
    distdoctor: str
    schema_version: int = SCHEMA_VERSION
