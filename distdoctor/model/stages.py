"""The ladder: one record per stage, in the order in which they are run.

A new stage is a row of this table, its work in ``distdoctor.session.stages.local`` (what each process does by itself)
or ``distdoctor.session.stages.ranks`` (what node 0 opens for all), and a folder of checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Lack = Literal["torch", "GPU", "other nodes", "plan"]
"""torch that can be imported; a device for every rank; a second node; a plan that uses the stage's backend."""


@dataclass(frozen=True)
class Stage:
    """What is known of a stage before it is run. Times in seconds."""

    name: str
    """Fixed: users give it to ``--until``, and it is the folder of its checks."""
    about: str
    """What it looks at, in a few words."""
    opened: bool = False
    """Node 0 opens it for all, once they have met; else each process climbs it by itself."""
    climbs: Literal["process", "node"] = "process"
    """Every started process, with its ranks; or one process of each node for them all."""
    needs: tuple[str, ...] = ()
    """Stages it is not climbed without: where one of them, or one that they need, failed."""
    skips_without: tuple[Lack, ...] = ()
    """What it is left out without, on all nodes; that is no failure."""
    seconds: float | None = None
    """The most it may take, of an opened one beside SECONDS_PER_RANK; None: ``--wait``, or its own probes' bounds."""
    doomed_seconds: float | None = None
    """The same where the facts say already that the job will fail: it is climbed for the real error. None: no less."""
    ends_everywhere: bool = True
    """An error in one place ends it on all nodes: the others would wait for their full time."""
    links: bool = False
    """It measures the links between the nodes: whether one that does not work matters is for its checks to say."""
    backend: str | None = None
    """The backend whose process group is made."""
    even_unplanned: bool = False
    """It is tried also where the job does not use that backend; a failure is then a warning."""
    searched: bool = False
    """Where it fails, smaller groups say which node or link it is (SEARCH)."""
    tries_fixes: bool = False
    """After it, what fixes would change is tried (TRIAL)."""
    after_torch: bool = False
    """The import of torch, which goes on beside the stages below, is shown before it: node 0 opens the store with it.
    """
    spoken: str = ""
    """What it is called in a sentence, where its name alone would not do."""


LADDER = (
    Stage("environment", "launch variables, and the plan they make"),
    Stage("host", "names, limits, shared memory, clock", climbs="node"),
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
        climbs="node",
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
"""Every stage, lowest first."""

ENVIRONMENT, HOST, GPU, NETWORK, STORE, MESH, GLOO, NCCL, BARRIER, COLLECTIVE = LADDER

TRIAL = Stage(
    "trial",
    "gloo and barrier once more, with the variables that a fix sets",
    opened=True,
    seconds=5.0,
    spoken="trying the fix",
)
"""No rung of the ladder: opened like one, in the middle of it."""
SEARCH = Stage(
    "search",
    "the NCCL process group again, of each node alone and of pairs of nodes",
    opened=True,
    seconds=15.0,
    ends_everywhere=False,
    spoken="trying smaller NCCL groups",
)
"""No rung either; opened several times, each a round of groups side by side."""
TRIED_AGAIN = (GLOO.name, BARRIER.name)
"""The stages that a trial climbs."""

SECONDS_PER_RANK = 0.05

STAGES = tuple(stage.name for stage in LADDER)
"""The names, lowest first."""
STAGE_TEXTS = {stage.name: stage.about for stage in LADDER}
"""What each stage looks at, in a few words."""
ALONE = tuple(stage.name for stage in LADDER if not stage.opened)
"""Those that each process climbs by itself, before the nodes meet."""
LOG_STAGES = ("launch", "process")
"""What only logs show, and hangs: how the job was launched, what became of a rank's process. Never climbed."""
BY_NAME = {stage.name: stage for stage in (*LADDER, TRIAL, SEARCH)}


def position(stage: str) -> int:
    """Return how high on the ladder ``stage`` is, 0 being the lowest. Raises ValueError if it is no stage."""
    return (*STAGES, *LOG_STAGES).index(stage)


def opened_up_to(until: str) -> tuple[Stage, ...]:
    """The stages that node 0 opens, as high as ``until``."""
    return tuple(stage for stage in LADDER[: position(until) + 1] if stage.opened)


def stands_on(stage: Stage) -> frozenset[str]:
    """The names of all stages that ``stage`` needs, also those that they need."""
    below = (stands_on(BY_NAME[name]) | {name} for name in stage.needs)
    return frozenset().union(*below)


def needs_torch(until: str) -> bool:
    """Return whether climbing as high as ``until`` takes torch."""
    return bool(opened_up_to(until))


def spoken(stage: str) -> str:
    """Return what a stage is called in a sentence."""
    return (BY_NAME[stage].spoken if stage in BY_NAME else "") or stage


# Milestones: what a job reaches one after the other, so that what keeps it from one keeps it from all after it.
#
# A check says which one its failure prevents (``PREVENTS``), and which one must have been reached for what it sees to
# be
# a failure of its own (``SYMPTOM_OF``); which finding follows from which comes of their order. They are written as in
# ``PREVENTS = "store hosted"``.


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
"""Every milestone, in the order in which they are reached, and what it means."""
MILESTONES = tuple(MILESTONE_TEXTS)

EACH_FOR_ITSELF = frozenset({"master resolved", "store reached"})
"""What one node reaches or misses whatever the others do."""


def place(milestone: str) -> int:
    """Return how late ``milestone`` is reached, 0 being the first. Raises ValueError if it is none."""
    return MILESTONES.index(milestone)


def together(milestone: str) -> bool:
    """Return whether all nodes reach ``milestone`` together, once they have met: what keeps one away, all feel."""
    return bool(milestone) and place(milestone) > place("all met")


def joint(cause: str, missed: str) -> bool:
    """Return whether what prevents ``cause`` on one node explains on every node that ``missed`` was not reached."""
    return cause not in EACH_FOR_ITSELF or together(missed)
