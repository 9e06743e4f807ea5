from dataclasses import dataclass


@dataclass
class NodeAffinitySchedulingStrategy:
    node_id: str
    soft: bool
