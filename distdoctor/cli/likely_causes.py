"""Error messages that many failures share: their likely causes, each with the command that confirms it.

The titles come from the catalogue. The order is that of the public reports in tests/logs/reports, where these have the
message and a known cause (tests/cli/test_messages.py compares them).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from distdoctor.judge.catalog import Check
from distdoctor.model.findings import PossibleCause
from distdoctor.render.check_page import messages


@dataclass(frozen=True)
class Cause:
    """One likely cause of a message."""

    check: str
    command: str
    """May name {host} and {port}: the remote side in the message, else node 0 of the job."""
    confirmed: str
    """The result of the command that confirms this cause."""


@dataclass(frozen=True)
class Symptom:
    """A message that several failures share."""

    name: str
    pattern: str
    causes: tuple[Cause, ...]
    """The likeliest first."""
    proves: str = ""
    """The check that the message proves, and whose cause it leaves open."""
    first: str = ""
    """Step to take before anything in the list."""


NAMES_FIRST = ("distdoctor diagnose LOGS...", "it names the rank that ended first")
_PEER = Cause("process/peer-died", *NAMES_FIRST)
_RANK0 = Cause("process/rank0-died", "distdoctor diagnose LOGS...", "rank 0 or its host ended first")
_FILTERED = Cause("network/port-filtered", "nc -zvw 3 {host} {port}", "it times out")
_BLOCKED = Cause("mesh/peer-ports-blocked", "distdoctor check --until mesh", "start it as the job: this check fails")
_INTERFACE = Cause("network/wrong-interface", "ip route get {host}", "another interface than the job's")
_NOT_NODE0 = Cause(
    "network/master-not-node0", "getent ahosts {master}; ip -brief address", "node 0 has no such address"
)
_MISSING = Cause("store/nodes-missing", "distdoctor check --until store", "start it as the job: a node does not join")
_OOM = Cause(
    "process/killed-by-oom", "journalctl -k --since -1d | grep -i -e oom -e 'out of memory'", "it names the process"
)
_SCHEDULER = Cause(
    "process/killed-by-scheduler", "sacct -j JOBID --format=JobID,State,ExitCode", "TIMEOUT, CANCELLED or PREEMPTED"
)
_SHM = Cause("host/shared-memory-small", "df -h /dev/shm", "a few MB, or nearly full")
_IFNAME = Cause("nccl/interface-not-found", "echo $NCCL_SOCKET_IFNAME; ip -brief address", "no such interface")
_RANK_MISSING = Cause("collective/rank-missing", "distdoctor hang", "during the hang: it names the missing rank")
_P2P = Cause("nccl/p2p-broken", "NCCL_P2P_DISABLE=1 COMMAND", "the job runs with it")
_CRASHED = Cause("process/crashed", "PYTHONFAULTHANDLER=1 COMMAND", "it prints the Python line of the crash")
_EXCEPTION = Cause("process/exception", "distdoctor diagnose LOGS...", "a traceback comes before the signal")
_IB_LINK = Cause("nccl/infiniband-link", "rdma link", "a port is not ACTIVE")
_IB_PEER = Cause("nccl/infiniband-unreachable", "NCCL_IB_DISABLE=1 COMMAND", "the job runs with it")
_SSH = Cause("launch/ssh-unreachable", "ssh -o BatchMode=yes {host} true", "it fails")

SYMPTOMS = (
    Symptom(
        "a collective timed out",
        r"watchdog caught collective|collective operation timeout",
        (
            _RANK_MISSING,
            Cause("collective/slow-rank", "distdoctor hang --watch", "during the wait: one rank computes"),
            Cause("collective/mismatch", "TORCH_DISTRIBUTED_DEBUG=DETAIL COMMAND", "it names ranks that differ"),
            _PEER,
            _P2P,
        ),
    ),
    Symptom(
        "NCCL: unhandled system error",
        r"unhandled system error|ncclSystemError",
        (
            _INTERFACE,
            _SHM,
            Cause("host/locked-memory-limit", "ulimit -l", "less than unlimited, with InfiniBand or RoCE"),
            Cause("nccl/rdma-device-missing", "ls /dev/infiniband", "missing in the container"),
            _IFNAME,
        ),
        first="Run the job once with NCCL_DEBUG=WARN: the line before the error names the call that failed.",
    ),
    Symptom(
        "NCCL: unhandled cuda error",
        r"unhandled cuda error|ncclUnhandledCudaError",
        (
            _P2P,
            Cause("nccl/cumem-host", "NCCL_CUMEM_HOST_ENABLE=0 COMMAND", "the job runs with it"),
            Cause("nccl/nvls-fabric-manager", "NCCL_NVLS_ENABLE=0 COMMAND", "the job runs with it"),
            Cause("nccl/driver-too-old", "nvidia-smi", "its CUDA version is below that of torch.version.cuda"),
            Cause("gpu/fabric-manager-not-running", "systemctl status nvidia-fabricmanager", "it does not run"),
        ),
        first="Run the job once with NCCL_DEBUG=WARN: the line before the error names the call that failed.",
    ),
    Symptom("NCCL: remote error", r"ncclRemoteError|remote process exited", (_PEER, _IB_LINK, _IB_PEER, _OOM)),
    Symptom(
        "NCCL: internal error",
        r"ncclInternalError",
        (_IFNAME, Cause("nccl/topo-file-bad", "env | grep -e NCCL_TOPO -e NCCL_GRAPH", "it names a file")),
    ),
    Symptom(
        "NCCL: invalid usage",
        r"ncclInvalidUsage",
        (Cause("nccl/duplicate-gpu", "echo $CUDA_VISIBLE_DEVICES", "two ranks of a node see the same device"), _IFNAME),
    ),
    Symptom(
        "address already in use",
        r"address already in use|EADDRINUSE",
        (
            Cause("network/port-in-use", 'ss -ltnp "sport = :{port}"', "it names the process that has the port"),
            Cause("host/ports-exhaustible", "sysctl net.ipv4.ip_local_port_range", "only a few hundred ports"),
            Cause("host/leftover-processes", "ps -eo pid,user,lstart,args | grep -i torch", "ranks of an earlier run"),
            Cause("environment/duplicate-rank", "echo $RANK $NODE_RANK", "two nodes print the same"),
        ),
        proves="network/port-in-use",
    ),
    Symptom(
        "a process was killed (signal 9)",
        r"exit ?code *:? *-9\b|exit(?:ed with)?(?: exit)? (?:code|status) 137|SIGKILL|signal 9\b|\bkilled\b",
        (
            _OOM,
            _SHM,
            _SCHEDULER,
            replace(_PEER, confirmed="another rank failed first; the launcher killed this one"),
            Cause("host/memory-limit", "cat /sys/fs/cgroup/memory.events", "oom_kill is above 0"),
        ),
    ),
    Symptom(
        "a process was terminated (signal 15)",
        r"exit ?code *:? *-15\b|SIGTERM|signal 15\b",
        (
            _EXCEPTION,
            replace(_CRASHED, command="distdoctor diagnose LOGS...", confirmed="another rank crashed first"),
            _OOM,
            _SCHEDULER,
        ),
    ),
    Symptom(
        "a process crashed (signal 11)",
        r"segmentation fault|SIGSEGV|exit ?code *:? *-11\b|signal 11\b",
        (
            _CRASHED,
            Cause("environment/nccl-library-shadowed", "echo $LD_LIBRARY_PATH $LD_PRELOAD", "it leads to a libnccl"),
            Cause("gpu/hardware", "dmesg -T | grep -i xid", "an Xid error at that time"),
        ),
        proves="process/crashed",
    ),
    Symptom("bus error", r"bus error|SIGBUS|exit ?code *:? *-7\b", (_SHM, _CRASHED)),
    Symptom(
        "CUDA out of memory",
        r"cuda out of memory|out ?of ?memory ?error",
        (
            Cause("gpu/out-of-memory", "nvidia-smi", "this rank alone fills the GPU: use a smaller batch"),
            Cause(
                "gpu/shared-device",
                "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",
                "two ranks of the job have one gpu_uuid",
            ),
            Cause(
                "host/leftover-processes",
                "nvidia-smi --query-compute-apps=pid --format=csv,noheader | xargs -n1 ps -o pid,user,lstart,args -p",
                "a process of an earlier run",
            ),
        ),
        proves="gpu/out-of-memory",
    ),
    Symptom(
        "connection refused",
        r"connection refused|ECONNREFUSED",
        (
            Cause("gloo/loopback-address", 'getent ahostsv4 "$(hostname)"', "127.x on a node of several"),
            _PEER,
            _BLOCKED,
            _INTERFACE,
            _SSH,
            Cause("network/port-refused", 'ss -ltn "sport = :{port}"', "on the remote node: nothing listens"),
        ),
    ),
    Symptom(
        "no route to host",
        r"no route to host|EHOSTUNREACH",
        (
            replace(_BLOCKED, command="sudo nft list ruleset | grep -i reject", confirmed="on {host}: a reject rule"),
            Cause("network/port-rejected", "nc -zvw 3 {host} {port}", "it fails at once, and ping works"),
            Cause("network/no-route", "ip route get {host}", "unreachable"),
            Cause("network/master-unreachable", "ping -c 1 {host}", "no answer: {host} is down"),
        ),
    ),
    Symptom(
        "the connection was closed by the other side",
        r"broken pipe|EPIPE\b|connection (?:was )?(?:reset|closed)(?: by (?:peer|remote host))?|ECONNRESET",
        (
            _PEER,
            _RANK0,
            replace(_CRASHED, command="distdoctor diagnose LOGS...", confirmed="another rank crashed first"),
            _OOM,
            Cause("network/service-mesh", "kubectl get pod POD -o jsonpath='{{..image}}'", "a sidecar, such as istio"),
        ),
    ),
    Symptom(
        "a name has no address",
        r"name or service not known|temporary failure in name resolution|EAI_NONAME|gaierror",
        (
            Cause("network/master-unresolvable", "getent ahosts {master}", "it prints nothing"),
            Cause("host/hostname-unresolvable", 'getent ahosts "$(hostname)"', "it prints nothing"),
            _SSH,
        ),
    ),
    Symptom("the rendezvous failed", r"Rendezvous\w*Error", (_NOT_NODE0, _MISSING, _FILTERED)),
    Symptom(
        "torch could not set up its connections",
        r"DistNetworkError|DistStoreError",
        (
            Cause("network/port-in-use", 'ss -ltnp "sport = :{port}"', "on node 0: another process has the port"),
            _RANK0,
            _NOT_NODE0,
            _FILTERED,
            _INTERFACE,
        ),
    ),
    Symptom(
        "a connection timed out",
        r"(?:connect|socket|store|wait)\w*\b.{0,100}\btimed?[ -]?out|\btimed?[ -]?out\b.{0,100}connect|ETIMEDOUT",
        (
            _MISSING,
            _NOT_NODE0,
            _FILTERED,
            Cause("environment/world-size-mismatch", "echo $NNODES $WORLD_SIZE", "nodes print different numbers"),
            _RANK0,
        ),
    ),
    Symptom(
        "something timed out",
        r"timed?[ -]?out|ETIMEDOUT",
        (_RANK_MISSING, _MISSING, _PEER, _RANK0, _NOT_NODE0, _FILTERED),
    ),
)
"""The more specific ones first: the first that matches counts."""

REMOTE = re.compile(
    r"\[(?P<v6>[0-9A-Fa-f.:]+)\]:(?P<port6>\d{1,5})\b"
    r"|\((?P<name>[\w.-]+), (?P<port_of_name>\d{2,5})\)"
    r"|\b(?P<v4>\d{1,3}(?:\.\d{1,3}){3})(?:[:<](?P<port4>\d{1,5}))?"
)
"""The remote side of a connection, as gloo, c10d and NCCL write it."""
MASTER, PORT = '"$MASTER_ADDR"', "${MASTER_PORT:-29500}"


def symptom_of(text: str) -> Symptom | None:
    """Return the symptom that the message shows, None for a message of no known kind."""
    return next((symptom for symptom in SYMPTOMS if re.search(symptom.pattern, text, re.IGNORECASE)), None)


def candidates_of(symptom: Symptom, text: str, judged: Sequence[PossibleCause] = ()) -> tuple[PossibleCause, ...]:
    """Return the causes of ``symptom`` as candidates: first those that diagnose names for the message, too."""
    match = REMOTE.search(text)
    values = {name: value for name, value in match.groupdict().items() if value} if match else {}
    host = values.get("v6") or values.get("name") or values.get("v4")
    port = values.get("port6") or values.get("port_of_name") or values.get("port4")
    places = {"host": host or MASTER, "port": port or PORT, "master": values.get("name") or MASTER}
    likely = {check.check for check in judged}
    causes = sorted(symptom.causes, key=lambda cause: cause.check not in likely)
    explained = [
        PossibleCause(
            check=cause.check,
            why=f"the message says: {symptom.name}",
            against="other failures cause the same message",
            next=cause.confirmed.format(**places),
            command=cause.command.format(**places),
        )
        for cause in causes
    ]
    known = {cause.check for cause in symptom.causes}
    return (*explained, *(check for check in judged if check.check not in known))


def similar(text: str, checks: Sequence[Check]) -> list[Check]:
    """Return the checks whose messages share rare words with ``text``, the nearest first."""
    wanted = _words(text)
    words = {check.id: _words(" ".join((*messages(check), check.title))) for check in checks}
    frequency: Mapping[str, int] = {word: sum(word in own for own in words.values()) for word in wanted}
    scores = {
        check.id: sum(1 / frequency[word] for word in wanted & words[check.id] if frequency[word] <= len(checks) / 20)
        for check in checks
    }
    near = sorted((check for check in checks if scores[check.id] >= 0.5), key=lambda check: -scores[check.id])
    return near[:3]


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z_]{5,}", text.lower()) if word not in _COMMON}


_COMMON = {"error", "failed", "could", "cannot", "python", "torch", "runtimeerror", "there", "which", "where", "their"}
