"""Lines that are written of failures of the stage collective."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    ("collective/wrong-result", "# Out of bounds values : 344 FAILED"),
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
        "collective/backend-lacks-device",
        "RuntimeError: FSDP CPU offloading requires backend supporting cpu tensors. Found following backend: nccl",
    ),
    ("collective/uneven-inputs", "RuntimeError: Rank 1 exhausted all inputs."),
    (
        "collective/uneven-inputs",
        "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks.",
    ),
    (
        "collective/mismatch",
        "RuntimeError: Forward order differs across ranks: rank 0 is all-gathering parameters for "
        "['a.weight'] while rank 1 is all-gathering parameters for ['b.weight']",
    ),
    (
        "collective/device-not-set",
        "ValueError: Inconsistent compute device and `device_id` on rank 1: cuda:0 vs cuda:1",
    ),
    ("collective/backend-lacks-device", "RuntimeError: NCCL only supports CUDA tensors, but got a tensor on cpu"),
    (
        "collective/mismatch",
        "RuntimeError: Forward order differs across ranks: rank 0 is all-gathering 2 parameters while rank 1 is "
        "all-gathering 1 parameters",
    ),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "collective/rank-missing",
        'Traceback (most recent call last):\n  File "/v/torch/distributed/distributed_c10d.py", line 9, in all_reduce\n'
        "    work.wait()\nRuntimeError: Operation timed out!",
    ),
    (
        "collective/rank-missing",
        "dinov2.cn-d003.nolog [stderr] [rank3]:[E909 09:55:46.996672294 ProcessGroupNCCL.cpp:1709] [PG 0 (default_pg) "
        "Rank 3] Timeout at NCCL work: 2070, last enqueued",
    ),
    (
        "collective/rank-missing",
        "[E1026 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal due to a "
        "collective timeout from this local rank and we will try our best to dump the debug info.",
    ),
    (
        "collective/slow-rank",
        "[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for "
        "1800090 milliseconds before timing out.",
    ),
    (
        "collective/model-mismatch",
        "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 48 params, while rank 1 "
        "has inconsistent 0 params.",
    ),
    (
        "collective/heartbeat-stuck",
        "[F ProcessGroupNCCL.cpp:1262] [Rank 3] ProcessGroupNCCL's watchdog got stuck for 600 seconds "
        "without making progress in monitoring enqueued collectives.",
    ),
    (
        "collective/rank-missing",
        "EI0002: [PID: 7277] 2024-11-28-11:59:30.645.648 The wait execution of the Notify register times out. Reason: "
        "The Notify register has not received the Notify record from remote rank [unknown].",
    ),
    ("collective/rank-missing", "  Communicator ranks have different AllGather operation counts"),
    ("collective/rank-missing", "RuntimeError: Application timeout caused pair closure"),
    ("collective/rank-missing", "DeepEP timeout check failed: 0 (rank = 6)"),
    (
        "collective/rank-missing",
        "DeepEP timeout for dispatch receivers, rank 3, responsible_channel = 2, tokens remained: 64",
    ),
    ("collective/rank-missing", "DeepEP dispatch NVL receiver timeout, channel: 3, RDMA: 0, nvl: 2, src RDMA: 1"),
    ("collective/rank-missing", "RuntimeError: DeepEP error: timeout (dispatch CPU)"),
    ("collective/rank-missing", "[1,0]<stderr>:Stalled ops:HorovodBroadcast_dense_1_bias_0 [missing ranks: 1]"),
    (
        "collective/rank-missing",
        "WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted by subset of "
        "ranks and are waiting for remainder of ranks for more than 60 seconds.",
    ),
    (
        "collective/rank-missing",
        "RuntimeError: RPCErr:1:RPC ran for more than set timeout (60000 ms) and will now be marked with an error",
    ),
    ("collective/rank-missing", "RuntimeError: NCCL operation timed out"),
    (
        "collective/rank-missing",
        "[rank2]:[E ProcessGroupNCCL.cpp:700] [PG ID 0 PG GUID 0(default_pg) Rank 2]  remote error detected "
        "from rank: 1",
    ),
    (
        "collective/heartbeat-stuck",
        "[F1122 10:00:00.1 ProcessGroupNCCL.cpp:1601] [PG ID 0 PG GUID 0 Rank 0] Terminating the process "
        "after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
    ),
    (
        "collective/mismatch",
        "n1:1:2 [0] enqueue.cc:500 NCCL WARN Your program may be hanging, this may be caused by a collective mismatch "
        "around rank 3. Please check your collective calls at and around this rank.",
    ),
)
HINTS: tuple[tuple[str, str], ...] = (
    (
        "collective/device-not-set",
        "[rank0]:[W1021 10:12:13.000000000 ProcessGroupNCCL.cpp:4115] [PG ID 0 Rank 0]  using GPU 0 to perform "
        "barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank "
        "to GPU mapping is incorrect.",
    ),
)
