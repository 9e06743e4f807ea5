"""Carries out the fixes that a report prints."""

from __future__ import annotations

from collections.abc import Sequence

from tests.lab.harness.launch import Launch, Start
from tests.lab.harness.runner import JSON

OF_THE_SHELL = ("ulimit ", "umask ", "export ", "taskset -cp ")
"""Commands that change the shell which starts the job, and nothing else."""


def apply(launch: Launch, findings: Sequence[JSON], option: int = 1) -> list[str]:
    """Do what the fixes say, on the nodes they say. Gives what could not be done, in words."""
    failed = []
    for fix in (fix for finding in findings for fix in finding["fixes"] if fix["option"] == option):
        for start in _starts(launch, fix["nodes"]):
            start.env |= fix["env"]
            for flag, value in fix["flags"].items():
                launch.set_flag(start, flag, value)
            start.before += tuple(command for command in fix["commands"] if command.startswith(OF_THE_SHELL))
        for host in {start.host.name: start.host for start in _starts(launch, fix["nodes"])}.values():
            for command in (c for c in fix["commands"] if not c.startswith(OF_THE_SHELL)):
                done = host.sh(command)
                if done.returncode:
                    failed.append(f"{host.name}: {command}: status {done.returncode}: {done.stderr.strip()}")
    return failed


def _starts(launch: Launch, nodes: Sequence[str]) -> list[Start]:
    """The starts on these nodes (all for none named); ``name#rank`` is the node of that rank on that host."""
    found = []
    for start in launch.starts:
        for node in nodes:
            name, _, rank = node.partition("#")
            if name == start.host.name and rank in ("", str(start.node_rank)):
                found.append(start)
    return found if nodes else launch.starts


def has_something_to_do(findings: Sequence[JSON], option: int = 1) -> bool:
    """Return whether the fixes of this option change anything, or are text only."""
    fixes = [fix for finding in findings for fix in finding["fixes"] if fix["option"] == option]
    return any(fix["env"] or fix["flags"] or fix["commands"] for fix in fixes)
