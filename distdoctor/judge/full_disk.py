"""A file that could not be written, beside a list of disks of which one is full. Pure."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.judge.first_failure import Reading
from distdoctor.model.facts.logs import LogFacts


def with_full_disk(reading: Reading, logs: LogFacts) -> Reading:
    """``reading`` with the full disk as what kept the file from being written, where nothing else is the root."""
    root = reading.root
    full = [
        match for match in logs.matches if "full" in match.values and root is not None and match.check == root.check
    ]
    if root is None or root.shows != "end" or not full:
        return reading
    values = {name: value for name, value in root.values.items() if name != "told"}
    rest = tuple(match for match in reading.symptoms if match not in full)
    shown = replace(root, shows="cause", why="", values=values)
    return replace(reading, root=shown, others=(*full, *reading.others), symptoms=rest)
