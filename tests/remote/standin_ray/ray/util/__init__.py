"""Placement groups of the stand-in: each bundle goes to the first node with room."""

from __future__ import annotations

import os
from typing import Any


class Group:
    def __init__(self, bundles: list[dict[str, float]]) -> None:
        import ray

        left, self.places = ray.available(), []
        for bundle in bundles:
            fits = (n for n, has in left.items() if all(has.get(kind, 0) >= bundle[kind] for kind in bundle))
            if node := next(fits, None):
                self.places.append(node)
                for kind, amount in bundle.items():
                    left[node][kind] -= amount
        self.placed = len(self.places) == len(bundles)

    def wait(self, seconds: float) -> bool:
        return self.placed


def placement_group(bundles: list[dict[str, float]], strategy: str, name: str) -> Group:
    return Group(bundles)


def placement_group_table(group: Group | None = None) -> Any:
    import ray

    if group is not None:
        return {"bundles_to_node_id": dict(enumerate(group.places))}
    return {one["placement_group_id"]: one for one in ray.held()}


def remove_placement_group(group: Group) -> None:
    with open(os.environ["STANDIN_RAY_KILLED"], "a", encoding="utf-8") as file:
        file.write("removed\n")
