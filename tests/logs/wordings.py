"""Lines as torch, NCCL, gloo, CUDA, launchers, schedulers and the kernel write them: of each failure, one or more."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    (
        "environment/missing-variable",
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable "
        "RANK expected, but not set",
    ),
    ("environment/missing-variable", "KeyError: 'LOCAL_RANK'"),
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
    ("environment/local-rank-argument", "train.py: error: unrecognized arguments: --local-rank=0"),
    ("environment/local-rank-argument", "main.py: error: unrecognized arguments: --local_rank=3"),
    ("environment/backend-not-built", "RuntimeError: Distributed package doesn't have NCCL built in"),
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
        "environment/setting-mismatch",
        "node1:12:34 [0] init.cc:981 NCCL WARN collective mismatch error, local size 8 remote size 4",
    ),
    (
        "environment/version-mismatch",
        "worker:60:60 [0] bootstrap.cc:77 NCCL WARN Message truncated : received 1024 bytes instead of 256",
    ),
    (
        "environment/host-ip-copied",
        "zmq.error.ZMQError: Cannot assign requested address (addr='tcp://172.17.0.5:41117')",
    ),
    ("environment/init-file-no-flock", "RuntimeError: flock: Function not implemented"),
    (
        "host/hostname-numeric",
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [0.104.99.143]:29500 (6841231, 29500).",
    ),
    (
        "host/shared-memory-small",
        "RuntimeError: DataLoader worker (pid 4021) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
    ),
    (
        "host/shared-memory-small",
        "node:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-X3mbXY to 9637892 bytes",
    ),
    (
        "host/shared-memory-small",
        "node:1:2 [0] include/shm.h:41 NCCL WARN Call to posix_fallocate failed : No space left on device",
    ),
    (
        "host/shared-memory-small",
        "RuntimeError: unable to open shared memory object </torch_21_3> in read-write mode: No space "
        "left on device (28)",
    ),
    ("host/shared-memory-small", "  exitcode  : -7 (pid: 1433)"),
    ("host/shared-memory-permission", "node:1:2 [0] NCCL WARN Call to shm_open failed : Permission denied"),
    ("host/open-files-limit", "RuntimeError: received 0 items of ancdata"),
    ("host/open-files-limit", "OSError: [Errno 24] Too many open files: '/data/x'"),
    (
        "host/locked-memory-limit",
        "node:1:2 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
    ),
    (
        "host/port-privileged",
        "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:80 (errno: 13 - Permission denied).",
    ),
    (
        "host/thread-limit",
        "OpenBLAS blas_thread_init: pthread_create failed for thread 31 of 32: Resource temporarily unavailable",
    ),
    ("host/thread-limit", "libgomp: Thread creation failed: Resource temporarily unavailable"),
    ("host/thread-limit", "RuntimeError: can't start new thread"),
    ("host/disk-full", "OSError: [Errno 122] Disk quota exceeded"),
    ("host/disk-full", "OSError: [Errno 28] No space left on device: '/home/u/ckpt/step_100'"),
    ("host/compile-cache-shared", "OSError: [Errno 116] Stale file handle: '/home/u/.triton/cache/abc/kernel.json'"),
    ("host/ptrace-denied", "RuntimeError: pidfd_getfd: Operation not permitted"),
    ("host/user-unknown", "KeyError: 'getpwuid(): uid not found: 1042'"),
    ("host/tmpdir-too-long", "OSError: AF_UNIX path too long"),
    ("host/conntrack-full", "[ 1234.567890] nf_conntrack: nf_conntrack: table full, dropping packet"),
    ("launch/ssh-unreachable", "user@gpu02: Permission denied (publickey,password)."),
    (
        "launch/srun-step-blocked",
        "srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)",
    ),
    (
        "network/master-unresolvable",
        "[W socket.cpp:663] [c10d] The IPv6 network addresses of (master-0, 29500) cannot be retrieved "
        "(gai error: -2 - Name or service not known).",
    ),
    (
        "network/master-not-node0",
        "[E socket.cpp:449] [c10d] The server socket has failed to bind to 10.0.0.7:29500 (errno: 99 - "
        "Cannot assign requested address).",
    ),
    (
        "network/port-in-use",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address "
        "already in use",
    ),
    (
        "network/port-in-use",
        "RuntimeError: The server socket has failed to listen on any local network address. The server "
        "socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    ),
    ("network/port-in-use", "RuntimeError: Address already in use"),
    (
        "network/no-route",
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:208] connect: "
        "Network is unreachable",
    ),
    (
        "network/wrong-interface",
        "node2:45:60 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 172.17.0.2<41257> "
        "failed : Connection refused",
    ),
    (
        "network/ipv6-mismatch",
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/address.cc:58] "
        "ss1.ss_family == ss2.ss_family. 10 vs 2",
    ),
    (
        "store/libuv-missing",
        "torch.distributed.DistStoreError: use_libuv was requested but PyTorch was build without libuv support",
    ),
    (
        "gloo/interface-not-found",
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != "
        "nullptr. Unable to find address for: ib0",
    ),
    ("gloo/unsupported-device", "RuntimeError: makeDeviceForHostname(): unsupported gloo device"),
    (
        "gloo/loopback-address",
        "RuntimeError: Gloo connectFullMesh failed with "
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error. connect [127.0.1.1]:4932: "
        "Connection refused",
    ),
    ("nccl/interface-not-found", "node:1:2 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found"),
    (
        "nccl/duplicate-gpu",
        "node:1:2 [0] init.cc:794 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000",
    ),
    (
        "nccl/infiniband-gid",
        "node:1:2 [0] misc/ibvwrap.cc:302 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
    ),
    ("nccl/infiniband-link", "node:1:2 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : port error"),
    (
        "nccl/infiniband-unreachable",
        "node:1:2 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer "
        "10.0.0.4<43211> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
    ),
    ("nccl/nvls-fabric-manager", "node:1:2 [0] transport/nvls.cc:156 NCCL WARN Cuda failure 'unknown error'"),
    ("nccl/driver-too-old", "RuntimeError: CUDA driver version is insufficient for CUDA runtime version"),
    ("nccl/build-arch", "node:1:2 [0] enqueue.cc:120 NCCL WARN Cuda failure 'named symbol not found'"),
    (
        "nccl/cumem-host",
        "node:1:2 [0] transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not supported "
        "between these two devices'",
    ),
    ("nccl/topo-file-bad", "node:1:2 [0] graph/xml.h:77 NCCL WARN Attribute arch of node cpu not found"),
    ("barrier/rank-missing", "RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 10000 ms"),
    (
        "barrier/rank-missing",
        "[E ProcessGroupGloo.cpp:138] [Rank 0]: Rank 3 failed to pass monitoredBarrier in 2000 ms",
    ),
    (
        "collective/mismatch",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=2, OpType=ALLREDUCE, TensorShape=[1])",
    ),
    (
        "collective/mismatch",
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] "
        "op.preamble.length <= op.nbytes. 8 vs 4",
    ),
    ("collective/rank-missing", "\t     [3] finished collective #42, but didn't join collective #43 (count from 1)"),
    (
        "collective/unused-parameters",
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new "
        "one. This error indicates that your module has parameters that were not used in producing loss.",
    ),
    (
        "collective/model-mismatch",
        "RuntimeError: DDP expects same model across all ranks, but Rank 6 has 59 params, while rank 0 "
        "has inconsistent 48 params.",
    ),
    ("collective/backend-lacks-device", "RuntimeError: No backend type associated with device type cpu"),
    (
        "collective/group-not-initialized",
        "RuntimeError: Default process group has not been initialized, please make sure to call init_process_group.",
    ),
    ("collective/initialized-twice", "RuntimeError: trying to initialize the default process group twice!"),
    (
        "gpu/out-of-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 79.15 GiB of which 1.06 GiB is free.",
    ),
    ("gpu/out-of-memory", "node:1:2 [3] include/alloc.h:48 NCCL WARN Cuda failure 2 'out of memory'"),
    (
        "gpu/hardware",
        "[123456.789012] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    ),
    ("gpu/hardware", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("gpu/busy", "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"),
    ("gpu/fewer-than-ranks", "RuntimeError: CUDA error: invalid device ordinal"),
    ("gpu/none-visible", "RuntimeError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!"),
    ("gpu/none-visible", "RuntimeError: No CUDA GPUs are available"),
    ("gpu/mask-mismatch", "ValueError: No slot '1' specified on host 'localhost'"),
    (
        "gpu/one-visible-per-rank",
        "node:1:2 [1] transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
    ),
    ("gpu/driver-library-mismatch", "Failed to initialize NVML: Driver/library version mismatch"),
    (
        "gpu/fabric-manager-not-running",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
    ),
    (
        "gpu/compat-library",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was "
        "attempted on non supported HW",
    ),
    ("gpu/arch-not-in-build", "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("process/exception", "ZeroDivisionError: division by zero"),
    ("process/crashed", "  exitcode  : -11 (pid: 77)"),
    ("process/crashed", "srun: error: n01: task 3: Segmentation fault (core dumped)"),
    ("process/killed-by-oom", "  traceback : Signal 9 (SIGKILL) received by PID 14750"),
    (
        "process/killed-by-oom",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=812.0. Some of the step tasks have been OOM Killed.",
    ),
    (
        "process/killed-by-oom",
        "[9.100000] Memory cgroup out of memory: Killed process 4321 (python) total-vm:1kB, anon-rss:1kB",
    ),
    (
        "process/killed-by-oom",
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
    ),
    (
        "process/killed-by-scheduler",
        "slurmstepd: error: *** STEP 494583.0 ON n01 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***",
    ),
    (
        "process/terminal-closed",
        "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers",
    ),
    (
        "process/terminal-closed",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 8812 got signal: 1",
    ),
    (
        "process/terminated",
        "WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers",
    ),
    (
        "process/cuda-in-fork",
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
        "multiprocessing, you must use the 'spawn' start method",
    ),
    ("process/killed-by-oom", "srun: error: gpu-12: task 3: Out Of Memory"),
    ("process/killed-by-oom", "slurmstepd: error: Exceeded job memory limit at some point."),
    ("process/killed-by-oom", "srun: error: gpu-12: tasks 0-7: Killed"),
    ("process/killed-by-oom", "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed)."),
    ("process/killed-by-oom", "=   KILLED BY SIGNAL: 9 (Killed)"),
    ("process/killed-by-oom", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 10Mi."),
    ("host/disk-full", "The node was low on resource: ephemeral-storage. Container main was using 10Gi"),
    ("process/killed-by-scheduler", "srun: error: Node failure on gpu-12"),
    (
        "process/killed-by-scheduler",
        "salloc: Job 36126573 has exceeded its time limit and its allocation has been revoked",
    ),
    ("launch/srun-step-blocked", "srun: Job 9479148 step creation still disabled, retrying (Requested nodes are busy)"),
    (
        "environment/scheduler-mismatch",
        "srun: error: CPU binding outside of job step allocation, allocated CPUs are: 0x140000.",
    ),
    (
        "environment/scheduler-mismatch",
        "srun: fatal: cpus-per-task set by two different environment variables SLURM_CPUS_PER_TASK=13 != "
        "SLURM_TRES_PER_TASK=cpu=8",
    ),
    (
        "nccl/duplicate-gpu",
        "n1:1:2 [0] NCCL WARN Multiple Ranks are using the same GPU/Partition. Set "
        "NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this",
    ),
    (
        "environment/version-mismatch",
        "n1:1:2 [0] NCCL WARN NCCL version mismatch with remote peer 10.0.0.1<3> (local: 2.27.3, remote 2.26.2)",
    ),
    (
        "environment/nccl-library-shadowed",
        "n1:1:2 [0] NCCL WARN NCCL library is too old. This application was compiled with NCCL version 2.27, "
        "but is running with NCCL library version 2.18",
    ),
    ("nccl/infiniband-link", "n1:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 async fatal event: local catastrophic error"),
    (
        "nccl/gpudirect",
        "n1:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.1<1> with "
        "status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81 (Send) hca mlx5_0",
    ),
    ("process/crashed", "!!!!!!! Segfault encountered !!!!!!!"),
    (
        "process/exception",
        "torchrun: error: the following arguments are required: training_script, training_script_args",
    ),
    ("process/exception", "slurmstepd: error: execve(): python: No such file or directory"),
    ("environment/missing-variable", "RuntimeError: Could not find 'RANK' in the torch environment"),
    ("environment/missing-variable", "Error: MASTER_ADDR is not set"),
    ("environment/torch-missing", "/var/spool/slurmd/job1/slurm_script: line 9: torchrun: command not found"),
    ("gpu/fewer-than-ranks", "AssertionError: local rank 4 exceeds available GPUs in CUDA_VISIBLE_DEVICES=0,1,2,3"),
    (
        "collective/backend-lacks-device",
        "RuntimeError: FSDP CPU offloading requires backend supporting cpu tensors. Found following backend: nccl",
    ),
    (
        "host/extension-lock-stale",
        '  File "/opt/venv/lib/python3.12/site-packages/torch/utils/file_baton.py", line 50 in wait',
    ),
    (
        "host/hostname-numeric",
        "[E socket.cpp:610] [c10d] The client socket has failed to connect to any network address of (05, 40323).",
    ),
    (
        "process/exception",
        "../aten/src/ATen/native/cuda/Indexing.cu:1284: indexSelectLargeIndex: block: [134,0,0], thread: "
        "[0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
    ),
    (
        "process/exception",
        "(VllmWorkerProcess pid=1775) ERROR 09-23 10:49:22 worker_base.py:467] ValueError: no such model",
    ),
    (
        "process/killed-by-oom",
        "[2612362.231458] python invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), "
        "order=0, oom_score_adj=829",
    ),
    ("gpu/arch-not-in-build", "RuntimeError: HIP error: invalid device function"),
)
"""Check id, and a line that proves it."""

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "store/nodes-missing",
        "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
    ),
    (
        "mesh/peer-ports-blocked",
        "RuntimeError: Gloo connectFullMesh failed with [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"
        "pair.h:311] Connect timeout [none]",
    ),
    ("process/terminated", "torch.distributed.elastic.multiprocessing.api.SignalException: Process 23 got signal: 2"),
    (
        "network/master-not-node0",
        "TimeoutError: The client socket has timed out after 60s while trying to connect to (10.0.0.1, 29500).",
    ),
    (
        "process/rank0-died",
        "RuntimeError: [7] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
        "c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer",
    ),
    (
        "process/peer-died",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:41904",
    ),
    (
        "process/rank0-died",
        "[W TCPStore.cpp:106] [c10d] recvValue failed on SocketImpl(fd=67, addr=[n1]:4, "
        "remote=[n0]:29500): failed to recv, got 0 bytes",
    ),
    (
        "process/peer-died",
        "node:1:2 [0] misc/socket.cc:57 NCCL WARN socketProgress: Connection closed by remote peer n2<43210>",
    ),
    (
        "collective/slow-rank",
        "[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for "
        "1800090 milliseconds before timing out.",
    ),
    ("process/exception", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
    ("process/exception", "  exitcode  : 1 (pid: 1622990)"),
    (
        "process/exception",
        "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
    ),
    (
        "nccl/init-failed",
        "torch.distributed.DistBackendError: NCCL error in: "
        "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled system error (run with "
        "NCCL_DEBUG=INFO for details), NCCL version 2.18.1",
    ),
    ("process/crashed", "  exitcode  : -6 (pid: 16)"),
    (
        "collective/model-mismatch",
        "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 48 params, while rank 1 "
        "has inconsistent 0 params.",
    ),
    ("process/killed-by-scheduler", "slurmstepd: error: *** STEP 12.0 ON n01 CANCELLED AT 2024-01-01T00:00:00 ***"),
    (
        "collective/heartbeat-stuck",
        "[F ProcessGroupNCCL.cpp:1262] [Rank 3] ProcessGroupNCCL's watchdog got stuck for 600 seconds "
        "without making progress in monitoring enqueued collectives.",
    ),
    (
        "store/exit-barrier",
        "ERROR:torch.distributed.elastic.agent.server.api:Error waiting on exit barrier. Elapsed: 300.1 seconds",
    ),
    ("process/terminated", "KeyboardInterrupt"),
    (
        "process/killed-by-scheduler",
        "slurmstepd: error: *** JOB 42 ON n1 CANCELLED AT 2024-10-09T23:25:32 DUE to SIGNAL Killed ***",
    ),
    (
        "process/killed-by-scheduler",
        "slurmstepd: error: *** JOB 42 STEPD TERMINATED ON n1 AT 2024-10-09T23:25:32 DUE TO JOB NOT ENDING "
        "WITH SIGNALS ***",
    ),
    (
        "process/exception",
        "slurmstepd: error: *** STEP 42.0 ON n1 FAILED (non-zero exit code or other failure mode) ***",
    ),
    ("process/exception", '[rank4]:   File "/home/u/compile_fx.py", line 685, in _compile_fx_inner'),
    (
        "process/exception",
        "n1:1:2 [0] include/alloc.h:125 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
    ),
    ("process/exception", "  traceback : Signal 6 (SIGABRT) received by PID 189"),
    (
        "launch/srun-step-blocked",
        "srun: error: Task launch for StepId=847293.0 failed on node nid003078: Communication connection failure",
    ),
    ("process/crashed", "srun: error: gpu-12: task 3: Aborted (core dumped)"),
    ("process/terminated", "srun: error: gpu-12: task 3: Terminated"),
    ("process/terminated", "asyncio.exceptions.CancelledError"),
    (
        "process/peer-died",
        "n1:1:2 [0] NCCL WARN ncclOsSocketPollConnect to 10.0.0.1<1> failed with error Connection refused",
    ),
    (
        "process/peer-died",
        "n1:1:2 [0] NCCL WARN communicator encountered a fatal error (detected in ncclCommGetAsyncError)",
    ),
    (
        "process/peer-died",
        "Exception raised from ncclCommWatchdog at "
        "/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1901 (most recent call first):",
    ),
    ("process/peer-died", "An ORTE daemon has unexpectedly failed after launch and before"),
    ("process/rank0-died", "RuntimeError: [1] is setting up NCCL communicator"),
    ("nccl/init-failed", "n1:1:2 [0] NCCL WARN Cuda failure 'invalid argument'"),
    ("nccl/init-failed", "n1:1:2 [0] NCCL WARN No transport found for rank 0[1000] -> rank 1[2000]"),
    (
        "host/shared-memory-small",
        "n1:1:2 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-NzwJ7O (size 9637888)",
    ),
    (
        "store/nodes-missing",
        "torch.distributed.DistStoreError: Timed out waiting on barrier on rank 0, for key prefix: "
        "torchelastic/agent/terminal_state/ (world_size=4, missing_ranks=[2, 3], timeout=300)",
    ),
    ("store/nodes-missing", "RuntimeError: Wait timeout for key(s): [ 0/1 ]"),
    ("gloo/init-failed", "RuntimeError: Rank 0 is NOT connected to: [1, 2, ]"),
    (
        "network/port-refused",
        "[E socket.cpp:957] [c10d] The client socket has failed to connect to any network address of (node1, 29500).",
    ),
    (
        "process/killed-by-oom",
        "(raylet) A worker died or was killed while executing a task by an unexpected system error.",
    ),
    ("collective/rank-missing", "  Communicator ranks have different AllGather operation counts"),
    (
        "process/exception",
        "(VllmWorkerProcess pid=759) ERROR 07-24 08:26:01 multiproc_worker_utils.py:226]   File "
        '"/usr/lib/vllm/worker.py", line 132, in init_device',
    ),
    (
        "process/exception",
        "Error for Training job a: Failed. Reason: AlgorithmError: ExecuteUserScriptError:",
    ),
    (
        "nccl/p2p-broken",
        "n1:1:2 [1] /home/u/rccl/src/transport/p2p.cc:220 NCCL WARN hipIpcGetMemHandle failed : invalid argument",
    ),
    ("collective/rank-missing", "RuntimeError: Application timeout caused pair closure"),
    ("collective/rank-missing", "[1,0]<stderr>:Stalled ops:HorovodBroadcast_dense_1_bias_0 [missing ranks: 1]"),
    (
        "nccl/init-failed",
        "n1:1:1 [7] component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
    ),
    (
        "nccl/init-failed",
        "RuntimeError: create:torch_npu/x.cpp:89 HCCL function error: HcclCommInitRootInfo(), error code is 1",
    ),
    ("nccl/init-failed", "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64"),
)
"""Check id of a candidate, and a line that does not prove it."""
