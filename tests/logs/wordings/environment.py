"""Lines that are written of failures of the stage environment."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    ("environment/missing-variable", "KeyError: 'NODE_RANK'"),
    ("environment/missing-variable", "KeyError: 'OMPI_COMM_WORLD_RANK'"),
    (
        "environment/missing-variable",
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable "
        "RANK expected, but not set",
    ),
    ("environment/missing-variable", "KeyError: 'LOCAL_RANK'"),
    ("environment/backend-not-built", "AssertionError: Unknown c10d backend type MPI"),
    ("environment/backend-not-built", "RuntimeError: Requires distributed package to be available"),
    ("environment/backend-not-built", "RuntimeError: PyTorch built without distributed support"),
    ("environment/backend-not-built", "AttributeError: module 'torch.distributed' has no attribute 'ReduceOp'"),
    (
        "environment/invalid-variable",
        'n1:79:79 [0] graph/tuning.cc:109 NCCL WARN Unrecognized element token "rings" when parsing "rings"',
    ),
    (
        "environment/invalid-variable",
        "n1:79:79 [0] enqueue.cc:2066 NCCL WARN Error : no algorithm/protocol available for function AllGather with "
        "datatype ncclFloat32. NCCL_ALGO was set to Tree.",
    ),
    (
        "environment/invalid-variable",
        'n1:79:79 [0] graph/tuning.cc:67 NCCL WARN All entries except the first must have a prefix: "Ring;Tree"',
    ),
    (
        "environment/invalid-variable",
        "n1:79:79 [0] bootstrap.cc:200 NCCL WARN Invalid NCCL_COMM_ID, please use format: <ipv4>:<port>",
    ),
    ("environment/invalid-variable", "ValueError: Port could not be cast to integer value as '29500 '"),
    (
        "environment/invalid-variable",
        "    Invoked with: 'localhost', 295000, 2, True, datetime.timedelta(seconds=1800)",
    ),
    (
        "environment/invalid-variable",
        "[W socket.cpp:663] [c10d] The IPv6 network addresses of (XX.XX.XX.XX, 29500) cannot be "
        "retrieved (gai error: -2 - Name or service not known).",
    ),
    ("environment/duplicate-rank", "ValueError: Some ranks has already checked in: {0: 1}"),
    ("environment/duplicate-rank", "RuntimeError: more than one node have assigned same rank"),
    ("environment/local-rank-argument", "train.py: error: unrecognized arguments: --local-rank=0"),
    ("environment/local-rank-argument", "main.py: error: unrecognized arguments: --local_rank=3"),
    ("environment/backend-not-built", "RuntimeError: Distributed package doesn't have NCCL built in"),
    ("environment/version-mismatch", "RuntimeError: Version mismatch: The cluster was started with:"),
    (
        "environment/version-mismatch",
        "E1129 07:05:49.807340 19267 master_client.cpp:452] Version mismatch: server=0.3.12 client=0.3.13",
    ),
    ("environment/version-mismatch", "NVSHMEM device library version does not match with NVSHMEM host library version"),
    (
        "environment/version-mismatch",
        "NVSHMEM device library version (3.3.24) does not match with NVSHMEM host library version (3.2.5)",
    ),
    (
        "environment/nccl-library-shadowed",
        "ImportError: /opt/conda/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined "
        "symbol: ncclCommRegister",
    ),
    ("environment/torch-missing", "ModuleNotFoundError: No module named 'torch'"),
    (
        "environment/torch-broken",
        "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
    ),
    (
        "environment/torch-broken",
        "ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by /v/torch/lib/libtorch_cpu.so)",
    ),
    (
        "environment/setting-mismatch",
        "node1:12:34 [0] init.cc:981 NCCL WARN collective mismatch error, local size 8 remote size 4",
    ),
    (
        "environment/host-ip-copied",
        "zmq.error.ZMQError: Cannot assign requested address (addr='tcp://172.17.0.5:41117')",
    ),
    ("environment/init-file-no-flock", "RuntimeError: flock: Function not implemented"),
    (
        "environment/version-mismatch",
        "n1:1:2 [0] NCCL WARN NCCL version mismatch with remote peer 10.0.0.1<3> (local: 2.27.3, remote 2.26.2)",
    ),
    (
        "environment/nccl-library-shadowed",
        "n1:1:2 [0] NCCL WARN NCCL library is too old. This application was compiled with NCCL version 2.27, "
        "but is running with NCCL library version 2.18",
    ),
    ("environment/missing-variable", "RuntimeError: Could not find 'RANK' in the torch environment"),
    ("environment/missing-variable", "Error: MASTER_ADDR is not set"),
    ("environment/torch-missing", "/var/spool/slurmd/job1/slurm_script: line 9: torchrun: command not found"),
    (
        "environment/missing-variable",
        "RuntimeError: LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work",
    ),
    (
        "environment/missing-variable",
        "RuntimeError: Unable to determine rank and size from environment variables. Please set "
        "TORCHCOMM_RANK and TORCHCOMM_SIZE",
    ),
    (
        "environment/world-size-mismatch",
        "node1:1234:1250 [0] bootstrap.cc:120 NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 16",
    ),
    (
        "environment/world-size-mismatch",
        "node1:1234:1250 [0] bootstrap.cc:120 NCCL WARN Bootstrap Root : mismatch in info from procs, nranks "
        "8 vs 16, nroots 1 vs 1, iroot 0 vs 0, offset 0 vs 0",
    ),
    (
        "environment/torch-broken",
        "OSError: [WinError 126] The specified module could not be found. Error loading "
        '"C:\\torch\\lib\\fbgemm.dll" or one of its dependencies.',
    ),
    (
        "environment/torch-broken",
        "OSError: /env/lib/python3.11/site-packages/torch/lib/libtorch_global_deps.so: cannot enable executable stack "
        "as shared object requires: Permission denied",
    ),
    ("environment/torch-broken", "OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized."),
    ("environment/missing-variable", "KeyError: 'SLURM_NODEID'"),
    ("environment/scheduler-mismatch", "A sequential map was requested, but not enough node entries"),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "environment/engine-address",
        "(Worker_TP0 pid=41) ERROR 01-16 17:22:56 [nixl_connector.py:815] RuntimeError: Remote NIXL agent engine ID "
        "mismatch. Expected 46126a31_dp0,received 96b1c4ff_dp0.",
    ),
    (
        "environment/version-mismatch",
        "n1:79:79 [0] bootstrap.cc:88 NCCL WARN Message truncated : received 4096,2 bytes instead of 2048,1",
    ),
    (
        "environment/version-mismatch",
        "worker:60:60 [0] bootstrap.cc:77 NCCL WARN Message truncated : received 1024 bytes instead of 256",
    ),
    (
        "environment/version-mismatch",
        "gpu-b:45:52 [0] misc/socket.cc:820 NCCL WARN ncclSocketInit: connecting to address  with family 0 is neither "
        "AF_INET(2) nor AF_INET6(10)",
    ),
)
