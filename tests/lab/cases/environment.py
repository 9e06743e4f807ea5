"""The table, stage environment: settings and installations that do not fit."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases.common import BOTH, NCCL_HOST, SMALL_SHM, TWO_NETWORKS
from tests.lab.faults import inside, together
from tests.lab.faults.host import no_locks, shared_memory
from tests.lab.faults.installed import (
    NO_CUDA,
    older_nccl,
    on_pythonpath,
    other_version,
    torch_installed,
    torch_removed,
    usual_installation,
)
from tests.lab.faults.launch import (
    INIT_FILE,
    by_hand,
    c10d,
    c10d_on,
    existing_folder,
    flag,
    in_working_folder,
    pods_alone,
    shared_file,
    shell,
    variable,
    working_folder_deleted,
)
from tests.lab.harness.case import Case, Root, patient

BACKENDS_DIFFER = "environment/rendezvous-backend-mismatch"

CASES = [
    Case("MASTER_ADDR not set", variable("MASTER_ADDR", None, 1), "environment/missing-variable", ["host1"], style="rank"),
    Case("RANK not set", variable("RANK", None, 1), "environment/missing-variable", ["host1"], style="rank"),
    Case("WORLD_SIZE not set", variable("WORLD_SIZE", None, 1), "environment/missing-variable", ["host1"], style="rank"),
    Case("MASTER_ADDR is a URL", variable("MASTER_ADDR", "tcp://host0:29500", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("MASTER_PORT is no number", variable("MASTER_PORT", "abc", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("MASTER_PORT is too large", variable("MASTER_PORT", "295000", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("RANK is beyond WORLD_SIZE", variable("RANK", "2", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("RANK is negative", variable("RANK", "-1", 1), "environment/invalid-variable", ["host1"], style="rank"),
    Case("PET_NNODES is no number", variable("PET_NNODES", "two", 1), "environment/invalid-variable", ["host1"], style="pet"),
    Case("an agent's store without an agent", variable("TORCHELASTIC_USE_AGENT_STORE", "True", 0, 1), "environment/agent-store-hijack", ["host0", "host1"], style="rank", curable=True),
    Case("two rank 0", variable("RANK", "0", 1), "environment/duplicate-rank", ["host1"], style="rank"),
    Case("two rank 1 of 3", variable("RANK", "1", 2), "environment/duplicate-rank", ["host1", "host2"], blame="one-of", style="rank", hosts=3),
    Case("two node rank 0", flag("--node-rank", "0", 1), "environment/duplicate-node-rank", ["host1"]),
    Case("two node rank 1 of 3", flag("--node-rank", "1", 2), "environment/duplicate-node-rank", ["host1", "host2"], blame="one-of", hosts=3),
    Case("--nnodes 2 and 3", flag("--nnodes", "3", 1), "environment/world-size-mismatch", ["host0", "host1"], blame="one-of"),
    Case("--nnodes 3 and 2", flag("--nnodes", "3", 0), "environment/world-size-mismatch", ["host0", "host1"], blame="one-of"),
    Case("--nnodes 3, 3 and 2", flag("--nnodes", "2", 1), "environment/world-size-mismatch", ["host1"], hosts=3),
    Case("WORLD_SIZE 2 and 3", variable("WORLD_SIZE", "3", 1), "environment/world-size-mismatch", ["host0", "host1"], blame="one-of", style="rank"),
    Case("the ports differ", flag("--master-port", "29501", 1), "environment/master-mismatch", ["host1"], curable=True),
    Case("an endpoint is left over on node 1", variable("PET_RDZV_ENDPOINT", "host1:29500", 1), "environment/master-mismatch", ["host1"], curable=True, live=False),
    Case("the addresses differ", flag("--master-addr", "host1", 1), "environment/master-mismatch", ["host1"], curable=True, live=False),
    Case("torch missing on node 1", torch_removed(1), "environment/torch-missing", ["host1"], by_hand=torch_installed),
    Case("torch missing on node 0", torch_removed(0), "environment/torch-missing", ["host0"], by_hand=torch_installed),
    Case("a broken torch on PYTHONPATH of node 1", on_pythonpath("torch", NO_CUDA, 1), "environment/torch-shadowed", ["host1"], options=(1, 2)),
    Case("a debug level that torch does not know", variable("TORCH_DISTRIBUTED_DEBUG", "1", 1), "environment/torch-broken", ["host1"], torch="2 s"),
    Case("two pods, a job of its own in each", pods_alone, "environment/pod-world-size", BOTH, "warn", torch="never (trains)"),
    Case("an older NCCL on LD_LIBRARY_PATH", older_nccl(1), "environment/nccl-library-shadowed", ["host1"], needs=["cc"], torch="2 s"),
    Case("random.py in the working folder of both", in_working_folder("random.py", "print('mine')\n", 0, 1), "environment/torch-shadowed", ["host0", "host1"]),
    Case("torch.py in the working folder of node 1", in_working_folder("torch.py", "", 1), "environment/torch-shadowed", ["host1"]),
    Case("the working folder of node 1 is deleted", working_folder_deleted(1), "environment/torch-broken", ["host1"], by_hand=existing_folder),
    Case("another distdoctor on node 2", other_version("0.0.9", 2), "environment/version-mismatch", ["host2"], "warn", hosts=3, by_hand=usual_installation),
    *patient(
        Case("c10d on node 1 alone", c10d_on(1), BACKENDS_DIFFER, BOTH, blame="one-of", options=(1, 2)),
        Case("c10d on node 0 alone", c10d_on(0), BACKENDS_DIFFER, BOTH, blame="one-of", options=(1, 2)),
        Case("c10d on node 1 of 3 alone", c10d_on(1), BACKENDS_DIFFER, ["host1"], hosts=3),
        Case("c10d on node 1 alone, at its own port", c10d_on(1, 29400), BACKENDS_DIFFER, BOTH, blame="one-of", curable=True, options=(1, 2)),
        Case("PET_RDZV_BACKEND on node 1 alone", variable("PET_RDZV_BACKEND", "c10d", 1), BACKENDS_DIFFER, BOTH, blame="one-of"),
        Case("PET_RDZV_BACKEND on both, and --master-addr", variable("PET_RDZV_BACKEND", "c10d", 0, 1), "environment/invalid-variable", BOTH),
        Case("the rendezvous ids differ", c10d("a", "b"), "environment/rendezvous-id-mismatch", BOTH, blame="one-of", torch="600 s, no cause"),
        Case("one of 3 rendezvous ids differs", c10d("a", "a", "b"), "environment/rendezvous-id-mismatch", ["host2"], hosts=3, torch="600 s, no cause"),
        Case("the id of node 1 of 3 differs", c10d("a", "b", "a"), "environment/rendezvous-id-mismatch", ["host1"], hosts=3, torch="600 s, no cause"),
        Case("--backend mpi on a build without", flag("--backend", "mpi", 0, 1), "environment/backend-not-built", BOTH, torch="at once"),
        Case("--backend nccl on a build without", flag("--backend", "nccl", 0, 1), "environment/backend-not-built", BOTH),
        Case("a setting of gloo on one of 3", variable("TORCH_GLOO_LAZY_INIT", "1", 2), "environment/setting-mismatch", ["host2"], hosts=3),
        Case("a setting of gloo on one of 2", variable("TORCH_GLOO_LAZY_INIT", "1", 1), "environment/setting-mismatch", BOTH, blame="one-of", options=(1, 2)),
        Case("DETAIL on one of 2", variable("TORCH_DISTRIBUTED_DEBUG", "DETAIL", 1), "environment/setting-mismatch", BOTH, blame="one-of", options=(1, 2)),
        Case("DETAIL on one of 3", variable("TORCH_DISTRIBUTED_DEBUG", "DETAIL", 0), "environment/setting-mismatch", ["host0"], hosts=3),
        Case("a barrier after init on one of 2", variable("TORCH_DIST_INIT_BARRIER", "1", 0), "environment/setting-mismatch", BOTH, blame="one-of", options=(1, 2)),
        Case("ranks as numbers in gloo on one of 3", variable("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "1", 2), "environment/setting-mismatch", ["host2"], hosts=3, torch="at once, a crash"),
        Case("GLOO_SOCKET_IFNAME names two on one of 2", together(TWO_NETWORKS, variable("GLOO_SOCKET_IFNAME", "eth0,eth1", 1)), "environment/setting-mismatch", BOTH, blame="one-of"),
        Case("a name that torch gave up, with gloo", variable("NCCL_BLOCKING_WAIT", "1", 0, 1), "environment/deprecated-variable", BOTH, "info"),
        Case("a name that torch gave up, with nccl", variable("NCCL_BLOCKING_WAIT", "1", 0, 1), "environment/deprecated-variable", BOTH, "warn", flags=NCCL_HOST),
        Case("one of 3 has fewer ranks, with nccl", flag("--nproc-per-node", "1", 1), "environment/uneven-ranks", ["host1"], "warn", hosts=3, live=False, flags=NCCL_HOST, torch="hangs some versions of NCCL"),
        Case("GLOO_SOCKET_IFNAM", variable("GLOO_SOCKET_IFNAM", "eth0", 0, 1), "environment/misspelled-variable", BOTH, "warn"),
        Case("MASTER_ADR", together(variable("MASTER_ADDR", None, 1), variable("MASTER_ADR", "host0", 1)), "environment/missing-variable", ["host1"], style="rank"),
        Case("the init file is stale", together(flag("--init-method", INIT_FILE, 0, 1), shared_file("left")), "environment/stale-init-file", BOTH),
        Case("the init file is on local disks", flag("--init-method", "file:///run/lab/init", 0, 1), "environment/init-file-not-shared", BOTH),
        Case("files cannot be locked on node 1", together(flag("--init-method", INIT_FILE, 0, 1), no_locks(1)), "environment/init-file-no-flock", ["host1"], needs=["cc"], torch="at once, one side"),
        Case("VLLM_HOST_IP of node 0 on node 1", variable("VLLM_HOST_IP", "10.77.0.10", 0, 1), "environment/host-ip-copied", ["host1"], "warn", torch="never (trains)"),
        Case("the init file's folder is missing on one", together(flag("--init-method", "file:///run/job/init", 0, 1), inside(0, "mkdir /run/job")), "environment/init-file-not-shared", ["host1"]),
        Case("500 MB of address space", shell("ulimit -S -v 500000", 1), "environment/torch-broken", ["host1"]),
        Case("two: the ids differ, a misspelled variable", together(c10d("a", "b"), variable("GLOO_SOCKET_IFNAM", "eth0", 1)), "environment/rendezvous-id-mismatch", BOTH, blame="one-of", also=[Root("environment/misspelled-variable", ["host1"], "warn")]),
        Case("two: a stale init file, little shared memory", together(flag("--init-method", INIT_FILE, 0, 1), shared_file("left"), shared_memory("64k", 1)), "environment/stale-init-file", BOTH, also=[SMALL_SHM]),
        Case("rank 0 by hand, torchrun on the others", by_hand(0), "environment/launcher-mismatch", ["host0"], hosts=3, torch="silent > 25 s"),
        Case("3 nodes started with --nnodes 2", flag("--nnodes", "2", 0, 1, 2), "environment/too-many-nodes", ["host1", "host2"], blame="one-of", style="unset", hosts=3, options=(2,)),
    ),
]  # fmt: skip
