"""Lines that are written of failures of the stage network."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    ("network/port-in-use", "Reason: The IP address and port have been bound already."),  # of Ascend, EJ0003
    (
        "network/port-in-use",
        "[PID: 41] 2026-01-21-11:38:29.575.404 Communication_Error_Bind_IP_Port(EI0019): Failed to enable listening "
        "for the host network adapter socket.Reason: The IP address 10.1.1.100 and port 50001 have already been bound.",
    ),
    (
        "network/port-in-use",
        "[ERROR] HCCL(41,train):2026-01-21-13:18:47.639.860 [hccl_socket.cc:110] [41][InitChannelStage][Ranktable] "
        "socket type[2], listen on ip[10.1.1.100%enp53s0f2] and specific port[60000] fail. Please check the port "
        "status and whether the port is being used by other process.",
    ),
    (
        "network/port-in-use",
        "[ERROR] HCCL(41,train):2026-01-21-13:18:47.639.860 [hccl_socket.cc:110] [41][InitChannelStage][Resource] "
        "socket type[0], The IP address 10.1.1.9 and port 16 have already been bound. Please check the port status and "
        "whether the port is being used by other process.",
    ),
    (  # of Windows, in German
        "network/port-in-use",
        "[E socket.cpp:957] [c10d] The server socket has failed to bind to [::]:29500 (system error: 10048 - "
        "Normalerweise darf jede Socketadresse nur jeweils einmal verwendet werden.).",
    ),
    (
        "network/master-not-node0",
        "[W socket.cpp:957] [c10d] The server socket has failed to bind to 10.1.2.3:29500 (system error: 10049 - The "
        "requested address is not valid in its context.).",
    ),
    (
        "network/wrong-interface",
        "socketPollConnect: connect to 169.254.20.10<52597> returned Connection refused, exceeded error retry count "
        "after 35 attempts",
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
        "network/port-in-use",
        "ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing "
        "it. Please specify a different port (such as using the `--main_process_port` flag or specifying a different "
        "`main_process_port` in your config file) and rerun your script.",
    ),
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
    ("network/port-in-use", "RuntimeError: on node1, port: 29400 already in use"),
    (
        "network/engine-port-in-use",
        "ValueError: Port is already in use. dist_init_port=5000 port_base=5001 detokenizer_port=5002 nccl_port=23001 "
        "scheduler_input_port=5005",
    ),
    ("network/engine-port-in-use", "ValueError: scheduler_input_port at 5005 is not available in 30 seconds."),
    ("network/engine-server-unreachable", "E1129 07:05:49.807340 19267 master_client.cpp:361] Client not available"),
    (
        "network/engine-server-unreachable",
        "W1129 07:05:49.807763 19219 real_client.cpp:858] Failed to create client on port 12552, retry 11/20",
    ),
    (
        "network/engine-server-unreachable",
        "E1129 07:07:51.075397 26825 transfer_metadata_plugin.cpp:340] PUT http://10.0.0.1:8080/metadata?key=mooncake%2F"
        "rpc_meta%2F10.0.0.2%3A14152 curl: Couldn't connect to server err: Failed to connect to 10.0.0.1 port 8080",
    ),
    (
        "network/engine-server-unreachable",
        "E1129 07:07:48.750041 26567 transfer_metadata_plugin.cpp:454] EtcdStoragePlugin: unable to connect : no valid "
        "endpoints provided",
    ),
)
SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "network/port-in-use",
        "RuntimeError: The server socket has failed to listen on any local network address. port: 29",
    ),
    (
        "network/engine-server-unreachable",
        "[2026-03-03 20:02:40,466 W 41 41] rpc_client.h:153: Failed to connect to GCS at address 10.0.0.6:48057 within "
        "5 seconds.",
    ),
    (
        "network/engine-server-unreachable",
        "[2026-03-03 20:03:10,467 W 41 41] gcs_client.cc:205: Failed to get cluster ID from GCS server: TimedOut: "
        "Timed out while waiting for GCS to become available.",
    ),
    ("network/engine-server-unreachable", "RuntimeError: Initialize MooncakeDistributedStore failed."),
    ("network/engine-server-unreachable", "RuntimeError: Failed to setup Mooncake store, error code: -1"),
    (
        "network/port-filtered",
        "[W socket.cpp:697] [c10d] The client socket has failed to connect to [host0]:29500 (system error: 10060 - A "
        "connection attempt failed because the connected party did not properly respond after a period of time.).",
    ),
    ("network/master-unresolvable", "nslookup: can't resolve 'job-master-0': Name does not resolve"),  # busybox's
    ("network/master-unresolvable", "** server can't find job-master-0: NXDOMAIN"),
    (
        "network/master-not-node0",
        "TimeoutError: The client socket has timed out after 60s while trying to connect to (10.0.0.1, 29500).",
    ),
    (
        "network/port-refused",
        "[E socket.cpp:957] [c10d] The client socket has failed to connect to any network address of (node1, 29500).",
    ),
    (
        "network/port-refused",
        "ERROR:etcd.client:Failed to get list of machines from http://localhost:2379/v2: EtcdException('Bad response : "
        "404 page not found')",
    ),
    ("network/port-filtered", "RuntimeError: Connection timed out"),
    (  # torch 2.13 prints a wrong address here, as elsewhere; the port was dropped, with tcp_syn_retries=1
        "network/port-filtered",
        "[W1127 11:22:28.692735906 socket.cpp:938] [c10d] The server socket on [2:0:1::]:21135 has timed out, will "
        "retry.",
    ),
    (
        "network/wrong-interface",
        "n2:9:9 [0] NCCL WARN socketStartConnect: Connect to 127.0.0.1<4567> failed : Connection refused",
    ),
)
