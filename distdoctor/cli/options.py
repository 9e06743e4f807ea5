"""The flags of the commands: the type, default and help of each.

A flag is a field of a dataclass (its type and default) and a line in OPTIONS (its metavar, its help, its completion); a
command takes the dataclass as one parameter. Those of the launch: ``plan.values.Flags``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from distdoctor.cli import completion
from distdoctor.job.subprocess import PREFLIGHTS
from distdoctor.model.launch_settings import STANDALONE
from distdoctor.model.stages import STAGES
from distdoctor.render.exit_status import EXIT_STATUS_OF, FAIL_ON
from distdoctor.render.formats import FORMATS

STACKS = ("auto", "on", "off")
ON_FAIL = ("go", "stop")
GROUPS = ("Launch", "What to run", "Several hosts", "Output", "Advanced")
"""Headings of ``--help``, in their order."""


@dataclass(frozen=True)
class RunFlags:
    """Flags of a check. Times in seconds."""

    wait: float | None = None
    timeout: float = 60.0
    until: str = STAGES[-1]
    try_fixes: bool = True
    shared: list[str] | None = None
    save: str | None = None
    """A trailing slash makes it a folder, created if missing."""
    exit_status: str = "all"
    dry_run: bool = False
    baseline: Path | None = None
    token: str | None = field(default=None, repr=False)
    per_gpu: bool = False
    """An actor of Ray for each GPU, with one rank, instead of one for each node."""
    placement_group: str | None = None
    """Strategy of the placement groups in which Ray places the actors."""


@dataclass(frozen=True)
class HostFlags:
    """Hosts of a remote run; one of the first five at most."""

    hosts: str | None = None
    hostfile: Path | None = None
    slurm_job: str | None = None
    pods: str | None = None
    ray: str | None = None
    namespace: str | None = None
    container: str | None = None
    setup: str | None = None

    @property
    def any(self) -> bool:
        """Return whether any is given: the run is not of this machine alone."""
        return self != HostFlags()


@dataclass(frozen=True)
class HangFlags:
    """Selection of a job, and how to look at it."""

    pid: int | None = None
    run_id: str | None = None
    store: str | None = None
    stacks: str = "auto"
    watch: float | None = None
    save: str | None = None


@dataclass(frozen=True)
class ReportFlags:
    """Judgement and output of a report."""

    fail_on: str = "fail"
    ignore: list[str] | None = None
    checks: list[Path] | None = None
    output: list[str] | None = None
    json: bool = False
    quiet: bool = False
    verbose: int = 0


@dataclass(frozen=True)
class JobFlags:
    """Start and watch of a job. Times in seconds."""

    preflight: str = PREFLIGHTS[0]
    on_fail: str = ON_FAIL[0]
    hang_after: float = 180.0
    wait: float | None = None
    timeout: float = 60.0
    ignore: list[str] | None = None
    checks: list[Path] | None = None
    output: list[str] | None = None
    verbose: int = 0


@dataclass(frozen=True)
class LogFlags:
    """Selection of logs, and facts to compare with."""

    rank: str | None = None
    since: str | None = None
    follow: bool = False
    baseline: Path | None = None


_option = partial(typer.Option, show_default=False)  # the default stands in the help, in brackets
_launch, _what, _hosts, _output, _advanced = (partial(_option, rich_help_panel=group) for group in GROUPS)

OPTIONS: dict[str, Any] = {
    # the launch, with torchrun's names
    "nnodes": _launch(metavar="N", help="Number of nodes; of MIN:MAX, MAX is checked. [1]"),
    "nproc_per_node": _launch(metavar="N|auto|cpu|gpu", help="Ranks on this node. [visible GPUs, else 2]"),
    "node_rank": _launch(metavar="N", help="Rank of this node. [assigned when it joins]"),
    "master_addr": _launch(metavar="HOST", help="Host name or address of node 0. [this node]"),
    "master_port": _launch(metavar="PORT", help="TCP port of node 0. [29500]"),
    "rdzv_endpoint": _launch(metavar="HOST:PORT", help="Host and port of node 0 in one flag."),
    "rdzv_backend": _launch(metavar="NAME", help="Rendezvous backend: static or c10d. [static]"),
    "rdzv_id": _launch(metavar="ID", help="Id of the job, the same on every node."),
    "rdzv_conf": _advanced(metavar="K=V,...", help="Settings of the rendezvous; distdoctor reads is_host."),
    "local_addr": _advanced(metavar="HOST", help="Address of this node for c10d. [its hostname]"),
    "standalone": _launch(STANDALONE.flag, help="Run one node on a free port."),
    "local_rank": _option(hidden=True),
    "init_method": _advanced(metavar="URL", help="env://, tcp://HOST:PORT or file:///PATH. [env://]"),
    "backend": _launch(
        metavar="NAME",
        help="Backend: auto, gloo, nccl or cpu:gloo,cuda:nccl. [auto]",
        autocompletion=completion.backends,
    ),
    "mesh": _launch(
        metavar="DIM=N,...", help="Device mesh of the job, such as dp=2,tp=4: create and use all its groups, too."
    ),
    "groups": _launch(metavar="N", help="Create and use N more groups of all ranks, as further new_group() calls do."),
    # the run
    "wait": _what(
        metavar="TIME",
        help="How long to wait for the other nodes, such as 90s or 2m. [60s; 10m if a person starts them]",
    ),
    "timeout": _what(metavar="TIME", help="Time limit after all nodes joined. [60s]"),
    "until": _what(
        metavar="STAGE",
        help="Stop after this stage; stages up to network need no torch. [collective]",
        autocompletion=completion.stages,
    ),
    "try_fixes": _advanced("--try-fixes/--no-try-fixes", help="Test fixes that only set a variable. [on]"),
    "save": _output(metavar="PATH", help="Save the facts to this file (a trailing / makes it a folder)."),
    "dry_run": _what("--dry-run", help="Print what a run would read, write, start and connect to, and exit."),
    "shared": _what(metavar="DIR", help="Check that all nodes share this folder and can write to it. Repeatable."),
    "baseline": _advanced(metavar="FILE", help="Report the changes since this earlier, good run (its --save file)."),
    "exit_status": _output(
        metavar="|".join(EXIT_STATUS_OF), help="Which findings set the exit status: all nodes, or only this node. [all]"
    ),
    "token": _advanced(
        metavar="TEXT", help="Secret that all nodes share, against forged messages. [$DISTDOCTOR_TOKEN, hidden from ps]"
    ),
    "per_gpu": _advanced("--per-gpu", help="With --ray: an actor with one rank for each GPU, as a bundle of one GPU."),
    "placement_group": _advanced(
        "--placement-group",
        metavar="STRATEGY",
        help="With --ray: place the actors as a job's placement group, "
        "PACK, SPREAD, STRICT_PACK (one group per node) or STRICT_SPREAD.",
    ),
    # the hosts of a remote run
    "hosts": _hosts(
        metavar="HOSTS", help="Run on these hosts over ssh, such as gpu[01-16],extra7; the first is node 0."
    ),
    "hostfile": _hosts(metavar="FILE", help="Hosts from a hostfile (Open MPI or DeepSpeed format: HOST slots=N)."),
    "slurm_job": _hosts(metavar="ID", help="Nodes of this running SLURM job (srun --overlap)."),
    "pods": _hosts(metavar="SELECTOR", help="Pods with these labels (kubectl exec)."),
    "ray": _hosts(
        metavar="[ADDRESS]", help="Nodes of this Ray cluster, in an actor on each; --nnodes takes fewer. [auto]"
    ),
    "namespace": _hosts("--namespace", "-n", metavar="NS", help="Kubernetes namespace of --pods."),
    "container": _hosts(metavar="NAME", help="Container in each pod of --pods."),
    "setup": _hosts(metavar="COMMAND", help="Shell command to run first on each host, such as 'module load train'."),
    # a job that is started
    "preflight": _what(
        metavar="|".join(PREFLIGHTS),
        help="Check before the job: quick is this node in a second or two, full is all stages on all nodes. [quick]",
    ),
    "on_fail": _what(
        metavar="|".join(ON_FAIL), help="After a failed check, start the job anyway or stop with exit status 1. [go]"
    ),
    "hang_after": _what(metavar="TIME", help="Look at the job after this time without progress; 0 is never. [180s]"),
    # a job that hangs
    "pid": _what(metavar="N", help="Look at the job of this process."),
    "run_id": _what(metavar="ID", help="Look at the job with this id (torchrun's --rdzv-id)."),
    "store": _what(metavar="HOST:PORT", help="Address of the job's store; works from any host that reaches it."),
    "stacks": _advanced(
        metavar="|".join(STACKS),
        help="Read stacks with py-spy: auto reads Python's if it can, on adds native ones. [auto]",
    ),
    "watch": _what(metavar="[TIME]", help="Look again at this interval and print the changes. [5s]"),
    # logs
    "rank": _what(metavar="N", help="Read only the lines of these ranks: 3, or 0,8-15."),
    "since": _what(
        metavar="TIME", help="Read only lines since this time: 2026-01-31 12:00, or 30m before the last line."
    ),
    "follow": _what(
        "--follow", "-f", help="Keep reading growing and new files until Ctrl-C; print a root cause at once."
    ),
    # the report
    "fail_on": _output(
        metavar="|".join(FAIL_ON),
        help="Lowest severity that makes the exit status 1. [fail]",
        autocompletion=completion.floors,
    ),
    "ignore": _advanced(
        metavar="ID", help="Set the findings of this check aside. Repeatable.", autocompletion=completion.check_ids
    ),
    "checks": _advanced(metavar="DIR", help="Also use the checks in this folder. Repeatable."),
    "output": _output(
        "--output",
        "-o",
        metavar="FORMAT[=FILE]",
        help=f"Format of the report: {', '.join(FORMATS)}; =FILE writes it there. Repeatable. [text]",
        autocompletion=completion.outputs,
    ),
    "json": _output("--json", help="Print JSON, as -o json does."),
    "quiet": _output("-q", "--quiet", help="Print only the verdict, root causes and fixes."),
    "verbose": _output("-v", "--verbose", count=True, help="Print all evidence, sources and values."),
}
"""By the name of the field, which is the flag's own unless another is given here."""

ChecksFlag = Annotated[list[Path] | None, OPTIONS["checks"]]
JsonFlag = Annotated[bool, OPTIONS["json"]]


def by_flags(command: Callable[..., int]) -> Callable[..., int]:
    """Return ``command`` as typer reads it: each dataclass parameter split into one option per field."""
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            parameters += _options(kind)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def flat(**values: Any) -> int:
        made = {name: kind(**{f.name: values.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        return command(**made, **values)

    flat.__name__ = command.__name__
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flat


def _options(kind: type[Any]) -> list[inspect.Parameter]:
    types, only = get_type_hints(kind), inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(f.name, only, default=f.default, annotation=Annotated[types[f.name], OPTIONS[f.name]])
        for f in fields(kind)
    ]
