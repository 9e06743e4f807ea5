"""environment/misspelled-variable: what it finds, and what it leaves alone."""

from __future__ import annotations

import subprocess
from dataclasses import replace

from tests.checks.row import Facts, LookAlike, Row, first, found, left_alone
from tests.clusters.gpus import gpus
from tests.clusters.launch import near
from tests.clusters.ranks import KILLED, ended
from tests.facts_builder import healthy, judged, with_variables

CHECK = "environment/misspelled-variable"


def misspelled(name: str, *, nccl: bool = False) -> Facts:
    a, b = gpus() if nccl else healthy(2)
    return a, with_variables(near(b, name), **{name: "eth0"})


ROWS = [
    Row("GLOO_SOCKET_IFNAM", lambda: misspelled("GLOO_SOCKET_IFNAM"), ("host1",), "warn", together=True),
    Row("NCCL_SOCKET_IFNAM", lambda: misspelled("NCCL_SOCKET_IFNAM", nccl=True), ("host1",), "warn", together=True),
    Row("NCCL_SOCKET_IFNAM, no NCCL", lambda: misspelled("NCCL_SOCKET_IFNAM"), ("host1",), "info", together=True),
]

LOOK_ALIKES = [
    LookAlike(
        "the right name and a wrong one",
        lambda: tuple(with_variables(near(one, "GLOO_SOCKET_IFNAM"), GLOO_SOCKET_IFNAME="eth0") for one in healthy(2)),
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_the_shell_carries_a_misspelled_variables_value_over() -> None:
    """The printed line is run in a shell; the doctor never saw the value."""
    (fix,) = first(*misspelled("GLOO_SOCKET_IFNAM"))
    script = f"GLOO_SOCKET_IFNAM='eth 0'; {fix.commands[0]}; echo \"$GLOO_SOCKET_IFNAME|$GLOO_SOCKET_IFNAM\""
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env={})
    assert done.stdout == "eth 0|\n"


def test_it_is_the_cause_of_no_group_that_fails_for_a_rank_that_was_killed() -> None:
    a, b = ended("gloo", 1, died=KILLED)
    a = replace(a, near_misses=("GLOO_SOCKET_IFNAM",))
    assert {(one.check, one.nodes) for one in judged(a, b).roots} == {
        (CHECK, ("host0",)),
        ("barrier/rank-missing", ("host1",)),
    }
