"""Lines that are written of failures of the stage nccl."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    ("nccl/nonblocking", "[rank1]: RuntimeError: NCCL Error 7: NCCL operation in progress"),
    (
        "nccl/infiniband-unreachable",
        "n1:1:2 [0] transport/net_ib/connect.cc:987 NCCL WARN NET/IB : Attempted to connect incompatible devices: "
        "[0]mlx5_0:1/IB and [0]mlx5_1:1/RoCE. Try selecting NICs of only one link type using NCCL_IB_HCA",
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
    (
        "nccl/driver-too-old",
        "n1:1:2 [0] init.cc:190 NCCL WARN Cuda failure 'API call is not supported in the installed CUDA driver'",
    ),
    ("nccl/build-arch", "node:1:2 [0] enqueue.cc:120 NCCL WARN Cuda failure 'named symbol not found'"),
    (
        "nccl/cumem-host",
        "node:1:2 [0] transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not supported "
        "between these two devices'",
    ),
    ("nccl/topo-file-bad", "node:1:2 [0] graph/xml.h:77 NCCL WARN Attribute arch of node cpu not found"),
    (
        "nccl/duplicate-gpu",
        "n1:1:2 [0] NCCL WARN Multiple Ranks are using the same GPU/Partition. Set "
        "NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this",
    ),
    ("nccl/infiniband-link", "n1:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 async fatal event: local catastrophic error"),
    (
        "nccl/gpudirect",
        "n1:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.1<1> with "
        "status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81 (Send) hca mlx5_0",
    ),
    (
        "nccl/imex",
        "mscclpp._mscclpp.CuError: (800, 'Call to cuMemCreate(&memHandle, nbytes, &prop, 0) failed (Cu "
        "failure: operation not permitted)')",
    ),
    (
        "nccl/imex",
        "node1:1234:1250 [0] mnnvl.cc:60 NCCL WARN MNNVL (cliqueSize 8) is available but not working on this "
        "system. Check the IMEX channel configuration",
    ),
    (
        "nccl/driver-too-old",
        "node1:1234:1250 [0] misc/cudawrap.cc:110 NCCL WARN CUDA Driver version found is 10020. Minimum "
        "requirement is 11000",
    ),
    (
        "nccl/interface-not-found",
        "node1:1234:1250 [0] bootstrap.cc:80 NCCL WARN no device found matching =eth7, verify NCCL_OOB_NET_IFNAME",
    ),
    (
        "nccl/cumem-host",
        "node1:1234:1250 [7] misc/shmutils.cc:132 NCCL WARN Error while attaching to shared memory segment "
        "/dev/shm/nccl- (size 0), error: No such file or directory (2)",
    ),
    (
        "nccl/interface-not-found",
        "node1:1234:1250 [0] bootstrap.cc:90 NCCL WARN NET/Socket : No usable listening interface found",
    ),
    *(
        ("nccl/infiniband-unreachable", f"n1:79:79 [0] transport/net_ib/connect.cc:901 NCCL WARN {words}")
        for words in (
            "NET/IB : Remote IB device is incompatible with the local [0]mlx5_0:1/RoCE. Try selecting NICs of only one "
            "link type using NCCL_IB_HCA",
            "NET/IB : Attempted to merge incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE. Try selecting NICs "
            "of only one link type using NCCL_IB_HCA",
            "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_2:1, curr state INIT, next state "
            "RTR, local GID index 3, local GID ::ffff:10.2.0.7, remote GID ::ffff:10.2.4.9",
            "Call to ibv_modify_qp failed with error Network is unreachable",
        )
    ),
    ("nccl/interface-not-found", "n1:79:79 [0] transport/net_socket.cc:60 NCCL WARN NET/Socket : no interface found"),
    ("nccl/topo-file-bad", "n1:79:79 [0] graph/xml.cc:330 NCCL WARN XML Topology has wrong version 2, 1 needed"),
    ("nccl/topo-file-bad", "n1:79:79 [0] graph/xml.cc:1257 NCCL WARN Could not open XML graph file /g : No such file"),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "nccl/init-failed",
        "/w/nvshmem/src/host/transport/transport.cpp:nvshmemi_transport_init:287: Unable to initialize any transports. "
        "returning error.",
    ),
    (
        "nccl/init-failed",
        "/w/nvshmem/src/host/init/init.cu:nvshmemi_check_state_and_init:1080: nvshmem initialization failed, exiting",
    ),
    ("nccl/infiniband-gid", "ibv_modify_qp failed"),
    (
        "nccl/init-failed",
        "/opt/nvshmem/nvshmem/src/modules/transport/ibgda/ibgda.cpp:1889: NULL value cannot allocate mlx5dv_devx_uar",
    ),
    (
        "nccl/init-failed",
        "/dvs/p4/build/main_nvshmem/src/host/transport/transport.cpp:420: non-zero status: 7 connect EPS failed",
    ),
    ("nccl/init-failed", "createBackend: backend 'UCX' encountered error with status NIXL_ERR_BACKEND"),
    ("nccl/init-failed", "[FATAL ERROR]: HIP failure: 'invalid device pointer'"),
    (
        "nccl/cumem-host",
        "node1:1234:1250 [0] misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory segment "
        "/dev/shm/nccl-glnlGK (size 14156128), error: No such file or directory (2)",
    ),
    (
        "nccl/init-failed",
        "n1:1:2 [3] accept_wait_for_connection:4909 NCCL WARN NET/OFI Unexpected number of remote rails for dev 3. "
        "Expected 4 but got 1",
    ),
    ("nccl/rdma-device-missing", "node:1:2 [0] net.cc:512 NCCL WARN Error: network IB not found."),
    ("nccl/rdma-device-missing", "node:1:2 [0] plugin/net.cc:349 NCCL WARN Failed to initialize any NET plugin"),
    ("nccl/rdma-device-missing", "Failed to initialize any NET plugin"),
    (
        "nccl/init-failed",
        "torch.distributed.DistBackendError: NCCL error in: "
        "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled system error (run with "
        "NCCL_DEBUG=INFO for details), NCCL version 2.18.1",
    ),
    ("nccl/init-failed", "n1:1:2 [0] NCCL WARN Cuda failure 'invalid argument'"),
    ("nccl/init-failed", "n1:1:2 [0] NCCL WARN No transport found for rank 0[1000] -> rank 1[2000]"),
    (
        "nccl/p2p-broken",
        "n1:1:2 [1] /home/u/rccl/src/transport/p2p.cc:220 NCCL WARN hipIpcGetMemHandle failed : invalid argument",
    ),
    (
        "nccl/init-failed",
        "n1:1:1 [7] component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
    ),
    (
        "nccl/init-failed",
        "RuntimeError: create:torch_npu/x.cpp:89 HCCL function error: HcclCommInitRootInfo(), error code is 1",
    ),
    ("nccl/init-failed", "EI0006: 2024-08-05-18:15:21.270.506 Getting socket times out. Reason: Remote Rank did not"),
    (
        "nccl/init-failed",
        "[PID: 749] 2025-12-29-03:16:15.787.356 Get_Socket_Timeout(EI0006): Getting socket times out.",
    ),
    ("nccl/init-failed", "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64"),
    ("nccl/init-failed", "RuntimeError: nonblocking NCCL communicator: ncclCommInitRankConfig timed out after 1800 s"),
    ("nccl/imex", "node1:1:2 [0] NCCL WARN Cuda failure 800 'operation not permitted'"),
    ("nccl/init-failed", "RuntimeError: NCCL AllReduce failed"),
    ("nccl/init-failed", "RuntimeError: NCCL timeout when waiting for nonblocking call to become successful."),
    ("nccl/init-failed", "node1:1234:1250 [0] NCCL INFO init.cc:1263 -> 2"),
    (
        "nccl/init-failed",
        "node1:1234:1250 [0] os/linux_ipcsocket.cc:170 NCCL WARN UDS: Sending data over socket "
        "/tmp/nccl-socket-0-1 failed : Connection refused (111)",
    ),
    (
        "nccl/infiniband-unreachable",
        "node1:1234:1250 [0] misc/ibvwrap.cc:200 NCCL WARN Call to ibv_poll_cq() returned -1",
    ),
    (
        "nccl/p2p-broken",
        "node1:1234:1250 [0] graph/paths.cc:300 NCCL WARN P2P is disabled between NVLINK connected GPUs 1 "
        "and 0. This should not be the case",
    ),
    (
        "nccl/init-failed",
        "n1:79:79 [0] nccl_net_ofi_domain_get_ep:969 NCCL WARN NET/OFI Creating new endpoint for domain 0x7f9befa99380 "
        "failed: Invalid argument",
    ),
    ("nccl/init-failed", "n1:85:90 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3"),
    ("nccl/driver-too-old", "n1:508:508 [0] init.cc:426 NCCL WARN Cuda failure 'operation not supported'"),
    ("nccl/no-memory-pools", "n1:508:508 [0] init.cc:426 NCCL WARN Cuda failure 'operation not supported'"),
    (
        "nccl/infiniband-unreachable",
        "n1:79:79 [0] transport/net_ib/p2p.cc:612 NCCL WARN NET/IB: Got completion from peer 10.2.0.7<51002> with "
        "status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_RECV(128) vendor_err=249 (Recv) hca mlx5_3",
    ),
    *(
        ("nccl/gpudirect", f"n1:79:79 [0] transport/net_ib/common.cc:88 NCCL WARN NET/IB : mlx5_1:1 {words}")
        for words in (
            "async fatal event on QP (0x7309dc3bb338): invalid request local work queue error",
            "Got async event : local access violation work queue error",
            "async fatal event on QP (0x7f00) qpn=77 handle=1 state=4 sq_psn=1: local work queue catastrophic error",
        )
    ),
    (
        "nccl/init-failed",
        "n1:79:79 [0] init.cc:1360 NCCL WARN Detected mixed local CollNet device counts across ranks (min 0, max 4).",
    ),
    (
        "nccl/init-failed",
        "enqueue.cc:2119 NCCL WARN HIP failure 'the operation cannot be performed in the present state'",
    ),
    (
        "nccl/init-failed",
        "[ERROR] HCCL(36035,python):2025-05-13-02:25:58.068.817 [op_base.cc:974][36818][Init][CommRootInfoConfig]"
        "errNo[0x0000000005000002]HcclCommInitRootInfo failed.",
    ),
    (
        "nccl/p2p-broken",
        "RuntimeError: Forward order differs across ranks: rank 0 is all-gathering 1 parameters while rank 4 is "
        "all-gathering -2142209024 parameters",
    ),
    (
        "nccl/init-failed",
        "RuntimeError: oneCCL: atl_ofi_comm.cpp:232 init_transport: EXCEPTION: failed to initialize ATL",
    ),
    (
        "nccl/gpudirect",
        "/w/nvshmem/src/modules/transport/ibgda/ibgda.cpp:nvshmemt_init:3626: neither nv_peer_mem, or nvidia_peermem "
        "detected. Skipping transport.",
    ),
)
