"""Facts: what the probes saw, as plain data that survives a round trip through JSON.

One :class:`NodeFacts` is what one started ``distdoctor`` process saw: a whole node where it was started once per
node, one rank of it where it was started once per rank (``distdoctor.model.cluster`` puts those together again).
Nothing here judges: a fact is a value that was read, a call that was made and how it ended.

All times are in seconds. ``None`` means "not looked at" or "could not be known", and the field's text says which.
"""

from distdoctor.model.calls import CallOutcome, HostCall, Way
from distdoctor.model.facts.account import Account
from distdoctor.model.facts.codec import BadFacts, FactsFile, decode, encode
from distdoctor.model.facts.firewall import Firewall, FirewallChain, PacketMark, ShutPort
from distdoctor.model.facts.gpu import (
    NOT_ASKED,
    AmdFacts,
    Device,
    DeviceProcess,
    DriverFacts,
    DriverFile,
    GpudState,
    PeerCopies,
)
from distdoctor.model.facts.host import (
    AddressChoice,
    BuildLock,
    Folder,
    HostFacts,
    HostsLine,
    Identity,
    InitFile,
    Interface,
    Leftover,
    Resolution,
    SharedFolder,
    TemporaryFolder,
)
from distdoctor.model.facts.job import Frame, Given, JobFacts, JobProcess, JobThread, Moved, Socket
from distdoctor.model.facts.job_debug import RasView, RecordedCall, RecorderView, WorkerServer
from distdoctor.model.facts.job_store import AgentView, GroupView, Member, RendezvousView, StoreState, StoreView
from distdoctor.model.facts.kernel import KernelLine
from distdoctor.model.facts.limits import Limits, SharedMemory
from distdoctor.model.facts.mesh import MAX_RATES, ROW_MOST, SAMPLED_PORTS, Link, LinkRate, LinkRow, MeshFacts
from distdoctor.model.facts.network import (
    Answer,
    AnswerKind,
    Bind,
    ConnectOutcome,
    Contact,
    Elsewhere,
    HardwareAddress,
    Neighbour,
    NeighbourState,
    NeighbourTable,
    NetworkFacts,
    OtherWay,
    PolicyRule,
    PortHolder,
    Route,
    TableRoute,
)
from distdoctor.model.facts.node import SCHEMA_VERSION, MeetingFacts, NodeFacts, SmallerGroup, StageFacts, Trial
from distdoctor.model.facts.ranks import Gpu, GpuFacts, NcclLog, RankFacts, RankStage, StageStatus, Work
from distdoctor.model.facts.rdma import Gid, RdmaFacts, RdmaPort, TopologyFile
from distdoctor.model.facts.torch import NcclLibrary, Shadow, TorchFailure

__all__ = [
    "MAX_RATES",
    "NOT_ASKED",
    "ROW_MOST",
    "SAMPLED_PORTS",
    "SCHEMA_VERSION",
    "Account",
    "AddressChoice",
    "AgentView",
    "AmdFacts",
    "Answer",
    "AnswerKind",
    "BadFacts",
    "Bind",
    "BuildLock",
    "CallOutcome",
    "ConnectOutcome",
    "Contact",
    "Device",
    "DeviceProcess",
    "DriverFacts",
    "DriverFile",
    "Elsewhere",
    "FactsFile",
    "Firewall",
    "FirewallChain",
    "Folder",
    "Frame",
    "Gid",
    "Given",
    "Gpu",
    "GpuFacts",
    "GpudState",
    "GroupView",
    "HardwareAddress",
    "HostCall",
    "HostFacts",
    "HostsLine",
    "Identity",
    "InitFile",
    "Interface",
    "JobFacts",
    "JobProcess",
    "JobThread",
    "KernelLine",
    "Leftover",
    "Limits",
    "Link",
    "LinkRate",
    "LinkRow",
    "MeetingFacts",
    "Member",
    "MeshFacts",
    "Moved",
    "NcclLibrary",
    "NcclLog",
    "Neighbour",
    "NeighbourState",
    "NeighbourTable",
    "NetworkFacts",
    "NodeFacts",
    "OtherWay",
    "PacketMark",
    "PeerCopies",
    "PolicyRule",
    "PortHolder",
    "RankFacts",
    "RankStage",
    "RasView",
    "RdmaFacts",
    "RdmaPort",
    "RecordedCall",
    "RecorderView",
    "RendezvousView",
    "Resolution",
    "Route",
    "Shadow",
    "SharedFolder",
    "SharedMemory",
    "ShutPort",
    "SmallerGroup",
    "Socket",
    "StageFacts",
    "StageStatus",
    "StoreState",
    "StoreView",
    "TableRoute",
    "TemporaryFolder",
    "TopologyFile",
    "TorchFailure",
    "Trial",
    "Way",
    "Work",
    "WorkerServer",
    "decode",
    "encode",
]
