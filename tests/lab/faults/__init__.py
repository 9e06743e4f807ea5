"""Faults: small functions, each giving one thing that is wrong. ``together`` puts several into one case.

A fault is called with the launch before anything is started; it changes the cluster (names, packet filter, what
holds a port) or the launch (flags, variables, who is started, when). Hosts are named by their number.
"""

from __future__ import annotations

from tests.lab.harness.launch import Fault, Launch


def together(*faults: Fault) -> Fault:
    """Several faults at once."""

    def inject(launch: Launch) -> None:
        for fault in faults:
            fault(launch)

    return inject


def nothing(launch: Launch) -> None:
    """No fault."""


def inside(on: int, script: str) -> Fault:
    """A shell script run as root on host ``on``; ``{hostN}`` in it is host N's address."""

    def inject(launch: Launch) -> None:
        launch.cluster[on].inside(script.format_map({host.name: host.address for host in launch.cluster}))

    return inject


def everywhere(script: str) -> Fault:
    """A shell script run as root on every host."""
    return lambda launch: [host.inside(script) for host in launch.cluster].clear()
