"""Which variables the trial of a fix may set: whatever node 0 says, a process sets these and no others."""

from __future__ import annotations

import re
from collections.abc import Mapping

from distdoctor.model.facts import BadFacts

TRIED = ("GLOO_SOCKET_IFNAME", "GLOO_DEVICE_TRANSPORT")
"""Variables read when a process group is made; those of the launch line are read before and cannot be tried here."""
_VALUE = re.compile(r"[\w.:@,=^+-]{0,256}", re.ASCII)
"""Names of interfaces and transports."""


def check_env(env: Mapping[str, str | None]) -> None:
    """Raises BadFacts where a variable is none that a trial sets, or its value none that it takes."""
    for name, value in env.items():
        if name not in TRIED:
            raise BadFacts(f"the variable {name[:60]!r} is none that a trial sets ({', '.join(TRIED)})")
        if value is not None and not _VALUE.fullmatch(value):
            raise BadFacts(f"{name} cannot be {value[:60]!r}")
