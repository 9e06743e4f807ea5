"""A stand-in for Ray as far as the driver of ``--ray`` uses it: its actors are threads of the driver.

$STANDIN_RAY: a list of nodes as ``ray.nodes()`` gives them, in JSON; a node with ``Full`` starts no actor in time.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

__version__ = "2.60.0"


class RayError(Exception):
    pass


class GetTimeoutError(RayError):
    pass


exceptions = SimpleNamespace(RayError=RayError, GetTimeoutError=GetTimeoutError)


def init(**given: Any) -> None:
    if os.environ.get("STANDIN_RAY_REFUSES") == "token":
        last = (
            "Traceback (most recent call last):\n  File\nray.exceptions.AuthenticationError: InvalidAuthToken: missing"
        )
        raise ConnectionError("Failed to connect to Ray cluster") from RuntimeError(f"Last connection error: {last}")
    if os.environ.get("STANDIN_RAY_REFUSES"):
        raise RuntimeError("Version mismatch: the cluster was started with\nRay: 2.9.0")


def nodes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(os.environ["STANDIN_RAY"])
    return found


def get_runtime_context() -> Any:
    return SimpleNamespace(get_node_id=lambda: nodes()[-1]["NodeID"])


NEVER: Future[Any] = Future()
"""Result of an actor that is not placed."""


class Actor:
    def __init__(self, made: Any, full: bool) -> None:
        self._made, self._full, self._pool = made, full, ThreadPoolExecutor(8)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Future[Any]:
            return NEVER if self._full else self._pool.submit(getattr(self._made, name), *arguments)

        return SimpleNamespace(remote=call)


def node_of(strategy: Any) -> str:
    """The node of a strategy, by its id or by the bundle of a group."""
    if hasattr(strategy, "node_id"):
        return str(strategy.node_id)
    return str(strategy.placement_group.places[strategy.placement_group_bundle_index])


def remote(**given: Any) -> Any:
    def of_class(kind: Any) -> Any:
        def options(scheduling_strategy: Any, **_: Any) -> Any:
            node = next(one for one in nodes() if one["NodeID"] == node_of(scheduling_strategy))
            return SimpleNamespace(remote=lambda: Actor(kind(), bool(node.get("Full"))))

        return SimpleNamespace(options=options)

    return of_class


def get(future: Future[Any], timeout: float | None = None) -> Any:
    if future is NEVER:
        raise GetTimeoutError("it did not start in time")
    return future.result()


def kill(actor: Actor) -> None:
    with open(os.environ["STANDIN_RAY_KILLED"], "a", encoding="utf-8") as file:
        file.write("killed\n")


def shutdown() -> None:
    pass


def held() -> list[dict[str, Any]]:
    """Placement groups of other jobs: $STANDIN_RAY_HELD."""
    found: list[dict[str, Any]] = json.loads(os.environ.get("STANDIN_RAY_HELD", "[]"))
    return found


def available() -> dict[str, dict[str, float]]:
    """Resources of each node without those of other jobs' groups."""
    left = {one["NodeID"]: dict(one["Resources"]) for one in nodes()}
    for group in held():
        for number, node in group["bundles_to_node_id"].items():
            for kind, amount in group["bundles"][number].items():
                left[node][kind] -= amount
    return left


JOBS = [{"JobID": "02000000", "Entrypoint": "python train.py", "DriverPid": 33, "DriverIPAddress": "10.77.0.10"}]
_private = SimpleNamespace(state=SimpleNamespace(available_resources_per_node=available, jobs=lambda: JOBS))
