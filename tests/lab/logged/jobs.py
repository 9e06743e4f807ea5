"""The jobs whose logs are kept: job-made failures, faults of the lab, and healthy ones."""

# ruff: noqa: E501 - a job is a line, however long

from __future__ import annotations

from tests.lab.faults import inside
from tests.lab.faults.host import SILENT_LISTENER, port_held, shared_memory
from tests.lab.faults.launch import flag, not_started, shell, variable
from tests.lab.faults.names import name_removed, own_name_at
from tests.lab.faults.packet_filter import cut, master_port, nft, only_master_port
from tests.lab.logged import memory
from tests.lab.logged.job import HEALTHY, UNKNOWN, Job

DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
INFO = {"TORCH_CPP_LOG_LEVEL": "INFO"}
ALL = {**DETAIL, **INFO}
RAISED = "process/exception"
DIED = ("process/peer-died", "process/peer-exited-early")

OWN = [
    Job("raises", "--fail raises --on 1", RAISED, 1, "host1", [1], may_be=DIED),
    Job("raises, detail", "--fail raises --on 1", RAISED, 1, "host1", [1], elsewhere="barrier/rank-missing", env=ALL),
    Job("raises, c10d, a tree instead of the console", "--fail raises --on 3", RAISED, 3, "host1", [1], style="c10d", nproc=2, tree="-r"),
    Job("raises, a tree beside the console", "--fail asserts --on 2", RAISED, 2, "host1", [1], nproc=2, tree="-t"),
    Job("raises, by hand", "--fail shape --on 1", RAISED, 1, "host1", [1], style="env"),
    Job("raises, by hand, info", "--fail shape --on 0", RAISED, 0, "host0", [0], style="env", env=INFO),
    Job("raises, spawned", "--fail raises --on 1 --spawn 2", RAISED, 1, "host0", style="spawn", hosts=1),
    Job("raises before the group is made", "--fail before", RAISED, None, "", nproc=1),
    Job("imports what is not there", "--fail imports --on 0", RAISED, 0, "host0", [0], style="c10d"),
    Job("no such script", "", RAISED, None, "", program="trian.py"),
    Job("killed", "--fail killed --on 1", "process/killed-by-oom", 1, "host1", [1]),
    Job("killed, c10d, detail", "--fail killed --on 0", "process/killed-by-oom", 0, "host0", [0], style="c10d", env=DETAIL),
    Job("killed, spawned", "--fail killed --on 1 --spawn 2", "process/killed-by-oom", 1, "host0", style="spawn", hosts=1),
    Job("killed, by hand", "--fail killed --on 1", UNKNOWN, style="env", seen=[0], elsewhere=HEALTHY, may_be=DIED),
    Job("segfault", "--fail segfault --on 2", "process/crashed", 2, "host1", [1], nproc=2),
    Job("aborts", "--fail aborts --on 1", "process/crashed", 1, "host1", [1], fair=[UNKNOWN]),
    Job("bus error", "--fail bus-error --on 1", "host/shared-memory-small", 1, "host1", [1], fault=shared_memory("1m", 1)),
    Job("exits with 3", "--fail exits --on 1", UNKNOWN),
    Job("leaves early", "--fail leaves --on 1", UNKNOWN, may_be=DIED),
    Job("leaves early, of three", "--fail leaves --on 1", "process/peer-exited-early", 1, "host0", nproc=3, hosts=1),
    Job("aborts, of three", "--fail aborts --on 1", "process/crashed", 1, "host0", nproc=3, hosts=1),
    Job("exits with 3, of three", "--fail exits --on 1", UNKNOWN, nproc=3, hosts=1, may_be=["process/peer-died"]),
    Job("sleeps, of three", "--fail sleeps --on 1", UNKNOWN, nproc=3, hosts=1, may_be=["collective/rank-missing"]),
    Job("another operation, of three", "--fail other-operation --on 1", "collective/mismatch", 1, "host0", nproc=3, hosts=1),
    Job("exits with a text", "--fail config --on 0", UNKNOWN, 0, "host0", fair=[RAISED]),
    Job("no memory", "--fail no-memory --on 1", "process/killed-by-oom", 1, "host1", [1], fair=[RAISED]),
    Job("out of memory in a cgroup", "--fail hog --on 1", "process/killed-by-oom", 1, "host1", [1], fault=shell(memory.ENTER, 1), cgroup=True),
    Job("disk full", "--fail disk-full-plain --on 0", "host/disk-full", 0, "host0", [0], fault=inside(0, "mkdir /run/small; mount -t tmpfs -o size=1m small /run/small")),
    Job("disk full in a checkpoint", "--fail disk-full --on 0", "host/disk-full", 0, "host0", [0], fault=inside(0, "mkdir /run/small; mount -t tmpfs -o size=1m small /run/small")),
    Job("worker killed", "--fail worker-killed --on 1", "process/killed-by-oom", 1, "host1", [1]),
    Job("worker raises", "--fail worker-raises --on 0", RAISED, 0, "host0", [0]),
    Job("worker without shared memory", "--fail worker-shared-memory --on 1", "host/shared-memory-small", 1, "host1", [1], fault=shared_memory("1m", 1)),
    Job("open files", "--fail open-files --on 1", "host/open-files-limit", 1, "host1", [1], fault=shell("ulimit -n 256", 1)),
    Job("sleeps", "--fail sleeps --on 1", UNKNOWN, may_be=["collective/rank-missing"]),
    Job("another shape, detail", "--fail other-shape --on 1", "collective/mismatch", None, "", env=DETAIL),
    Job("another shape", "--fail other-shape --on 1", UNKNOWN, fair=["collective/mismatch"]),
    Job("another operation, detail", "--fail other-operation --on 1", "collective/mismatch", None, "", env=ALL, style="c10d"),
    Job("a barrier is missed", "--fail barrier-missed --on 1", "barrier/rank-missing", 1, "", [0], nproc=1),
    Job("thread raises", "--fail thread-raises --on 1", RAISED, None, "host1", [1], fair=[UNKNOWN]),
    Job("made twice", "--fail initialises-again", "collective/initialized-twice"),
    Job("no group", "--fail no-group", "collective/group-not-initialized"),
    Job("no nccl", "--backend nccl", "environment/backend-not-built"),
    Job("no gpu", "--fail cuda --on 0", "gpu/none-visible", 0, "host0", [0], fair=["environment/backend-not-built", RAISED]),
    Job("unused parameters", "--fail unused --ddp", "collective/unused-parameters"),
    Job("another model", "--fail other-model --on 1 --ddp", "collective/model-mismatch", seen=[1]),
    Job("agent terminated", "--pause 1 --steps 99", "process/terminated", None, "host1", [1], when="step 4", then="TERM", signalled=1),
    Job("agent interrupted", "--pause 1 --steps 99", "process/terminated", None, "host0", [0], fair=[UNKNOWN], when="step 4", then="INT"),
    Job("agent hung up", "--pause 1 --steps 99", "process/terminal-closed", None, "host0", [0], when="step 4", then="HUP"),
    Job("agent killed", "--fail agent-killed --on 1", UNKNOWN, seen=[0], elsewhere=HEALTHY, may_be=["collective/rank-missing"]),
]  # fmt: skip

LAB = [
    Job("the master port is dropped", "", UNKNOWN, fault=master_port(0, "drop"), may_be=["network/port-filtered"]),
    Job("the master port is dropped, by hand", "", UNKNOWN, fault=master_port(0, "drop"), may_be=["network/port-filtered"], style="env"),
    Job("the master port is rejected", "", UNKNOWN, fault=master_port(0, "reject with tcp reset"), may_be=["network/port-refused"], env=INFO),
    Job("the master port is dropped, c10d", "", UNKNOWN, fault=nft(0, 'iifname "lo" accept', "tcp dport 29400 drop"), style="c10d", may_be=["store/nodes-missing"]),
    Job("the name of the master is unknown", "", "network/master-unresolvable", None, "host1", [1], fault=name_removed(1, "host0")),
    Job("the name of the master is unknown, by hand", "", "network/master-unresolvable", None, "host1", [1], fault=name_removed(1, "host0"), style="env"),
    Job("no such interface", "", "gloo/interface-not-found", None, "host1", [1], fault=variable("GLOO_SOCKET_IFNAME", "ib0", 1)),
    Job("127.0.1.1 on both", "", "gloo/loopback-address", fault=own_name_at("127.0.1.1", 0, 1), seen=[1]),
    Job("peer ports are dropped", "", UNKNOWN, fault=only_master_port(0), may_be=["gloo/interface-unreachable", "mesh/peer-ports-blocked"]),
    Job("peer ports are dropped, c10d, info", "", UNKNOWN, fault=cut(0, 1), style="c10d", env=INFO),
    Job("node 1 is not started", "", UNKNOWN, fault=not_started(1), may_be=["store/nodes-missing"], seen=[0], elsewhere=HEALTHY),
    Job("node 1 is not started, c10d", "", UNKNOWN, fault=not_started(1), style="c10d", seen=[0], elsewhere=HEALTHY),
    Job("node 0 is not started", "", UNKNOWN, fault=not_started(0), may_be=["store/nodes-missing", "network/port-refused"], seen=[1], elsewhere=HEALTHY),
    Job("rank 1 is not started, by hand", "", UNKNOWN, fault=not_started(1), style="env", seen=[0], elsewhere=HEALTHY),
    Job("the world sizes differ", "", UNKNOWN, fault=variable("WORLD_SIZE", "3", 0), style="env"),
    Job("twice the same rank", "", UNKNOWN, fault=variable("RANK", "0", 1), style="env"),
    Job("the master port is taken", "", "network/port-in-use", None, "host0", [0], HEALTHY, fault=port_held(0, SILENT_LISTENER), limit=40),
    Job("the master port is taken, by hand", "", "network/port-in-use", None, "host0", [0], HEALTHY, fault=port_held(0, SILENT_LISTENER), limit=40, style="env"),
    Job("no WORLD_SIZE", "", "environment/missing-variable", None, "host1", [1], fault=variable("WORLD_SIZE", None, 1), style="env"),
    Job("launched the old way", "", "environment/local-rank-argument", style="launch", env=DETAIL),
    Job("another node count", "", UNKNOWN, fault=flag("--nnodes", "3", 0)),
]  # fmt: skip

WELL = [
    Job("healthy"),
    Job("healthy, c10d", style="c10d", nproc=2, tree="-r"),
    Job("healthy, a lot of warnings", "--chatter", nproc=2, tree="-t"),
    Job("healthy, a lot of warnings, c10d, all is told", "--chatter", style="c10d", env=ALL),
    Job("healthy, by hand, all is told", "--chatter", style="env", env=ALL),
    Job("healthy, spawned", "--chatter --spawn 2", style="spawn", hosts=1),
    Job("healthy, a slow first step", "--slow-first 4 --ddp", env=INFO),
    Job("healthy, cut off", "--chatter --pause 0.5 --steps 99", when="step 9", then="cut"),
    Job("healthy, cut off, c10d", "--pause 0.5 --steps 99", style="c10d", env=ALL, when="step 5", then="cut"),
    Job("healthy, cut off in the first step", "--slow-first 30", when="compiling", then="cut"),
]  # fmt: skip

OLD = "2.4.1"
EARLIER = [
    Job("torch 2.4, raises", "--fail raises --on 1 --timeout 60", RAISED, 1, "", hosts=1, nproc=2, torch=OLD),
    Job("torch 2.4, killed", "--fail killed --on 1 --timeout 60", "process/killed-by-oom", 1, "", hosts=1, nproc=2, torch=OLD),
    Job("torch 2.4, by hand, another shape, detail", "--fail other-shape --on 1 --timeout 60", "collective/mismatch", style="env", env=DETAIL, torch=OLD),
    Job("torch 2.4, by hand, a barrier is missed", "--fail barrier-missed --on 1 --timeout 20", "barrier/rank-missing", 1, "", [0], style="env", torch=OLD),
    Job("torch 2.4, by hand, killed", "--fail killed --on 1 --timeout 60", UNKNOWN, style="env", seen=[0], elsewhere=HEALTHY, may_be=DIED, torch=OLD),
    Job("torch 2.4, by hand, healthy", "--chatter --timeout 60", style="env", env=INFO, torch=OLD),
]  # fmt: skip

JOBS = [*OWN, *LAB, *WELL, *EARLIER]
