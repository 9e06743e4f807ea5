"""A value is a problem of the plan exactly if torchrun's own parser refuses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distdoctor.model.errors import UsageError
from distdoctor.model.plan import Plan
from distdoctor.plan.resolve import resolve
from distdoctor.plan.values import Flags

STATIC = {"nnodes": "2", "nproc_per_node": "1", "node_rank": "1", "master_addr": "host0"}
C10D = {"nnodes": "2", "nproc_per_node": "1", "rdzv_backend": "c10d", "rdzv_endpoint": "host0:29400", "rdzv_id": "job"}
ONE = {"nproc_per_node": "1"}
ELSEWHERE = {
    "PET_NODE_RANK": "2", "PET_MASTER_ADDR": "tcp://host0", "PET_MASTER_PORT": "70000", "PET_RDZV_BACKEND": "C10D",
    "PET_RDZV_ENDPOINT": "host0:29400x", "PET_RDZV_ID": "team/job",
}  # fmt: skip
"""Of a meeting with others, which torchrun itself sets where one node meets itself."""
Line = dict[str, str]
REFUSED: list[tuple[Line, Line]] = [
    *((STATIC, {name: value}) for name, values in {
        "PET_MAX_RESTARTS": ("", "x", "-1"),
        "PET_SHUTDOWN_TIMEOUT": ("1.5", "-1"),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": ("", "30s"),
        "PET_MONITOR_INTERVAL": ("", "fast"),
        "PET_STANDALONE": ("", "true"),
        "PET_MODULE": ("yes",),
        "PET_NO_PYTHON": ("",),
        "PET_RUN_PATH": ("no",),
        "PET_REDIRECTS": ("", "4", "out"),
        "PET_TEE": ("-1",),
        "PET_LOCAL_RANKS_FILTER": ("0;1", " "),
        "PET_LOG_DIR": ("/etc/hostname", "/etc/hostname/logs", "/proc/logs", "/proc/self"),
        "LOGLEVEL": ("", "debug", "10"),
        "PET_RDZV_BACKEND": ("",),
        "PET_RDZV_ID": ("", "team/job", "x" * 247),
        "PET_RDZV_CONF": ("timeout", "timeout=", "=5", "timeout=9,", "timeout=5 s", "backend=c10d", "run_id=1"),
    }.items() for value in values),
    ({**STATIC, "rdzv_id": ""}, {}),
    ({**STATIC, "master_addr": "fe80::1%eth0"}, {}),
    ({**STATIC, "master_addr": "[fe80::1%eth0]"}, {}),
    ({name: value for name, value in STATIC.items() if name != "nproc_per_node"}, {"PET_NPROC_PER_NODE": ""}),
    ({name: value for name, value in C10D.items() if name != "nnodes"}, {"PET_NNODES": ""}),
    *((C10D, {name: value}) for name in ("PET_MASTER_PORT", "PET_NODE_RANK") for value in ("", "x")),
    *(({**C10D, "rdzv_conf": text}, {}) for text in (
        "join_timeout=0", "last_call_timeout=a", "close_timeout=-1", "heartbeat_timeout=0", "read_timeout=0",
        "is_host=maybe", "store_type=etcd", "keep_alive_interval=1.5", "endpoint=host0", "local_addr=host0",
    )),
    *(({**C10D, "rdzv_endpoint": text}, {}) for text in ("[fe80::1%eth0]:29400", "host0:029400", "fe80::1%eth0:29400")),
    ({**C10D, "rdzv_backend": "etcd-v2"}, {}),
    ({name: value for name, value in STATIC.items() if name != "master_addr"}, {"PET_MASTER_ADDR": ""}),
    ({"master_port": "29500"}, {"PET_MASTER_ADDR": ""}),
    *((ONE, {"PET_RDZV_CONF": text}) for text in ("join_timeout=0", "is_host=maybe", "store_type=etcd")),
    (ONE, {"PET_STANDALONE": "1", "PET_RDZV_CONF": "read_timeout=0"}),
    *((ONE, {"PET_STANDALONE": "1", name: "x"}) for name in ("PET_MASTER_PORT", "PET_NODE_RANK")),
    (ONE, {"PET_RDZV_BACKEND": ""}),
]  # fmt: skip
TAKEN: list[tuple[Line, Line]] = [
    *((STATIC, {name: value}) for name, values in {
        "PET_MAX_RESTARTS": ("0", " 3"),
        "PET_MONITOR_INTERVAL": ("1e-1",),
        "PET_START_METHOD": ("any",),
        "PET_STANDALONE": ("0",),
        "PET_REDIRECTS": ("3", "0:1,1:2"),
        "PET_LOCAL_RANKS_FILTER": ("", "0,1"),
        "PET_RDZV_ENDPOINT": ("",),
        "PET_RDZV_CONF": ("", " timeout=5 , join_timeout=0,site=1"),
        "PET_LOCAL_ADDR": ("",),
        "PET_SIGNALS_TO_HANDLE": ("none",),
        "PET_EVENT_LOG_HANDLER": ("console",),
        "PET_LOG_DIR": ("", "/dev/null"),
        "LOGLEVEL": ("INFO", "WARN"),
        "PET_RDZV_ID": ("x" * 246, "a b:c", "./job"),
        "PET_MASTER_PORT": ("29500\r",),
        "GROUP_RANK": ("x",),
        "PYTHON_EXEC": ("sh",),
    }.items() for value in values),
    *(({**STATIC, "master_addr": text}, {}) for text in ("[fd77::1]", "fd77::1", " host0", "host_0", "host0.")),
    *((C10D, {"PET_NODE_RANK": value}) for value in ("2", "-1", "0")),
    ({**C10D, "node_rank": "5"}, {}),
    *(({**C10D, "rdzv_conf": text}, {}) for text in (
        "is_host=YES", "timeout=x", "heartbeat=0", "join_timeout=600,use_libuv=0", "rank=7",
    )),
    *(({**C10D, "rdzv_endpoint": text}, {}) for text in ("host0", "fd77::1:29400", " host0:29400 ")),
    ({"nnodes": "1", "rdzv_id": ""}, {}),
    (ONE, {"PET_STANDALONE": "1"} | ELSEWHERE),
    (ONE, {"PET_RDZV_CONF": "timeout=x", "PET_NODE_RANK": "1", "PET_RDZV_ID": "team/job", "PET_MASTER_ADDR": ""}),
    ({**ONE, "rdzv_endpoint": ""}, {"PET_RDZV_ID": "team/job"}),
    ({**ONE, "rdzv_backend": "c10d"}, {"PET_MASTER_PORT": "65536", "PET_MASTER_ADDR": "tcp://host0"}),
    ({**C10D, "master_port": "0"}, {}),
]  # fmt: skip
LATER: list[tuple[Line, Line]] = [
    (STATIC, {"PET_EVENT_LOG_HANDLER": "stdout"}),
    (STATIC, {"PET_SIGNALS_TO_HANDLE": "SIGTERM,SIGKILL"}),
    (STATIC, {"PET_MONITOR_INTERVAL": "0"}),
    (STATIC, {"PET_MONITOR_INTERVAL": "-0.5"}),
    (C10D, {"PET_RDZV_CONF": "keep_alive_interval=0"}),
    (C10D, {"PET_RDZV_CONF": "keep_alive_max_attempt=0"}),
    (ONE, {"PET_RDZV_CONF": "is_host=0"}),
    (ONE, {"PET_STANDALONE": "1", "PET_RDZV_CONF": "is_host=No"}),
    (STATIC, {"PYTHON_EXEC": "no-such-python"}),
    (STATIC, {"TORCHELASTIC_ENABLE_FILE_TIMER": "1", "TORCHELASTIC_TIMER_FILE": "/no/such/pipe"}),
]
"""Values that its parser takes although the agent then ends or waits for ever (seen with two agents of torch 2.13)."""
TORCHRUN = """
import json, logging, os, sys, tempfile
import torch.distributed.elastic.rendezvous.c10d_rendezvous_backend as c10d
import torch.distributed.elastic.utils.logging as levels
import torch.distributed.run as run
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

class Store:  # that is connected to nothing
    def __init__(self, *args, **more): pass
    def compare_set(self, *args): return b""

c10d.TCPStore = Store
logging.disable(logging.CRITICAL)
clean = dict(os.environ)
with tempfile.TemporaryDirectory() as tempfile.tempdir:
    for flags, env in json.load(sys.stdin):
        os.environ.clear()
        os.environ.update(clean | env)
        try:
            levels.get_logger("any")
            args = run.parse_args([f"--{name.replace('_', '-')}={value}" for name, value in flags.items()] + ["job.py"])
            own = args.rdzv_backend == "static" and not args.rdzv_endpoint and args.master_port is None
            if args.standalone or (own and args.nnodes in ("1", "1:1")):
                args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id = "c10d", "localhost:0", "made up"
            args.master_port = args.master_port or 29500
            config, _, _ = run.config_from_args(args)
            got = RendezvousParameters(config.rdzv_backend, config.rdzv_endpoint, config.run_id or "made up",
                config.min_nodes, config.max_nodes, config.local_addr, **config.rdzv_configs)
            get_rendezvous_handler(got)
            config.logs_specs.reify({0: {"TORCHELASTIC_RUN_ID": config.run_id}})
            print(json.dumps("" if config.run_id else "a random run_id"))
        except (Exception, SystemExit) as error:
            print(json.dumps(f"{type(error).__name__}: {error}"))
        sys.stdout.flush()
"""


def plan_of(flags: Line, env: Line) -> Plan:
    numbers: dict[str, Any] = {name: int(flags[name]) for name in ("node_rank", "master_port") if name in flags}
    return resolve(Flags(**{**flags, **numbers}), {"PATH": "/bin", **env}, lambda: 0, lambda: 2)


@pytest.mark.parametrize(("flags", "env"), REFUSED + LATER)
def test_what_torchrun_refuses_is_told(flags: Line, env: Line) -> None:
    try:
        problems = plan_of(flags, env).problems
    except UsageError as error:
        assert not env and any(f"--{name}".replace("_", "-") in str(error) for name in flags)
    else:
        assert [problem.variable for problem in problems] == [*env][-1:]


@pytest.mark.parametrize(("flags", "env"), TAKEN)
def test_what_torchrun_takes_is_no_problem(flags: Line, env: Line) -> None:
    assert plan_of(flags, env).problems == ()


@pytest.mark.scoreboard
def test_torchrun_itself_says_so() -> None:
    told = subprocess.run(
        [sys.executable, "-c", TORCHRUN],
        input=json.dumps(REFUSED + TAKEN), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    says = [json.loads(line) for line in told.stdout.splitlines()]
    assert [case for case, why in zip(REFUSED, says, strict=False) if not why] == []
    taken = zip(TAKEN, says[len(REFUSED) :], strict=True)
    assert [(case, why) for case, why in taken if why] == []


def test_a_script_that_starts_its_ranks_itself_reads_none_of_these() -> None:
    flags = Flags(nnodes="2", node_rank=1, init_method="tcp://host0:29500")
    assert resolve(flags, {"LOGLEVEL": "debug"}, lambda: 0, lambda: 2).problems == ()


def test_settings_of_the_rendezvous_are_not_repeated() -> None:
    """Some are for a site's own rendezvous, and may be secret."""
    (problem,) = plan_of(C10D, {"PET_RDZV_CONF": "timeout=5,s3cret"}).problems
    assert (problem.value, problem.why) == ("part 2", "is not KEY=VALUE")


@pytest.mark.parametrize(("text", "meant"), [("debug", "DEBUG"), ("verbose", None)])
def test_a_level_in_small_letters_is_meant_in_capitals(text: str, meant: str | None) -> None:
    (problem,) = plan_of(STATIC, {"LOGLEVEL": text}).problems
    assert (problem.suggestion, problem.unset) == (meant, meant is None)


@pytest.mark.parametrize(
    ("flags", "env"), [({"node_rank": "1"}, {}), ({}, {"PET_NODE_RANK": "1"}), ({}, {"NODE_RANK": "1"})]
)
def test_beside_c10d_a_node_rank_says_nothing(flags: Line, env: Line) -> None:
    """With the same one on both nodes torchrun trains, and node 0 is where the endpoint is."""
    plan = plan_of({**C10D, **flags}, env)
    assert (plan.node_rank, plan.sources["node_rank"]) == (None, "assigned at the meeting")


def test_without_an_endpoint_it_says_who_is_to_name_one() -> None:
    with pytest.raises(UsageError, match="node 1 needs to know node 0"):
        plan_of({"nnodes": "2", "rdzv_backend": "c10d", "node_rank": "1"}, {})


FILE: Line = {"nnodes": "1", "rdzv_backend": "c10d", "rdzv_conf": "store_type=File"}


def test_one_nodes_agent_may_meet_itself_in_a_file(tmp_path: Path) -> None:
    """torchrun trains with it (torch 2.13): its ranks' store is at the host's own name, as with any c10d."""
    lines: list[Line] = [FILE, {**FILE, "rdzv_endpoint": str(tmp_path / "new")}]
    for line in lines:
        plan = plan_of(line, {})
        assert (plan.problems, plan.rdzv_backend) == ((), "c10d")
        assert (plan.master_addr, plan.master_port) == ("127.0.0.1", 0)


def test_what_an_earlier_run_left_in_it_is_told_by_its_id(tmp_path: Path) -> None:
    """torchrun ends with RendezvousClosedError."""
    path = tmp_path / "store"
    keeps = "import os, sys, torch.distributed as d; d.FileStore(sys.argv[1]).set('torch.rendezvous.job', 'state')"
    script = f"{keeps}; os._exit(0)"  # else this store removes it
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, capture_output=True)
    line = {**FILE, "rdzv_endpoint": str(path)}
    with pytest.raises(UsageError, match="earlier run job"):
        plan_of({**line, "rdzv_id": "job"}, {})
    (problem,) = plan_of(FILE, {"PET_RDZV_ID": "job", "PET_RDZV_ENDPOINT": str(path)}).problems
    assert problem.variable == "PET_RDZV_ENDPOINT"
    for other in ("jo", "job2", "none"):
        assert plan_of({**line, "rdzv_id": other}, {}).problems == ()
    with pytest.raises(UsageError, match="no file that can be written"):
        plan_of({**FILE, "rdzv_endpoint": str(tmp_path)}, {})


def test_the_file_of_several_nodes_is_not_tried() -> None:
    with pytest.raises(UsageError, match="--shared FOLDER"):
        plan_of({**FILE, "nnodes": "2", "rdzv_endpoint": "/shared/store"}, {})
