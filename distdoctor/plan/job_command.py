"""Plan of a job from its start command: torchrun, accelerate launch or srun.

torchrun (torch/distributed/run.py, get_args_parser), accelerate launch (accelerate/commands/launch.py) and srun have a
grammar each; of any other program only the environment describes the job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

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
from distdoctor.plan import torchrun
from distdoctor.plan.launchers.base import text_of

Kind = Literal["torchrun", "accelerate", "python", "other"]
_AGENTS = ("torch.distributed.run", "torch.distributed.launch")
_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
"""Options of Python that take the next word (python --help)."""


@dataclass(frozen=True)
class JobLine:
    """Launcher, flags and environment of a start command."""

    kind: Kind
    flags: tuple[str, ...] = ()
    """Flags of ``distdoctor check`` for the same plan."""
    env: Mapping[str, str] | None = None
    """Variables that the command itself sets."""
    before: tuple[str, ...] = ()
    """Command that reaches the same nodes: srun with its options."""
    log_dir: str = ""
    """Folder to which the ranks' output goes, too."""


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
    if words and os.path.basename(words[0]) == "srun":
        options, rest = split_srun(words[1:])
        inner = read_job_command(rest, env)
        return replace(inner, before=(words[0], *options), env={**changes, **(inner.env or {})})
    found = _by_program(words, env)
    return replace(found, env=changes or None)


def _by_program(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    for place, word in enumerate(words[:12]):
        name = os.path.basename(word)
        if name == "torchrun" or word.endswith(("torch/distributed/run.py", "torch/distributed/launch.py")):
            return _torchrun(words[place + 1 :], env)
        if name == "accelerate" and words[place + 1 : place + 2] == ["launch"]:
            return JobLine("accelerate", accelerate_flags(words[place + 2 :], env))
        if name == "accelerate-launch":
            return JobLine("accelerate", accelerate_flags(words[place + 1 :], env))
        if re.fullmatch(r"python[\d.]*|pypy[\d.]*", name):
            return _python(words[place + 1 :], env)
    return JobLine("other")


def _torchrun(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    given = torchrun.torchrun_options(words)
    return JobLine("torchrun", torchrun.torchrun_flags(given, env), log_dir=given.get("--log-dir", ""))


def _python(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Parse Python's own options before the module or the script."""
    left = [*words]
    while left and left[0].startswith("-") and left[0] not in ("-", "-c"):
        word = left.pop(0)
        if word in _WITH_VALUE:
            del left[:1]
        elif match := re.fullmatch(r"-[bBdEhiIOqsSuvVxP]*m(.*)", word):
            module = match[1] or (left.pop(0) if left else "")
            if module in _AGENTS:
                return _torchrun(left, env)
            if module == "accelerate.commands.launch":
                return JobLine("accelerate", accelerate_flags(left, env))
            return JobLine("python")
    if left and left[0].endswith(("torch/distributed/run.py", "torch/distributed/launch.py")):
        return _torchrun(left[1:], env)
    return JobLine("python")


# accelerate launch: its machines and processes by its options, else its configuration file.
#
# Option names have ``_`` or ``-`` alike. The file is the one of --config_file, else default_config.yaml below
# $HF_HOME/accelerate or the cache folder's huggingface/accelerate
# (https://huggingface.co/docs/accelerate/package_reference/cli).


_NAMES = ("num_machines", "num_processes", "machine_rank", "main_process_ip", "main_process_port", "rdzv_backend")
_CONFIG = "config_file"
_MOST_BYTES = 1 << 16


def accelerate_flags(words: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the flags of a check with the same plan.

    Raise ValueError for processes that the machines cannot share, and for an unknown rendezvous.
    """
    given = _own_words(words)
    options = {**_file(given.get(_CONFIG) or _default_file(env)), **given}
    machines = _to_int(options.get("num_machines")) or 1
    processes = _to_int(options.get("num_processes"))
    found = [f"{NNODES.flag}={machines}"]
    if processes:
        if processes % machines:
            raise ValueError(f"{processes} processes cannot be shared by {machines} machines")
        found.append(f"{NPROC_PER_NODE.flag}={processes // machines}")
    port, backend = _to_int(options.get("main_process_port")), options.get("rdzv_backend") or "static"
    if machines > 1 and backend not in ("static", "c10d"):
        raise ValueError(f"the rendezvous {backend} is not one that can be checked (static, c10d)")
    if machines > 1 and backend == "c10d":  # it is an endpoint then, with the port of static (utils/launch.py)
        at = endpoint(options.get("main_process_ip", ""), DEFAULT_PORT if port is None else port)
        return (*found, f"{RDZV_BACKEND.flag}={backend}", f"{RDZV_ENDPOINT.flag}={at}")
    if machines > 1:
        found.append(f"{NODE_RANK.flag}={_to_int(options.get('machine_rank')) or 0}")
        if options.get("main_process_ip"):
            found.append(f"{MASTER_ADDR.flag}={options['main_process_ip']}")
    if port or (port == 0 and machines > 1):  # 0: each machine takes a free one of its own
        found.append(f"{MASTER_PORT.flag}={port}")
    return tuple(found)


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
    text = text_of(path, _MOST_BYTES)
    pairs = re.findall(r"(?m)^[\"']?(\w+)[\"']?:[ \t]*[\"']?([^\s\"'#,]+)", text)
    return {name: value for name, value in pairs if name in _NAMES and value not in ("null", "~")}


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
            taken[0] = "-" + "".join(one for one in switches if one not in _NOT_FOR_A_CHECK_SHORT) + valued
            wanted = taken[0] != "-"
        kept += taken if wanted else []
    return tuple(kept), left
