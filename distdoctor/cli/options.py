"""The flags of the commands: what each is, and what is shown of it.

A flag is a field of a dataclass (its type and what it is unless given) and a line in OPTIONS (its metavar, its help,
what a shell completes); a command takes the dataclass as one parameter. Those of the launch: ``launch.flags.Flags``.
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
from distdoctor.render.exit_status import FAIL_ON, WHOSE
from distdoctor.render.formats import FORMATS

STACKS = ("auto", "on", "off")
ON_FAIL = ("go", "stop")


@dataclass(frozen=True)
class RunFlags:
    """How a check is to run. Times in seconds."""

    wait: float | None = None
    timeout: float = 60.0
    until: str = STAGES[-1]
    try_fixes: bool = True
    shared: list[str] | None = None
    save: str | None = None
    """With a slash at its end it is a folder, made where it is missing."""
    exit_status: str = "all"
    dry_run: bool = False
    baseline: Path | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class HostFlags:
    """The hosts of a run that is started from one place; one of the first four at most."""

    hosts: str | None = None
    hostfile: Path | None = None
    slurm_job: str | None = None
    pods: str | None = None
    namespace: str | None = None
    container: str | None = None
    setup: str | None = None

    @property
    def any(self) -> bool:
        """Return whether any of them is given: the run is not of this machine alone."""
        return self != HostFlags()


@dataclass(frozen=True)
class HangFlags:
    """Which job is looked at, and how."""

    pid: int | None = None
    run_id: str | None = None
    store: str | None = None
    stacks: str = "auto"
    watch: float | None = None
    save: str | None = None


@dataclass(frozen=True)
class ReportFlags:
    """How a report is to be judged and told."""

    fail_on: str = "fail"
    ignore: list[str] | None = None
    checks: list[Path] | None = None
    output: list[str] | None = None
    json: bool = False
    quiet: bool = False
    verbose: int = 0


@dataclass(frozen=True)
class JobFlags:
    """How a job is started and watched. Times in seconds."""

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
    """What of logs is asked for, and what facts are compared with."""

    rank: str | None = None
    since: str | None = None
    follow: bool = False
    baseline: Path | None = None


_option = partial(typer.Option, show_default=False)  # what it is unless given stands in its help

OPTIONS: dict[str, Any] = {
    # the launch, with torchrun's names
    "nnodes": _option(metavar="N", help="Nodes of the job (MIN:MAX: MAX is checked). [1]"),
    "nproc_per_node": _option(metavar="N|auto|cpu|gpu", help="Ranks on this node. [visible GPUs, else 2]"),
    "node_rank": _option(metavar="N", help="This node's rank. [assigned when nodes meet]"),
    "master_addr": _option(metavar="HOST", help="Where node 0 is."),
    "master_port": _option(metavar="PORT", help="Node 0's port. [29500]"),
    "rdzv_endpoint": _option(metavar="HOST:PORT", help="The two above in one."),
    "rdzv_backend": _option(metavar="NAME", help="static or c10d."),
    "rdzv_id": _option(metavar="ID", help="Name of the run."),
    "rdzv_conf": _option(metavar="K=V,...", help="Its settings, of which is_host counts here."),
    "local_addr": _option(metavar="HOST", help="What c10d calls this node. [its own name]"),
    "standalone": _option(STANDALONE.flag, help="One node, on a free port."),
    "local_rank": _option(hidden=True),
    "init_method": _option(metavar="URL", help="env://, tcp://HOST:PORT or file:///PATH. [env://]"),
    "backend": _option(
        metavar="NAME", help="auto, gloo, nccl or cpu:gloo,cuda:nccl. [auto]", autocompletion=completion.backends
    ),
    # the run
    "wait": _option(
        metavar="S", help="Seconds to wait for the other nodes. [60; 600 where you are asked to start them]"
    ),
    "timeout": _option(metavar="S", help="Seconds for everything after they met. [60]"),
    "until": _option(
        metavar="STAGE",
        help="Last stage to run; up to network needs no torch. [collective]",
        autocompletion=completion.stages,
    ),
    "try_fixes": _option("--try-fixes/--no-try-fixes", help="Whether fixes that are only environment are tried. [try]"),
    "save": _option(metavar="PATH", help="Keep the facts for diagnose in this file or, with a / behind it, folder."),
    "dry_run": _option(
        "--dry-run", help="Only tell what a run would read, write, start, listen on and connect to; nothing is done."
    ),
    "shared": _option(
        metavar="DIR", help="Also see whether every node has the same folder here, and can write to it. Repeatable."
    ),
    "baseline": _option(
        metavar="FILE", help="Say what changed since this earlier, good run (its --save): the first suspect."
    ),
    "exit_status": _option(
        metavar="|".join(WHOSE), help="Whose findings make it: of all nodes, or only what blames this one. [all]"
    ),
    "token": _option(
        metavar="TEXT",
        help="The same secret on every node, against forged messages; better as DISTDOCTOR_TOKEN, which ps hides.",
    ),
    # the hosts of a run from one place
    "hosts": _option(
        metavar="HOSTS", help="Run it on these hosts, over ssh: gpu[01-16],extra7. In a check the first is node 0."
    ),
    "hostfile": _option(metavar="FILE", help="The same of a hostfile (Open MPI's, DeepSpeed's: HOST slots=N)."),
    "slurm_job": _option(metavar="ID", help="The same of a running SLURM job, beside its steps (srun --overlap)."),
    "pods": _option(metavar="SELECTOR", help="The same of the pods with these labels (kubectl exec)."),
    "namespace": _option("--namespace", "-n", metavar="NS", help="Of --pods."),
    "container": _option(metavar="NAME", help="Of --pods."),
    "setup": _option(
        metavar="LINE", help="Shell line that is run on each host first (module load, activate an environment)."
    ),
    # a job that is started
    "preflight": _option(
        metavar="|".join(PREFLIGHTS),
        help="What is checked first: each node alone, up to its network, in a second or two (quick); all stages, with "
        "the nodes meeting, where each of them starts its part by `distdoctor run` (full); nothing (off). [quick]",
    ),
    "on_fail": _option(
        metavar="|".join(ON_FAIL),
        help="Where that finds a failure: start the job all the same, or not, with exit status 1. [go]",
    ),
    "hang_after": _option(
        metavar="S", help="Look at the job after so many seconds in which nothing moves; 0: never. [180]"
    ),
    # a job that hangs
    "pid": _option(metavar="N", help="The job to which this process belongs."),
    "run_id": _option(metavar="ID", help="The job with this run id (torchrun's --rdzv-id)."),
    "store": _option(metavar="HOST:PORT", help="Where the ranks meet; from anywhere that reaches it."),
    "stacks": _option(
        metavar="|".join(STACKS),
        help="Stacks by py-spy: Python's where it is there (auto), native ones too (on). [auto]",
    ),
    "watch": _option(metavar="[S]", help="Look again every S seconds, and say what changed. [5]"),
    # logs
    "rank": _option(
        metavar="N", help="Only what these ranks said: 3, or 0,8-15. Judged by that alone; facts are not narrowed."
    ),
    "since": _option(
        metavar="TIME",
        help="Only what was said from then on, by the clock of the logs: 2026-01-31 12:00, or 30m (s, m, h, d) before "
        "the last time in them. Logs without times are read whole.",
    ),
    "follow": _option(
        "--follow",
        "-f",
        help="Go on reading: files that grow, are rotated or appear. A root cause is told on stderr as soon as it is "
        "seen, the report at Ctrl-C (exit status 130) or at the end of stdin.",
    ),
    # the report
    "fail_on": _option(
        metavar="|".join(FAIL_ON), help="Findings that make the exit status 1. [fail]", autocompletion=completion.floors
    ),
    "ignore": _option(
        metavar="ID", help="Set this check's findings aside. Repeatable.", autocompletion=completion.check_ids
    ),
    "checks": _option(metavar="DIR", help="Also use the checks of this folder. Repeatable."),
    "output": _option(
        "--output",
        "-o",
        metavar="FORMAT[=FILE]",
        help=f"Format of the report: {', '.join(FORMATS)}; with =FILE it is written there. Repeatable: -o text "
        "-o html=report.html.",
        autocompletion=completion.outputs,
    ),
    "json": _option("--json", help="JSON on stdout, as -o json."),
    "quiet": _option("-q", "--quiet", help="Only the verdict, root causes and fixes."),
    "verbose": _option("-v", "--verbose", count=True, help="All evidence, sources and values."),
}
"""By the name of the field, which is the flag's own unless another is given here."""

ChecksFlag = Annotated[list[Path] | None, OPTIONS["checks"]]
JsonFlag = Annotated[bool, OPTIONS["json"]]


def by_flags(command: Callable[..., int]) -> Callable[..., int]:
    """``command`` as typer reads it: each parameter that is a dataclass taken apart into one option per field."""
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
