"""Ray as one host shows it: the processes of a job of Ray Train, and what its cluster cannot place. From process titles
and the files of Ray's session; Ray itself is not asked."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RayBundle:
    """Resources that must be free on one node at once."""

    amounts: dict[str, float]
    """``{"GPU": 1.0}``."""
    count: int = 1
    """The number of bundles like this."""


@dataclass(frozen=True)
class RayDemand:
    """Resources that wait to be placed: a placement group, or tasks and actors of one kind."""

    bundles: tuple[RayBundle, ...]
    strategy: str = ""
    """``PACK``, ``SPREAD``, ``STRICT_PACK`` or ``STRICT_SPREAD`` of a placement group; empty for tasks and actors."""

    @property
    def count(self) -> int:
        """The number of its bundles."""
        return sum(bundle.count for bundle in self.bundles)

    def total(self, resource: str) -> float:
        """The amount of a resource that all its bundles need."""
        return sum(bundle.count * bundle.amounts.get(resource, 0.0) for bundle in self.bundles)


@dataclass(frozen=True)
class RayView:
    """One job of Ray on this host."""

    session: str
    """The name of Ray's session, the folder with its logs."""
    driver: int | None = None
    """The process that called ``fit()``; None where it is on another host."""
    address: str = ""
    """Where nodes join the cluster, as ``10.0.0.1:6379``."""
    status: bool = False
    """Whether the autoscaler's last status was read (monitor.log, which is on the head node)."""
    demands: tuple[RayDemand, ...] = ()
    resources: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Resource -> how much of it is used and how much there is in the whole cluster."""
    nodes: int = 0
    """Nodes of the cluster."""
    starting: tuple[str, ...] = ()
    """Nodes that the autoscaler starts now, as it says."""
    impossible: bool = False
    """Whether the autoscaler said that no kind of node that it has can hold a request, and did so lately."""
    workers: dict[int, str] = field(default_factory=dict)
    """Rank -> address of its node, as Ray Train logged them when it started the workers last."""
