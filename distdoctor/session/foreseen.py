"""What is known already to make the job fail: asked between the stages, so that no time is lost on what cannot work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distdoctor.judge.catalog import Check
from distdoctor.judge.engine import judge
from distdoctor.model.cluster import Cluster
from distdoctor.model.stages import ALONE, BY_NAME, ENVIRONMENT
from distdoctor.session.options import Options


class Foreseen:
    """Asks only the checks that the question needs; what was known to fail stays known."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._doomed = False
        self._asked_alone = False

    def conflicts(self, cluster: Cluster) -> bool:
        """Whether the plans contradict each other: the job would fail whoever else comes."""
        return self.fails(cluster, ENVIRONMENT.name)

    def fails(self, cluster: Cluster, stage: str) -> bool:
        """Whether something of that stage makes the job fail; of one that tries the links also what other checks that
        look at these make of them."""
        links = BY_NAME[stage].links
        return self._fails(cluster, lambda check: check.stage == stage or (links and stage in check.looks_at))

    def doomed(self, cluster: Cluster, after: str) -> bool:
        """Whether anything makes the job fail, now that the stage ``after`` was climbed.

        What each node sees alone is asked when the nodes have met, and again once the links are known, which say more
        of the same: nothing else changes it.
        """
        again = not self._asked_alone or BY_NAME[after].links
        self._asked_alone = True
        if not self._doomed:
            self._doomed = self._fails(cluster, lambda check: again or check.stage not in ALONE)
        return self._doomed

    def _fails(self, cluster: Cluster, wanted: Callable[[Check], bool]) -> bool:
        return any(self._found(cluster, [check]) for check in self._options.checks if wanted(check))

    def _found(self, cluster: Cluster, checks: Sequence[Check]) -> bool:
        return any(finding.severity == "fail" for finding in judge(cluster, checks, self._options.ignore).findings)
