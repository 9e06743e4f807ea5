"""environment/packages-overwritten: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.gpus import gpus
from tests.facts_builder import with_identity

CHECK = "environment/packages-overwritten"
BOTH = {"nvidia-nccl-cu12": "2.29.3", "nvidia-nccl-cu13": "2.29.7"}


def packages(its: dict[str, str], **build: str) -> Facts:
    """The facts of three nodes of this build, the last with these packages."""
    a, b, c = (with_identity(one, **build) for one in gpus(3))
    return a, b, with_identity(c, packages=its)


ROWS = [
    Row("two wheels of NCCL", lambda: packages(BOTH), ("host2",), "warn", together=True),
    Row(
        "two of NVSHMEM",
        lambda: packages({"nvidia-nvshmem-cu12": "3.3.24", "nvidia-nvshmem-cu13": "3.4.5"}),
        ("host2",),
        "warn",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("one version of both", lambda: packages(dict.fromkeys(BOTH, "2.29.7"))),
    LookAlike("two libraries", lambda: packages({"nvidia-nccl-cu12": "2.27.3", "nvidia-nvshmem-cu13": "3.4.5"})),
    LookAlike("packages with their own files", lambda: packages({"nixl-cu12": "0.7.1", "nixl-cu13": "0.10.1"})),
]

CURES = [
    Cure(
        "what torch was built for is kept",
        lambda: packages(BOTH, cuda="13.0", executable="/opt/py/bin/python3"),
        {
            "host2": {
                "commands": (
                    "/opt/py/bin/python3 -m pip uninstall -y nvidia-nccl-cu12",
                    "/opt/py/bin/python3 -m pip install --force-reinstall --no-deps nvidia-nccl-cu13==2.29.7",
                )
            }
        },
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
