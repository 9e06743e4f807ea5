"""environment/accelerate-processes: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, fixes, found, left_alone, on_each
from tests.facts_builder import met, rank_node, with_gpus, with_variables

CHECK = "environment/accelerate-processes"
BY_AGENT = {"TORCHELASTIC_RUN_ID": "none", "ACCELERATE_MIXED_PRECISION": "bf16"}
BY_ACCELERATE = BY_AGENT | {"ACCELERATE_DYNAMO_BACKEND": "NO"}
WITH_DEEPSPEED = BY_AGENT | {"ACCELERATE_USE_DEEPSPEED": "true"}


def machines(world: int, gpus: int, **variables: str) -> Facts:
    """Two machines with so many GPUs, and half of the ranks on each."""
    half = world // 2
    ranks = (rank_node(f"host{n // half}", n, world=world, local=n % half, per_node=half) for n in range(world))
    return met(*(with_gpus(with_variables(one, **variables), gpus) for one in ranks))


ROWS = [
    Row(
        "8 processes for 2 machines of 8",
        lambda: machines(8, 8, **BY_ACCELERATE),
        ("host0", "host1"),
        "warn",
        together=True,
    ),
    Row("with DeepSpeed", lambda: machines(8, 8, **WITH_DEEPSPEED), BOTH, "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("4 GPUs each", lambda: machines(8, 4, **BY_ACCELERATE)),
    LookAlike("half of them, by torchrun", lambda: machines(8, 8)),
    LookAlike("half of them, by torchrun, and a setting of Accelerator's", lambda: machines(8, 8, **BY_AGENT)),
    LookAlike(
        "DeepSpeed's own launcher, which takes a host file",
        lambda: machines(8, 8, ACCELERATE_MIXED_PRECISION="no", ACCELERATE_USE_DEEPSPEED="true"),
    ),
]

CURES = [Cure("the total", lambda: machines(8, 8, **BY_ACCELERATE), on_each(BOTH, {}), only=True)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_the_total_is_told() -> None:
    (fix,) = fixes(*machines(8, 8, **BY_ACCELERATE))
    assert "--num_processes 16 --num_machines 2" in fix.text and "..." not in fix.text
