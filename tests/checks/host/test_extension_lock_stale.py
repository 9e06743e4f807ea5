"""host/extension-lock-stale: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import BuildLock
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/extension-lock-stale"
LEFT = BuildLock("/root/.cache/torch_extensions/py311_cpu/fused adam/lock", 7200.0, False, "ext4")


def locks(*on_node_1: BuildLock) -> Facts:
    first, second = healthy(2)
    return first, with_host(second, build_locks=on_node_1)


ROWS = [
    Row("made two hours ago", lambda: locks(LEFT), ("host1",), "warn", together=True),
    Row(
        "in a shared home, a day ago",
        lambda: locks(replace(LEFT, age=9e4, filesystem="nfs4")),
        ("host1",),
        "warn",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("a process builds", lambda: locks(replace(LEFT, held=True))),
    LookAlike("made a minute ago", lambda: locks(replace(LEFT, age=60.0))),
    LookAlike("in a shared home: another host may build", lambda: locks(replace(LEFT, filesystem="nfs4"))),
]

CURES = [
    Cure(
        "it is removed",
        lambda: locks(LEFT),
        {"host1": {"commands": ("rm '/root/.cache/torch_extensions/py311_cpu/fused adam/lock'",)}},
        only=True,
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
