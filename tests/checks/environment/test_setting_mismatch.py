"""environment/setting-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from distdoctor.model.facts import NcclLog, NodeFacts
from tests.checks.nccl.test_init_failed import searched
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters import rdma_nodes
from tests.clusters.gpus import gpus
from tests.clusters.interfaces import interfaces
from tests.clusters.launch import per_rank
from tests.clusters.rdma_nodes import with_nccl
from tests.facts_builder import failing, healthy, judged, with_gpus, with_identity, with_variables

CHECK = "environment/setting-mismatch"


def settings(*values: str | None, name: str = "NCCL_IB_DISABLE") -> Facts:
    facts = gpus(len(values))
    return tuple(one if v is None else with_variables(one, **{name: v}) for one, v in zip(facts, values, strict=True))


def in_a_file(*values: str | None) -> Facts:
    """NCCL_IB_DISABLE, on node 1 from a file that NCCL reads."""
    facts = list(settings(*values))
    facts[1] = replace(facts[1], variable_files={"NCCL_IB_DISABLE": "/etc/nccl.conf"})
    return tuple(facts)


def lazy_on_one() -> Facts:
    a, b = healthy(2)
    a = failing(a, "gloo", "ended after 8 s: it did not return", killed=True)
    return a, with_variables(failing(b, "gloo", "Connection reset", killed=True), TORCH_GLOO_LAZY_INIT="1")


def own_settings() -> Facts:
    """Return what may differ from node to node, and settings of a backend that is not used."""
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


def roots_of_nccl(*values: str | None, failed: bool = True) -> Facts:
    """TORCH_NCCL_RANKS_PER_ROOT on each node of 8 ranks, and whether NCCL's group came to nothing."""
    facts = settings(*values, name="TORCH_NCCL_RANKS_PER_ROOT")
    lost = "DistBackendError: wait timeout after 30212ms, keys: /nccl/0"
    return tuple(failing(one, "nccl", lost) for one in facts) if failed else facts


IDENTICAL = "TORCH_ELASTIC_WORKER_IDENTICAL"


def older_torch(*facts: NodeFacts) -> Facts:
    return tuple(with_identity(one, torch="2.5.1+cu121") for one in facts)


TORCHCOMMS = "TORCH_DISTRIBUTED_USE_TORCHCOMMS"
DEBUG, BARRIER, IFNAME = "TORCH_DISTRIBUTED_DEBUG", "TORCH_DIST_INIT_BARRIER", "GLOO_SOCKET_IFNAME"


def set_on(name: str, *values: str | None, gpus: int = 0, failed: bool = False) -> Facts:
    """The variable on each node (None: not set); ``failed``: gloo then failed, too."""
    facts = []
    for one, value in zip(healthy(len(values)), values, strict=True):
        one = with_gpus(one, gpus) if gpus else one
        one = replace(one, variables={**one.variables, name: value}) if value is not None else one
        facts.append(failing(one, "gloo", "ended after 8 s: it did not return", killed=True) if failed else one)
    return tuple(facts)


def off_on_one() -> Facts:
    """Three nodes with RoCE ports, one of which is kept from them."""
    return rdma_nodes.several({}, {}, {}, variables=({}, {"NCCL_IB_DISABLE": "1"}, {}))


def of_nccl(name: str, *values: str | None, stage: str = "nccl", warned: str = "") -> Facts:
    """The setting on each node (None: not set), and NCCL's group or a collective then failed on all."""
    facts = []
    for one in settings(*values, name=name):
        one = failing(one, stage, "ended after 60 s: it did not return", killed=True)
        log = NcclLog("2.27.5", warnings=(warned,)) if warned else None
        facts.append(replace(one, ranks=tuple(replace(rank, nccl=log) for rank in one.ranks)))
    return tuple(facts)


def version_of_roce(*values: str | None) -> Facts:
    """Nodes with RoCE ports, and the version of it that NCCL is told to take."""
    variables = [{} if value is None else {"NCCL_IB_ROCE_VERSION_NUM": value} for value in values]
    return rdma_nodes.several(*({} for _ in values), variables=variables)


NO_INTERFACE = "misc/socket.cc:487 NCCL WARN Bootstrap : no socket interface found"

ROWS = [
    Row("roots of NCCL on one", lambda: roots_of_nccl("1", None, None), ("host0",), together=True),
    Row(
        "roots of NCCL on one, and it ran",
        lambda: roots_of_nccl("1", None, None, failed=False),
        ("host0",),
        "warn",
        together=True,
    ),
    Row(
        "an algorithm on one, and NCCL failed",
        lambda: of_nccl("NCCL_ALGO", None, "Ring", None),
        ("host1",),
        together=True,
    ),
    Row(
        "a protocol on one, and a collective failed",
        lambda: of_nccl("NCCL_PROTO", None, None, "Simple", stage="collective"),
        ("host2",),
        together=True,
    ),
    Row(
        "buffers on one of two", lambda: of_nccl("NCCL_BUFFSIZE", None, "8388608"), BOTH, blame="one-of", together=True
    ),
    *(
        Row(f"{name} on one of three", partial(settings, None, "65536", None, name=name), ("host1",), together=True)
        for name in ("NCCL_LL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_CHUNK_SIZE")
    ),
    Row("another version of RoCE on one", lambda: version_of_roce(None, "1", None), ("host1",), together=True),
    Row(
        "P2P switched off on one",
        lambda: settings(None, "1", None, name="NCCL_P2P_DISABLE"),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("NCCL_IB_DISABLE in a file on one", lambda: in_a_file(None, "1", None), ("host1",), "warn", together=True),
    Row("NCCL_IB_DISABLE on one", lambda: settings(None, "1", None), ("host1",), "warn", together=True),
    Row("NCCL_IB_DISABLE on one of two", lambda: settings(None, "1"), BOTH, "warn", "one-of", together=True),
    Row("where the others have RDMA", off_on_one, ("host1",), together=True),
    Row("the same, and NCCL made its group", lambda: with_nccl(off_on_one()), ("host1",), "warn", together=True),
    Row(
        "NCCL_ALGO differs",
        lambda: settings("Ring", "Tree", "Ring", name="NCCL_ALGO"),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("lazy gloo on one", lazy_on_one, BOTH, blame="one-of", together=True),
    Row("DETAIL on one", lambda: set_on(DEBUG, None, "DETAIL"), BOTH, blame="one-of", together=True),
    Row("detail on one of three", lambda: set_on(DEBUG, None, "INFO", "detail"), ("host2",), together=True),
    Row("DETAIL on one, nccl", lambda: set_on(DEBUG, "DETAIL", None, None, gpus=2), ("host0",), together=True),
    Row("TorchComms on one", lambda: set_on(TORCHCOMMS, None, "1", None), ("host1",), "warn", together=True),
    Row("a barrier after init on one", lambda: set_on(BARRIER, None, "1", None), ("host1",), together=True),
    Row(
        "ranks as numbers on one, and gloo failed",
        lambda: set_on("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", None, "1", None, failed=True),
        ("host1",),
        together=True,
    ),
    Row(
        "ranks as numbers on one",
        lambda: set_on("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", None, "1", None),
        ("host1",),
        "warn",
        together=True,
    ),
    Row(
        "TLS on one",
        lambda: set_on("GLOO_DEVICE_TRANSPORT", None, "TCP_TLS", "TCP", failed=True),
        ("host1",),
        together=True,
    ),
    Row("ranks counted alone on one", lambda: set_on(IDENTICAL, None, "1"), BOTH, blame="one-of", together=True),
    Row("ranks counted alone but on one", lambda: set_on(IDENTICAL, "1", "0", "1"), ("host1",), together=True),
    Row("two interfaces on one", lambda: interfaces("eth0", "eth0,eth1"), BOTH, blame="one-of", together=True),
    Row(
        "two interfaces on two of three", lambda: interfaces("eth0,eth1", "eth1,eth0", None), ("host2",), together=True
    ),
]

LOOK_ALIKES = [
    LookAlike("one root, said on one", lambda: roots_of_nccl("64", None, "1000", failed=False)),
    LookAlike("roots that are none", lambda: roots_of_nccl("0", None, failed=False)),
    LookAlike("patience of InfiniBand", lambda: settings(None, "22", None, name="NCCL_IB_TIMEOUT")),
    LookAlike("retries of InfiniBand", lambda: settings(None, "13", None, name="NCCL_IB_RETRY_CNT")),
    LookAlike("the usual buffers, written out on one", lambda: settings(None, "4194304", None, name="NCCL_BUFFSIZE")),
    LookAlike("the usual chunks", lambda: settings(None, "0x20000", None, name="NCCL_P2P_NET_CHUNKSIZE")),
    LookAlike("one whose calls do not block", lambda: set_on("TORCH_NCCL_USE_COMM_NONBLOCKING", "1", None, gpus=2)),
    LookAlike("an algorithm in small letters on one", lambda: settings("Ring,Tree", "tree,ring", name="NCCL_ALGO")),
    LookAlike("the same left out", lambda: settings("^LL,LL128", "^ll128,LL", name="NCCL_PROTO")),
    LookAlike("writes in another order", lambda: settings(None, "1", None, name="NCCL_IB_PCI_RELAXED_ORDERING")),
    LookAlike("InfiniBand said not to be off", lambda: settings(None, "0", None)),
    LookAlike("the usual version of RoCE on one", lambda: version_of_roce(None, "2", None)),
    LookAlike("own settings per node", own_settings),
    LookAlike(
        "NCCL's settings without NCCL", lambda: (healthy(2)[0], with_variables(healthy(2)[1], NCCL_IB_DISABLE="1"))
    ),
    LookAlike("INFO on one", lambda: set_on(DEBUG, "INFO", None)),
    LookAlike("DETAIL everywhere, spelled differently", lambda: set_on(DEBUG, "DETAIL", "detail")),
    LookAlike("no TorchComms, in words", lambda: set_on(TORCHCOMMS, "0", None)),
    LookAlike("a barrier that is not made", lambda: set_on(BARRIER, "0", None)),
    LookAlike("lazy said not to be", lambda: set_on("TORCH_GLOO_LAZY_INIT", "0", None)),
    LookAlike("lazy, spelled differently", lambda: set_on("TORCH_GLOO_LAZY_INIT", "1", "true")),
    LookAlike("the usual transport named on one", lambda: set_on("GLOO_DEVICE_TRANSPORT", "TCP", None)),
    LookAlike("no connection retries on one", lambda: set_on("GLOO_DISABLE_CONNECTION_RETRIES", "1", None)),
    LookAlike("another store API on one", lambda: set_on("GLOO_ENABLE_STORE_V2_API", "1", None)),
    LookAlike(
        "a timeout of NCCL's watchdog on one", lambda: set_on("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "60", None, gpus=2)
    ),
    LookAlike("checks of NCCL on one", lambda: set_on("NCCL_CHECK_POINTERS", "1", None, gpus=2)),
    LookAlike("ranks counted alone on all", lambda: set_on(IDENTICAL, "1", "1")),
    LookAlike("ranks said not to be counted alone", lambda: set_on(IDENTICAL, "0", None)),
    LookAlike("no switch: true", lambda: set_on(IDENTICAL, "true", None)),
    LookAlike("a torch that does not ask", lambda: older_torch(*set_on(IDENTICAL, "1", None))),
    LookAlike("ranks by hand", lambda: (with_variables(per_rank()[0], **{IDENTICAL: "1"}), per_rank()[1])),
    LookAlike("two interfaces on both", lambda: interfaces("eth0,eth1", "eth1,eth0")),
    LookAlike("the usual interface named on one", lambda: interfaces("eth0", None)),
]

CURES = [
    Cure(
        "a line of a file is removed",
        lambda: in_a_file(None, "1", None),
        {"host1": {"commands": ("sed -i '/^NCCL_IB_DISABLE=/d' /etc/nccl.conf",)}},
        only=True,
    ),
    Cure(
        "the environment wins over the file",
        lambda: in_a_file("0", "1", "0"),
        {"host1": {"env": {"NCCL_IB_DISABLE": "0"}}},
        only=True,
    ),
    Cure("the usual setting", lambda: settings(None, "1", None), {"host1": {"env": {"NCCL_IB_DISABLE": None}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def severities(facts: Facts) -> dict[str, str | None]:
    return {one.check: one.severity for one in judged(*facts).roots}


def test_what_nccl_itself_says_of_another_cause_is_not_put_down_to_a_setting() -> None:
    said = severities(of_nccl("NCCL_ALGO", None, "Ring", warned=NO_INTERFACE))
    assert said == {CHECK: "warn", "nccl/interface-not-found": "fail"}


def smaller_groups(*passed: tuple[str, bool]) -> dict[str, str | None]:
    """Return what is said of three nodes, of which host1 has an algorithm of its own, after these groups were tried."""
    facts = searched(*passed)
    return severities(tuple(with_variables(one, NCCL_ALGO="Ring") if n == 1 else one for n, one in enumerate(facts)))


def test_smaller_groups_that_accuse_another_node_are_not_put_down_to_a_setting() -> None:
    alike = [("0", True), ("1", True), ("2", True)]
    assert smaller_groups(*alike, ("01", False), ("12", False), ("02", True)) == {CHECK: "fail"}
    said = smaller_groups(*alike, ("01", True), ("12", False), ("02", False))
    assert said == {CHECK: "warn", "nccl/init-failed": "fail"}
    assert smaller_groups(("0", True), ("1", False), ("2", True)) == {CHECK: "warn", "nccl/init-failed": "fail"}


def test_what_a_node_does_within_itself_is_not_why_others_fail() -> None:
    said = severities(of_nccl("NCCL_P2P_DISABLE", None, "1", None))
    assert said == {CHECK: "warn", "nccl/init-failed": "fail"}


def of_shell(**shell: str) -> Facts:
    """Return nodes whose Ray workers lack these settings of the shell."""
    return tuple(replace(one, plan=replace(one.plan, shell=shell)) for one in healthy(2))


def test_a_setting_of_the_shell_that_rays_workers_lack() -> None:
    (finding,) = judged(*of_shell(NCCL_IB_DISABLE="1", UCX_TLS="")).roots
    assert (finding.check, finding.severity, finding.nodes) == (CHECK, "warn", ("host0", "host1"))
    assert finding.summary.startswith(
        "NCCL_IB_DISABLE and UCX_TLS are set in this shell, and not so in the Ray workers"
    )
    assert '"env_vars": {"NCCL_IB_DISABLE": "1"}' in finding.fixes[0].text
    assert severities(of_shell(MASTER_ADDR="10.0.0.1", VLLM_USE_V1="")) == {CHECK: "info"}
    assert severities(of_shell()) == {}
