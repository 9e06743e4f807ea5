"""The table: jobs that hang, each held at one place after the other, and healthy ones among them."""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from tests.lab.faults.names import own_name_at
from tests.lab.faults.packet_filter import master_port, only_master_port
from tests.lab.hang.acts import back, go_on, kill, late, link, start, stop, unfiltered
from tests.lab.hang.elsewhere_table import ELSEWHERE
from tests.lab.hang.engines_table import ENGINES
from tests.lab.hang.everyday_table import EVERYDAY
from tests.lab.hang.libraries_table import LIBRARIES
from tests.lab.hang.reported import REPORTED
from tests.lab.hang.reported_further import FURTHER
from tests.lab.hang.reported_mistakes import ONCE_MORE
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.table_words import (
    FILTERED,
    MISMATCH,
    MISSING,
    NODE_TWICE,
    NODES,
    PEERS,
    REFUSED,
    STOPPED,
    TWICE,
    USER_CODE,
)
from tests.lab.hang.trainers_table import TRAINERS


def healthy(*hosts: int) -> tuple[Look, ...]:
    """Nothing is wrong, seen from each of these hosts."""
    return tuple(Look(host) for host in hosts)


JOBS = (
    Job(
        "env://, 2 hosts of 2",
        (
            Row("env: node 1 is missing", "init", (Look(0, NODES, (2, 3), late=True),), held=(0, 1), after=start(1)),
            Row("env: it trains", "train:t1", healthy(0, 1), moves=True),
            Row("env: rank 3 sleeps", "sleep@3:s", (Look(1, USER_CODE, (3,), ("host1",)), Look(0, ask=("host1",)))),
            Row("env: rank 1 is stopped", "train:t2", (Look(0, STOPPED, (1,), ("host0",)), Look(1, ask=("host0",))), before=stop(1), after=go_on(1)),
            Row("env: rank 2 looks for a file again and again", "poll@2:p", (Look(1, waits_for=(2,)), Look(0, ask=("host1",)))),
            Row("env: rank 2 loads data", "shard@2:d", (Look(1), Look(0, ask=("host1",))), moves=True),
            Row("env: rank 0 waits for a program of its own", "child@0:c", (Look(0, USER_CODE, (0,), ("host0",)), Look(1, ask=("host0",)))),
        ),
        late=(1,),
    ),
    Job(
        "torchrun static, 2 hosts of 2",
        (
            Row("static: rank 1 never calls init", "pipe@1:k", (Look(0, USER_CODE, (1,), ("host0",)), Look(1, MISSING, (1,), ("host0",), late=True))),
            "init",
            Row("static: it trains", "train:t1", healthy(0, 1), moves=True),
            Row("static: rank 2 is stopped", "train:t2", (Look(1, STOPPED, (2,), ("host1",)), Look(0, ask=("host1",))), before=stop(2), after=go_on(2)),
            Row("static: rank 0 waits for its data loader", "loader@0:l", (Look(0, USER_CODE, (0,), ("host0",)), Look(1, ask=("host0",)))),
            Row("static: rank 3 builds an extension", "compile@3:b", (Look(1), Look(0, ask=("host1",))), moves=True),
        ),
        launcher="static",
    ),
    Job(
        "torchrun static, node 1 missing",
        (Row("static: node 1 is missing", "init", (Look(0, NODES, late=True),), held=(), after=start(1)),),
        launcher="static",
        nproc=1,
        late=(1,),
    ),
    Job(
        "env://, node 0 missing",
        (Row("env: node 0 is missing", "init", (Look(1, REFUSED, (), ("host0",), late=True),), held=(1,), after=start(0)),),
        nproc=1,
        late=(0,),
    ),
    Job(
        "torchrun static, node 0 missing",
        (Row("static: node 0 is missing", "init", (Look(1, REFUSED, (), ("host0",), late=True),), held=(), after=start(0)),),
        launcher="static",
        nproc=1,
        late=(0,),
    ),
    Job(
        "torchrun c10d, node 0 missing",
        (Row("c10d: node 0 is missing", "begin", (Look(1, REFUSED, (), ("host0",), late=True),), held=(), after=start(0)), "init"),
        launcher="c10d",
        nproc=1,
        late=(0,),
    ),
    Job(
        "torchrun c10d, 2 hosts of 2",
        (
            Row("c10d: node 1 is missing", "begin", (Look(0, NODES, late=True),), held=(), after=start(1)),
            Row("c10d: rank 3 never calls init", "pipe@3:k", (Look(1, USER_CODE, (3,), ("host1",)), Look(0, MISSING, (3,), ("host1",), late=True))),
            "init",
            Row("c10d: rank 0 writes a checkpoint", "checkpoint@0:c", (Look(0), Look(1, ask=("host0",))), moves=True),
            Row("c10d: rank 3 waits for a lock", "lock@3:l", (Look(1, USER_CODE, (3,), ("host1",)), Look(0, ask=("host1",)))),
            Row("c10d: rank 0 is stopped", "train:t2", (Look(0, STOPPED, (0,), ("host0",)), Look(1, ask=("host0",))), before=stop(0), after=go_on(0)),
        ),
        launcher="c10d",
        late=(1,),
    ),
    Job(
        "forked, 2 hosts of 2",
        (
            "init:tcp://host0:29500",
            Row("forked: it trains", "train:t1", healthy(0, 1), moves=True),
            Row("forked: rank 1 reads a pipe", "pipe@1:k", (Look(0, USER_CODE, (1,), ("host0",)), Look(1, ask=("host0",)))),
            Row("forked: rank 2 is stopped", "train:t2", (Look(1, STOPPED, (2,), ("host1",)), Look(0, ask=("host1",))), before=stop(2), after=go_on(2)),
            Row("forked: the first step of rank 3 is long", "first@3:f", (Look(1), Look(0, ask=("host1",))), moves=True),
        ),
        launcher="fork",
    ),
    Job(
        "env://, 8 ranks on one host",
        (
            "init",
            Row("8 ranks: rank 5 sleeps", "sleep@5:s", (Look(0, USER_CODE, (5,), ("host0",)),)),
            Row("8 ranks: rank 3 is stopped", "train:t", (Look(0, STOPPED, (3,), ("host0",)),), before=stop(3), after=go_on(3)),
            Row("8 ranks: rank 0 evaluates alone", "alone@0:a", healthy(0), moves=True),
            Row("8 ranks: rank 6 waits for a lock on a file", "flock@6:f", (Look(0, USER_CODE, (6,), ("host0",)),)),
            Row("8 ranks: rank 0 uses two groups in another order", "order@0", (Look(0, MISMATCH, (0,), ("host0",)),), last=True),
        ),
        hosts=1,
        nproc=8,
    ),
    Job(
        "just started",
        (Row("it has just started", "init", healthy(0), moves=True, at_once=True), Row("one rank pauses in each step", "train:t", healthy(0), moves=True)),
        hosts=1,
    ),
    Job(
        "master port dropped",
        (Row("the master's port is dropped", "init", (Look(1, FILTERED, (), ("host0",)), Look(0, NODES, (2, 3), late=True)), after=unfiltered(0)),),
        fault=master_port(0, "drop"),
    ),
    Job(
        "peer ports dropped",
        (Row("all ports but the master's are dropped", "init", (Look(1, PEERS, (), ("host0",)), Look(0, ask=("host1",))), after=unfiltered(0)),),
        fault=only_master_port(0),
    ),
    Job(
        "a loopback name",
        (Row("own name at 127.0.1.1 on host 1", "init", (Look(1, "gloo/loopback-address", (1,), ("host1",)), Look(0, nothing=True)), gone=(0,), last=True),),
        nproc=1,
        fault=own_name_at("127.0.1.1", 1),
        subnets=("192.168.77.0/24",),
    ),
    Job(
        "killed before init",
        (
            Row("rank 2 is killed before it calls init", "pipe@2:k", (Look(0, NODES, (2,), late=True), Look(1, NODES, (2,), late=True), Look(2, nothing=True)), before=kill(2), gone=(2,), after=start(2)),
            "init",
            Row("rank 2 came back, and it trains", "train:t", healthy(0, 2), moves=True),
        ),
        hosts=3,
        nproc=1,
    ),
    Job(
        "exception before init",
        ("raise@1", Row("rank 1 raised before it called init", "init", (Look(0, MISSING, (1,), late=True), Look(1, MISSING, (1,), (), late=True)), held=(0, 2, 3), gone=(1,), last=True)),
    ),
    Job(
        "4 hosts of 1",
        (
            "init",
            Row("4 hosts: host 3 is cut off", "train:t1", (Look(3, "store/node-lost", None, ("host3",)),), before=link(3, "down"), after=link(3, "up")),
            Row("4 hosts: rank 3 is stopped", "train:t2", (Look(3, STOPPED, (3,), ("host3",)), Look(1, ask=("host3",))), before=stop(3), after=go_on(3)),
            Row("4 hosts: rank 0 has a batch more", "more@0", (Look(1, USER_CODE, (1,), ("host1",)), Look(0, ask=("host1", "host2", "host3"))), last=True),
        ),
        hosts=4,
        nproc=1,
    ),
    Job(
        "a world of 3, with 2 ranks",
        (Row("WORLD_SIZE is one too many", "init", (Look(0, NODES, (2,), late=True), Look(1, NODES, (2,), late=True)), last=True),),
        nproc=1,
        worlds=(3, 3),
    ),
    Job(
        "two worlds",
        (Row("WORLD_SIZE differs", "init", (Look(0, "environment/world-size-mismatch"), Look(1, "environment/world-size-mismatch")), last=True),),
        nproc=1,
        worlds=(2, 3),
    ),
    Job(
        "torchrun, tcp://",
        (Row("torchrun, and an init method of its own", "init:tcp://host0:29511", (Look(0, "environment/agent-store-hijack"), Look(1, "environment/agent-store-hijack")), last=True),),
        launcher="static",
        nproc=1,
    ),
    Job(
        "store host dead",
        (Row("the host of the store is cut off", "init", (Look(1, "store/node-lost", (), ("host0", "host1")),), before=link(0, "down"), after=back(0, 2), held=(0, 1)),),
        hosts=3,
        nproc=1,
        late=(2,),
    ),
    Job(
        "a number twice",
        (Row("two processes of one host are rank 1", "init", (Look(0, TWICE, (1,), ("host0",)),), held=(0, 1), last=True),),
        hosts=1,
        nproc=3,
        numbers=(0, 1, 1),
    ),
    Job(
        "a node twice",
        (Row("two nodes are node 0", "init", (Look(0, NODE_TWICE, (), ("host0",)), Look(1, NODE_TWICE, (), ("host1",))), held=(), before=late(), last=True),),
        launcher="static",
        nproc=1,
        node_ranks=(0, 0),
    ),
    Job(
        "mismatched collectives",
        ("init", Row("rank 1 is in a barrier, the others reduce", "other@1", (Look(0, MISMATCH, (1,), ("host0",)), Look(1, ask=("host0",))), last=True)),
    ),
    Job(
        "receive first",
        ("init", Row("two ranks receive from each other", "receive@0", (Look(0, MISMATCH, (0, 1), ("host0",)),), last=True)),
        hosts=1,
    ),
    Job(
        "a group of some",
        ("init", Row("rank 0 alone makes a group", "group@0", (Look(0, USER_CODE, (1,), ("host0",)),), last=True)),
        hosts=1,
    ),
    Job(
        "a barrier of some",
        ("init", Row("rank 0 alone is in a monitored barrier", "barrier@0", (Look(0, ask=("host1",)), Look(1, USER_CODE, (1,), ("host1",))), last=True)),
        nproc=1,
    ),
    Job(
        "another root",
        ("init", Row("rank 1 waits for a broadcast of another rank", "root@1", (Look(0, ask=("host1",)), Look(1, ask=("host0",))), last=True)),
        nproc=1,
    ),
)  # fmt: skip
"""All of them. Each row is looked at 20 times before its job goes on."""
ALL_JOBS = (*JOBS, *REPORTED, *FURTHER, *ONCE_MORE, *TRAINERS, *LIBRARIES, *EVERYDAY, *ELSEWHERE, *ENGINES)
"""These, those that people reported, and what trainers do."""
ROWS = [row for job in ALL_JOBS for row in job.rows if isinstance(row, Row)]
"""The rows of all of them."""
