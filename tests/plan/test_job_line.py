"""The line that starts a job, read as its launcher reads it."""

from __future__ import annotations

import re
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from distdoctor.plan import torchrun
from distdoctor.plan.job_command import JobLine, read_job_command
from distdoctor.plan.job_line import refused

ALONE = ("--nnodes=1", "--nproc-per-node=1")
TWO = ("--nnodes=2", "--nproc-per-node=8", "--master-port=29600", "--master-addr=A", "--node-rank=1")
ROWS: list[tuple[str, dict[str, str], tuple[str, ...]]] = [
    ("torchrun train.py --nnodes 9", {}, ALONE),
    ("torchrun --nnodes 2 --nproc_per_node=8 --master_addr A --master-port 29600 --node_rank 1 train.py", {}, TWO),
    ("/opt/x/bin/torchrun --nnodes=2 --nproc-per=8 --master-a A --master-p=29600 --node-r=1 -m pkg.train -m", {}, TWO),
    ("python -u -m torch.distributed.run -r3 -t 3 --nnodes 2 --nproc-per-node 8 --master-addr A --master-port 29600 "
     "--node-rank 1 -- train.py", {}, TWO),
    ("numactl --cpunodebind 0 python3.11 -X faulthandler -um torch.distributed.launch --nproc-per-node 2 x.py",
     {}, ("--nnodes=1", "--nproc-per-node=2")),
    ("torchrun train.py", {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "8", "PET_MASTER_ADDR": "A", "PET_NODE_RANK": "1",
                           "PET_MASTER_PORT": "29600"}, (*TWO[:2], *TWO[3:])),
    # What torchrun takes where nothing is said: node rank 0 and its own machine.
    ("torchrun --nnodes 2 train.py", {},
     ("--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", "--node-rank=0")),
    ("torchrun --nnodes 2 --rdzv-backend c10d --master-addr A --master-port 1234 train.py", {},
     ("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--master-port=1234",
      "--rdzv-endpoint=localhost:29400")),
    ("torchrun --nnodes 1:4 --nproc-per-node gpu --rdzv-backend c10d --rdzv_endpoint A:29400 --rdzv-id 7 --rdzv-conf "
     "a=1 --max-restarts 3 train.py", {},
     ("--nnodes=1:4", "--nproc-per-node=gpu", "--rdzv-backend=c10d", "--rdzv-endpoint=A:29400", "--rdzv-id=7")),
    ("torchrun --standalone --nproc-per-node 4 train.py", {}, ("--nnodes=1", "--nproc-per-node=4", "--standalone")),
    ("env OMP_NUM_THREADS=1 PET_NNODES=2 torchrun train.py", {},
     ("--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", "--node-rank=0")),
    ("accelerate launch --num_machines 2 --num-processes=16 --machine_rank 1 --main_process_ip A --main_process_port "
     "29600 train.py --num_machines 9", {},
     ("--nnodes=2", "--nproc-per-node=8", "--node-rank=1", "--master-addr=A", "--master-port=29600")),
    ("python -m accelerate.commands.launch --multi_gpu --num_processes 4 train.py", {},
     ("--nnodes=1", "--nproc-per-node=4")),
    # c10d has the port of static; with port 0 each machine would take one of its own.
    ("accelerate launch --num_machines 2 --num_processes 4 --main_process_ip A --rdzv_backend c10d x.py", {},
     ("--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=A:29500")),
    ("accelerate launch --num_machines 2 --num_processes 4 --main_process_ip A --main_process_port 0 x.py", {},
     ("--nnodes=2", "--nproc-per-node=2", "--node-rank=0", "--master-addr=A", "--master-port=0")),
    ("accelerate launch --num_processes 4 --main_process_port 0 x.py", {}, ("--nnodes=1", "--nproc-per-node=4")),
    ("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint /s/f --rdzv-conf store_type=file x.py", {},
     ("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint=/s/f",
      "--rdzv-conf=store_type=file")),
    ("python train.py --nnodes 3", {}, ()),
    ("bash train.sh", {}, ()),
]  # fmt: skip


@pytest.mark.parametrize(("line", "env", "flags"), ROWS, ids=[row[0][:60] for row in ROWS])
def test_the_plan_of_a_line(line: str, env: dict[str, str], flags: tuple[str, ...]) -> None:
    assert read_job_command(line.split(), {"HOME": "/nowhere", **env}).flags == flags


def test_the_kind_and_what_the_line_sets() -> None:
    assert read_job_command(["env", "A=b c", "python", "x.py"], {}) == JobLine("python", env={"A": "b c"})
    assert read_job_command(["torchrun", "--log_dir", "/tmp/x", "x.py"], {}).log_dir == "/tmp/x"
    unknown = read_job_command(["./train"], {})
    assert (unknown.kind, unknown.flags) == ("other", ()) and "train: the plan is that of the env" in unknown.note


@pytest.mark.parametrize(
    ("line", "before", "flags"),
    [
        ("srun -N2 --ntasks-per-node=1 -l --output x.%t torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d "
         "--rdzv-endpoint A:1 t.py", ("srun", "-N2", "--ntasks-per-node=1"),
         ("--nnodes=2", "--nproc-per-node=8", "--rdzv-backend=c10d", "--rdzv-endpoint=A:1")),
        ("srun -lN 2 -n 16 --mem 10G --exclusive --kill-on-bad-exit=1 --export ALL --cpu-bind=none python t.py",
         ("srun", "-N", "2", "-n", "16", "--mem", "10G", "--exclusive", "--export", "ALL", "--cpu-bind=none"), ()),
        ("srun -- python t.py", ("srun",), ()),
    ],
)  # fmt: skip
def test_the_options_of_srun(line: str, before: tuple[str, ...], flags: tuple[str, ...]) -> None:
    found = read_job_command(line.split(), {})
    assert (found.before, found.flags) == (before, flags)


def test_accelerates_own_file(tmp_path: Path) -> None:
    (tmp_path / "accelerate").mkdir()
    settings = "compute_environment: LOCAL_MACHINE\nmachine_rank: 1 # mine\nmain_process_ip: 10.0.0.4\n"
    file = tmp_path / "accelerate/default_config.yaml"
    file.write_text(f"{settings}main_process_port: null\nnum_machines: 2\nnum_processes: 4\nfsdp_config:\n  num_x: 7\n")
    told = ("--nnodes=2", "--nproc-per-node=2", "--node-rank=1", "--master-addr=10.0.0.4")
    assert read_job_command(["accelerate", "launch", "x.py"], {"HF_HOME": str(tmp_path)}).flags == told
    assert read_job_command(["accelerate", "launch", "--config_file", str(file), "x.py"], {}).flags == told
    over = read_job_command(["accelerate", "launch", "--num_processes=8", "x.py"], {"HF_HOME": str(tmp_path)})
    assert over.flags[1] == "--nproc-per-node=4"


def test_what_cannot_be_checked_says_so() -> None:
    with pytest.raises(ValueError, match="etcd"):
        read_job_command(["torchrun", "--rdzv-backend", "etcd-v2", "x.py"], {})
    with pytest.raises(ValueError, match="etcd"):
        read_job_command(["accelerate", "launch", "--num_machines", "2", "--rdzv_backend", "etcd-v2", "x.py"], {})
    with pytest.raises(ValueError, match="3 processes cannot be shared by 2"):
        read_job_command(["accelerate", "launch", "--num_machines", "2", "--num_processes", "3", "x.py"], {})


def test_every_option_of_this_torchrun_is_known() -> None:
    spec = PathFinder.find_spec("torch")
    assert spec is not None and spec.origin is not None
    whole = (Path(spec.origin).parent / "distributed/run.py").read_text()
    source = whole[whole.index("def get_args_parser") :]
    calls = re.findall(r"parser\.add_argument\(\s*((?:\"-[^\"]+\",\s*)+)(.*?)\n    \)", source, re.S)
    assert len(calls) > 25
    for names, rest in calls:
        long = next(name for name in re.findall(r'"(--[^"]+)"', names))
        switch = "check_env" in rest
        assert torchrun.torchrun_options([long, *([] if switch else ["value"]), "script"]) == {
            long: "" if switch else "value"
        }


TRANSFER = "vllm serve m --kv-transfer-config {{'kv_connector':'{}','kv_role':'{}'}}"
PORTS: list[tuple[str, dict[str, str], list[tuple[int, str]]]] = [
    (TRANSFER.format("NixlConnector", "kv_both"), {}, [(8000, "--port"), (5600, "VLLM_NIXL_SIDE_CHANNEL_PORT")]),
    (TRANSFER.format("MooncakeConnector", "kv_producer"), {"VLLM_MOONCAKE_BOOTSTRAP_PORT": "9000"},
     [(8000, "--port"), (9000, "VLLM_MOONCAKE_BOOTSTRAP_PORT")]),
    (TRANSFER.format("MooncakeConnector", "kv_consumer"), {}, [(8000, "--port")]),
    ("vllm serve m -dp 4 -dpl 2 -dpr 2 -dpa h --headless --kv-transfer-config {'kv_connector':'NixlConnector'}", {},
     [(5602, "VLLM_NIXL_SIDE_CHANNEL_PORT"), (5603, "VLLM_NIXL_SIDE_CHANNEL_PORT")]),
    ("vllm serve m -dp 2 --uds s --kv-transfer-config {'secondary_tiers':[{'type':'p2p'}]}", {},
     [(5710, "VLLM_P2P_SIDE_CHANNEL_PORT"), (5711, "VLLM_P2P_SIDE_CHANNEL_PORT")]),
    ("vllm serve m --uds s --kv-transfer-config {'secondary_tiers':[{'type':'p2p','port':7}]}", {}, []),
    ("vllm serve m -dp 2 --uds s --ec-transfer-config {'ec_connector':'ECCPUConnector','ec_role':'ec_producer'}", {},
     [(5601, "VLLM_EC_SIDE_CHANNEL_PORT"), (5601, "VLLM_EC_SIDE_CHANNEL_PORT")]),
    ("vllm serve m --uds s --ec-transfer-config {'ec_connector':'ECCPUConnector','ec_role':'ec_consumer'}", {}, []),
    ("python -m sglang.launch_server --dp 2 --nccl-port 7000", {},
     [(30000, "--port"), (7000, "--nccl-port"), (7000, "--nccl-port")]),
    ("python -m sglang.launch_server --tp 2 --nccl-port 7000", {}, [(30000, "--port")]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "env", "ports"), PORTS, ids=[row[0][:60] for row in PORTS])
def test_the_ports_of_an_engine(line: str, env: dict[str, str], ports: list[tuple[int, str]]) -> None:
    assert [(one.port, one.setting) for one in read_job_command(line.split(), env).ports] == ports


@pytest.mark.parametrize(("more", "hangs"), [("", True), (" -dpb ray", False), (" -dpa 10.0.0.1", False)])
def test_data_parallel_ranks_that_meet_at_loopback_while_ray_places_them(more: str, hangs: bool) -> None:
    line = read_job_command(f"vllm serve m -dp 8 --distributed-executor-backend ray{more}".split(), {})
    assert ("meet at 127.0.0.1" in line.note) is hangs
    assert "Ray places the 8 ranks" in line.note


SGLANG = "python -m sglang.launch_server --hicache-storage-backend mooncake"
MOONCAKE = "vllm serve m --kv-transfer-config {'kv_connector':'MooncakeStoreConnector'}"
ON_TWO = " --nnodes 2 --master-addr h -tp 2"
MASTER = '{{"master_server_address": "{}", "metadata_server": "P2PHANDSHAKE"}}'
MASTERS = [
    ("", None, "names no file"),
    ("", MASTER.format("10.0.0.1:50051"), ""),
    (ON_TWO, MASTER.format("10.0.0.1:50051"), ""),
    (ON_TWO, MASTER.format("etcd://10.0.0.1:2379"), ""),
    ("", MASTER.format("127.0.0.1:50051"), ""),
    (ON_TWO, MASTER.format("127.0.0.1:50051"), "each node asks itself"),
    (" -dp 4 -dpl 2 -dpa h", MASTER.format("localhost:50051"), "each node asks itself"),
    ("", MASTER.format("10.0.0.1"), "without a port"),
    ("", '{"metadata_server": "P2PHANDSHAKE"}', "has no master_server_address"),
    ("", '{"master_server_address": "10.0.0.1:50051"}', "has no metadata_server"),
    ("", "master: 10.0.0.1", "is not JSON"),
    ("", "[" * 60_000, "is not JSON"),
    ("", "", "is empty"),
]


@pytest.mark.parametrize(("more", "text", "why"), MASTERS)
def test_the_file_of_mooncakes_store(more: str, text: str | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "mooncake.json"
    file.write_text(text or "")
    env = {} if text is None else {"MOONCAKE_CONFIG_PATH": str(file)}
    problems = [*refused(read_job_command((MOONCAKE + more).split(), env), env)]
    assert [problem.why.startswith(why) or why in problem.why for problem in problems] == [True] * bool(why)


def test_a_file_of_mooncakes_store_that_is_not_there() -> None:
    env = {"MOONCAKE_CONFIG_PATH": "/nowhere.json", "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH": "/nowhere.json"}
    hicache = f"{SGLANG} --enable-hierarchical-cache"
    for start in (MOONCAKE, hicache):
        (problem,) = refused(read_job_command(start.split(), env), env)
        assert "is no file that can be read here" in problem.why
    with_master = f"{hicache} --hicache-storage-backend-extra-config {{'master_server_address':'h:1'}}"
    assert not [*refused(read_job_command(with_master.split(), env), env)]
    assert not [*refused(read_job_command(SGLANG.split(), env), env)]  # nothing uses the backend


EXTRA = "--hicache-storage-backend-extra-config"
QUEUE = (
    "python -m verl.trainer.main_ppo transfer_queue.enable=True transfer_queue.backend.storage_backend=MooncakeStore"
)
LMCACHE = "vllm serve m --kv-transfer-config {'kv_connector':'LMCacheConnectorV1'}"
YAML = """chunk_size: 256  # tokens
remote_url: "mooncakestore://h:50051/?device=mlx5_0"
extra_config:
  metadata_server: 'http://m:8080/metadata'
  master_server_address: "x:1"
"""
SERVERS: list[tuple[str, dict[str, str], list[str]]] = [
    (MOONCAKE, {"MOONCAKE_CONFIG_PATH": "FILE"},
     ["h:50051 master_server_address in FILE", "m:8080 metadata_server in FILE"]),
    (f"{MOONCAKE} --distributed-executor-backend ray", {"MOONCAKE_CONFIG_PATH": "FILE"},
     ["h:50051 master_server_address in FILE", "m:8080 metadata_server in FILE"]),
    (TRANSFER.format("MooncakeConnector", "kv_both"), {"MOONCAKE_CONFIG_PATH": "FILE"}, []),
    (f"{SGLANG} --enable-hierarchical-cache", {"MOONCAKE_MASTER": "h:50051"}, ["h:50051 MOONCAKE_MASTER"]),
    (f"{SGLANG} --enable-hierarchical-cache",
     {"MOONCAKE_MASTER": "h:50051", "MOONCAKE_TE_META_DATA_SERVER": "http://m:8080/metadata"},
     ["h:50051 MOONCAKE_MASTER", "m:8080 MOONCAKE_TE_META_DATA_SERVER"]),
    (f"{SGLANG} --enable-hierarchical-cache", {"MOONCAKE_MASTER": "x:1", "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH": "FILE"},
     ["h:50051 master_server_address in FILE", "m:8080 metadata_server in FILE"]),
    (f'{SGLANG} --enable-hierarchical-cache {EXTRA} {{"master_server_address":"e:1"}}', {"MOONCAKE_MASTER": "x:1"},
     [f"e:1 master_server_address of {EXTRA}"]),
    (f"{SGLANG} --enable-hierarchical-cache {EXTRA} @/some.toml", {"MOONCAKE_MASTER": "x:1"}, []),
    (f"{SGLANG} --enable-hierarchical-cache",
     {"MOONCAKE_MASTER": "x:1", "MOONCAKE_CLIENT": "c:2", "MOONCAKE_STANDALONE_STORAGE": "1"}, []),
    (f"{SGLANG} --enable-hierarchical-cache", {"MOONCAKE_MASTER": "etcd://a:1;b:1"},
     ["a:1 MOONCAKE_MASTER one", "b:1 MOONCAKE_MASTER one"]),
    (f"{SGLANG} --enable-hierarchical-cache", {"MOONCAKE_MASTER": "redis://a"}, ["a:6379 MOONCAKE_MASTER"]),
    (f"{SGLANG} --enable-hierarchical-cache", {"MOONCAKE_MASTER": "k8s://ns/lease"}, []),
    (f"{SGLANG} --enable-hierarchical-cache", {"MOONCAKE_MASTER": "h:1", "MOONCAKE_TE_META_DATA_SERVER": "a:1,b:1"},
     ["h:1 MOONCAKE_MASTER", "a:1 MOONCAKE_TE_META_DATA_SERVER one", "b:1 MOONCAKE_TE_META_DATA_SERVER one"]),
    (f"{SGLANG} --enable-hierarchical-cache",
     {"MOONCAKE_MASTER": "h:1", "MOONCAKE_TE_META_DATA_SERVER": "redis://a"},
     ["h:1 MOONCAKE_MASTER", "a:12001 MOONCAKE_TE_META_DATA_SERVER"]),
    (LMCACHE, {"LMCACHE_CONFIG_FILE": "YAML"},
     ["h:50051 remote_url in YAML spared", "m:8080 metadata_server in YAML spared"]),
    (LMCACHE, {"LMCACHE_CONFIG_FILE": "YAML", "MOONCAKE_CONFIG_PATH": "FILE"},
     ["h:50051 remote_url in YAML spared", "m:8080 metadata_server in FILE spared"]),
    (LMCACHE, {"LMCACHE_CONFIG_FILE": "YAML", "LMCACHE_REMOTE_URL": "redis://:word@r"},
     ["r:6379 LMCACHE_REMOTE_URL spared"]),
    ("python -m sglang.launch_server --enable-lmcache", {"LMCACHE_REMOTE_URL": "lm://h:65432"},
     ["h:65432 LMCACHE_REMOTE_URL spared"]),
    (LMCACHE, {"LMCACHE_REMOTE_URL": "fs://h:0/folder"}, []),
    ("vllm serve m", {"LMCACHE_REMOTE_URL": "lm://h:65432"}, []),
    (SGLANG, {"MOONCAKE_MASTER": "h:50051"}, []),
    (QUEUE, {}, ["localhost:50124 transfer_queue.backend.MooncakeStore.master_server_address"]),
    (f"{QUEUE} transfer_queue.backend.MooncakeStore.auto_init=True", {}, []),
    ("python -m verl.trainer.main_ppo", {"MOONCAKE_MASTER": "h:1"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("line", "env", "servers"), SERVERS)
def test_the_servers_of_mooncakes_store(line: str, env: dict[str, str], servers: list[str], tmp_path: Path) -> None:
    file = tmp_path / "mooncake.json"
    file.write_text('{"master_server_address": "h:50051", "metadata_server": "http://m:8080/metadata"}')
    yaml = tmp_path / "lmcache.yaml"
    yaml.write_text(YAML)
    paths = {"FILE": str(file), "YAML": str(yaml)}
    env = {name: paths.get(value, value) for name, value in env.items()}
    read = read_job_command(line.split(), env)
    words = [(one, " one" * one.one_of + " spared" * (not one.needed)) for one in read.servers]
    found = [f"{one.host}:{one.port} {one.setting}{how}" for one, how in words]
    found = [text.replace(str(file), "FILE").replace(str(yaml), "YAML") for text in found]
    assert (found, [*refused(read, env)]) == (servers, [])


def test_addresses_that_cannot_be_read_are_named() -> None:
    hicache, nowhere = f"{SGLANG} --enable-hierarchical-cache", {"MOONCAKE_MASTER": "k8s://ns/lease"}
    assert "k8s://ns/lease is not tried" in read_job_command(hicache.split(), nowhere).unread
    assert "is not JSON" in read_job_command(f"{hicache} {EXTRA} @/some.toml".split(), {}).unread
    sentinel = {"LMCACHE_REMOTE_URL": "redis-sentinel://a:1,b:1/of"}
    assert "redis-sentinel://a:1,b:1/of is not tried" in read_job_command(LMCACHE.split(), sentinel).unread


def test_several_masters_in_one_setting() -> None:
    """Mooncake's client takes one; LMCache refuses several of its own, and runs without them."""
    hicache, several = f"{SGLANG} --enable-hierarchical-cache", {"MOONCAKE_MASTER": "a:1,b:1"}
    (problem,) = refused(read_job_command(hicache.split(), several), several)
    assert problem.why.startswith("names several masters, a:1,b:1") and not problem.starts
    urls = {"LMCACHE_REMOTE_URL": "mooncakestore://a:1,b:1"}
    (problem,) = refused(read_job_command(LMCACHE.split(), urls), urls)
    assert problem.why.startswith("names several hosts") and problem.starts


def test_a_script_that_starts_the_master_itself(tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    env = {"MOONCAKE_MASTER": "h:50051"}
    for before, count in (("", 1), ("mooncake_master --rpc_port=50051 &\n", 0)):
        script.write_text(f"{before}{SGLANG} --enable-hierarchical-cache\n")
        assert len(read_job_command(["bash", str(script)], env).servers) == count


def test_a_cache_with_mooncake_and_no_master_at_all() -> None:
    (problem,) = refused(read_job_command(f"{SGLANG} --enable-hierarchical-cache".split(), {}), {})
    assert (problem.variable, problem.value) == ("MOONCAKE_MASTER", "")
    assert problem.why.startswith("names no master")


def test_the_words_for_another_host_have_no_secret() -> None:
    words = [
        "env",
        "HF_TOKEN=one",
        "VLLM_PORT=5",
        "vllm",
        "serve",
        "m",
        "--api-key",
        "two",
        "--x-secret=three",
        "-tp",
        "2",
    ]
    sent = read_job_command(words, {}).sent
    assert sent == ["env", "VLLM_PORT=5", "vllm", "serve", "m", "--api-key", "x", "--x-secret=x", "-tp", "2"]
    assert read_job_command(["bash", "-c", "vllm serve m --api-key two -tp 2"], {}).sent == [
        "bash",
        "-c",
        "vllm serve m --api-key x -tp 2",
    ]
