"""Lines that kernels from 4.18 to 6.8 write to their log, with the times that dmesg and the journal put before them."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    (
        "process/killed-by-oom",
        "[81234.123456] Memory cgroup out of memory: Killed process 2345678 (python3) total-vm:41234567kB, "
        "anon-rss:33554432kB, file-rss:12345kB, shmem-rss:0kB, UID:1000 pgtables:70000kB oom_score_adj:0",
    ),
    (
        "process/killed-by-oom",
        "2026-01-23T03:00:00,123456+00:00 oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,"
        "mems_allowed=0-1,oom_memcg=/system.slice/slurmstepd.scope/job_77/step_0,task_memcg=/system.slice/"
        "slurmstepd.scope/job_77/step_0/user/task_3,task=python,pid=123,uid=1000",
    ),
    (
        "process/killed-by-oom",
        "kern  :info  : [  812.123456] oom_reaper: reaped process 991 (pt_main_thread), now anon-rss:0kB, "
        "file-rss:163840kB, shmem-rss:12345kB",
    ),
    ("process/killed-by-oom", "[Fri Jan 23 03:00:00 2026] Out of memory: Killed process 991 (python) total-vm:1kB"),
    ("host/disk-full", "[ 1234.567890] BTRFS info (device sda2: state EA): forced readonly"),
    (
        "process/crashed",
        "[ 1234.567890] Memory failure: 0x8d3c00: Sending SIGBUS to python:4711 due to hardware memory corruption",
    ),
    (
        "process/crashed",
        "[ 1234.567890] Memory failure: 0x8d3c00: Killing python:4711 due to hardware memory corruption",
    ),
    (
        "process/crashed",
        "[ 1234.567890] pt_main_thread[4711]: segfault at 0 ip 00007f2f0c3a3f50 sp 00007ffd01234567 error 4 in "
        "libnccl.so.2.21.5[7f2f0c200000+5000000] likely on CPU 3 (core 3, socket 0)",
    ),
    (
        "process/crashed",
        "[ 1234.567890] traps: python3[4711] trap invalid opcode ip:7f2f0c3a3f50 sp:7ffd00000000 error:0 in "
        "libtorch_cpu.so[7f2f0c200000+5000000]",
    ),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    ("host/filesystem-stalled", "[ 1234.567890] INFO: task kworker/u64:3:991 blocked for more than 120 seconds."),
    ("host/filesystem-stalled", "[ 1234.567890] INFO: task pt_main_thread:4711 blocked for more than 122 seconds."),
    ("host/filesystem-stalled", "[ 1234.567890] nfs: server 10.1.2.3 not responding, timed out"),
    ("host/filesystem-stalled", "[ 1234.567890] XFS (dm-3): Filesystem has been shut down due to log error (0x2)."),
    (
        "host/filesystem-stalled",
        "[ 1234.567890] XFS (sdb1): xfs_do_force_shutdown(0x2) called from line 1272 of file fs/xfs/xfs_log.c.",
    ),
    ("host/filesystem-stalled", "[ 1234.567890] nvme nvme0: I/O 12 QID 4 timeout, reset controller"),
    (
        "gpu/hardware",
        "[ 1234.567890] pcieport 0000:16:01.0: AER: Uncorrectable (Fatal) error message received from 0000:17:00.0",
    ),
    (
        "gpu/hardware",
        "[ 1234.567890] pcieport 0000:16:01.0: AER: Multiple Uncorrected (Fatal) error received: 0000:17:00.0",
    ),
    ("network/link-flaps", "[ 1234.567890] NETDEV WATCHDOG: ens1f0 (mlx5_core): transmit queue 3 timed out"),
    (
        "network/link-flaps",
        "[ 1234.567890] mlx5_core 0000:5e:00.0 ens1f0: NETDEV WATCHDOG: CPU: 9: transmit queue 3 timed out 5120 ms",
    ),
    (
        "nccl/infiniband-link",
        "[ 1234.567890] mlx5_core 0000:5e:00.0: poll_health:830:(pid 0): device's health compromised - reached miss "
        "count",
    ),
)
