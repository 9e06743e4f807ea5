"""The line that starts a job, read: what would be checked before it.

torchrun (torch/distributed/run.py, get_args_parser), accelerate launch (accelerate/commands/launch.py) and srun, each
with its own grammar; of any other program only the environment says what it is to be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from distdoctor.launch import accelerate_line, srun_line, torchrun_line

Kind = Literal["torchrun", "accelerate", "python", "other"]
_AGENTS = ("torch.distributed.run", "torch.distributed.launch")
_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
"""Python's own options that take the next word (python --help)."""


@dataclass(frozen=True)
class JobLine:
    """What a line starts."""

    kind: Kind
    flags: tuple[str, ...] = ()
    """Those of ``distdoctor check`` for the same plan."""
    env: Mapping[str, str] | None = None
    """What the line itself sets."""
    before: tuple[str, ...] = ()
    """How the same nodes are reached: srun with its options."""
    log_dir: str = ""
    """Where the ranks' output goes, too."""


def read(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """The line, read in this environment. Raises ValueError with what makes no sense of it."""
    words = [*words]
    changes: dict[str, str] = {}
    if words and os.path.basename(words[0]) == "env":
        words.pop(0)
        while words and (match := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", words[0], re.S)):
            changes[match[1]] = match[2]
            words.pop(0)
    env = {**env, **changes}
    if words and os.path.basename(words[0]) == "srun":
        options, rest = srun_line.split(words[1:])
        inner = read(rest, env)
        return replace(inner, before=(words[0], *options), env={**changes, **(inner.env or {})})
    found = _by_program(words, env)
    return replace(found, env=changes or None)


def _by_program(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    for place, word in enumerate(words[:12]):
        name = os.path.basename(word)
        if name == "torchrun" or word.endswith(("torch/distributed/run.py", "torch/distributed/launch.py")):
            return _torchrun(words[place + 1 :], env)
        if name == "accelerate" and words[place + 1 : place + 2] == ["launch"]:
            return JobLine("accelerate", accelerate_line.flags(words[place + 2 :], env))
        if name == "accelerate-launch":
            return JobLine("accelerate", accelerate_line.flags(words[place + 1 :], env))
        if re.fullmatch(r"python[\d.]*|pypy[\d.]*", name):
            return _python(words[place + 1 :], env)
    return JobLine("other")


def _torchrun(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    given = torchrun_line.options(words)
    return JobLine("torchrun", torchrun_line.flags(given, env), log_dir=given.get("--log-dir", ""))


def _python(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Python with its own options before the module or the script."""
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
                return JobLine("accelerate", accelerate_line.flags(left, env))
            return JobLine("python")
    if left and left[0].endswith(("torch/distributed/run.py", "torch/distributed/launch.py")):
        return _torchrun(left[1:], env)
    return JobLine("python")
