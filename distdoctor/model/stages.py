"""Stages of a check, one record each, in the order in which they run; and the milestones of a job.

A new stage is a row of this table, its work in ``distdoctor.session.stages.local`` (run by each process itself) or
``distdoctor.session.stages.ranks`` (opened by node 0 for all), and a folder of checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Lack = Literal["torch", "GPU", "other nodes", "plan"]
"""torch that can be imported; a device for every rank; a second node; a plan that uses the stage's backend."""


@dataclass(frozen=True)
class Stage:
    """Description of a stage. Times in seconds."""

    name: str
    """Fixed: users give it to ``--until``, and it is the folder of its checks."""
    about: str
    """Subject of the stage, in a few words."""
    opened: bool = False
    """True if node 0 opens it for all joined nodes; else each process runs it by itself."""
    runs_in: Literal["process", "node"] = "process"
    """Every started process, with its ranks; or one process of each node for them all."""
    needs: tuple[str, ...] = ()
    """Stages whose failure, or that of a stage they need, keeps this one from running."""
    skips_without: tuple[Lack, ...] = ()
    """Lacks for which it is skipped on all nodes; that is no failure."""
    seconds: float | None = None
    """Limit of its seconds, for an opened one beside SECONDS_PER_RANK; None: ``--wait``, or its own probes' bounds."""
    doomed_seconds: float | None = None
    """Limit if the facts already show that the job will fail: it runs for the real error. None: no less."""
    ends_everywhere: bool = True
    """True if an error in one place ends it on all nodes: the others would wait for their full time."""
    links: bool = False
    """True if it measures the links between the nodes: its checks decide whether a broken one matters."""
    backend: str | None = None
    """Backend whose process group is made."""
    even_unplanned: bool = False
    """True if it is tried although the job does not use that backend; a failure is then a warning."""
    searched: bool = False
    """True if, after a failure, smaller groups show which node or link is the cause (SEARCH)."""
    tries_fixes: bool = False
    """True if the variables of fixes are tried after it (TRIAL)."""
    after_torch: bool = False
    """True if the import of torch, which runs beside the stages before, is shown before it: node 0 opens the store with
    it."""
    spoken: str = ""
    """Name in a sentence, if its own would not do."""


ALL_STAGES = (
    Stage("environment", "launch variables, and the plan they make"),
    Stage("host", "names, limits, shared memory, clock", runs_in="node"),
    Stage("gpu", "the devices that the ranks see", skips_without=("torch",), seconds=30.0),
    Stage("network", "MASTER_ADDR and the way there, what answers on MASTER_PORT", after_torch=True),
    Stage(
        "store",
        "the nodes meet; every rank uses PyTorch's store",
        opened=True,
        needs=("network",),
        seconds=15.0,
        doomed_seconds=3.0,
    ),
    Stage(
        "mesh",
        "connections between all nodes, on the ports that backends use",
        opened=True,
        runs_in="node",
        needs=("store",),
        skips_without=("other nodes",),
        seconds=8.0,
        ends_everywhere=False,
        links=True,
    ),
    Stage(
        "gloo",
        "the gloo process group",
        opened=True,
        needs=("mesh",),
        seconds=20.0,
        doomed_seconds=3.0,
        backend="gloo",
        even_unplanned=True,
        tries_fixes=True,
        spoken="gloo init",
    ),
    Stage(
        "nccl",
        "the NCCL process group",
        opened=True,
        needs=("mesh",),
        skips_without=("GPU", "plan"),
        seconds=30.0,
        doomed_seconds=3.0,
        backend="nccl",
        searched=True,
    ),
    Stage("barrier", "which ranks are missing", opened=True, needs=("gloo", "nccl"), seconds=8.0, doomed_seconds=3.0),
    Stage(
        "collective",
        "right results, and who is slow",
        opened=True,
        needs=("barrier",),
        seconds=15.0,
        doomed_seconds=3.0,
    ),
)
"""All stages, first to last."""

ENVIRONMENT, HOST, GPU, NETWORK, STORE, MESH, GLOO, NCCL, BARRIER, COLLECTIVE = ALL_STAGES

TRIAL = Stage(
    "trial",
    "gloo and barrier once more, with the variables that a fix sets",
    opened=True,
    seconds=5.0,
    spoken="trying the fix",
)
"""No stage of its own: node 0 opens it like one, between the others."""
SEARCH = Stage(
    "search",
    "the NCCL process group again, of each node alone and of pairs of nodes",
    opened=True,
    seconds=15.0,
    ends_everywhere=False,
    spoken="trying smaller NCCL groups",
)
"""No stage of its own either; opened several times, each a round of groups side by side."""
TRIAL_STAGES = (GLOO.name, BARRIER.name)
"""Stages that a trial runs."""

SECONDS_PER_RANK = 0.05

STAGES = tuple(stage.name for stage in ALL_STAGES)
"""Names of the stages, first to last."""
STAGE_TEXTS = {stage.name: stage.about for stage in ALL_STAGES}
"""Subject of each stage, in a few words."""
ALONE = tuple(stage.name for stage in ALL_STAGES if not stage.opened)
"""Stages that each process runs by itself, before the rendezvous."""
LOG_STAGES = ("launch", "process")
"""Stages of logs and hangs only: the launch of the job, the end of a rank's process. They never run."""
BY_NAME = {stage.name: stage for stage in (*ALL_STAGES, TRIAL, SEARCH)}


def stage_index(stage: str) -> int:
    """Return the index of ``stage`` in the order of the stages. Raises ValueError if it is no stage."""
    return (*STAGES, *LOG_STAGES).index(stage)


def opened_up_to(until: str) -> tuple[Stage, ...]:
    """Return the stages that node 0 opens, up to ``until``."""
    return tuple(stage for stage in ALL_STAGES[: stage_index(until) + 1] if stage.opened)


def required_stages(stage: Stage) -> frozenset[str]:
    """Return the names of all stages that ``stage`` needs, also those that they need."""
    below = (required_stages(BY_NAME[name]) | {name} for name in stage.needs)
    return frozenset().union(*below)


def needs_torch(until: str) -> bool:
    """Return whether the stages up to ``until`` need torch."""
    return bool(opened_up_to(until))


def spoken(stage: str) -> str:
    """Return the name of a stage in a sentence."""
    return (BY_NAME[stage].spoken if stage in BY_NAME else "") or stage


# Milestones of a job, in order: a failure that prevents one prevents all after it.
#
# A check declares the milestone that its failure prevents (``PREVENTS``), and the one that must have been reached for
# its evidence to be a failure of its own (``SYMPTOM_OF``); causes and consequences are derived from their order. They
# are written as in ``PREVENTS = "store hosted"``.


MILESTONE_TEXTS: dict[str, str] = {
    "plan agreed": "every process has a plan that fits the others', and a torch to run it with",
    "master resolved": "MASTER_ADDR means node 0, on this node",
    "store hosted": "the store of this job is there on MASTER_ADDR:MASTER_PORT",
    "store reached": "this node gets to it",
    "all met": "every node came, to one and the same rendezvous",
    "store used": "every rank was started, and uses the store",
    "peers connected": "the nodes reach each other at the addresses that backends use",
    "gloo group formed": "the ranks have made the gloo process group",
    "nccl group formed": "the ranks have made the NCCL process group",
    "ranks together": "all ranks reach a barrier",
    "results right": "collectives end, with right results",
}
"""Milestones in the order in which they are reached, and their meaning."""
MILESTONES = tuple(MILESTONE_TEXTS)

EACH_FOR_ITSELF = frozenset({"master resolved", "store reached"})
"""Milestones that one node reaches or misses whatever the others do."""


def milestone_index(milestone: str) -> int:
    """Return the index of ``milestone`` in its order. Raises ValueError if it is none."""
    return MILESTONES.index(milestone)


def together(milestone: str) -> bool:
    """Return whether all nodes reach ``milestone`` together, after the rendezvous: one missing node stops all."""
    return bool(milestone) and milestone_index(milestone) > milestone_index("all met")


def joint(cause: str, missed: str) -> bool:
    """Return whether the cause that prevents ``cause`` on one node explains that every node missed ``missed``."""
    return cause not in EACH_FOR_ITSELF or together(missed)
