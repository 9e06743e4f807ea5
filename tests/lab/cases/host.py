"""The table, stage host: limits, names and leftovers of a host."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases.common import ALL3, BOTH, NCCL_HOST
from tests.lab.faults import everywhere, inside, together
from tests.lab.faults.host import (
    FOREIGN_STORE,
    build_lock,
    clock,
    folder_without_files,
    full_folder,
    kernel_says,
    leftover,
    logind_keeps,
    logind_removes,
    long_temporary_folder,
    memory_limit,
    own_folder,
    port_held,
    port_range,
    process_limit,
    shared_memory,
    unknown_user,
)
from tests.lab.faults.installed import usual_installation
from tests.lab.faults.launch import as_user, c10d, flag, one_node, shell, variable
from tests.lab.faults.links import second_network
from tests.lab.faults.names import name_at, name_removed, own_name_at, silent_name_server
from tests.lab.faults.processes import plain_shell, sandboxed
from tests.lab.faults.storage import (
    folder_of_server,
    folder_without_locks,
    other_machines,
    server_answers,
    stalled_folder,
)
from tests.lab.harness.case import Case, Root, patient
from tests.lab.harness.host import PRIVATE, SHARED

CLONE3, SOCKET, AF_NETLINK, PIDFD_GETFD = 435, 41, 16, 438
"""Of x86-64."""
DATA = f"{SHARED}/data"

CASES = [
    Case("nccl only, 127.0.1.1 on both", own_name_at("127.0.1.1", 0, 1), "host/hostname-loopback", ["host0", "host1"], "warn", live=False, flags=NCCL_HOST),
    Case("nccl only, own name unknown", name_removed(1, "host1"), "host/hostname-unresolvable", ["host1"], "warn", live=False, master="10.77.0.10", flags=NCCL_HOST),
    *patient(
        Case("64k of shared memory on one", shared_memory("64k", 1), "host/shared-memory-small", ["host1"], "warn"),
        Case("64k of shared memory on all of 3", shared_memory("64k", 0, 1, 2), "host/shared-memory-small", ALL3, "warn", hosts=3),
        Case("/dev/shm is closed to the user", together(as_user(0, 1), inside(1, "chmod 0555 /dev/shm")), "host/shared-memory-permission", ["host1"], "warn"),
        Case("16 open files", shell("ulimit -S -n 16", 1), "host/open-files-limit", ["host1"], torch="2 s"),
        Case("64 open files", shell("ulimit -S -n 64", 1), "host/open-files-limit", ["host1"], "warn", torch="never (trains)"),
        Case("1,006 of 1,024 files are open before the job", shell('ulimit -S -n 1024; for n in $(seq 10 1015); do eval "exec $n</dev/null"; done', 1), "host/open-files-limit", ["host1"], needs=["bash"], torch="2 s"),
        Case("20 ports for outgoing connections", port_range(40000, 40019, 1), "host/ports-exhaustible", ["host1"], "warn"),
        Case("MASTER_PORT among the ports for anybody", flag("--master-port", "40000", 0, 1), "host/master-port-ephemeral", ["host0"], "warn", options=(1, 2)),
        Case("a privileged port", together(as_user(0, 1), flag("--master-port", "80", 0, 1)), "host/port-privileged", ["host0"], wait=8),
        Case("a rank of an earlier run", leftover(1), "host/leftover-processes", ["host1"], "warn"),
        Case("a rank of an earlier run holds another port", leftover(0, 23456), "host/leftover-processes", ["host0"], "warn"),
        Case("a clock 30 s ahead, 2 nodes", clock(30, 1), "host/clock-skew", BOTH, "warn", "one-of", by_hand=usual_installation),
        Case("a clock 30 s behind, 3 nodes", clock(-30, 2), "host/clock-skew", ["host2"], "warn", hosts=3, by_hand=usual_installation),
        Case("a name server that drops packets", silent_name_server(1, 0), "host/dns-slow", ["host1"], "warn", within=25, torch="+10 s a look-up, no cause"),
        Case("own name unknown, one node alone", together(name_removed(0, "host0"), one_node), "host/rendezvous-name", ["host0"], hosts=1, options=(1, 2), torch="at once, a name only"),
        Case("no space for temporary files", full_folder("TMPDIR", 1), "host/disk-full", ["host1"], "warn"),
        Case("folders that the user makes are closed to it", together(as_user(0, 1), shell("umask 777", 1)), "host/temporary-folder", ["host1"], torch="at once"),
        Case("a cache on a full disk", full_folder("TRITON_CACHE_DIR", 0, 1), "host/disk-full", BOTH, "warn", by_hand=together(variable("TRITON_CACHE_DIR", None, 0, 1))),
        Case("a quota on a file server is used up", folder_of_server("HF_HOME", "ann@filer:/home", 1, refuses="EDQUOT"), "host/disk-full", ["host1"], "warn", by_hand=variable("HF_HOME", None, 1), torch="never (trains)"),
        Case("a folder for all is another one on host 1", own_folder(DATA, 1), "host/shared-dir-differs", ["host1"], hosts=3, flags=("--shared", DATA), by_hand=inside(1, f"umount {DATA}"), torch="never (trains)"),
        Case("connections dropped for want of room in the table", kernel_says("nf_conntrack: table full, dropping packet", 1), "host/conntrack-full", ["host1"], "warn", by_hand=variable("LD_PRELOAD", None, 1), needs=["cc"], torch="never (trains)"),
        Case("a network card that loses its link again and again", kernel_says("eth0: Link is Down\neth0: Link is Up\neth0: Link is Down", 1), "network/link-flaps", ["host1"], "warn", by_hand=variable("LD_PRELOAD", None, 1), needs=["cc"], torch="never (trains)"),
        Case("Triton's folder with noexec", together(variable("TRITON_CACHE_DIR", f"{PRIVATE}/triton", 1), inside(1, f"mkdir {PRIVATE}/triton; mount -t tmpfs -o noexec lab {PRIVATE}/triton")), "host/folder-noexec", ["host1"], "warn", torch="never (trains)"),
        Case("TMPDIR with noexec", together(variable("TMPDIR", f"{PRIVATE}/tmp", 1), inside(1, f"mkdir {PRIVATE}/tmp; mount -t tmpfs -o noexec lab {PRIVATE}/tmp")), "host/folder-noexec", ["host1"], "warn", torch="never (trains)"),
        Case("a cache below a file", together(variable("TRITON_CACHE_DIR", f"{PRIVATE}/file/triton", 1), inside(1, f"touch {PRIVATE}/file")), "host/cache-unwritable", ["host1"], "warn", torch="never (trains)"),
        Case("files of 1 MB at most", shell("ulimit -S -f 1000", 1), "host/file-size-limit", ["host1"], "warn", torch="never (trains)"),
        Case("10 minutes of processor time", shell("ulimit -S -t 600", 1), "host/cpu-time-limit", ["host1"], "warn", torch="never (trains)"),
        Case("TMPDIR of 90 letters", long_temporary_folder(1), "host/tmpdir-too-long", ["host1"], "warn"),
        Case("a lock of a build that was killed", build_lock(2, 1), "host/extension-lock-stale", ["host1"], "warn"),
        Case("2 ranks on one CPU", shell("taskset -cp 0 $$ >/dev/null", 1), "host/cpu-affinity", ["host1"], "warn", needs=["taskset"]),
        Case("OpenMP binds the first thread of each rank", variable("OMP_PROC_BIND", "true", 1), "host/cpu-affinity", ["host1"], "warn", torch="never (trains)"),
        Case("/dev/shm is read-only", inside(1, "mount -t tmpfs -o ro,size=16g lab /dev/shm"), "host/shared-memory-permission", ["host1"], "warn", torch="never (trains)"),
        Case("more OpenMP threads than process numbers", variable("OMP_NUM_THREADS", "4000000", 1), "host/thread-limit", ["host1"], "warn", torch="never (trains)"),
        Case("300 MB for 2 ranks", memory_limit(300, 1), "host/memory-limit", ["host1"], by_hand=memory_limit(6000, 1)),
        Case("12 processes and threads", process_limit(12, 1), "host/thread-limit", ["host1"], by_hand=process_limit(4000, 1)),
        Case("20 processes and threads", process_limit(20, 1), "host/thread-limit", ["host1"], "warn", by_hand=process_limit(4000, 1), torch="never (trains)"),
        Case("a user without an entry, a name or a home", unknown_user(4711, 1), "host/user-unknown", ["host1"], "warn"),
        Case("c10d at node 0's address, and node 1 does not know its name", together(name_removed(1, "host0"), c10d("a", "a")), "host/rendezvous-name", ["host1"], master="10.77.0.10", options=(1, 2), torch="never"),
        Case("own name of node 1 unknown, c10d", together(name_removed(1, "host1"), variable("GLOO_SOCKET_IFNAME", "eth0", 0, 1), c10d("a", "a")), "host/rendezvous-name", ["host1"], torch="2 s, a name only"),
        Case("c10d, each host called by a card to which the other has no route", together(second_network("10.99.0.10/24", "10.99.1.11/24"), flag("--local-addr", "10.99.0.10", 0), flag("--local-addr", "10.99.1.11", 1), c10d("a", "a")), "host/rendezvous-name", ["host0"], torch="16 s, an errno, another address"),
        Case("c10d, host0 called by a card that a default route does not lead to", together(second_network("10.99.0.10/24", ""), inside(1, "ip route add default via 10.77.0.99"), flag("--local-addr", "10.99.0.10", 0), c10d("a", "a")), "host/rendezvous-name", ["host0"], torch="never"),
        Case("host names of digits", variable("GLOO_SOCKET_IFNAME", "eth0", 0, 1), "host/hostname-numeric", ["6841231", "6841232"], hosts=["6841231", "6841232"], curable=True, torch="3 s, an address nobody has"),
        Case("a file server does not answer", together(stalled_folder("HF_HOME", "fs1", 1), kernel_says("nfs: server fs1 not responding, still trying", 1)), "host/filesystem-stalled", ["host1"], "warn", by_hand=together(server_answers, variable("LD_PRELOAD", None, 1), variable("HF_HOME", None, 1)), needs=["cc"], torch="never (trains)"),
        Case("two hosts called worker", together(name_at(0, "worker", "10.77.0.10"), name_at(1, "worker", "10.77.0.11"), c10d("a", "a")), "host/duplicate-hostname", ["worker#0", "worker#1"], hosts=["worker", "worker"], master="10.77.0.10", torch="60 s, one side"),
        Case("one cache of Triton's for two machines", together(other_machines(0, 1), folder_of_server("TRITON_CACHE_DIR", "ann@filer:/scratch", 0, 1)), "host/compile-cache-shared", ["host0", "host1"], "warn", torch="never (trains)"),
        Case("files in HF_HOME cannot be locked", folder_without_locks("HF_HOME", 1), "host/cache-without-locks", ["host1"], "warn", needs=["cc"], torch="never (trains)"),
        Case("a sandbox without netlink sockets", sandboxed(SOCKET, 1, AF_NETLINK), "host/interfaces-hidden", ["host1"], by_hand=plain_shell, torch="2 s, an errno"),
        Case("a sandbox that does not know clone3()", sandboxed(CLONE3, 1), "host/thread-limit", ["host1"], by_hand=plain_shell, torch="2 s, an errno"),
        Case("lo is down on node 1 of 3", inside(1, "ip link set lo down"), "host/lo-down", ["host1"], hosts=3, torch="not measured"),
        Case("all but 20 of the ports are reserved", inside(1, "echo 32768-60979 > /proc/sys/net/ipv4/ip_local_reserved_ports"), "host/ports-exhaustible", ["host1"], "warn"),
        Case("two: lo is down on node 0, another job's store holds the port", together(port_held(0, FOREIGN_STORE), inside(0, "ip link set lo down")), "store/foreign-store", ["host0"], also=[Root("host/lo-down", ["host0"])], alone=["network/port-in-use"]),
        Case("300 MB of data for each process", shell("ulimit -S -d 300000", 1), "host/memory-limit", ["host1"], "warn", torch="never (trains)"),
        Case("expandable segments that a sandbox does not let processes share", together(sandboxed(PIDFD_GETFD, 1), variable("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", 0, 1)), "host/ptrace-denied", ["host1"], "info", live=False, flags=NCCL_HOST, torch="never (trains)"),
        Case("logind removes shared memory", logind_removes(4711, 1), "host/remove-ipc", ["host1"], "info", by_hand=logind_keeps, torch="never (trains)"),
        Case("no more files may be made in TMPDIR", folder_without_files("TMPDIR", 1), "host/disk-full", ["host1"], "warn", torch="never (trains)"),
        Case("a cache is mounted read-only", together(variable("TRITON_CACHE_DIR", "/run/cache", 0, 1), everywhere("mkdir /run/cache"), inside(1, "mount -t tmpfs -o ro lab /run/cache")), "host/disk-full", ["host1"], "warn", by_hand=inside(1, "umount /run/cache"), torch="never (trains)"),
    ),
]  # fmt: skip
