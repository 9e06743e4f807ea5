"""Start command of a job as it was read, and the reading of options that all its grammars share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from distdoctor.model.device_mesh import dimensions_of
from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT, NNODES, NODE_RANK, NPROC_PER_NODE
from distdoctor.model.plan import EnginePort, EngineServer, PlanProblem
from distdoctor.plan.launchers.base import text_of

MAX_BYTES = 1 << 16
Mesh = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class JobLine:
    """Launcher, flags and environment of a start command."""

    kind: str = "other"
    """torchrun, accelerate, python, an engine's or framework's name; other: no grammar is known for it."""
    flags: tuple[str, ...] = ()
    """Flags of ``distdoctor check`` for the same plan."""
    env: Mapping[str, str] | None = None
    """Variables that the command itself sets."""
    before: tuple[str, ...] = ()
    """Command that reaches the same nodes: srun or mpirun with its options."""
    inner: tuple[str, ...] = field(default=(), compare=False)
    """Words behind ``before``: what each process starts."""
    log_dir: str = ""
    """Folder to which the ranks' output goes, too."""
    hosts: tuple[str, ...] = ()
    """Hosts on which the launcher starts ranks over ssh, in the order of their ranks."""
    mesh: Mesh = ()
    """Names and sizes of the dimensions in which the job makes its groups: the outermost first, as a DeviceMesh has
    them."""
    mesh_order: tuple[str, ...] = ()
    """Groups in the order of their creation, as in a plan."""
    ports: tuple[EnginePort, ...] = ()
    """Ports that an engine binds on this node, beside the store's."""
    servers: tuple[EngineServer, ...] = ()
    """Servers that each of its ranks asks at its start."""
    unread: str = ""
    """Sentence about further servers that it names, and that are not tried."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Fields of the plan -> the option or variable by which the line sets it, if it is not torchrun's."""
    problems: tuple[PlanProblem, ...] = ()
    """Variables of the engine with which it ends at its start."""
    note: str = ""
    """Sentence about what could not be read, and what was used instead."""

    @property
    def engine(self) -> str:
        """Return the program that starts the ranks, unless it is torchrun or starts none."""
        return "" if self.kind in _NO_ENGINE else self.kind

    @property
    def typed(self) -> list[str]:
        """Return the words of the line, with the variables that it sets; none if one of them may be a secret, or if the
        options are inside a shell's text."""
        words = [*(f"{name}={value}" for name, value in (self.env or {}).items()), *self.inner]
        return [] if any(map(_NOT_TYPED.search, words)) else [*(["env"] if self.env else []), *words]

    @property
    def sent(self) -> list[str]:
        """Return the same words for another process that is to read them: without secrets, but with a shell's text."""
        pairs = [f"{name}={value}" for name, value in (self.env or {}).items()]
        pairs = [pair for pair in pairs if not _SECRET.search(pair)]
        masked = [*(["env", *pairs] if pairs else []), *(_SECRET.sub(r"\1x", word) for word in self.inner)]
        return ["x" if _SECRET_NAME.search(before) else word for before, word in pairwise(["", *masked])]


_SECRET = re.compile(r"(?i)((?:api[-_]?key|secret|password|[-_]token)(?:=|\s+))\S+")
_SECRET_NAME = re.compile(r"(?i)^-\S*(?:api[-_]?key|secret|password|[-_]token)$")
_NOT_TYPED = re.compile(r"(?i)^[\w-]*(?:api[-_]?key|secret|password|[-_]token)(?:=|$)|^(?:\S*/)?(?:ba|da|z|k)?sh$")
_NO_ENGINE = ("torchrun", "accelerate", "python", "other")


def node_flags(
    nnodes: int, nproc: int | None, node_rank: int | None = None, address: str = "", port: str | int = ""
) -> tuple[str, ...]:
    """Return the flags of a check for ranks that a launcher starts on each node."""
    values = (
        (NNODES, nnodes), (NPROC_PER_NODE, nproc), (NODE_RANK, node_rank if nnodes > 1 else None),
        (MASTER_ADDR, address or None), (MASTER_PORT, None if port == "" else port),
    )  # fmt: skip
    return tuple(f"{setting.flag}={value}" for setting, value in values if value is not None)


def here_alone(kind: str, sentence: str, **more: Any) -> JobLine:
    """Return the line whose ranks are not placed by it: this node alone is checked, and the sentence says so.

    ``more``: further fields.
    """
    return JobLine(kind, node_flags(1, None), note=f"{sentence}: this node alone is checked", **more)


def shared(ranks: int, nodes: int) -> int:
    """Return the ranks of each node. Raise ValueError if the nodes cannot share them."""
    if ranks % nodes:
        raise ValueError(f"{ranks} processes cannot be shared by {nodes} machines")
    return ranks // nodes


def mesh_of(order: str, **sizes: int) -> dict[str, Any]:
    """Return the fields of a line for the dimensions that have more than one rank. ``order``: the groups in the order
    of creation, as in a plan."""
    mesh = tuple((name, size) for name, size in sizes.items() if size > 1)
    entries = []
    for name, together in map(dimensions_of, order.split()):
        inside = [one for one in together if sizes[one] > 1]
        if inside:
            entries.append(name if inside == [name] else f"{name}={'+'.join(inside)}")
    return {"mesh": mesh, "mesh_order": tuple(entries)}


def nested(name: str, length: int, **groups: tuple[int, int]) -> tuple[dict[str, int], dict[str, str]]:
    """Return a dimension in the parts that its smaller groups make of it, outermost first, and the entry of each group.

    ``groups``: length, and distance in ranks from one member to the next. Raise ValueError if they do not nest.
    """
    steps = {step for size, step in groups.values()} | {size * step for size, step in groups.values()}
    cuts = sorted({1, length, *steps})
    pairs = list(pairwise(cuts)) or [(1, 1)]
    if any(high % low for low, high in pairs) or cuts[-1] > length:
        raise ValueError(f"the groups {', '.join(groups)} do not fit into {name}={length}")
    names = [name] if len(pairs) == 1 else [f"{name}{number}" for number in range(len(pairs))]
    parts = list(zip(names, reversed(pairs), strict=True))
    whole = {name: (length, 1), **groups}
    entries = {
        group: "+".join(part for part, (low, high) in parts if step <= low and high <= step * size and low < high)
        for group, (size, step) in whole.items()
    }
    return {part: high // low for part, (low, high) in parts}, {
        group: f"{group}={inside}" for group, inside in entries.items() if inside
    }


def options_of(
    words: Sequence[str], names: Mapping[str, Sequence[str]], switches: Sequence[str] = ()
) -> dict[str, str]:
    """Return the known options anywhere in the words, whatever else stands there; ``_`` counts as ``-``.

    ``names``: option -> its other names. The last value counts, as in argparse.
    """
    known = {alias: name for name, others in names.items() for alias in (name, *others)}
    given: dict[str, str] = {}
    left = [*words]
    while left:
        name, equals, value = left.pop(0).partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        if name in switches:
            given[name] = value or "true"
        elif name in known:
            given[known[name]] = value if equals else left.pop(0) if left else ""
    return given


def leading_options(
    words: Sequence[str], switches: Sequence[str], short: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the options before the script, which take a value unless they are switches, and the words from there."""
    given: dict[str, str] = {}
    left = [*words]
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        name = short.get(name, name.replace("_", "-"))
        given[name] = value if equals or name in switches or not left else left.pop(0)
    return given, left


def in_file(path: str) -> dict[str, str]:
    """Return the settings of a YAML file that are words and numbers at its top level."""
    pairs = re.findall(r"(?m)^[\"']?([\w-]+)[\"']?:[ \t]*[\"']?([^\s\"'#,]+)", text_of(path, MAX_BYTES))
    return {name: value for name, value in pairs if value not in ("null", "~")}


def port_of(given: Mapping[str, str], name: str, usual: int, use: str) -> EnginePort:
    """Return the port of an option or variable, with its default."""
    return EnginePort(number(given, name, usual), name, use, name in given)


def number(given: Mapping[str, str], name: str, default: int) -> int:
    """Return the number of an option. Raise ValueError for a text that is none."""
    text = given.get(name, "")
    if not text:
        return default
    if "$" in text:
        raise ValueError(f"{name} is {text}, which only the shell that starts the line knows: give its value")
    if not text.isdecimal():
        raise ValueError(f"{name} {text} is not a number")
    return int(text)


def word(given: Mapping[str, str], name: str, default: str = "") -> str:
    """Return the text of an option. Raise ValueError for one that only the shell knows."""
    text = given.get(name) or default
    if "$" in text:
        raise ValueError(f"{name} is {text}, which only the shell that starts the line knows: give its value")
    return text


_PORT_VARIABLES = {"vLLM": ("VLLM_PORT", *(f"VLLM_{name}_SIDE_CHANNEL_PORT" for name in ("NIXL", "P2P", "EC")))}


def refused(line: JobLine, env: Mapping[str, str]) -> Iterator[PlanProblem]:
    """Yield the engine's own variables with which it ends. vLLM does for those that are no port (vllm/envs.py,
    get_vllm_port()).

    Kubernetes sets VLLM_PORT=tcp://... in all pods beside a service that is called vllm.
    """
    yield from line.problems
    for name in _PORT_VARIABLES.get(line.kind, ()):
        text = env.get(name)
        if text is not None and not text.strip().isdecimal():
            by = ", as Kubernetes makes it for a service named vllm" if "://" in text else ""
            yield PlanProblem(name, text, f"is no port number{by}, and {line.kind} refuses it", unset=True)
