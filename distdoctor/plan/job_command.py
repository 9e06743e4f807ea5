"""Plan of a job from its start command: launchers, engines, frameworks, and what stands before them.

torchrun (torch/distributed/run.py, get_args_parser), accelerate launch (accelerate/commands/launch.py), srun and mpirun
have a grammar each here; ``engine_lines`` and ``trainer_lines`` have the others. Of any other program only the
environment describes the job.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distdoctor.model.addresses import endpoint
from distdoctor.model.launch_settings import (
    MASTER_ADDR,
    MASTER_PORT,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RDZV_BACKEND,
    RDZV_ENDPOINT,
)
from distdoctor.model.plan import DEFAULT_PORT
from distdoctor.plan import engine_lines, shell_text, torchrun, trainer_lines
from distdoctor.plan.job_line import JobLine, in_file, mesh_of, number, options_of
from distdoctor.plan.launchers.base import text_of

__all__ = ["JobLine", "accelerate_flags", "read_job_command", "split_mpirun", "split_srun"]
Reader = Callable[[Sequence[str], Mapping[str, str]], JobLine]
_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
"""Options of Python that take the next word (python --help)."""
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_LOOKED_AT = 24
"""Words in which the program is looked for, behind wrappers and their options: env, uv run, conda run, numactl, nohup,
timeout, nsys, a site's own."""


def read_job_command(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Parse the command in this environment. Raise ValueError if it makes no sense."""
    words = [*words]
    changes: dict[str, str] = {}
    if words and os.path.basename(words[0]) == "env":
        words.pop(0)
        while words and (match := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", words[0], re.S)):
            changes[match[1]] = match[2]
            words.pop(0)
    env = {**env, **changes}
    program = os.path.basename(words[0]) if words else ""
    if program == "srun" or program in _MPI:
        options, rest = (split_srun if program == "srun" else split_mpirun)(words[1:])
        inner = _inside(rest, env)
        return replace(
            inner, before=(words[0], *options), inner=tuple(rest), env={**changes, **(inner.env or {})} or None
        )
    read = _by_program(words, env)
    return replace(read, env={**changes, **(read.env or {})} or None, inner=tuple(words))


def _inside(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Parse the command of each process that srun or mpirun starts, which has variables that are not here."""
    try:
        return read_job_command(words, env)
    except ValueError as err:
        return JobLine("other", note=f"{err}; each process reads the rest of the line itself")


def _by_program(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    for place, word in enumerate(words[:_LOOKED_AT]):
        name, rest = os.path.basename(word), [*words[place + 1 :]]
        if name in _SHELLS:
            return _in_shell(rest, env)
        if reader := PROGRAMS.get(name):
            return reader(rest, env)
        if word.endswith(("torch/distributed/run.py", "torch/distributed/launch.py")):
            return _torchrun(rest, env)
        if re.fullmatch(r"python[\d.]*|pypy[\d.]*", name):
            return _python(rest, env)
    return _unknown(words)


def _unknown(words: Sequence[str]) -> JobLine:
    names = (os.path.basename(word) for word in words if not word.startswith("-"))
    name = next((base for base in names if base not in _WRAPPERS), "the line")
    return JobLine("other", note=f"distdoctor does not know the options of {name}: the plan is that of the environment")


def _torchrun(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    given = torchrun.torchrun_options(words)
    if text := next((text for text in given.values() if "$" in text), ""):
        name = next(name for name in given if given[name] == text)
        raise ValueError(f"{name} is {text}, which only the shell that starts the line knows: give its value")
    flags = torchrun.torchrun_flags(given, env)
    return JobLine("torchrun", flags, log_dir=given.get("--log-dir", ""), **_of_megatron(flags, words))


def _python(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Parse Python's own options before the module or the script."""
    left = [*words]
    while left and left[0].startswith("-") and left[0] not in ("-", "-c"):
        word = left.pop(0)
        if word in _WITH_VALUE:
            del left[:1]
        elif match := re.fullmatch(r"-[bBdEhiIOqsSuvVxP]*m(.*)", word):
            module = match[1] or (left.pop(0) if left else "")
            return _module(module, left, env)
    if left and left[0].endswith(("torch/distributed/run.py", "torch/distributed/launch.py")):
        return _torchrun(left[1:], env)
    if left and left[0].startswith("verl."):  # as in verl's own documentation, without -m
        return trainer_lines.read_verl(left, env)
    return JobLine("python")


def _module(module: str, words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    if reader := MODULES.get(module):
        return reader(words, env)
    package = module.partition(".")[0]
    if package == "dynamo":
        return engine_lines.read_dynamo(module, words, env)
    if package == "verl" and "sft" not in module:
        return trainer_lines.read_verl([module, *words], env)
    if package == "openrlhf" and module.endswith("_ray"):
        return trainer_lines.read_by_ray(module)
    return JobLine("python")


def _in_shell(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Parse the one launch command in ``-c TEXT`` or in a script, with the variables that it sets before."""
    left = [*words]
    text, what = "", ""
    while left and not text:
        word = left.pop(0)
        if re.fullmatch(r"-[a-z]*c", word):
            text, what = (left.pop(0) if left else ""), "the text of -c"
        elif not word.startswith(("-", "+")):
            text, what = text_of(word, shell_text.MAX_BYTES), os.path.basename(word)
            break
    lines: list[JobLine] = []
    for command in shell_text.commands(text, env):
        if is_launch(command.words):
            line = read_job_command(command.words, {**env, **command.env})
            line = replace(line, servers=() if "mooncake_master" in text else line.servers)  # it starts it before
            lines.append(replace(line, env={**command.env, **(line.env or {})} or None))
    if len(lines) == 1:
        return lines[0]
    many = f"has {len(lines)} launch commands" if lines else "has no launch command that distdoctor knows"
    return JobLine("other", note=f"{what or 'the shell'} {many}: the plan is that of the environment")


def is_launch(words: Sequence[str]) -> bool:
    """Return whether a launcher, an engine or a framework is started here, behind whatever wrappers."""
    names = [os.path.basename(word) for word in words[:_LOOKED_AT]]
    modules = [following for name, following in itertools.pairwise(words) if name == "-m"]
    if names[:1] and (names[0] in _NO_STARTERS or (names[0] == "ray" and words[1:2] not in (["start"], ["job"]))):
        return False
    starts = any(name in PROGRAMS or name == "srun" or name in _MPI for name in names)
    return starts or any(module in MODULES or module.partition(".")[0] in _PACKAGES for module in modules)


def _vllm(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    return engine_lines.read_vllm(words[1:], env) if words[:1] == ["serve"] else _unknown(["vllm"])


def _sglang(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    return engine_lines.read_sglang(words[1:], env) if words[:1] == ["serve"] else _unknown(["sglang"])


def _trl(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    if words[:1] == ["vllm-serve"]:
        return engine_lines.read_trl_server(words[1:], env)
    return _accelerate(words[1:], env)


def _accelerate(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    flags = accelerate_flags(words, env)
    return JobLine("accelerate", flags, **_of_megatron(flags, words))


def _accelerate_command(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    return _accelerate(words[1:], env) if words[:1] == ["launch"] else _unknown(["accelerate"])


def _axolotl(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """``axolotl train CONFIG --launcher NAME -- OPTIONS``: accelerate unless it is told otherwise."""
    end = [*words, "--"].index("--")
    own, behind = [*words[:end]], [*words[end + 1 :]]
    given = options_of(own, {"--launcher": (), "--num-processes": (), "--main-process-port": ()}, ("--use-ray",))
    if "--use-ray" in given:
        return trainer_lines.read_by_ray("axolotl")
    if given.get("--launcher") == "torchrun":
        ahead = ["--rdzv-backend=c10d"] if any("rdzv_endpoint" in flag for flag in behind) else []
        return _torchrun([*ahead, *behind, "--"], env)
    if given.get("--launcher") == "python" or own[:1] != ["train"]:
        return JobLine("python")
    ahead = [f"{name}={given[name]}" for name in ("--num-processes", "--main-process-port") if name in given]
    return _accelerate([*ahead, *behind], env)


def _swift(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    line = trainer_lines.read_swift(words, env)
    return replace(line, **_of_megatron(line.flags, words))


def _megatron(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    line = trainer_lines.read_swift(words, env, always=True)
    return replace(line, **_of_megatron(line.flags, words))


PROGRAMS: dict[str, Reader] = {
    "torchrun": _torchrun,
    "accelerate": _accelerate_command,
    "accelerate-launch": _accelerate,
    "vllm": _vllm,
    "sglang": _sglang,
    "trl": _trl,
    "deepspeed": trainer_lines.read_deepspeed,
    "ft_launcher": trainer_lines.read_ft_launcher,
    "composer": trainer_lines.read_composer,
    "fabric": trainer_lines.read_fabric,
    "lightning": trainer_lines.read_fabric,
    "llamafactory-cli": trainer_lines.read_llama_factory,
    "lmf": trainer_lines.read_llama_factory,
    "swift": _swift,
    "megatron": _megatron,
    "axolotl": _axolotl,
    "ray": trainer_lines.read_ray,
}
"""Program -> reader of the words behind it."""
MODULES: dict[str, Reader] = {
    "torch.distributed.run": _torchrun,
    "torch.distributed.launch": _torchrun,
    "accelerate.commands.launch": _accelerate,
    "vllm.entrypoints.openai.api_server": engine_lines.read_vllm,
    "vllm.entrypoints.cli.main": _vllm,
    "sglang.launch_server": engine_lines.read_sglang,
    "trl.scripts.vllm_serve": engine_lines.read_trl_server,
    "deepspeed.launcher.runner": trainer_lines.read_deepspeed,
    "llamafactory.cli": trainer_lines.read_llama_factory,
    "nvidia_resiliency_ext.fault_tolerance.launcher": trainer_lines.read_ft_launcher,
}
"""Module of ``python -m`` -> reader of the words behind it."""
_PACKAGES = ("dynamo", "verl", "openrlhf")
_NO_STARTERS = ("echo", "printf", "which", "type", "pip", "pip3", "pkill", "killall", "grep", "cat")
"""Commands of a script whose words may be the name of a launcher."""
_WRAPPERS = ("uv", "run", "conda", "env", "nohup", "numactl", "timeout", "exec", "setsid", "nice")
"""Words before a program that are not its name."""


# Megatron's dimensions, which its options name (megatron/training/arguments.py); the order is "tp-cp-ep-dp-pp", the
# innermost first. Groups: dp, cp, tp, pp, in this order (megatron/core/parallel_state.py at 00caa53a).


def _of_megatron(flags: Sequence[str], words: Sequence[str]) -> dict[str, Any]:
    names = {f"--{name}-{kind}-size": () for name, kind in _MEGATRON}
    given = options_of(words, names)
    if not given:
        return {}
    plan = dict(flag.partition("=")[::2] for flag in flags)
    nodes, each = plan.get(NNODES.flag, ""), plan.get(NPROC_PER_NODE.flag, "")
    if not nodes.isdecimal() or not each.isdecimal():
        return {}
    try:
        tp, pp, cp = (number(given, f"--{name}-{kind}-size", 1) for name, kind in _MEGATRON)
    except ValueError:
        return {}
    world, fixed = int(nodes) * int(each), tp * pp * cp
    return mesh_of("dp cp tp pp", pp=pp, dp=world // fixed, cp=cp, tp=tp) if fixed and world % fixed == 0 else {}


_MEGATRON = (("tensor", "model-parallel"), ("pipeline", "model-parallel"), ("context", "parallel"))


# accelerate launch: its machines and processes by its options, else its configuration file.
#
# Option names have ``_`` or ``-`` alike. The file is the one of --config_file, else default_config.yaml below
# $HF_HOME/accelerate or the cache folder's huggingface/accelerate
# (https://huggingface.co/docs/accelerate/package_reference/cli).


_NAMES = ("num_machines", "num_processes", "machine_rank", "main_process_ip", "main_process_port", "rdzv_backend")
_CONFIG = "config_file"


def accelerate_flags(words: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the flags of a check with the same plan.

    Raise ValueError for processes that the machines cannot share, and for an unknown rendezvous.
    """
    given = _own_words(words)
    options = {**_file(given.get(_CONFIG) or _default_file(env)), **given}
    machines = _to_int(options.get("num_machines")) or 1
    processes = _to_int(options.get("num_processes"))
    flags = [f"{NNODES.flag}={machines}"]
    if processes:
        if processes % machines:
            raise ValueError(f"{processes} processes cannot be shared by {machines} machines")
        flags.append(f"{NPROC_PER_NODE.flag}={processes // machines}")
    port, backend = _to_int(options.get("main_process_port")), options.get("rdzv_backend") or "static"
    if machines > 1 and backend not in ("static", "c10d"):
        raise ValueError(f"the rendezvous {backend} is not one that can be checked (static, c10d)")
    if machines > 1 and backend == "c10d":  # it is an endpoint then, with the port of static (utils/launch.py)
        at = endpoint(options.get("main_process_ip", ""), DEFAULT_PORT if port is None else port)
        return (*flags, f"{RDZV_BACKEND.flag}={backend}", f"{RDZV_ENDPOINT.flag}={at}")
    if machines > 1:
        flags.append(f"{NODE_RANK.flag}={_to_int(options.get('machine_rank')) or 0}")
        if options.get("main_process_ip"):
            flags.append(f"{MASTER_ADDR.flag}={options['main_process_ip']}")
    if port or (port == 0 and machines > 1):  # 0: each machine takes a free one of its own
        flags.append(f"{MASTER_PORT.flag}={port}")
    return tuple(flags)


def _own_words(words: Sequence[str]) -> dict[str, str]:
    """Return the options before the script or module, whose words are its own."""
    given: dict[str, str] = {}
    left = [*words]
    while left:
        word = left.pop(0)
        if word.endswith((".py", ".sh")) or word in ("-m", "--module", "--"):
            break
        name, equals, value = word.partition("=")
        name = name.removeprefix("--").replace("-", "_")
        if word.startswith("--") and name in (*_NAMES, _CONFIG):
            given[name] = value if equals else left.pop(0) if left else ""
    return given


def _default_file(env: Mapping[str, str]) -> str:
    cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
    home = env.get("HF_HOME") or os.path.join(cache, "huggingface")
    return os.path.join(home, "accelerate", "default_config.yaml")


def _file(path: str) -> dict[str, str]:
    """Return the settings of the file, which are words and numbers at the top level."""
    return {name: value for name, value in in_file(path).items() if name in _NAMES}


def _to_int(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


# srun's options: the end of them, and the ones that a check beside the job needs, too.
#
# getopt_long with ``+``: options end at the first word that is none (srun(1), and ``srun --help`` of 22.05 and 23.11).


_SHORT_PLAIN = "EHIkKlOQsuvVXhZ"
"""Options without a value, or with one only without a space."""
_PLAIN = (
    "contiguous", "disable-status", "exact", "exclusive", "external", "hold", "immediate", "interactive",
    "kill-on-bad-exit", "label", "multi-prog", "no-allocate", "no-kill", "overcommit", "overlap", "oversubscribe",
    "preserve-env", "pty", "quiet", "reboot", "send-libs", "spread-job", "test-only", "unbuffered", "use-min-nodes",
    "verbose", "version", "help", "usage", "whole", "wait-all-nodes", "quit-on-interrupt", "resv-ports", "nice",
    "compress", "propagate",
)  # fmt: skip
"""Options without a value, or with one only behind ``=``."""
_NOT_FOR_A_CHECK = (
    "output", "error", "input", "pty", "label", "multi-prog", "kill-on-bad-exit", "job-name", "unbuffered", "quiet",
    "verbose", "bcast", "epilog", "prolog", "task-prolog", "task-epilog", "wait",
)  # fmt: skip
_NOT_FOR_A_CHECK_SHORT = "oeilKJuQvW"


def split_srun(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return srun's options that a check needs, and the command."""
    kept: list[str] = []
    left = [*words]
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        taken = [word]
        if word.startswith("--"):
            name, equals, _ = word[2:].partition("=")
            if not equals and name not in _PLAIN and left:
                taken.append(left.pop(0))
            wanted = name not in _NOT_FOR_A_CHECK
        else:
            valued = word[1:].lstrip(_SHORT_PLAIN)
            switches = word[1 : len(word) - len(valued)]
            if len(valued) == 1 and left:  # its value is the next word
                taken.append(left.pop(0))
            if valued[:1] in _NOT_FOR_A_CHECK_SHORT:
                valued, taken = "", [word]
            taken[0] = "-" + "".join(switch for switch in switches if switch not in _NOT_FOR_A_CHECK_SHORT) + valued
            wanted = taken[0] != "-"
        kept += taken if wanted else []
    return tuple(kept), left


# mpirun's options: the end of them. Open MPI's (mpirun(1) of 4.1 and 5.0) and hydra's (mpiexec of MPICH and Intel MPI).


_MPI = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
_MPI_SWITCHES = (
    "allow-run-as-root", "bynode", "byslot", "display-allocation", "display-map", "do-not-launch", "forward-signals",
    "nolocal", "nooversubscribe", "oversubscribe", "overload-allowed", "quiet", "q", "tag-output", "timestamp-output",
    "verbose", "v", "version", "V", "help", "h", "use-hwthread-cpus", "genvall", "genvnone", "envall",
    "envnone", "l", "print-all-exitcodes", "prepend-rank", "bind-to-core", "bind-to-none", "report-bindings",
    "merge-stderr-to-stdout", "pernode", "abort-on-zero", "continuous", "noprefix",
)  # fmt: skip
_MPI_TWO = ("mca", "omca", "pmca", "gmca", "prtemca", "env", "genv")
"""Options with two values."""


def split_mpirun(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return mpirun's options, and the command. Raise ValueError for several commands (MPMD)."""
    if ":" in words:
        raise ValueError("mpirun starts several programs (separated by :), and the plan of which is not known")
    kept: list[str] = []
    left = [*words]
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        kept.append(word)
        if word == "--":
            break
        name, equals, _ = word.lstrip("-").partition("=")
        takes = 0 if name in _MPI_SWITCHES or equals else 2 if name in _MPI_TWO else 1
        kept, left = [*kept, *left[:takes]], left[takes:]
    return tuple(kept), left
