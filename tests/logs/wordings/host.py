"""Lines that are written of failures of the stage host."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    (
        "host/shared-memory-small",
        "Nov 25 22:51:04 gpu03 systemd[1]: torch@2.service: Main process exited, code=dumped, status=7/BUS",
    ),
    (
        "host/hostname-numeric",
        "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:212] ifa != nullptr. "
        "Unable to find interface for: [0.0.0.189]",
    ),
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
    ("host/ports-exhaustible", "node:1:2 [0] misc/socket.cc:409 NCCL WARN Call to bind failed: Address already in use"),
    (
        "host/interfaces-hidden",
        "RuntimeError: [enforce fail at /__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:186] rv != "
        "-1. -1 vs -1. Address family not supported by protocol",
    ),
    (
        "host/ports-exhaustible",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:176] bind: Address already in use",
    ),
    (
        "host/hostname-unresolvable",
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:127] rp != nullptr. Unable to "
        "find address for: gpu07",
    ),
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
    (
        "host/disk-full",
        "OSError: [Errno 28] Auf dem Gerät ist kein Speicherplatz mehr verfügbar: '/scratch/step_40.pt'",
    ),
    ("host/disk-full", "OSError: [Errno 28] No space left on device: '/home/u/ckpt/step_100'"),
    ("host/compile-cache-shared", "OSError: [Errno 116] Stale file handle: '/home/u/.triton/cache/abc/kernel.json'"),
    ("host/ptrace-denied", "RuntimeError: pidfd_getfd: Operation not permitted"),
    ("host/user-unknown", "KeyError: 'getpwuid(): uid not found: 1042'"),
    ("host/tmpdir-too-long", "OSError: AF_UNIX path too long"),
    ("host/conntrack-full", "[ 1234.567890] nf_conntrack: nf_conntrack: table full, dropping packet"),
    ("host/disk-full", "The node was low on resource: ephemeral-storage. Container main was using 10Gi"),
    (
        "host/extension-lock-stale",
        '  File "/opt/venv/lib/python3.12/site-packages/torch/utils/file_baton.py", line 50 in wait',
    ),
    (
        "host/hostname-numeric",
        "[E socket.cpp:610] [c10d] The client socket has failed to connect to any network address of (05, 40323).",
    ),
    (
        "host/shared-memory-small",
        "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGBUS",
    ),
    ("host/shared-memory-small", "[node1:1234] Signal: Bus error (7)"),
    ("host/thread-limit", "[ 1234.567890] cgroup: fork rejected by pids controller in /docker/abc"),
    ("host/shared-memory-small", "[n1:1234 :0:1234] Caught signal 7 (Bus error: nonexistent physical address)"),
    ("host/shared-memory-small", "x3006c0s1b0n0.hsn.cm.polaris.example.org: rank 0 exited with code 135"),
    (
        "host/disk-full",
        "  Warning  Evicted  109s  kubelet  Pod ephemeral local storage usage exceeds the total limit of "
        "containers 5Gi.",
    ),
    ("host/disk-full", 'Usage of EmptyDir volume "cache" exceeds the limit "10Gi".'),
    (
        "host/hostname-unresolvable",
        "[mpiexec@gpu3] HYDU_sock_is_local (utils/sock/sock.c:532): gethostbyname error on gpu3: Host name lookup "
        "failure",
    ),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "host/leftover-processes",
        "EJ0001: [PID: 35532] 2025-08-26-04:05:21.569.071 Failed to initialize the HCCP process. Reason: Maybe the "
        "last training process is running.",
    ),
    ("host/clock-skew", "srun: error: Task launch for 36.0 failed on node cn131: Job credential expired"),
    ("host/clock-skew", "slurmd: error: Munge decode failed: Rewound credential"),
    (
        "host/compile-cache-shared",
        'failed to stat "/var/lib/kubelet/mount": stat /var/lib/kubelet: stale NFS file handle',
    ),
    (
        "host/shared-memory-small",
        "n1:1:2 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-NzwJ7O (size 9637888)",
    ),
    ("host/filesystem-stalled", "RuntimeError: DataLoader timed out after 30 seconds"),
    (
        "host/filesystem-stalled",
        "[default] Worker pid=4321 stuck in uninterruptible sleep (D-state) for 62.0s (>= 60.0s); marking "
        "worker group UNHEALTHY",
    ),
    (
        "host/filesystem-stalled",
        "[ 1234.567890] Lustre: lustre-OST0001: Connection to lustre-OST0001 (at 10.0.0.1@o2ib) was lost; in "
        "progress operations using this service will wait for recovery to complete",
    ),
    (
        "host/filesystem-stalled",
        "Nov 22 10:00:00 n3 kernel: LustreError: 167-0: scratch-MDT0000-mdc-ffff: This client was evicted by "
        "scratch-MDT0000; in progress operations using this service will fail.",
    ),
    ("host/filesystem-stalled", "[ 1234.567890] blk_update_request: I/O error, dev sda, sector 12345"),
    ("host/filesystem-stalled", "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/data'"),
)
