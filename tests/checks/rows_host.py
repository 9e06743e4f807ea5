"""Rows about what the nodes must agree on, what they were launched with, and what their hosts allow."""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import (
    AddressChoice,
    Bind,
    InitFile,
    Leftover,
    Limits,
    Link,
    MeshFacts,
    NodeFacts,
    PortHolder,
    RankFacts,
    Resolution,
    SharedMemory,
    TemporaryFolder,
)
from distdoctor.model.plan import PlanProblem
from tests.checks.row import Facts, Row
from tests.facts_builder import (
    PORT,
    alone,
    failing,
    healthy,
    met,
    node,
    outside,
    rank_node,
    waited_in_vain,
    with_gpus,
    with_host,
    with_master,
    with_meeting,
    with_network,
    with_plan,
)

BOTH = ("host0", "host1")
MIB = 1 << 20
ROOMY = SharedMemory(1 << 34, 1 << 34)
LIMITS = Limits(
    open_files=1024,
    open_files_hard=1 << 20,
    locked_memory=8 * MIB,
    shared_memory=ROOMY,
    port_range=(32768, 60999),
    unprivileged_port_start=1024,
)
"""What Linux has unless told otherwise."""


def limited(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts of a host with these limits."""
    return with_host(facts, limits=replace(LIMITS, **changes))


def on(which: tuple[int, ...], of: int = 2, **changes: Any) -> Facts:
    """Healthy nodes, those of the numbers with these limits, the others with the usual ones."""
    return tuple(limited(one, **(changes if n in which else {})) for n, one in enumerate(healthy(of)))


def with_identity(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts of another build or version."""
    return replace(facts, identity=replace(facts.identity, **changes))


def with_variables(facts: NodeFacts, **values: str) -> NodeFacts:
    """The facts with these variables set, too."""
    return replace(facts, variables={**facts.variables, **values})


def with_mesh(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The facts with another mesh."""
    assert facts.mesh is not None
    return replace(facts, mesh=replace(facts.mesh, **changes))


# -- environment ----------------------------------------------------------------------------------------------------


BACKENDS_DIFFER = "environment/rendezvous-backend-mismatch"


def run_ids(*ids: str, backend: str = "c10d") -> Facts:
    facts = healthy(len(ids))
    return tuple(with_plan(one, run_id=run, rdzv_backend=backend) for one, run in zip(facts, ids, strict=True))


def rendezvous(*backends: str) -> Facts:
    """Nodes of one job, each started with that rendezvous backend; an id belongs to c10d, as usual."""
    facts = healthy(len(backends))
    return tuple(
        with_plan(one, rdzv_backend=backend, run_id="none" if backend == "static" else "job7")
        for one, backend in zip(facts, backends, strict=True)
    )


def run_ids_of_three_two_came() -> Facts:
    """The conflict was seen at once, and node 0 did not wait for the third."""
    a, b, _ = healthy(3)
    return met(with_plan(a, run_id="a"), with_plan(b, run_id="b"), expected=3)


def gpu_node(number: int, of: int, ranks: int) -> NodeFacts:
    one = with_plan(with_gpus(node(f"host{number}", number, of=of, nproc=ranks), ranks), sources={})
    return with_identity(one, backends=("gloo", "nccl"), cuda="12.8", nccl="2.27.5")


def uneven_gpus(*counts: int) -> Facts:
    return met(*(gpu_node(n, len(counts), ranks) for n, ranks in enumerate(counts)))


def gpus(count: int = 2) -> Facts:
    return uneven_gpus(*(8 for _ in range(count)))


def cpu_builds(*which: int) -> Facts:
    """--backend nccl, and a CPU build on some nodes: no GPU is seen there, and no NCCL can be made."""
    facts = [with_plan(one, backend="nccl") for one in gpus()]
    for number in which:
        one = with_gpus(facts[number], 0)
        facts[number] = with_identity(one, torch="2.13.0+cpu", backends=("gloo",), cuda=None, nccl=None)
    return tuple(facts)


def mpi() -> Facts:
    return tuple(with_plan(with_identity(one, backends=("gloo",)), backend="mpi") for one in healthy(2))


def versions(**changes: str) -> Facts:
    a, b, c = gpus(3)
    return a, b, with_identity(c, **changes)


def settings(*values: str | None, name: str = "NCCL_IB_DISABLE") -> Facts:
    facts = gpus(len(values))
    return tuple(one if v is None else with_variables(one, **{name: v}) for one, v in zip(facts, values, strict=True))


def lazy_on_one() -> Facts:
    a, b = healthy(2)
    a = failing(a, "gloo", "ended after 8 s: it did not return", killed=True)
    return a, with_variables(failing(b, "gloo", "Connection reset", killed=True), TORCH_GLOO_LAZY_INIT="1")


def old_name(*, nccl: bool) -> Facts:
    return tuple(with_variables(one, NCCL_BLOCKING_WAIT="1") for one in (gpus() if nccl else healthy(2)))


def near(facts: NodeFacts, *names: str) -> NodeFacts:
    return replace(facts, near_misses=names)


def misspelled(name: str, *, nccl: bool = False) -> Facts:
    a, b = gpus() if nccl else healthy(2)
    return a, with_variables(near(b, name), **{name: "eth0"})


def misspelled_master() -> Facts:
    """MASTER_ADR in place of MASTER_ADDR: one root, that it is missing."""
    a, b = (rank_node(f"host{r}", r) for r in range(2))
    b = with_plan(b, master_addr=None, problems=(PlanProblem("MASTER_ADDR", None, "not set"),))
    b = with_meeting(with_network(alone(b), master=None, contact=None), joined=False, ours=None, ended=True)
    return waited_in_vain(a), near(b, "MASTER_ADR")


def misspelled_interface() -> Facts:
    """GLOO_SOCKET_IFNAM, and gloo takes 127.0.1.1."""
    facts = []
    for one in healthy(2):
        own = Resolution(one.identity.hostname, ("127.0.1.1",))
        facts.append(
            near(with_host(one, own_name=own, gloo=AddressChoice("127.0.1.1", "lo", "hostname")), "GLOO_SOCKET_IFNAM")
        )
    return tuple(facts)


NFS = InitFile("/shared/init", False, device=40, filesystem="nfs4")
TMP = InitFile("/tmp/init", False, device=7, filesystem="ext4")


def init_files(*files: InitFile, kernel: str | None = None) -> Facts:
    facts = []
    for one, file in zip(healthy(len(files)), files, strict=True):
        one = with_host(with_plan(one, init_method=f"file://{file.path}"), init_file=file)
        facts.append(with_identity(one, boot_id=kernel) if kernel else one)
    return tuple(facts)


STALE = replace(NFS, exists=True, size=2400, age=9000.0, inode=11)
ENVIRONMENT = [
    Row("c10d and static", lambda: rendezvous("static", "c10d"), BACKENDS_DIFFER, BOTH, blame="one-of", together=True),
    Row("static and 2 c10d", lambda: rendezvous("static", "c10d", "c10d"), BACKENDS_DIFFER, ("host0",), together=True),
    Row("ids differ", lambda: run_ids("a", "b"), "environment/rendezvous-id-mismatch", BOTH, blame="one-of", together=True),
    Row("one id differs", lambda: run_ids("a", "b", "a"), "environment/rendezvous-id-mismatch", ("host1",), together=True),
    Row("one id not given", lambda: run_ids("a", "none", "a", backend="static"), "environment/rendezvous-id-mismatch", ("host1",), together=True),
    Row("ids differ, two of three came", run_ids_of_three_two_came, "environment/rendezvous-id-mismatch", BOTH, blame="one-of", together=True),
    Row("8 and 4 ranks", lambda: uneven_gpus(8, 4), "environment/uneven-ranks", BOTH, "warn", "one-of", together=True),
    Row("8, 8 and 4 ranks", lambda: uneven_gpus(8, 8, 4), "environment/uneven-ranks", ("host2",), "warn", together=True),
    Row("no NCCL on one", lambda: cpu_builds(1), "environment/backend-not-built", ("host1",), together=True),
    Row("no NCCL anywhere", lambda: cpu_builds(0, 1), "environment/backend-not-built", BOTH, together=True),
    Row("no MPI", mpi, "environment/backend-not-built", BOTH, together=True),
    Row("another torch", lambda: versions(torch="2.6.0"), "environment/version-mismatch", ("host2",), "warn", together=True),
    Row("another build", lambda: versions(torch="2.6.0+cu124", cuda="12.4", nccl="2.21.5"), "environment/version-mismatch", ("host2",), "warn", together=True),
    Row("another NCCL", lambda: versions(nccl="2.26.2"), "environment/version-mismatch", ("host2",), "warn", together=True),
    Row("NCCL_IB_DISABLE on one", lambda: settings(None, "1", None), "environment/setting-mismatch", ("host1",), "warn", together=True),
    Row("NCCL_IB_DISABLE on one of two", lambda: settings(None, "1"), "environment/setting-mismatch", BOTH, "warn", "one-of", together=True),
    Row("NCCL_ALGO differs", lambda: settings("Ring", "Tree", "Ring", name="NCCL_ALGO"), "environment/setting-mismatch", ("host1",), "warn", together=True),
    Row("lazy gloo on one", lazy_on_one, "environment/setting-mismatch", BOTH, blame="one-of", together=True),
    Row("NCCL_BLOCKING_WAIT", lambda: old_name(nccl=True), "environment/deprecated-variable", BOTH, "warn", together=True),
    Row("NCCL_BLOCKING_WAIT, no NCCL", lambda: old_name(nccl=False), "environment/deprecated-variable", BOTH, "info", together=True),
    Row("GLOO_SOCKET_IFNAM", lambda: misspelled("GLOO_SOCKET_IFNAM"), "environment/misspelled-variable", ("host1",), "warn", together=True),
    Row("NCCL_SOCKET_IFNAM", lambda: misspelled("NCCL_SOCKET_IFNAM", nccl=True), "environment/misspelled-variable", ("host1",), "warn", together=True),
    Row("NCCL_SOCKET_IFNAM, no NCCL", lambda: misspelled("NCCL_SOCKET_IFNAM"), "environment/misspelled-variable", ("host1",), "info", together=True),
    Row("MASTER_ADR for MASTER_ADDR", misspelled_master, "environment/missing-variable", ("host1",)),
    Row("GLOO_SOCKET_IFNAM and 127.0.1.1", misspelled_interface, "gloo/loopback-address", BOTH, together=True),
    Row("stale init file", lambda: init_files(STALE, STALE), "environment/stale-init-file", BOTH, together=True),
    Row("stale init file, one kernel", lambda: init_files(STALE, STALE, kernel="k"), "environment/stale-init-file", BOTH, together=True),
    Row("init file on local disks", lambda: init_files(TMP, TMP), "environment/init-file-not-shared", BOTH, together=True),
    Row("init file in two containers", lambda: init_files(TMP, replace(TMP, device=8), kernel="k"), "environment/init-file-not-shared", BOTH, together=True),
    Row("stale init file on a local disk", lambda: init_files(TMP, replace(TMP, exists=True, size=9)), "environment/init-file-not-shared", BOTH, together=True),
    Row("init file's folder missing on one", lambda: init_files(NFS, replace(NFS, folder_exists=False, writable=False, device=None)), "environment/init-file-not-shared", ("host1",), together=True),
    Row("init file's folder closed on one", lambda: init_files(NFS, replace(NFS, writable=False)), "environment/init-file-not-shared", ("host1",), together=True),
]  # fmt: skip


# -- host -----------------------------------------------------------------------------------------------------------


def numeric_master() -> Facts:
    a, b = (
        outside(with_master(one, "6841231", resolved=["0.104.99.143"]), "unreachable", errno=113)
        for one in healthy(2, declared=True)
    )
    a, b = (
        with_host(with_identity(one, hostname=name), gloo=AddressChoice("127.0.0.1", "lo", "fallback"))
        for one, name in ((a, "6841231"), (b, "6841232"))
    )
    return with_network(a, bind=Bind(True, PORT)), b


def numeric_own() -> Facts:
    """gloo falls back to 127.0.0.1 with such a name: that is the root."""
    facts = []
    for number in range(2):
        one = node(f"684123{number}", number)
        own = Resolution(one.identity.hostname, (f"0.104.99.14{number}",))
        one = with_host(one, own_name=own, gloo=AddressChoice("127.0.0.1", "lo", "fallback"))
        facts.append(one)
    return met(*facts)


def numeric_nccl() -> Facts:
    """With NCCL alone nothing looks the name up, but what asks for it gets a wrong address."""
    a, b = (with_gpus(with_plan(one, backend="nccl"), 2) for one in healthy(2))
    b = with_host(
        b, own_name=Resolution("6841231", ("0.104.99.143",)), gloo=AddressChoice("127.0.0.1", "lo", "fallback")
    )
    b = replace(b, identity=replace(b.identity, hostname="6841231"))
    strip = tuple(replace(r, stages=()) for r in a.ranks), tuple(replace(r, stages=()) for r in b.ranks)
    return tuple(replace(one, ranks=ranks, stages=one.stages[:2]) for one, ranks in zip((a, b), strip, strict=True))


def nccl_limits(**changes: Any) -> Facts:
    return tuple(limited(one, **(changes if n else {})) for n, one in enumerate(gpus()))


def many_files() -> Facts:
    """gloo ran out of descriptors on one node; the other only saw it go."""
    a, b = on((1,), open_files=24)
    return failing(a, "gloo", "Connection closed by peer"), failing(b, "gloo", "socket: Too many open files")


def files_in_store() -> Facts:
    a, b = on((1,), open_files=16)
    return failing(a, "store", "ended", killed=True), failing(b, "store", "OSError: [Errno 24] Too many open files")


def files_in_mesh() -> Facts:
    """The node had none left to try the link with: no firewall's doing."""
    a, b = on((1,), open_files=16)
    link = Link(a.key, "10.77.0.10", 40000, ("gloo", "primary"), "error", 24)
    return a, replace(b, mesh=MeshFacts(good=0, bad=(link,)))


def no_ports() -> Facts:
    a, b = on((1,), port_range=(50000, 50007))
    return failing(a, "gloo", "Connection closed"), failing(b, "gloo", "connect: Cannot assign requested address")


def ephemeral(port: int, **changes: Any) -> Facts:
    facts = (with_plan(one, master_port=port, sources={"master_port": "--master-port"}) for one in healthy(2))
    return tuple(limited(one, **changes) for one in facts)


def privileged() -> Facts:
    a, b = (
        with_plan(one, master_port=80, sources={"master_port": "--master-port"}) for one in healthy(2, declared=True)
    )
    a, b = limited(outside(a, None)), limited(outside(b, "refused"))
    return with_network(a, bind=Bind(False, 80, 13, "permission denied"), master_is_own=True), b


OLD = Leftover(4711, "python", "", 7200.0, rank="1")


def left(*ones: Leftover) -> Facts:
    a, b = healthy(2)
    return a, with_host(b, leftovers=ones)


def left_on_the_port() -> Facts:
    a, b = healthy(2, declared=True)
    bind = Bind(False, PORT, 98, "in use", (PortHolder("0.0.0.0", 4711, "python", "me"),), None, 29501)
    a = with_network(outside(a, None), bind=bind, master_is_own=True)
    return with_host(a, leftovers=(replace(OLD, ports=(PORT,)),)), outside(b, "open")


def clocks(*offsets: float, backend: str = "static") -> Facts:
    """Nodes whose clocks are so many seconds ahead of node 0's."""
    a, *rest = healthy(len(offsets) + 1)
    rest = [with_mesh(one, clock_offset=-ahead, clock_error=0.01) for one, ahead in zip(rest, offsets, strict=True)]
    return tuple(with_plan(one, rdzv_backend=backend) for one in (a, *rest))


def slow_reverse(*which: int) -> Facts:
    silent = Resolution("10.77.0.10", error="no answer within 4 s", seconds=4.0, timed_out=True)
    return tuple(with_network(one, reverse=silent) if n in which else one for n, one in enumerate(healthy(2)))


def slow_master() -> Facts:
    a, b = healthy(2)
    b = with_master(b, "host0", resolved=["10.77.0.10"])
    return a, with_network(b, master=Resolution("host0", ("10.77.0.10",), seconds=3.1))


def one_node(
    announced: Resolution | None = None, reached: bool | None = None, torch: str = "2.13.0", **plan: Any
) -> Facts:
    """One node alone, started as the bare ``distdoctor check``, whose own name has no address unless told."""
    one = with_identity(with_plan(node("host0", 0, of=1), nnodes=1), torch=torch)
    sources = {
        "nnodes": "default",
        "nproc_per_node": "default",
        "master_addr": "default",
        "master_port": "any free port",
    }
    one = with_plan(one, **{"master_addr": "127.0.0.1", "master_port": 0, "sources": sources, **plan})
    none = Resolution("host0", error="Temporary failure in name resolution")
    return met(with_host(one, own_name=none, announced=announced or none, announced_reached=reached))


def stale_own_name(reached: bool) -> Facts:
    return one_node(Resolution("host0", ("10.9.9.9",)), reached)


def standalone(torch: str = "2.4.0", given: str = "--standalone") -> Facts:
    sources = {"master_addr": given, "master_port": "any free port"}
    return one_node(torch=torch, rdzv_backend="c10d", sources=sources)


def two_nodes_c10d(*announced: Resolution) -> Facts:
    facts = tuple(with_host(one, announced=name) for one, name in zip(healthy(2), announced, strict=True))
    return tuple(with_plan(one, rdzv_backend="c10d") for one in facts)


def no_temporary(number: int, **plan: Any) -> Facts:
    """One node without a folder for temporary files."""
    folder = TemporaryFolder(None, "No usable temporary directory found in ['/tmp', '/']", "/dev/shm")
    facts = tuple(with_plan(one, **plan) for one in healthy(2)) if plan else healthy(2)
    return tuple(with_host(one, temporary=folder) if n == number else one for n, one in enumerate(facts))


HOST = [
    Row("no temporary folder", lambda: no_temporary(1), "host/temporary-folder", ("host1",), together=True),
    Row("own name unknown, one node", one_node, "host/rendezvous-name", ("host0",), together=True),
    Row("own name unknown, standalone, older torch", standalone, "host/rendezvous-name", ("host0",), together=True),
    Row("own name stale, one node", lambda: stale_own_name(False), "host/rendezvous-name", ("host0",), together=True),
    Row("own name unknown, c10d", lambda: two_nodes_c10d(Resolution("host0", error="none"), Resolution("host1", ("10.77.0.11",))), "host/rendezvous-name", ("host0",), together=True),
    Row("MASTER_ADDR is a number", numeric_master, "host/hostname-numeric", ("6841231", "6841232")),
    Row("own names are numbers", numeric_own, "gloo/loopback-address", ("6841230", "6841231"), together=True),
    Row("own name is a number, NCCL", numeric_nccl, "host/hostname-numeric", ("6841231",), "warn", together=True),
    Row("64 MiB", lambda: on((1,), shared_memory=SharedMemory(64 * MIB, 64 * MIB)), "host/shared-memory-small", ("host1",), "warn", together=True),
    Row("64 MiB, NCCL", lambda: nccl_limits(shared_memory=SharedMemory(64 * MIB, 64 * MIB)), "host/shared-memory-small", ("host1",), together=True),
    Row("full", lambda: on((0, 1), shared_memory=SharedMemory(1 << 34, MIB)), "host/shared-memory-small", BOTH, "warn", together=True),
    Row("closed", lambda: on((1,), shared_memory=replace(ROOMY, writable=False)), "host/shared-memory-permission", ("host1",), "warn", together=True),
    Row("closed, NCCL", lambda: nccl_limits(shared_memory=replace(ROOMY, writable=False)), "host/shared-memory-permission", ("host1",), together=True),
    Row("missing", lambda: on((0,), shared_memory=SharedMemory(error="No such file or directory", writable=False)), "host/shared-memory-permission", ("host0",), "warn", together=True),
    Row("16 files", files_in_store, "host/open-files-limit", ("host1",), together=True),
    Row("too many open files", many_files, "host/open-files-limit", ("host1",), together=True),
    Row("no file left for a link", files_in_mesh, "host/open-files-limit", ("host1",), together=True),
    Row("22 files, not tried", lambda: on((1,), open_files=22), "host/open-files-limit", ("host1",), together=True),
    Row("100 files", lambda: on((1,), open_files=100), "host/open-files-limit", ("host1",), "warn", together=True),
    Row("memlock 8 MiB", lambda: nccl_limits(rdma_devices=("mlx5_0",)), "host/locked-memory-limit", ("host1",), "warn", together=True),
    Row("4 ports", lambda: on((1,), port_range=(50000, 50003)), "host/ports-exhaustible", ("host1",), together=True),
    Row("8 ports, and none left", no_ports, "host/ports-exhaustible", ("host1",), together=True),
    Row("20 ports", lambda: on((0, 1), port_range=(50000, 50019)), "host/ports-exhaustible", BOTH, "warn", together=True),
    Row("port 40000", lambda: ephemeral(40000), "host/master-port-ephemeral", ("host0",), "warn", together=True),
    Row("port 80", privileged, "host/port-privileged", ("host0",)),
    Row("a rank of an earlier run", lambda: left(OLD), "host/leftover-processes", ("host1",), "warn", together=True),
    Row("a rank of an earlier run on the port", left_on_the_port, "network/port-in-use", ("host0",)),
    Row("a minute ahead", lambda: clocks(60.0), "host/clock-skew", BOTH, "warn", "one-of", together=True),
    Row("a minute ahead, c10d", lambda: clocks(60.0, backend="c10d"), "host/clock-skew", BOTH, blame="one-of", together=True),
    Row("one of three behind", lambda: clocks(-20.0, 0.1), "host/clock-skew", ("host1",), "warn", together=True),
    Row("node 0 of three behind", lambda: clocks(20.0, 20.2), "host/clock-skew", ("host0",), "warn", together=True),
    Row("reverse look-up dead", lambda: slow_reverse(0, 1), "host/dns-slow", BOTH, "warn", together=True),
    Row("master found after 3 s", slow_master, "host/dns-slow", ("host1",), "warn", together=True),
]  # fmt: skip

ROWS = [*ENVIRONMENT, *HOST]


# -- and what must stay silent ---------------------------------------------------------------------------------------


def reserved() -> Facts:
    return ephemeral(40000, reserved_ports="8080,39990-40010")


def torchruns_port() -> Facts:
    """A free port that torchrun's agent picked, or that it hosts itself."""
    a, b = ephemeral(40000)
    ranks = [
        with_plan(one, started="rank", rank=n, sources={"master_port": "MASTER_PORT"}) for n, one in enumerate((a, b))
    ]
    return tuple(
        replace(with_variables(one, TORCHELASTIC_RUN_ID="none"), ranks=(RankFacts(n, 0, stages=one.ranks[0].stages),))
        for n, one in enumerate(ranks)
    )


def own_settings() -> Facts:
    """What may differ from node to node, and settings of a backend that is not used."""
    a, b = gpus()
    a = with_variables(
        a,
        NCCL_SOCKET_IFNAME="eth0",
        NCCL_IB_HCA="mlx5_0",
        NCCL_DEBUG="INFO",
        NCCL_TOPO_FILE="/a",
        GLOO_SOCKET_IFNAME="eth0",
    )
    return a, with_variables(b, NCCL_SOCKET_IFNAME="ens5", NCCL_IB_HCA="mlx5_1", NCCL_IB_GID_INDEX="3")


HEALTHY = {
    "own name unknown, one node with a port": one_node(master_port=29500, sources={"master_port": "--master-port"}),
    "own name unknown, one node, older torch": one_node(torch="2.12.1+cpu"),
    "own name unknown, one node, no torch yet": one_node(torch=""),
    "own name unknown, one node once per rank": one_node(started="rank", rank=0, nproc_per_node=1, world_size=1),
    "own name forwarded here, one node": stale_own_name(True),
    "own name unknown on the second, c10d": two_nodes_c10d(
        Resolution("host0", ("10.77.0.10",)), Resolution("host1", error="none")
    ),
    "usual limits": on((0, 1)),
    "usual limits, 8 nodes": on((), of=8),
    "MASTER_PORT reserved": reserved(),
    "MASTER_PORT of torchrun": torchruns_port(),
    "default port in a wide range": tuple(limited(one, port_range=(1024, 65535)) for one in healthy(2)),
    "one rendezvous id": run_ids("a", "a"),
    "c10d everywhere": rendezvous("c10d", "c10d", "c10d"),
    "own settings per node": own_settings(),
    "NCCL's settings without NCCL": (healthy(2)[0], with_variables(healthy(2)[1], NCCL_IB_DISABLE="1")),
    "shared init file": init_files(NFS, NFS),
    "empty init file": init_files(replace(NFS, exists=True, inode=2), replace(NFS, exists=True, inode=2)),
    "init file, one kernel": init_files(TMP, TMP, kernel="k"),
    "clocks a little apart": clocks(1.5, -2.0),
    "a name found after a second": tuple(
        with_network(one, reverse=Resolution("10.77.0.10", ("host0",), seconds=0.9)) for one in healthy(2)
    ),
    "no reverse name": tuple(
        with_network(one, reverse=Resolution("10.77.0.10", error="Name or service not known")) for one in healthy(2)
    ),
    "root on port 80": tuple(
        limited(with_plan(one, master_port=80, sources={"master_port": "--master-port"}), may_bind_privileged=True)
        for one in healthy(2)
    ),
    "the right name and a wrong one": tuple(
        with_variables(near(one, "GLOO_SOCKET_IFNAM"), GLOO_SOCKET_IFNAME="eth0") for one in healthy(2)
    ),
    "unlimited": on((0, 1), open_files=-1, locked_memory=-1, rdma_devices=("mlx5_0",)),
}  # fmt: skip
"""Shapes in which none of these checks has anything to say."""
