"""Start lines of trainers and of Ray: launchers that are no torchrun, or start one by variables and files of their own.

Names and defaults are those of DeepSpeed 0.19 (launcher/runner.py), composer 0.24 (cli/launcher.py), Lightning 2.6
(fabric/cli.py), LLaMA-Factory 0.9 (launcher.py), ms-swift 4.4 (cli/main.py), axolotl 0.18 (cli/main.py), TRL 1.9
(cli/commands), verl 0.7 (trainer/config), nvidia-resiliency-ext 0.7 (fault_tolerance/launcher.py) and Ray 2.60.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence

from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT, RDZV_BACKEND, RDZV_ENDPOINT
from distdoctor.model.plan import DEFAULT_PORT
from distdoctor.plan import torchrun
from distdoctor.plan.job_line import (
    MAX_BYTES,
    JobLine,
    here_alone,
    leading_options,
    node_flags,
    number,
    port_of,
    shared,
    word,
)
from distdoctor.plan.launchers.base import text_of
from distdoctor.plan.mooncake import store_of_verl

# DeepSpeed: hosts of a file over ssh, or this machine without one.

_DEEPSPEED_SWITCHES = (
    "--module", "--no-python", "--no-local-rank", "--no-ssh", "--no-ssh-check", "--force-multi", "--save-pid",
    "--elastic-training", "--bind-cores-to-rank", "--quiet", "--help",
)  # fmt: skip
_DEEPSPEED_SHORT = {"-H": "--hostfile", "-i": "--include", "-e": "--exclude", "-q": "--quiet", "-h": "--help",
                    "--num_accelerators": "--num-gpus", "--num-accelerators": "--num-gpus"}  # fmt: skip
_HOSTFILE = "/job/hostfile"
_UNDERSCORED = {"master_addr": "--master_addr", "master_port": "--master_port"}


def read_deepspeed(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Return the plan of ``deepspeed``. Raise ValueError."""
    given, _ = leading_options(words, _DEEPSPEED_SWITCHES, _DEEPSPEED_SHORT)
    listed = re.findall(r"(?m)^\s*([^\s#]\S*)\s+slots=(\d+)", text_of(word(given, "--hostfile", _HOSTFILE), MAX_BYTES))
    hosts = _selected({host: [*range(int(slots))] for host, slots in listed}, given)
    gpus, nodes = number(given, "--num-gpus", 0), number(given, "--num-nodes", 0)
    port = number(given, "--master-port", DEFAULT_PORT)
    if not listed:  # as DeepSpeed, which warns and goes on with this machine
        local = _selected({"localhost": [*range(1024)]}, given)["localhost"]
        return JobLine("DeepSpeed", node_flags(1, gpus or (len(local) if len(local) < 1024 else None), port=port))
    names = [*hosts][: nodes or None]
    counts = [gpus or len(hosts[name]) for name in names]
    if not names:
        raise ValueError("--include and --exclude leave no GPU")
    uneven = f"the hosts have {', '.join(map(str, counts))} ranks, and are checked with {counts[0]} each"
    note = "" if len({*counts}) == 1 else uneven
    here = socket.gethostname()
    rank = number(given, "--node-rank", 0) if "--no-ssh" in given else names.index(here) if here in names else None
    address = word(given, "--master-addr", names[0]) if len(names) > 1 else ""
    over_ssh = tuple(names) if len(names) > 1 and "--no-ssh" not in given else ()
    flags = node_flags(len(names), counts[0], rank, address, port)
    return JobLine("DeepSpeed", flags, hosts=over_ssh, note=note, names=_UNDERSCORED)


def _selected(hosts: Mapping[str, list[int]], given: Mapping[str, str]) -> dict[str, list[int]]:
    """Return the slots of each host that --include or --exclude leaves: ``host0@host1:0,2``."""
    include, exclude = word(given, "--include"), word(given, "--exclude")
    if include and exclude:
        raise ValueError("--include and --exclude do not go together")
    named: dict[str, list[int]] = {}
    for part in filter(None, (include or exclude).split("@")):
        host, colon, slots = part.partition(":")
        if host not in hosts or not re.fullmatch(r"(\d+(,\d+)*)?", slots):
            raise ValueError(f"{part!r} of --include or --exclude names no host or slot of the hostfile")
        named.setdefault(host, []).extend(map(int, slots.split(",")) if colon else hosts[host])
    if include:
        return {host: sorted({*named[host]}) for host in hosts if host in named}
    left = {host: [slot for slot in slots if slot not in named.get(host, ())] for host, slots in hosts.items()}
    return {host: slots for host, slots in left.items() if slots}


# Launchers with options for each node.


_COMPOSER = {"-n": "--nproc", "-m": "--module-mode", "-c": "--command-mode", "-v": "--verbose"}


def read_composer(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Return the plan of ``composer``, whose world size says whether there are other nodes. Raise ValueError."""
    given, _ = leading_options(words, ("--module-mode", "--command-mode", "--verbose", "--help"), _COMPOSER)
    each = number(given, "--nproc", number(env, "LOCAL_WORLD_SIZE", 0))
    several = env.get("LOCAL_WORLD_SIZE") != env.get("WORLD_SIZE")
    world = number(given, "--world-size", number(env, "WORLD_SIZE", 0) if several else 0)
    if world and not each:
        return here_alone("composer", f"composer shares {world} ranks by the GPUs of each node; give it --nproc")
    if world <= each:
        return JobLine("composer", node_flags(1, each or None))
    nodes = shared(world, each)
    rank = number(given, "--node-rank", number(env, "NODE_RANK", number(given, "--base-rank", 0) // each))
    address = word(given, "--master-addr", env.get("MASTER_ADDR", ""))
    port = number(given, "--master-port", number(env, "MASTER_PORT", 0))
    return JobLine("composer", node_flags(nodes, each, rank, address, port), names=_UNDERSCORED)


def read_fabric(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Return the plan of ``fabric run`` (``lightning run``). Raise ValueError."""
    words = words[1:] if words[:1] in (["run"], ["model"]) else words
    words = words[1:] if words[:1] == ["model"] else words
    given, left = leading_options(words, ("--help",), {})
    while left and not left[0].startswith("-"):  # click takes its options behind the script, too
        more, left = leading_options(left[1:], ("--help",), {})
        given = {**more, **given}
    devices = word(given, "--devices", "1")
    listed = devices.strip("[],").split(",") if "," in devices else []
    each = None if devices in ("-1", "auto") else len(listed) or number(given, "--devices", 1)
    nodes, rank = number(given, "--num-nodes", 1), number(given, "--node-rank", 0)
    place = (word(given, "--main-address", "127.0.0.1"), number(given, "--main-port", 29400)) if nodes > 1 else ()
    names = {"master_addr": "--main-address", "master_port": "--main-port"}
    return JobLine("Lightning", node_flags(nodes, each, rank, *place), names=names)


_FT_SWITCHES = ("--ft-ignore-missing-cfg",)


def read_ft_launcher(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Return the plan of ``ft_launcher``, which has torchrun's options, c10d alone, and --ft-... of its own."""
    kept: list[str] = []
    left = [*words]
    while left and left[0].startswith("-"):
        name, equals, _ = left[0].replace("_", "-").partition("=")
        taken = 1 if equals or name in _FT_SWITCHES or not name.startswith("--ft-") else 2
        kept += [] if name.startswith("--ft-") else left[:1]
        if not name.startswith("--ft-") and not equals and left[1:] and not left[1].startswith("-"):
            kept, taken = [*kept, left[1]], 2
        del left[:taken]
    given = {RDZV_BACKEND.flag: "c10d", **torchrun.torchrun_options([*kept, "--"])}
    place = f"{given.get(MASTER_ADDR.flag, '127.0.0.1')}:{given.get(MASTER_PORT.flag, DEFAULT_PORT)}"
    given.setdefault(RDZV_ENDPOINT.flag, place)
    return JobLine("ft_launcher", torchrun.torchrun_flags(given, env), log_dir=given.get("--log-dir", ""))


# Frameworks that start torchrun or accelerate by variables and words of their own.


_VARIABLES = {"master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT"}
_SETTINGS = ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")


def _by_variables(env: Mapping[str, str]) -> list[str]:
    return [part for name in _SETTINGS if env.get(name) for part in (f"--{name.lower().replace('_', '-')}", env[name])]


def read_llama_factory(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Return the plan of ``llamafactory-cli train``, which starts torchrun by its variables. Raise ValueError."""
    if words[:1] != ["train"]:
        return here_alone("LLaMA-Factory", f"llamafactory-cli {' '.join(words[:1])} starts no ranks")
    if env.get("USE_RAY", "").lower() in ("1", "true", "y"):
        return here_alone("LLaMA-Factory", "Ray places the ranks of LLaMA-Factory (USE_RAY)")
    nodes, each = env.get("NNODES", "1"), number(env, "NPROC_PER_NODE", 0) or None
    if env.get("RDZV_ID"):
        if env.get("MIN_NNODES") and env.get("MAX_NNODES"):
            nodes = f"{env['MIN_NNODES']}:{env['MAX_NNODES']}"
        at = f"{env.get('MASTER_ADDR', '127.0.0.1')}:{env.get('MASTER_PORT', DEFAULT_PORT)}"
        ranks = () if each is None else (f"--nproc-per-node={each}",)
        meeting = ("--rdzv-backend=c10d", f"--rdzv-endpoint={at}", f"--rdzv-id={env['RDZV_ID']}")
        return JobLine("LLaMA-Factory", (f"--nnodes={nodes}", *ranks, *meeting))
    count = number({"NNODES": nodes}, "NNODES", 1)
    if count > 1 and not env.get("MASTER_PORT"):
        raise ValueError("llamafactory-cli takes a free port of its own on each node unless MASTER_PORT is set: set it")
    if count == 1:
        return JobLine("LLaMA-Factory", node_flags(1, each))
    place = env.get("MASTER_ADDR", "127.0.0.1"), number(env, "MASTER_PORT", 0)
    return JobLine("LLaMA-Factory", node_flags(count, each, number(env, "NODE_RANK", 0), *place), names=_VARIABLES)


def read_swift(words: Sequence[str], env: Mapping[str, str], always: bool = False) -> JobLine:
    """Return the plan of ``swift`` or ``megatron``, which start torchrun where NPROC_PER_NODE or NNODES is set."""
    if words[:1] == ["rollout"] or words[:1] == ["deploy"]:
        return here_alone("ms-swift", f"swift {words[0]} starts the ranks of its engine by itself")
    distributed = always or words[:1] in (["pt"], ["sft"], ["rlhf"], ["infer"])
    if not distributed or not (env.get("NPROC_PER_NODE") or env.get("NNODES")):
        return JobLine("ms-swift", node_flags(1, 1))
    flags = torchrun.torchrun_flags(torchrun.torchrun_options([*_by_variables(env), "--"]), env)
    return JobLine("ms-swift", flags, names=_VARIABLES)


# Ray, which places the ranks itself.


_GCS, _DASHBOARD, _CLIENT = 6379, 8265, 10001


def read_ray(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Return the plan of ``ray start`` or ``ray job submit``: Ray places the ranks, and the line says at most how
    many."""
    given, left = leading_options(words[2:] if words[:1] == ["job"] else words[1:], _RAY_SWITCHES, {})
    if words[:1] == ["start"]:
        if "--head" not in given:
            at = given.get("--address") or "the head"
            return here_alone("Ray", f"ray start joins this node to the Ray cluster at {at}, and starts no ranks")
        ports = (
            port_of(given, "--port", _GCS, "GCS of Ray"),
            port_of(given, "--dashboard-port", _DASHBOARD, "dashboard of Ray"),
            port_of(given, "--ray-client-server-port", _CLIENT, "server for Ray clients"),
        )
        said = "ray start makes this node the head of a Ray cluster, and starts no ranks"
        return here_alone("Ray", said, ports=ports)
    if words[:2] != ["job", "submit"]:
        return here_alone("Ray", f"ray {' '.join(words[:1])} starts no ranks")
    return here_alone("Ray", f"Ray places {_size(left)} of {_program(left)}")


_RAY_SWITCHES = (
    "--head", "--block", "--no-wait", "--disable-usage-stats", "--no-monitor", "--verbose", "--help",
    "--ray-debugger-external", "--enable-object-reconstruction",
)  # fmt: skip


def read_verl(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Return the plan of ``python -m verl...``, whose ranks Ray places."""
    return here_alone("verl", f"Ray places {_size(words)} of verl", **store_of_verl(words, env))


def read_by_ray(program: str) -> JobLine:
    """Return the plan of another program whose ranks Ray places."""
    return here_alone("Ray", f"Ray places the ranks of {program}")


def _size(words: Sequence[str]) -> str:
    """Return the number of nodes and ranks by verl's settings (defaults: trainer/config/ppo_trainer.yaml)."""
    given = dict(re.findall(r"(?:^|\s)\+*trainer\.(nnodes|n_gpus_per_node)=(\d+)", " ".join(words)))
    if not given and not any(prefix.startswith("verl") for prefix in words):
        return "the ranks"
    return f"the {given.get('nnodes', '1')} x {given.get('n_gpus_per_node', '8')} ranks"


def _program(words: Sequence[str]) -> str:
    rest = [argument for argument in words if not argument.startswith("-")]
    return rest[1] if len(rest) > 1 and rest[0].startswith("python") else rest[0] if rest else "the job"
