"""Jobs of two ranks on one GPU that go wrong, `hang` at each while it is stuck, and what it left when it is dead.

    python3 tests/gpu/jobs.py FOLDER [--minutes 3] [--at-once 6]

NCCL takes the ranks for two machines (act.py), so they meet over sockets as two nodes do. FOLDER gets
gpu-jobs.tar.gz: for each job its console, its dumps, and what `hang` said of it, with summary.txt. With `ip` and the
rights for it, `check` runs on two hosts that are network namespaces, which share the GPU, healthy and with faults.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.gpu.facts import distdoctor, end_all, run, tell, with_wheels  # noqa: E402

ACT = Path(__file__).with_name("act.py")
RECORDED = ROOT / "tests/recorded/gpu"
DUMPS = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
INFO = {"NCCL_DEBUG": "INFO"}
READY_SECONDS, STUCK_SECONDS, JOB_SECONDS, HANG_SECONDS = 40, 6, 60, 40


@dataclass(frozen=True)
class Job:
    """Two ranks that do this, and whether `hang` looks at them."""

    name: str
    act: str
    look: bool = True
    env: dict[str, str] = field(default_factory=dict)
    launched: bool = True
    """By torchrun; otherwise each rank by itself, as a script of srun's would."""
    seconds: float | None = None
    """When it is ended at the latest; None: after the look, or JOB_SECONDS where there is none."""


JOBS = (
    Job("late, to its end", "late", False, DUMPS, seconds=240),
    Job("healthy", "healthy", seconds=40),
    Job("late", "late"),
    Job("late, by hand", "late", launched=False),
    Job("another operation", "other_operation", True, DUMPS, seconds=70),
    Job("receives", "receives"),
    Job("two groups", "two_groups", True, DUMPS, seconds=70),
    Job("leaves", "leaves"),
    Job("barrier", "barrier"),
    Job("never begins", "never_begins"),
    Job("never reduces", "never_reduces"),
    Job("never begins, device_id", "never_begins_device_id"),
    Job("kernel", "kernel", True, DUMPS, seconds=70),
    Job("loader", "loader"),
    Job("uneven", "uneven", True, DUMPS, seconds=70),
    Job("fsdp", "fsdp"),
    Job("loop", "loop"),
    Job("rank 0 alone saves", "rank_0_alone_saves", True, DUMPS, seconds=70),
    Job("stopped", "stopped"),
    Job("raises, by hand", "raises", True, INFO, False),
    Job("killed, by hand", "killed", True, INFO, False, seconds=60),
    Job("device assert, by hand", "device_assert", True, INFO, False),
    Job("sends", "sends", True, DUMPS, seconds=70),
    Job("lock", "lock"),
    Job("server", "server"),
    Job("objects", "objects", True, DUMPS, seconds=70),
    Job("two backends", "two_backends", True, DUMPS, seconds=70),
    Job("monitored barrier", "monitored"),
    Job("another device", "other_device", False),
    Job("interface", "interface", False, INFO),
    Job("interface, no debug", "interface", False, {}),
    Job("another protocol", "other_protocol", True, INFO, seconds=60),
    Job("no InfiniBand", "infiniband", False, INFO),
    Job("one GPU twice", "duplicate", False, {"ONE_MACHINE": "1"}),
    Job("one GPU twice, info", "duplicate", False, {"ONE_MACHINE": "1", **INFO}),
    Job("another size, detail", "other_size", False, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
    Job("out of memory", "out_of_memory", False),
    Job("raises", "raises", False),
    Job("killed", "killed", False, INFO),
    Job("device assert", "device_assert", False),
)


def launch(job: Job, number: int, place: Path, python: str) -> list[subprocess.Popen[bytes]]:
    """The job's processes: torchrun's, or the two ranks."""
    env = {**os.environ, "NCCL_DEBUG": "WARN", **job.env, "READY": str(place), "OMP_NUM_THREADS": "1"}
    env["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = env["TORCH_FR_DUMP_TEMP_FILE"] = str(place / "dump_rank_")
    port, env["NCCL_RAS_ADDR"] = str(30100 + number), f"127.0.0.1:{30500 + number}"
    words = [python, str(ACT), job.act]
    if job.launched:
        start = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port]
        given = [([python, *start, *words[1:]], env, "console.log")]
    else:
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
        given = [
            (words, {**env, **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)}, f"rank{rank}.log")
            for rank in range(2)
        ]
    started = list[subprocess.Popen[bytes]]()
    for command, own, log in given:
        with open(place / log, "wb") as file:
            started.append(
                subprocess.Popen(
                    command, env=own, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
                )
            )
    return started


def job(one: Job, number: int, kept: Path, python: str) -> str:
    """Run it to its end, with a look at it where it is stuck."""
    place = kept / slug(one.name)
    place.mkdir()
    began = time.monotonic()
    processes = launch(one, number, place, python)
    said = ""
    try:
        while not all((place / str(rank)).exists() for rank in range(2)) and processes[0].poll() is None:
            if time.monotonic() - began > READY_SECONDS:
                break
            time.sleep(0.2)
        ready = time.monotonic() - began
        if one.look:
            time.sleep(STUCK_SECONDS)
            words = [*distdoctor(python, ()), "hang", "--pid", str(processes[0].pid), "-v", "-o", "text"]
            more = ["-o", f"json={place / 'hang.json'}", "--save", str(place / "hang.facts.json")]
            since = time.monotonic()
            status = run([*words, *more], place / "hang.txt", HANG_SECONDS)
            said = f", hang: status {status}, {time.monotonic() - since:.1f} s, {found(place / 'hang.json')}"
        statuses, last = list[int | None](), one.seconds or (0.0 if one.look else JOB_SECONDS)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(1.0, began + last - time.monotonic()))
            statuses.append(process.returncode)
    finally:
        ranks = [rank for process in processes for rank in children(process.pid)]
        for process in processes:
            process.terminate()  # torchrun ends its ranks, which are in sessions of their own
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(8)
            end_all(process)
        for rank in ranks:  # one that was stopped heeds nothing that torchrun had time for
            with contextlib.suppress(OSError):
                os.kill(rank, signal.SIGKILL)
    return f"{one.name}: ready {ready:.1f} s, ended {time.monotonic() - began:.1f} s {statuses}{said}"


def children(parent: int) -> list[int]:
    """The processes that this one has started, as long as it is there."""
    found = list[int]()
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if f"\nPPid:\t{parent}\n" in status.read_text():
                found.append(int(status.parent.name))
    return found


def found(report: Path) -> str:
    """The roots of a report."""
    try:
        said = json.loads(report.read_text())
        roots = [
            f"{one['check']} {one.get('blame', one.get('ranks', ''))}"
            for one in said["findings"]
            if one["because_of"] is None
        ]
        return f"{said.get('verdict')}: {'; '.join(roots) or 'nothing'}"
    except (OSError, ValueError, LookupError, TypeError) as error:
        return f"no report ({type(error).__name__})"


def slug(name: str) -> str:
    return "".join(char if char.isalnum() else "-" for char in name)


# -- two hosts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cluster:
    """A check on two hosts that share the GPU."""

    name: str
    env: tuple[dict[str, str], dict[str, str]] = ({}, {})
    flags: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    """Lines of shell, with {a} and {b} for the hosts' namespaces."""
    before: tuple[str, str] = ("true", "true")
    """What the shell of each host's rank does first: a limit, a mount that no other sees."""


def card(host: str, address: str) -> str:
    """A line that gives a host an eno1 with this address, which leads nowhere."""
    return " && ".join(
        (
            f"ip netns exec {{{host}}} ip link add eno1 type veth peer name zeno1",
            f"ip -n {{{host}}} addr add {address}/24 dev eno1",
            f"ip -n {{{host}}} link set eno1 up",
            f"ip -n {{{host}}} link set zeno1 up",
        )
    )


def drop(rule: str, how: str = "drop") -> str:
    """A line by which b drops what comes in so, or refuses it."""
    return " && ".join(
        (
            "ip netns exec {b} nft add table inet f",
            "ip netns exec {b} nft 'add chain inet f i {{ type filter hook input priority 0; }}'",
            f"ip netns exec {{b}} nft 'add rule inet f i {rule} {how}'",
        )
    )


NO_IPV6 = "ip netns exec {b} sysctl -qw net.ipv6.conf.all.disable_ipv6=1"
ONLY_IPV6 = " && ".join(
    f"ip -n {{{host}}} addr flush dev eth0 && ip -n {{{host}}} addr add fd77::{last}/64 dev eth0 nodad"
    for last, host in enumerate("ab", 1)
)
SECOND = " && ".join(
    (
        "ip link add eno1 netns {a} type veth peer name eno1 netns {b}",
        "ip -n {a} addr add 172.31.0.1/24 dev eno1 && ip -n {b} addr add 172.31.0.2/24 dev eno1",
        "ip -n {a} link set eno1 up && ip -n {b} link set eno1 up",
    )
)
"""A second network that both are in."""


def both(**env: str) -> tuple[dict[str, str], dict[str, str]]:
    return env, env


CLUSTERS = (
    Cluster("healthy"),
    Cluster("healthy, two networks", setup=(SECOND,)),
    Cluster("a card of its own on each", setup=(card("a", "172.31.0.1"), card("b", "172.31.1.1"))),
    Cluster("a card of its own on a", setup=(card("a", "172.31.0.1"),)),
    Cluster("a card of its own on b", setup=(card("b", "172.31.0.1"),)),
    Cluster("a card with one address on both", setup=(card("a", "172.31.0.1"), card("b", "172.31.0.1"))),
    Cluster(
        "a card named that is not shared",
        both(NCCL_SOCKET_IFNAME="eno1"),
        (),
        (card("a", "172.31.0.1"), card("b", "172.31.1.1")),
    ),
    Cluster("a second network whose packets are dropped", setup=(SECOND, drop("iifname eno1"))),
    Cluster("no such interface on b", ({}, {"NCCL_SOCKET_IFNAME": "nothing0"})),
    Cluster("InfiniBand where there is none", both(NCCL_NET="IB")),
    Cluster("another protocol", ({"NCCL_PROTO": "LL"}, {"NCCL_PROTO": "Simple"})),
    Cluster("another buffer size", ({"NCCL_BUFFSIZE": "1048576"}, {})),
    Cluster("IPv6 on one alone", ({"NCCL_SOCKET_FAMILY": "AF_INET6"}, {})),
    Cluster("sockets without a number", both(NCCL_SOCKET_NTHREADS="99")),
    Cluster("no GPU for b", ({}, {"CUDA_VISIBLE_DEVICES": ""})),
    Cluster("ports of b are dropped", setup=(drop("tcp dport 20000-65535 ct state new"),)),
    Cluster("b loses a small packet in ten", setup=(drop("meta length < 400 numgen random mod 100 < 10"),)),
    Cluster("b takes no full packet", setup=(drop("meta length > 1400"),)),
    Cluster("another algorithm", ({"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"})),
    Cluster("other numbers of channels", ({"NCCL_MAX_NCHANNELS": "1"}, {"NCCL_MIN_NCHANNELS": "8"})),
    Cluster("other numbers of sockets", ({"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"}, {})),
    Cluster("threads for one alone", ({"NCCL_NTHREADS": "64"}, {})),
    Cluster("the only interface shut out", both(NCCL_SOCKET_IFNAME="^eth")),
    Cluster("the interface by its whole name", both(NCCL_SOCKET_IFNAME="=eth0")),
    Cluster("loopback for both", both(NCCL_SOCKET_IFNAME="lo")),
    Cluster("loopback for b", ({}, {"NCCL_SOCKET_IFNAME": "lo"})),
    Cluster("IPv6 for both", both(NCCL_SOCKET_FAMILY="AF_INET6")),
    Cluster("an id at a's address", both(NCCL_COMM_ID="{net}.1:29777")),
    Cluster("an id at nobody's address", both(NCCL_COMM_ID="{net}.9:29777")),
    Cluster("an id for b alone", ({}, {"NCCL_COMM_ID": "{net}.1:29777"})),
    Cluster("a topology that is not there", both(NCCL_TOPO_FILE="/nowhere/topology.xml")),
    Cluster("a plugin that is not there", both(NCCL_NET_PLUGIN="nowhere")),
    Cluster("a network that is not there", both(NCCL_NET="Nothing")),
    Cluster("one without blocking", ({"TORCH_NCCL_USE_COMM_NONBLOCKING": "1"}, {})),
    Cluster("one that waits in its own thread", ({"TORCH_NCCL_BLOCKING_WAIT": "1"}, {})),
    Cluster("launches one by one", both(CUDA_LAUNCH_BLOCKING="1")),
    Cluster("no eager memory for one", ({"NCCL_CUMEM_ENABLE": "0"}, {})),
    Cluster("a log where none can be", both(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="/nowhere/nccl.%h.%p")),
    Cluster("a GPU by a name of another's", ({}, {"CUDA_VISIBLE_DEVICES": "GPU-00000000-1111-2222-3333-444444444444"})),
    Cluster("without blocking on both", both(TORCH_NCCL_USE_COMM_NONBLOCKING="1")),
    Cluster("no direct copies for one", ({"NCCL_P2P_DISABLE": "1"}, {})),
    Cluster("no shared memory for both", both(NCCL_SHM_DISABLE="1")),
    Cluster("no InfiniBand for one", ({"NCCL_IB_DISABLE": "1"}, {})),
    Cluster("one host's id for both", both(NCCL_HOSTID="node")),
    Cluster("the interface by its beginning", both(NCCL_SOCKET_IFNAME="eth")),
    Cluster("both interfaces named", both(NCCL_SOCKET_IFNAME="eth0,eno1"), setup=(SECOND,)),
    Cluster("the interface in capitals", both(NCCL_SOCKET_IFNAME="ETH0")),
    Cluster("a space before the interface", ({}, {"NCCL_SOCKET_IFNAME": " eth0"})),
    Cluster(
        "a file of settings for b",
        ({}, {"NCCL_CONF_FILE": "/dev/shm/of-b.conf"}),
        before=("true", "mount -t tmpfs shm /dev/shm; echo NCCL_SOCKET_IFNAME=nothing0 > /dev/shm/of-b.conf"),
    ),
    Cluster("a word the allocator does not know", ({}, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:Maybe"})),
    Cluster("segments that grow", both(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")),
    Cluster("a larger MTU on a", setup=("ip -n {a} link set eth0 mtu 9000",)),
    Cluster("few open files for b", before=("true", "ulimit -n 64")),
    Cluster("no locked memory", before=("ulimit -l 64", "ulimit -l 64")),
    Cluster("few addresses for b", before=("true", "ulimit -v 16000000")),
    Cluster("little shared memory for b", before=("true", "mount -t tmpfs -o size=64k shm /dev/shm")),
    Cluster("docker's shared memory", before=("mount -t tmpfs -o size=64m shm /dev/shm",) * 2),
    Cluster("shared memory to read only for b", before=("true", "mount -t tmpfs -o ro shm /dev/shm")),
    Cluster("a tuner that is not there", both(NCCL_TUNER_PLUGIN="nowhere")),
    Cluster("sockets named on a alone", ({"NCCL_NET": "Socket"}, {})),
    Cluster("an algorithm that is none", both(NCCL_ALGO="Rings")),
    Cluster("a protocol that is none", ({}, {"NCCL_PROTO": "LL256"})),
    Cluster("more channels at least than at most", both(NCCL_MIN_CTAS="32", NCCL_MAX_CTAS="4")),
    Cluster("a graph that is not there", both(NCCL_GRAPH_FILE="/nowhere/graph.xml")),
    Cluster("a graph written to nowhere", both(NCCL_GRAPH_DUMP_FILE="/nowhere/graph.xml")),
    Cluster("too many sockets", both(NCCL_SOCKET_NTHREADS="16", NCCL_NSOCKS_PERTHREAD="16")),
    Cluster("out of band over the network's plugin", both(NCCL_OOB_NET_ENABLE="1")),
    Cluster("out of band over the plugin on one", ({"NCCL_OOB_NET_ENABLE": "1"}, {})),
    Cluster("several roots for one", ({"TORCH_NCCL_RANKS_PER_ROOT": "1"}, {})),
    Cluster("a log to a full device", both(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="/dev/full")),
    Cluster("more in the mask than there is", ({}, {"CUDA_VISIBLE_DEVICES": "0,1"})),
    Cluster("everything traced", both(NCCL_DEBUG="TRACE", NCCL_DEBUG_SUBSYS="ALL")),
    Cluster("a size the allocator cannot read", ({}, {"PYTORCH_ALLOC_CONF": "max_split_size_mb:much"})),
    Cluster("a share the allocator does not take", ({}, {"PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:2"})),
    Cluster("an option of another allocator", ({}, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segment:True"})),
    Cluster("70 open files for b", before=("true", "ulimit -n 70")),
    Cluster("90 open files", before=("ulimit -n 90",) * 2),
    Cluster("several roots", both(TORCH_NCCL_RANKS_PER_ROOT="1")),
    Cluster("one root said on one alone", ({"TORCH_NCCL_RANKS_PER_ROOT": "64"}, {})),
    Cluster(
        "full shared memory for b",
        before=("true", "mount -t tmpfs -o size=200m shm /dev/shm; head -c 190000000 /dev/zero > /dev/shm/full"),
    ),
    Cluster("many addresses for b", before=("true", "ulimit -v 800000000")),
    Cluster("an adapter where there is none", both(NCCL_IB_HCA="mlx5_0")),
    Cluster("a switch that is none", ({}, {"TORCH_NCCL_BLOCKING_WAIT": "2"})),
    Cluster("a handling that is no number", ({}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "yes"})),
    Cluster("a heartbeat that is no number", ({}, {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "ten"})),
    Cluster("a dump that is no switch", ({}, {"TORCH_NCCL_DUMP_ON_TIMEOUT": "maybe"})),
    Cluster("buffers with a letter", both(NCCL_BUFFSIZE="4M")),
    Cluster("details for one", ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, {})),
    Cluster("IPv6 where b has none", both(NCCL_SOCKET_FAMILY="AF_INET6"), setup=(NO_IPV6,)),
    Cluster("only IPv6", both(MASTER_ADDR="fd77::1"), setup=(ONLY_IPV6,)),
    Cluster(
        "IPv4 where there is only IPv6", both(MASTER_ADDR="fd77::1", NCCL_SOCKET_FAMILY="AF_INET"), setup=(ONLY_IPV6,)
    ),
    Cluster(
        "an interface that is down", both(NCCL_SOCKET_IFNAME="eno1"), setup=(SECOND, "ip -n {b} link set eno1 down")
    ),
    Cluster(
        "an interface without an address",
        both(NCCL_SOCKET_IFNAME="eno1"),
        setup=(SECOND, "ip -n {b} addr flush dev eno1"),
    ),
    Cluster("chunks with a letter", both(NCCL_P2P_NET_CHUNKSIZE="128K")),
    Cluster("a switch of NCCL in words", both(NCCL_IB_DISABLE="true")),
    Cluster("nothing watches", both(TORCH_NCCL_ENABLE_MONITORING="0", TORCH_NCCL_ASYNC_ERROR_HANDLING="0")),
    Cluster("few channels", both(NCCL_MAX_NCHANNELS="1", NCCL_BUFFSIZE="262144")),
    Cluster("ports of b are refused", setup=(drop("tcp dport 20000-65535 ct state new", "reject with tcp reset"),)),
)


def cluster(one: Cluster, number: int, kept: Path, python: str) -> str:
    """Both parts of the check, and what plain torch does there."""
    place = kept / f"nodes-{slug(one.name)}"
    place.mkdir()
    hosts = [f"g{number}a", f"g{number}b"]
    net = f"10.77.{number}"
    lines = [
        *(f"ip netns add {host} && ip -n {host} link set lo up" for host in hosts),
        f"ip link add eth0 netns {hosts[0]} type veth peer name eth0 netns {hosts[1]}",
        *(
            f"ip -n {host} addr add {net}.{last}/24 dev eth0 && ip -n {host} link set eth0 up"
            for last, host in enumerate(hosts, 1)
        ),
        *(line.format(a=hosts[0], b=hosts[1]) for line in one.setup),
    ]
    outcomes = list[str]()
    try:
        for host in hosts:
            own = Path("/etc/netns", host)
            own.mkdir(parents=True, exist_ok=True)
            (own / "hosts").write_text(f"127.0.0.1 localhost\n{net}.1 gpu-a\n{net}.2 gpu-b\n")
        for line in lines:
            if run(["sh", "-c", line], place / "setup.txt", 20) != 0:
                return f"{one.name}: no hosts: {(place / 'setup.txt').read_text()[-300:]!r}"
        for what in ("check", "plain"):
            began = time.monotonic()
            with ThreadPoolExecutor(2) as pool:
                statuses = list(pool.map(part, [(what, one, hosts, net, rank, place, python) for rank in range(2)]))
            outcomes.append(f"{what} {statuses} {time.monotonic() - began:.1f} s")
    finally:
        for host in hosts:
            run(["ip", "netns", "del", host], None, 20)
            shutil.rmtree(Path("/etc/netns", host), ignore_errors=True)
    return f"{one.name}: {'; '.join(outcomes)}; {found(place / 'check-0.json')}"


def part(given: tuple[str, Cluster, Sequence[str], str, int, Path, str]) -> int | None:
    what, one, hosts, net, rank, place, python = given
    named = f"{what}-{rank}"
    env = {"MASTER_ADDR": f"{net}.1", "MASTER_PORT": "29500"} | {k: v.format(net=net) for k, v in one.env[rank].items()}
    below = ["ip", "netns", "exec", hosts[rank], "unshare", "--uts", "sh", "-c"]
    below.append(f'hostname "$0"; {one.before[rank]}; exec "$@"')
    if what == "check":
        flags = ["--nproc-per-node", "1", "--backend", "nccl", *one.flags, "--nnodes", "2", "--node-rank", str(rank)]
        saved = ["-v", "-o", "text", "-o", f"json={place / named}.json", "--save", f"{place / named}.facts.json"]
        words = [*distdoctor(python, ()), "check", *flags, "--wait", "40", *saved]
    else:
        words = [python, str(ACT), "plain"]
        env |= {"RANK": str(rank), "WORLD_SIZE": "2", "READY": str(place), "NCCL_DEBUG": "INFO", "ONE_MACHINE": "1"}
    return run([*below, f"gpu-{'ab'[rank]}", *words], place / f"{named}.txt", 80 if what == "check" else 30, env)


def main(words: Sequence[str]) -> int:
    """Run all, as far as there is time. Gives the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument(
        "--only",
        action="append",
        help='jobs whose names begin so, clusters with "nodes: " before them; may be repeated',
    )
    parser.add_argument("--new", action="store_true", help="only what tests/recorded/gpu has nothing of")
    given = parser.parse_args(words)
    end = time.monotonic() + given.minutes * 60
    given.folder.mkdir(parents=True, exist_ok=True)
    lines = list[str]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        kept, place = Path(name) / "gpu-jobs", Path(name) / "place"
        kept.mkdir()
        python = sys.executable
        with contextlib.suppress(Exception):
            python = with_wheels(place)

        def part_of(do: Callable[[], str], what: str) -> None:
            if time.monotonic() > end:
                line = f"NO TIME  {what}"
            else:
                try:
                    line = do()
                except Exception as error:
                    line = f"OTHER    {what}: {type(error).__name__}: {error}"
            lines.append(line)
            tell(line)

        def wanted(what: str) -> bool:
            known = any(RECORDED.glob(f"*{re.sub('[^a-z0-9]+', '-', what.lower())}.json.gz"))
            return what.startswith(tuple(given.only or ("",))) and not (given.new and known)

        with ThreadPoolExecutor(given.at_once) as pool:
            for number, two in enumerate(CLUSTERS, 1):
                if wanted(what := f"nodes: {two.name}"):
                    pool.submit(part_of, lambda two=two, n=number: cluster(two, n, kept, python), what)  # type: ignore[misc]
            for number, one in enumerate(JOBS, 1):
                if wanted(one.name):
                    pool.submit(part_of, lambda one=one, n=number: job(one, n, kept, python), one.name)  # type: ignore[misc]
        (given.folder / "jobs-summary.txt").write_text("\n".join(lines) + "\n")
        with tarfile.open(given.folder / "gpu-jobs.tar.gz", "w:gz", compresslevel=3) as archive:
            archive.add(kept, "gpu-jobs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
